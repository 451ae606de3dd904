package cli

import (
	"context"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/migrate"
	"routekeeper.dev/routekeeper/internal/report"
)

func newMigrate(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Plan and watch the migration from kubenet to Azure CNI Overlay",
		Long: `kubenet is retired on 31 March 2028. A cluster migrates to Azure CNI Overlay in
place, and there is no way back.

"migrate plan" says for one cluster or a whole subscription what blocks the
migration, and which steps to take in which order. "migrate watch" follows one.`,
		Example: `  routekeeper migrate plan --subscription <id>
  routekeeper migrate plan shop
  routekeeper migrate watch shop`,
		RunE: needsCommand,
	}
	cmd.AddCommand(newMigratePlan(a), newMigrateWatch(a))
	return cmd
}

// mostSteps is the greatest number of clusters for which the text output includes the steps.
const mostSteps = 3

func newMigratePlan(a *app) *cobra.Command {
	var o examineOptions
	var check bool
	cmd := &cobra.Command{
		Use:   "plan [CLUSTER...]",
		Short: "Say what blocks the migration off kubenet, and list the steps",
		Long: `Reads clusters and the network around them, and prints a table: which clusters
are ready to migrate to Azure CNI Overlay, what blocks the others, in which
order to migrate them, and how much there is to do. Then it prints the steps of
each cluster with commands to paste: what must change first, the migration, what
Azure does to route tables during it, and what comes afterwards. It writes
nothing.

For clusters on Azure CNI, it plans the moves to overlay (from the node subnet)
and to the Cilium data plane, which no date requires.

Every blocker is a finding with its source. What Azure Resource Manager does
not know is a question, with the command that answers it.

CLUSTER is a name or a resource ID; without one, the plan covers the
subscription, or the clusters of the config (-f). Text shows the steps of up to
3 clusters; Markdown and JSON show all.

Exit code 0: done; 1: an error; 2: with --check, a cluster is blocked.`,
		Example: `  routekeeper migrate plan --subscription <id>
  routekeeper migrate plan shop
  routekeeper migrate plan shop -o markdown --out ticket.md
  routekeeper migrate plan -f routes.yaml --check
  routekeeper migrate plan --from-bundle shop.tgz`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runMigratePlan(cmd.Context(), a, o, check)
		},
	}
	examineFlags(a, cmd, &o, true)
	o.choice.flags(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "exit with 2 if a cluster is blocked")
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

func runMigratePlan(ctx context.Context, a *app, o examineOptions, check bool) error {
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	o.withoutPast = true
	e, found, err := diagnosed(ctx, a, o, "reading the network")
	if err != nil {
		return err
	}
	m := report.Migration{Plan: migrate.Make(e.Case, found)}
	m.Steps = len(m.Clusters)+len(m.Optional) <= mostSteps
	return attentionIf(check && m.Ready() < len(m.Clusters), m.Write(w, format, style))
}
