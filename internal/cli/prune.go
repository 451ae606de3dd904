package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/survey"
)

type pruneOptions struct {
	initOptions
	tables  []string
	yes     bool
	dryRun  bool
	configs []string // their history records it
	history keepOptions
}

func newPrune(a *app) *cobra.Command {
	var o pruneOptions
	cmd := &cobra.Command{
		Use:   "prune [--subscription ID | --cluster NAME] [--table ID...] [--yes]",
		Short: "Remove pod routes whose clusters are gone",
		Long: `Finds pod routes that a cluster left behind in route tables when it was deleted
or migrated away from kubenet. It removes a route only with proof that no node
has its next hop: the subnet of the next hop is gone, or all network interfaces in
it were read and none has the address.

It shows what it would remove and asks; --yes does not ask, --dry-run writes
nothing. For a route that only looks orphaned it says which proof is missing;
the route stays. All routes of existing clusters stay, and all routes in a
cluster's route table. With -f or --history, the history of that config records
what was removed.

A stopped cluster has no nodes, and a cluster of another subscription may not be
visible. Their route tables protect their routes: a route stays if the route
table on the next hop's subnet has the same route. If such a cluster is gone,
take its route table off the subnet first.

Exit code 0: nothing to remove, or removed; 1: an error, or routes to remove and
neither a terminal nor --yes; 2: with --dry-run, or the answer no, there are
routes to remove; or some could not be removed.`,
		Example: `  routekeeper sync prune --subscription <id> --dry-run
  routekeeper sync prune --cluster shop \
    --table /subscriptions/…/routeTables/appgw-rt -f routes.yaml --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPrune(cmd.Context(), a, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "",
		"check all route tables of this subscription (`ID`; default the only visible one)")
	f.StringVar(&o.cluster, "cluster", "", "check the route tables around this cluster (`NAME` "+
		"or resource ID)")
	f.StringArrayVar(&o.tables, "table", nil, "check only this route table (resource `ID`, "+
		"repeatable)")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be removed and write nothing")
	f.StringArrayVarP(&o.configs, "file", "f", nil,
		"record removals in the history of this config (`FILE` or folder, repeatable)")
	markConfig(cmd)
	o.history.flags(cmd)
	completeFlag(cmd, "cluster", a.complete(a.clusterNames, 1))
	completeFlag(cmd, "table", a.complete(a.tableIDs, 1))
	a.timeoutFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("subscription", "cluster")
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

func runPrune(ctx context.Context, a *app, o pruneOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	var only []arm.ID
	for _, text := range o.tables {
		id, err := arm.ParseID(text)
		if err == nil && !id.Is(arm.TypeRouteTable) {
			err = fmt.Errorf("it is the ID of a %s, expected a %s", id.Type(), arm.TypeRouteTable)
		}
		if err != nil {
			return fmt.Errorf("--table: %q is not a route table's resource ID: %w", text, err)
		}
		only = append(only, id)
	}
	var fromNodes []v1alpha1.ClusterRoutes // their routes are managed
	// Otherwise a wrong name would create a history next to no config.
	if len(o.configs) > 0 {
		given, err := a.readConfig(o.configs)
		if err != nil {
			return err
		}
		fromNodes = slices.DeleteFunc(given, func(c v1alpha1.ClusterRoutes) bool {
			return c.Spec.Source != v1alpha1.SourceNodes
		})
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "looking for routes whose clusters are gone")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	scope, one, err := o.find(ctx, client)
	if err != nil {
		return err
	}
	clusters := 0
	prune := func(k *keeper.Keeper) (keeper.Result, error) {
		return k.Prune(ctx, func(ctx context.Context) (*plan.Pruner, error) {
			s, configs, err := readOrphans(ctx, client, scope, one)
			if err != nil {
				return nil, err
			}
			clusters = len(s.Clusters)
			tables, err := tablesMeant(s, one, only)
			if err != nil {
				return nil, err
			}
			return plan.New(plan.Facts{Snapshot: s},
				append(configs, fromNodes...)).Prune(tables), nil
		})
	}
	options := keeper.Options{Log: progress.logger()}
	write := report.Result.Write
	if o.dryRun || !o.yes {
		planned, err := prune(keeper.New(client, nil, o.history.preview(o.configs, options)))
		progress.stop()
		if err == nil {
			err = reportOf(planned, clusters).Write(w, format, style)
		}
		if err != nil || len(planned.Changes) == 0 {
			return cmp.Or(err, syncCode(planned, nil))
		}
		if o.dryRun {
			return a.unlessYes(false, nil)
		}
		if err := a.unlessYes(a.confirm("Remove these routes?")); err != nil {
			return err
		}
		options.Only, write = confirmed(planned.Changes), report.Result.WriteBelow
		progress = a.progress(ctx, "removing the routes")
		defer progress.stop()
	}
	past, err := o.history.open(o.configs, progress.logger())
	if err != nil {
		return err
	}
	defer past.Close()
	result, err := prune(keeper.New(client, nil, past.With(options)))
	unrecorded := past.Close()
	progress.stop()
	if err != nil && len(result.Changes) == 0 {
		return err
	}
	if err := write(reportOf(result, clusters), w, format, style); err != nil {
		return err
	}
	if past == nil && o.history.path != noHistory && len(result.Changes) > 0 &&
		format == report.Text {
		say(a.err, "%s\n", "no history records this: name the config with -f, or a file with "+
			"--history")
	}
	return syncCode(result, errors.Join(err, unrecorded))
}

// readOrphans reads what proves that a cluster is gone: the resources of the whole subscription,
// and the route tables of the existing clusters.
func readOrphans(ctx context.Context, client *azure.Client, scope, one arm.ID) (
	s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes, err error) {
	if one == "" {
		// there may be no cluster any more, so do not look for one
		s, err = client.Survey(ctx, scope)
	} else {
		s, err = survey.Of(ctx, client, scope, oneOrNone(one))
	}
	if err != nil {
		return nil, nil, err
	}
	proposed, err := survey.Propose(ctx, client, s, nil)
	if err != nil {
		return nil, nil, err
	}
	var written []arm.ID
	for _, p := range proposed {
		if p.Skip == "" && s.Cluster(p.Cluster).Kubenet() { // others have no table of their own
			configs = append(configs, p.Config)
			if !s.Known(p.Cluster).LogRead {
				written = append(written, p.Cluster)
			}
		}
	}
	if err := client.Read(ctx, s, inventory.Wanted{Written: written},
		azure.ReadOptions{}); err != nil {
		return nil, nil, err
	}
	if err := survey.Configured(ctx, client, s, configs); err != nil {
		return nil, nil, err
	}
	return s, configs, client.Examine(ctx, s)
}

// tablesMeant returns the tables to check: the named ones, those near a cluster, or all.
func tablesMeant(s *inventory.Snapshot, one arm.ID, named []arm.ID) ([]arm.ID, error) {
	switch {
	case len(named) > 0:
		for _, id := range named {
			if s.Table(id) == nil {
				return nil, fmt.Errorf("--table: route table %s does not exist, or this login "+
					"may not read it", id)
			}
		}
		return named, nil
	case one != "":
		return plan.NearTables(s, s.Cluster(one)), nil
	}
	var all []arm.ID
	for _, t := range s.Tables {
		all = append(all, t.ID)
	}
	return all, nil
}
