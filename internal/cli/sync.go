package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/report"
)

func (a *app) newSync() *cobra.Command {
	var paths []string
	var dryRun bool
	var perMinute int
	var keep keepOptions
	cmd := &cobra.Command{
		Use:   "sync -f FILE",
		Short: "Bring all configured routes and associations in sync, once",
		Long: `Checks every ClusterRoutes document in the config once. It puts lost route tables
back on their subnets, and updates the targets to match the clusters' route
tables. With --dry-run it prints the plan and writes nothing. Changes that the
config only observes are shown, not made: see routekeeper promote.

After a write, sync checks for up to half a minute whether Azure's network uses
the new routes. If it may not check, or gets no answer, it says "ARM only" and
the reason.

Exit code 0: everything is correct; 1: an error; 2: a blocking finding needs
your attention, or there are changes to make (--dry-run), or changes are left
for the next sync (--max-changes-per-minute).`,
		Example: `  routekeeper sync -f routes.yaml --dry-run
  routekeeper sync -f routes.yaml
  routekeeper sync -f clusters/ -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runSync(cmd.Context(), paths, dryRun, perMinute, keep)
		},
	}
	configFlag(cmd, &paths)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the plan and write nothing")
	limitFlag(cmd, &perMinute, 0)
	keep.flags(cmd)
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

// runSync reconciles once and reports the result.
func (a *app) runSync(ctx context.Context, paths []string, dryRun bool, perMinute int,
	keep keepOptions) error {
	if err := checkLimit(perMinute); err != nil {
		return err
	}
	configs, err := a.readConfig(paths)
	if err != nil {
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
	past, err := keep.open(paths, dryRun, progress.logger())
	if err != nil {
		return err
	}
	defer past.Close()
	k := keeper.New(client, configs, past.With(keeper.Options{
		DryRun: dryRun, ChangesPerMinute: perMinute, Log: progress.logger(),
	}))
	round, err := k.Round(ctx)
	if err != nil && len(round.Changes) == 0 {
		progress.stop()
		return err
	}
	reported := roundReport(round, len(configs))
	reported.Fabric = k.Followed(ctx, round)
	progress.stop()
	if err := reported.Write(w, format, style); err != nil {
		return err
	}
	if format == report.Text && len(round.OnlyObserved) > 0 {
		fmt.Fprintf(a.err, "the config says Observe: these changes were not made; next: %s\n",
			promoteCommand(round.OnlyObserved[0].Cluster, paths))
	}
	switch {
	case err != nil:
		return err
	case finding.Blocking(round.Findings), limited(round.Findings), dryRun &&
		len(round.Changes) > 0:
		return attention
	}
	return nil
}

// limited reports whether changes wait because of the limit per minute.
func limited(findings []finding.Finding) bool {
	return slices.ContainsFunc(findings, func(f finding.Finding) bool {
		return f.Code == finding.ChangesLimited
	})
}

// promoteCommand switches a cluster from Observe to enforcing.
func promoteCommand(cluster string, paths []string) finding.CommandLine {
	files := finding.Command("")
	for _, path := range paths {
		files = finding.Command("%s -f %s", files, path)
	}
	return finding.Command("routekeeper promote %s%s", cluster, files)
}

// roundReport makes a report of a keeper's check.
func roundReport(r keeper.Round, clusters int) report.Round {
	elapsed := r.Elapsed.Milliseconds()
	return report.Round{
		Changes:  slices.Concat(r.Changes, r.OnlyObserved),
		Findings: r.Findings, Clusters: clusters, ElapsedMs: &elapsed,
		ARM: &report.Calls{Reads: r.Reads, Writes: r.Writes, Polls: r.Polls},
	}
}
