package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/verdict"
)

type doctorOptions struct {
	examineOptions
	failOn, severity string
	fix, yes         bool
}

func newDoctor(a *app) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [CLUSTER…]",
		Short: "Find out what breaks pod traffic, who changed it, and how to repair it",
		Long: `Checks clusters, networks, route tables, security groups, gateways, the nodes'
network interfaces and permissions. It reports what breaks pod traffic or soon
will: what it means, who changed it last according to the activity log, and what
to do. It writes nothing without --fix. With --fix it shows the repairs that the
config allows, asks, and makes them as sync does.

CLUSTER is a name or a resource ID. With -f, doctor checks the clusters of the
config, or those of them that you name or select; with --subscription, all
clusters there. Without a config it assumes the one that init would propose, and
learns what a subnet has lost from the activity log, from the history of a
keeper (--history), or from the cluster's other subnets. It prints the complete
command that puts it back, or one for each candidate.

It writes once what several clusters have in common. --severity error leaves out
less severe findings, which still count for --fail-on.

At the end it says what is right, what was not checked because a permission is
missing, and what Kubernetes was not asked: --get-kubeconfig and --kubeconfig
ask it (see routekeeper cluster verify).

Exit code 0: nothing at or above --fail-on; 1: an error; 2: findings.`,
		Example: `  routekeeper doctor shop
  routekeeper doctor --subscription 11111111-1111-1111-1111-111111111111
  routekeeper doctor -f routes.yaml --severity warning --fail-on error
  routekeeper doctor -f routes.yaml shop -o short
  routekeeper doctor -f routes.yaml --selector ring=1
  routekeeper doctor -f routes.yaml --fix
  routekeeper doctor --from-bundle shop.tgz`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), a, o) },
	}
	examineFlags(a, cmd, &o.examineOptions, true)
	o.choice.flags(cmd)
	cmd.Flags().StringVar(&o.failOn, "fail-on", finding.Warning.String(),
		"exit with 2 for findings of this severity and above: info, warning or error")
	cmd.Flags().StringVar(&o.severity, "severity", finding.Info.String(),
		"show findings of this severity and above: info, warning or error")
	for _, name := range []string{"fail-on", "severity"} {
		completeWith(cmd, name, []string{"info", "warning", "error"})
	}
	cmd.Flags().IntVar(&o.maxRoutes, "max-routes", inventory.DefaultRouteLimit,
		"how many routes a route table can hold "+
			"(more than 400 if Azure Virtual Network Manager manages them)")
	cmd.Flags().BoolVar(&o.egress, "egress", false, "compare the rules of Azure Firewalls with "+
		"what AKS requires")
	resolveFlag(cmd, &o.examineOptions)
	cmd.Flags().StringVar(&o.history, "history", "", "look in this `FILE` for what subnets had "+
		"(default: as routekeeper history)")
	_ = cmd.MarkFlagFilename("history", "db")
	cmd.Flags().BoolVar(&o.fix, "fix", false, "show and make the repairs that the config (-f) "+
		"allows")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "with --fix: do not ask")
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	cmd.AddCommand(newCollect(a))
	return cmd
}

func runDoctor(ctx context.Context, a *app, o doctorOptions) error {
	var failOn, least finding.Severity
	if err := failOn.UnmarshalText([]byte(o.failOn)); err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	if err := least.UnmarshalText([]byte(o.severity)); err != nil {
		return fmt.Errorf("--severity: %w", err)
	}
	if o.fix && len(o.paths) == 0 {
		return errors.New("--fix: expected a config (-f), which says what may be written; " +
			"routekeeper init writes one")
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	w = folded(a, w, format)
	if o.fix && !o.yes && format == report.JSON {
		_, err := a.confirm("")
		return fmt.Errorf("--fix: %w", err)
	}
	if o.maxRoutes < 1 || o.maxRoutes > 1000 {
		return fmt.Errorf("--max-routes: %d is out of range, expected 1 to 1000", o.maxRoutes)
	}
	e, d, err := a.diagnose(ctx, o.examineOptions)
	if err != nil {
		return err
	}
	d.Least = least
	if o.fix {
		d, err = doctorFix(ctx, a, o, e, d, w, format, style)
	} else {
		err = d.Write(w, format, style)
	}
	worst, any := finding.Worst(d.Findings)
	return attentionIf(any && worst >= failOn, err)
}

// diagnosed reads clusters with their network, and finds out what is wrong.
func diagnosed(ctx context.Context, a *app, o examineOptions, doing string) (*examination,
	[]finding.Finding, error) {
	progress := a.progress(ctx, doing)
	defer progress.stop()
	e, err := a.examine(ctx, o, progress)
	if err != nil {
		return nil, nil, err
	}
	found, err := e.diagnosis(ctx)
	return e, found, err
}

// diagnose returns doctor's report about the network.
func (a *app) diagnose(ctx context.Context, o examineOptions) (*examination, report.Diagnosis,
	error) {
	e, found, err := diagnosed(ctx, a, o, "reading the network")
	if err != nil {
		return nil, report.Diagnosis{}, err
	}
	claims := build.Verify(e.Case, found).Claims
	verdicts := verdict.Of(plan.Facts{Snapshot: e.Snapshot}, e.Configs, e.Configs,
		plan.TakenBy(e.Configs), found)
	if names := e.chosen(); names != nil {
		verdicts = slices.DeleteFunc(verdicts, func(v verdict.Verdict) bool {
			return !slices.Contains(names, v.Cluster)
		})
	}
	return e, report.Diagnosis{Clusters: e.names(), Verdicts: verdicts, Findings: found,
		Claims: claims, Verify: e.verifying()}, nil
}

// doctorFix shows what is wrong, repairs what the config allows, and returns what is left.
func doctorFix(ctx context.Context, a *app, o doctorOptions, e *examination, d report.Diagnosis,
	w io.Writer, format report.Format, style report.Style) (report.Diagnosis, error) {
	whole := format == report.JSON // one object at the end
	if !whole {
		if err := d.Write(w, format, style); err != nil {
			return d, err
		}
	}
	show := func(r report.Result) error {
		if whole {
			return nil
		}
		return r.WriteBelow(w, format, style)
	}
	made, err := fix(ctx, a, e.client, o.paths, e.Configs, e.chosen(), o.yes, show)
	if err != nil {
		return d, err
	}
	left := d
	if made != nil {
		if _, left, err = a.diagnose(ctx, o.examineOptions); err != nil {
			return d, err
		}
	}
	if whole {
		return left, report.Fixed{Diagnosis: d, Fixes: made, Left: left.Findings}.Write(w)
	}
	if made != nil {
		err = left.WriteBelow(w)
	}
	return left, err
}

// fix shows the changes that the configs allow, asks, and makes them. It returns nil if there is
// nothing to change, or if the answer was no. It makes only changes that the named clusters
// require.
func fix(ctx context.Context, a *app, client *azure.Client, paths []string,
	configs []v1alpha1.ClusterRoutes, names []string, yes bool, show func(report.Result) error) (
	*report.Result, error) {
	planned, err := keeper.New(client, configs,
		usualHistory.preview(paths, keeper.Options{})).Reconcile(ctx)
	if err != nil {
		return nil, err
	}
	planned = ofClusters(planned, names)
	planned.OnlyObserved = nil // doctor shows what it fixes
	preview := reportOf(planned, len(configs))
	preview.Findings = nil // they were just printed
	if err := show(preview); err != nil || len(planned.Changes) == 0 {
		return nil, err
	}
	if !yes {
		if yes, err = a.confirm("Make these changes?"); err != nil || !yes {
			return nil, err
		}
	}
	past, err := usualHistory.open(paths, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer past.Close()
	result, err := keeper.New(client, configs, past.With(keeper.Options{
		Only: confirmed(planned.Changes)})).Reconcile(ctx)
	if err != nil && len(result.Changes) == 0 {
		return nil, err
	}
	result = ofClusters(result, names)
	result.OnlyObserved = nil
	made := reportOf(result, len(configs))
	return &made, errors.Join(err, show(made))
}
