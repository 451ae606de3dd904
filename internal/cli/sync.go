package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

type syncOptions struct {
	choice
	paths       []string
	yes, dryRun bool
	perMinute   int
	nodes       nodesOptions
	keep        keepOptions
}

func newSync(a *app) *cobra.Command {
	var o syncOptions
	cmd := &cobra.Command{
		Use:   "sync -f FILE [CLUSTER…] [--yes]",
		Short: "Bring all configured routes and associations in sync, once",
		Long: `Checks every ClusterRoutes document in the config once, or those of the named or
selected clusters. It puts back what guarded subnets have lost, and updates the
targets to match the clusters' route tables. It shows the plan and asks before
it writes. --yes does not ask; --dry-run prints the plan and writes nothing.
Changes that the config only observes are shown, not made: see routekeeper
promote.

It makes the changes that the plan showed. A change that became necessary
after the plan is reported, and left for the next sync.

Exit code 0: everything is correct; 1: an error, or changes to make and neither
a terminal nor --yes; 2: a blocking finding needs your attention, or there are
changes to make (--dry-run, the answer no), or with --dry-run changes that the
config only observes, or changes are left for the next sync
(--max-changes-per-minute).`,
		Example: `  routekeeper sync -f routes.yaml --dry-run
  routekeeper sync -f routes.yaml
  routekeeper sync -f clusters/ shop --yes
  routekeeper sync -f clusters/ --selector ring=1 --yes -o json`,
		Args: o.takeArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSync(cmd.Context(), a, o) },
	}
	configFlag(cmd, &o.paths)
	o.choice.flags(cmd)
	cmd.ValidArgsFunction = a.complete(a.configNames, manyArguments)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the plan and write nothing")
	o.nodes.flags(cmd, "kubeconfig")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	a.timeoutFlag(cmd)
	limitFlag(cmd, &o.perMinute, 0)
	o.keep.flags(cmd)
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	cmd.AddCommand(newPrune(a), newDiff(a))
	return cmd
}

// runSync reconciles once and reports the result. Unless o.yes is set, it plans first, and then
// makes only what a person has confirmed.
func runSync(ctx context.Context, a *app, o syncOptions) error {
	if err := checkLimit(o.perMinute); err != nil {
		return err
	}
	configs, err := a.readConfig(o.paths)
	if err != nil {
		return err
	}
	picked, err := o.pick(configs, o.paths)
	if err != nil {
		return err
	}
	names := o.only(picked)
	if _, err := o.keep.options(); err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading the network")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	options := keeper.Options{ChangesPerMinute: o.perMinute, Log: progress.logger(),
		Nodes: o.nodes.source(client)}
	write := report.Result.Write
	if o.dryRun || !o.yes {
		preview := keeper.New(client, configs, o.keep.preview(o.paths, options))
		planned, err := preview.Reconcile(ctx)
		planned = ofClusters(planned, names)
		progress.stop()
		if err != nil && len(planned.Changes) == 0 {
			return err
		}
		if o.dryRun || len(planned.Changes) > 0 {
			shown := reportOf(planned, len(picked))
			if err := errors.Join(shown.Write(w, format, style), err); err != nil {
				return err
			}
		}
		if o.dryRun {
			o.sayObserved(a.err, planned, format)
			if len(planned.OnlyObserved) > 0 { // a pipeline sees these, too
				return attention
			}
			return syncCode(planned, nil)
		}
		if len(planned.Changes) > 0 {
			if err := a.unlessYes(a.confirm("Make these changes?")); err != nil {
				return err
			}
			write = report.Result.WriteBelow
		}
		options.Only = confirmed(planned.Changes)
		progress = a.progress(ctx, "making the changes")
		defer progress.stop()
	}
	if options.Only == nil && names != nil {
		options.Only = func(c plan.Change) bool { return slices.Contains(names, c.Cluster) }
	}
	past, err := o.keep.open(o.paths, progress.logger())
	if err != nil {
		return err
	}
	defer past.Close()
	k := keeper.New(client, configs, past.With(options))
	result, err := k.Reconcile(ctx)
	unrecorded := past.Close()
	result = ofClusters(result, names)
	if err != nil && len(result.Changes) == 0 {
		return err
	}
	reported := reportOf(result, len(picked))
	progress.stop()
	if err := write(reported, w, format, style); err != nil {
		return err
	}
	o.sayObserved(a.err, result, format)
	return syncCode(result, errors.Join(err, unrecorded))
}

// sayObserved says how to make the changes that a config only observes.
func (c choice) sayObserved(w io.Writer, result keeper.Result, format report.Format) {
	if format == report.Text && len(result.OnlyObserved) > 0 {
		var names []string
		for _, o := range result.OnlyObserved {
			names = append(names, o.Cluster)
		}
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 1 && !c.some() {
			names = []string{"--all"}
		}
		named := finding.Words(names...)
		fmt.Fprintf(w, "the config says Observe: these changes were not made; next: %s\n",
			finding.Command("routekeeper promote %s%s", named, finding.Config()))
	}
}

// syncCode returns the exit code of a check: 2 if something is left to do.
func syncCode(result keeper.Result, err error) error {
	left := slices.ContainsFunc(result.Changes, func(o plan.Outcome) bool {
		return o.State == plan.Planned
	})
	limited := slices.ContainsFunc(result.Findings, func(f finding.Finding) bool {
		return f.Code == finding.ChangesLimited
	})
	return attentionIf(finding.Blocking(result.Findings) || limited || left, err)
}

// reportOf makes a report of a keeper's check of clusters and networks.
func reportOf(r keeper.Result, clusters int) report.Result {
	elapsed := r.Elapsed.Milliseconds()
	networks := 0
	for i := range r.Configs {
		if r.Configs[i].Clusterless() {
			networks++
		}
	}
	return report.Result{
		Changes:  slices.Concat(r.Changes, r.OnlyObserved),
		Findings: r.Findings, Clusters: clusters, Networks: networks, ElapsedMs: &elapsed,
		ARM: &report.Calls{Reads: r.Reads, Writes: r.Writes, Polls: r.Polls},
	}
}
