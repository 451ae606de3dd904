package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/survey"
)

type initOptions struct {
	subscription, cluster string
	gatewayTable, yes     bool
}

func newInit(a *app) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [--subscription ID] [--cluster NAME] [--out routes.yaml]",
		Short: "Write a config for the clusters of a subscription, or for one cluster",
		Long: `Reads a subscription, or one cluster and the network around it, and writes a
commented config. The config names every cluster with what its subnets have now:
route tables, NAT gateways and network security groups. For a kubenet cluster it
also names the cluster's route table. The targets are the route tables of
Application Gateway subnets, and all other route tables that already hold pod
routes of the cluster.

The config says Observe everywhere: sync and run show and record what they would
do, and change nothing. Use "routekeeper promote" as the next step.

init changes nothing in Azure without --gateway-table. With it, init shows a
plan, asks, and creates a route table for each Application Gateway subnet that
has none. The config names the new route table.

On standard error, init says which rights of this login are missing for sync and
run with a promoted config, and what to assign.`,
		Example: `  routekeeper init --subscription <id> --out routes.yaml
  routekeeper init --cluster shop > shop.yaml
  routekeeper init --cluster shop --gateway-table --out shop.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runInit(cmd.Context(), a, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "",
		"read all clusters of this subscription (`ID`; default the only visible one), or look "+
			"for --cluster there")
	f.StringVar(&o.cluster, "cluster", "", "read only this cluster (`NAME` or resource ID)")
	a.outFlag(cmd)
	f.BoolVar(&o.gatewayTable, "gateway-table", false,
		"create a route table for each Application Gateway subnet without one")
	f.BoolVar(&o.yes, "yes", false, "with --gateway-table: do not ask")
	completeFlag(cmd, "cluster", a.complete(a.clusterNames, 1))
	a.timeoutFlag(cmd)
	cmd.AddCommand(newSchema(a), newInitMonitor(a))
	return cmd
}

func runInit(ctx context.Context, a *app, o initOptions) error {
	toFile := a.outPath != "" && a.outPath != "-"
	if o.yes && !o.gatewayTable {
		return errors.New("--yes: there is nothing to confirm, expected --gateway-table with it")
	}
	if err := o.check(); err != nil {
		return err
	}
	w, _, _, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading the network")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	scope, one, err := o.find(ctx, client)
	if err != nil {
		return err
	}
	s, proposals, err := propose(ctx, client, scope, one)
	if err != nil {
		return err
	}
	if o.gatewayTable {
		progress.stop()
		made, err := makeGatewayTables(ctx, a, client, proposals, o.yes)
		if err != nil {
			return err
		}
		if made { // the config must name the new tables
			if s, proposals, err = propose(ctx, client, scope, one); err != nil {
				return err
			}
		}
	}
	rights := preflight(ctx, client, s, proposals)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for i := range proposals {
		proposals[i] = proposals[i].Observing()
	}
	progress.stop()
	from := "subscription " + scope.Name()
	if one != "" {
		from = "cluster " + one.Name()
	}
	// The proposals say more about interfaces that were not read.
	if _, err := io.WriteString(w, report.ConfigYAML(proposals, from,
		survey.NotSeen(s, arm.TypeInterface))); err != nil {

		return err
	}
	if toFile {
		say(a.err, "wrote %s; next: %s\n", a.outPath,
			finding.Command("routekeeper sync -f %s --dry-run", a.outPath))
	}
	for _, line := range rights {
		say(a.err, "rights for sync and run: %s\n", line)
	}
	return nil
}

// mostPreflight limits for how many clusters the permissions are checked, because each takes
// several calls.
const mostPreflight = 20

// preflight returns a line for each permission that the caller lacks to enforce the proposed
// config, and says what to assign.
func preflight(ctx context.Context, client *azure.Client, s *inventory.Snapshot,
	proposals []plan.Proposal) (lines []string) {
	c := diagnose.Case{Snapshot: s}
	for _, p := range proposals {
		if p.Skip == "" {
			c.Clusters, c.Configs = append(c.Clusters, p.Cluster), append(c.Configs, p.Config)
		}
	}
	switch {
	case len(c.Clusters) == 0:
		return nil
	case len(c.Clusters) > mostPreflight:
		return []string{fmt.Sprintf("not checked, because there are %d clusters; routekeeper "+
			"doctor NAME checks them for one", len(c.Clusters))}
	}
	if err := client.ReadRights(ctx, s, c.CallerScopes(), nil); err != nil {
		return []string{"not checked: " + err.Error()}
	}
	for _, f := range c.CheckCaller() {
		line := f.Message + "; next: " + cmp.Or(f.Fix, f.Advice)
		if f.Code == finding.RightsUnread {
			line = "not checked: " + f.Message + " (" + strings.Join(f.Evidence, "; ") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}
