package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/hello"
	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/prove"
	"routekeeper.dev/routekeeper/internal/prove/lab"
	"routekeeper.dev/routekeeper/internal/report"
)

type proveOptions struct {
	subscription, location        string
	facts                         []string
	logWait                       time.Duration
	recording                     string
	yes, dryRun, clean, printRole bool

	// packets is the cluster of --packets. It and all fields after it belong to that flag.
	packets, kubeconfig, image string
	trusted                    bool
	repairWithin, lostAfter    time.Duration
}

func newProve(a *app) *cobra.Command {
	var o proveOptions
	cmd := &cobra.Command{
		Use:   "prove --subscription ID --location L [--yes]",
		Short: "Test in your own Azure the facts that routekeeper relies on",
		Long: `Creates a temporary resource group with route tables, a network, a security
group and a network interface, tests every fact about Azure that routekeeper
relies on, and deletes the group. It creates no machine and no cluster, so it
costs nothing.

The result for each fact is confirmed, differs or untested, with the meaning for
your config. prove records every call, without anything that identifies you or
your subscription. Please send the recording to the maintainers.

--packets CLUSTER does something else: it strips a node subnet of a cluster that
routekeeper cluster create made, while pods call each other and machines in the
subnets that must reach them, and counts the calls that are lost until a keeper
has put the route table back. Start routekeeper run first.

It shows the plan and asks. It writes nothing outside the new group. It deletes
the group after an interrupt too; after a kill, the next run deletes it. It
deletes only groups that it has created and tagged.

Exit code 0: nothing differs; 1: an error, or something is left in Azure; 2: a
fact differs, no keeper repaired the strip, or you answered no.`,
		Example: `  routekeeper prove --subscription <id> --location westeurope --dry-run
  routekeeper prove --subscription <id> --location westeurope
  routekeeper prove --subscription <id> --location westeurope --yes \
    --fact table-if-match
  routekeeper prove --subscription <id> --print-role > role.json
  routekeeper prove --subscription <id> --clean
  routekeeper prove --subscription <id> --packets web --kubeconfig web.kube`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.packets != "" {
				return provePackets(cmd.Context(), a, o)
			}
			return runProve(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "subscription `ID`")
	f.StringVarP(&o.location, "location", "l", "", "Azure `region`, such as westeurope")
	f.StringArrayVar(&o.facts, "fact", nil, "test only this fact (`NAME`, repeatable)")
	f.DurationVar(&o.logWait, "activity-wait", 10*time.Minute,
		"maximum time to wait for the activity log")
	f.StringVar(&o.recording, "recording", "",
		"record the calls in this new `FILE` (default routekeeper-prove-<time>.jsonl)")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the calls and the cost, and make none")
	f.BoolVar(&o.clean, "clean", false, "only delete what earlier runs have left")
	f.BoolVar(&o.printRole, "print-role", false,
		"print a role with the keeper's rights and those for the tests")
	_ = cmd.MarkFlagRequired("subscription")
	f.StringVar(&o.packets, "packets", "", "count the calls that a strip of this cluster loses "+
		"(`NAME`)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "with --packets, reach the cluster with this "+
		"kubeconfig `FILE`")
	trustFlag(cmd, &o.trusted)
	f.StringVar(&o.image, "image", hello.Released, "with --packets, an image with routekeeper as "+
		"its entrypoint (`IMAGE`); the emulator needs none")
	durationFlag(f, &o.repairWithin, "repair-within", 2*time.Minute,
		"with --packets, how long a keeper may take to repair")
	durationFlag(f, &o.lostAfter, "lost-after", time.Second,
		"with --packets, how long a call waits for its answer, up to 5s")
	_ = cmd.MarkFlagFilename("kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("clean", "dry-run", "print-role")
	for _, other := range []string{"clean", "print-role", "fact", "location", "activity-wait"} {
		cmd.MarkFlagsMutuallyExclusive("packets", other)
	}
	var names []string
	for _, fact := range prove.Facts() {
		names = append(names, fact.Name)
	}
	completeWith(cmd, "fact", names)
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

// mostLogWait is the maximum time to wait for the activity log.
const mostLogWait = time.Hour

var regionName = lazy.Regexp(`^[A-Za-z0-9 ]{2,60}$`)

// check checks the flags, and returns the facts that they name.
func checkProve(a *app, o *proveOptions) ([]prove.Fact, error) {
	scope, err := subscriptionID(o.subscription)
	if err != nil {
		return nil, err
	}
	o.subscription = scope.Name()
	facts, unknown := prove.Choose(o.facts)
	switch {
	case len(unknown) > 0:
		return nil, fmt.Errorf("--fact: no fact is named %q; --dry-run -o json lists them",
			strings.Join(unknown, ", "))
	case o.logWait < 0 || o.logWait > mostLogWait:
		return nil, fmt.Errorf("--activity-wait: %s is not between 0 and %s", o.logWait,
			mostLogWait)
	case o.clean || o.printRole:
		return facts, nil
	case o.location == "" && terminal(a.in) && !o.yes:
		if o.location, err = a.answer("In which Azure region (such as westeurope)?"); err != nil {
			return nil, err
		}
	}
	if !regionName().MatchString(o.location) {
		if o.location == "" {
			return nil, errors.New("--location is missing: expected an Azure region such as " +
				"westeurope")
		}
		return nil, fmt.Errorf("--location: %q is not an Azure region, expected one such as "+
			"westeurope",
			finding.Show(o.location))
	}
	return facts, nil
}

func runProve(ctx context.Context, a *app, o proveOptions) error {
	facts, err := checkProve(a, &o)
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	switch {
	case o.printRole:
		return report.WriteJSON(w, proveRole(o.subscription))
	case o.clean:
		return cleanProofs(ctx, a, o, w, format)
	}
	trials := prove.Trials(facts)
	told := report.PlannedProof(facts, o.logWait, lab.Most(trials, o.logWait))
	told.Subscription, told.Location, told.DryRun = o.subscription, o.location, o.dryRun
	if o.dryRun {
		if format == report.JSON {
			return told.Write(w, format, style)
		}
		if err := told.WritePlan(w, style); err != nil {
			return err
		}
		say(a.err, "no call was made\n")
		return nil
	}
	progress := a.progress(ctx, "reading what earlier runs left behind")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	self := thisProcess()
	left, err := lab.Leftovers(ctx, client, o.subscription, self)
	if err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	progress.stop()
	told.Leftovers = left
	plan := w
	if format == report.JSON {
		plan = report.Safe(a.err, report.Text, style)
	}
	if err := told.WritePlan(plan, style); err != nil {
		return err
	}
	if !o.yes {
		if err := a.unlessYes(a.ask("Try this?")); err != nil {
			return err
		}
	}
	recording, err := o.open()
	if err != nil {
		return err
	}
	defer recording.Close()
	told.Recording = recording.Name()
	progress = a.progress(ctx, "proving")
	defer progress.stop()
	err = removeLeftovers(ctx, client, left, progress, false)
	out, failed := lab.Run(ctx, client, lab.Settings{
		Subscription: o.subscription, Location: o.location, Trials: trials, LogWait: o.logWait,
		Process: self, Recording: recording,
	}, proveObserver(progress))
	progress.stop()
	told.Group, told.Deleted, told.Calls = string(out.Group), out.Deleted, out.Calls
	told.Judged(prove.Judge(facts, out.Observed))
	if ctx.Err() != nil && failed == nil {
		failed = errors.New("interrupted; the group is deleted")
	}
	err = errors.Join(told.Write(w, format, style), err, failed, recording.Close())
	if err == nil && told.Differs > 0 {
		return attention
	}
	return err
}

// open creates the file for the recording. It never overwrites a recording.
func (o proveOptions) open() (*os.File, error) {
	name := o.recording
	if name == "" {
		name = "routekeeper-prove-" + time.Now().UTC().Format("20060102-150405") + ".jsonl"
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("nothing was written: --recording: %s cannot be made: %w",
			finding.Show(name), reason(err))
	}
	return f, nil
}

// proveObserver prints a line for each test.
func proveObserver(p *progress) lab.Observer {
	return lab.Observer{
		Begins: func(n, of int, t prove.Trial) {
			p.now(fmt.Sprintf("[%d/%d] %s: %s", n, of, t.Name, t.What))
		},
		Ended: func(n, of int, t prove.Trial, took time.Duration, err error) {
			how := "done"
			if err != nil {
				how = err.Error()
			}
			p.say(fmt.Sprintf("[%d/%d] %s: %s (%s)", n, of, t.Name, how,
				report.Duration(took.Truncate(100*time.Millisecond))))
		},
	}
}
