package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/provision"
	"routekeeper.dev/routekeeper/internal/report"
)

// copies are a cluster's routes in tables that stay when the cluster is deleted. The keeper deletes
// them with the same proof as for onRemoval: Prune: the cluster does not exist, and no network
// interface has the next hop.
type copies struct {
	config v1alpha1.ClusterRoutes
	// had are the pod routes in the cluster's route table.
	had   map[plan.Pair]bool
	found []copied
	// unread are the targets that could not be read, and why.
	unread []string
	named  bool // --config names the config
	// source is the cluster's route table, if cluster create did not make it.
	source arm.ID

	done map[string]bool // by table and route
	left []string        // what the keeper did not delete, with the reason
}

type copied struct {
	table arm.ID
	route inventory.Route
}

func (r copied) name() string { return r.table.Name() + "/" + r.route.Name }

func (r copied) id() arm.ID { return r.table.Child("routes", r.route.Name) }

// copiesOf finds the copies of a cluster's routes, in the targets of a config or of the config that
// cluster create writes.
func copiesOf(
	ctx context.Context, a *app, client *azure.Client, c build.Cluster, paths []string,
	planned []provision.Removal,
) (*copies, error) {
	c, err := provision.Place(ctx, client, c)
	if err != nil {
		return nil, err
	}
	k := &copies{named: len(paths) > 0, done: map[string]bool{}}
	if k.config, err = copiesConfig(a, c, paths); err != nil {
		return nil, err
	}
	goes := func(id arm.ID) bool {
		return slices.ContainsFunc(planned, func(r provision.Removal) bool {
			return r.Verb == build.Delete && r.ID.Equal(id)
		})
	}
	own, err := readTable(ctx, client, c.NodeTableID())
	if err != nil {
		return nil, err
	}
	k.had = map[plan.Pair]bool{}
	if c.Existing != nil {
		k.source = c.Existing.NodeTable
	}
	if own != nil {
		for _, r := range own.Routes() {
			if plan.NodeRoute(r) {
				k.had[plan.Pair{Prefix: r.Prefix, Hop: r.Hop}] = true
			}
		}
	}
	var targets []v1alpha1.Target
	for _, t := range k.config.Spec.Targets {
		id := arm.ID(t.RouteTableID)
		if goes(id) || id.Equal(c.NodeTableID()) {
			continue
		}
		table, err := readTable(ctx, client, id)
		var fault *azure.Error
		switch {
		case errors.As(err, &fault) && fault.Status == http.StatusForbidden:
			k.unread = append(k.unread, "routes in "+id.Short()+": "+fault.Error())
		case err != nil:
			return nil, err
		case table != nil:
			targets = append(targets, t)
			for _, r := range table.Routes() {
				if k.had[plan.Pair{Prefix: r.Prefix, Hop: r.Hop}] {
					k.found = append(k.found, copied{id, r})
				}
			}
		}
	}
	k.config.Spec.Targets = targets
	return k, nil
}

func readTable(
	ctx context.Context, client *azure.Client, id arm.ID,
) (*inventory.RouteTable, error) {
	doc, err := client.Find(ctx, id)
	if err != nil || doc == nil {
		return nil, err
	}
	return inventory.DecodeRouteTable(doc.Raw)
}

// copiesConfig returns the config of a cluster: from files, or as cluster create writes it.
func copiesConfig(a *app, c build.Cluster, paths []string) (v1alpha1.ClusterRoutes, error) {
	config := routesOf(c)
	config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(c.GatewayTableID())}}
	if len(paths) > 0 {
		all, err := a.readConfig(paths)
		if err != nil {
			return config, err
		}
		i := slices.IndexFunc(all, func(o v1alpha1.ClusterRoutes) bool {
			return c.ClusterID().Equal(arm.ID(o.Spec.ClusterID))
		})
		if i < 0 {
			return config, fmt.Errorf("--config: %w (leave it out if no config has the cluster)",
				noCluster(string(c.ClusterID()), files(paths), texts(idsOf(all))))
		}
		config = all[i]
	}
	config.Spec.OnRemoval, config.Spec.RouteTableID = v1alpha1.RemovalPrune, ""
	config.Spec.Guard = v1alpha1.Guard{
		Mode: v1alpha1.GuardOff, OnOtherTable: v1alpha1.OtherTableReport,
	}
	return config, nil
}

// idle reports whether there is nothing to delete.
func (k *copies) idle() bool {
	return len(k.config.Spec.Targets) == 0 || len(k.found) == 0 && !(k.named && len(k.had) == 0)
}

// prune makes the keeper delete the copies.
func (k *copies) prune(
	ctx context.Context, client *azure.Client, paths []string, log *slog.Logger,
) error {
	if k.idle() {
		return nil
	}
	history := usualHistory
	past, err := history.open(paths, log)
	if err != nil {
		return err
	}
	defer past.Close()
	loop := keeper.New(client, []v1alpha1.ClusterRoutes{k.config},
		past.With(keeper.Options{Log: log}))
	loop.Remember(arm.ID(k.config.Spec.ClusterID), k.had)
	result, err := loop.Reconcile(ctx)
	if err != nil {
		return fmt.Errorf("copied routes: %w", err)
	}
	for _, o := range result.Changes {
		switch id := o.Resource.Child("routes", o.Route); {
		case o.State == plan.Done || o.State == plan.Obsolete:
			k.done[id.Key()] = true
			if !slices.ContainsFunc(k.found, func(r copied) bool { return r.id().Equal(id) }) {
				k.found = append(k.found, copied{o.Resource, inventory.Route{Name: o.Route}})
			}
		case o.Error != "":
			k.left = append(k.left,
				fmt.Sprintf("route %s/%s: %s", o.Resource.Name(), o.Route, o.Error))
		}
	}
	for _, f := range result.Findings {
		if f.Code == finding.ClusterMissing && len(f.Evidence) > 0 {
			k.left = append(k.left, f.Message+"; next: "+cmp.Or(f.Advice, f.Fix))
		}
	}
	return nil
}

// check reads the targets again, and records the copies that are left.
func (k *copies) check(ctx context.Context, client *azure.Client) error {
	if k.source != "" {
		if err := k.checkSource(ctx, client); err != nil {
			return err
		}
	}
	if len(k.left) > 0 {
		return nil // already reported, with the reason
	}
	for _, r := range k.found {
		table, err := readTable(ctx, client, r.table)
		if err != nil {
			return err
		}
		if table != nil && slices.ContainsFunc(table.Routes(), func(o inventory.Route) bool {
			return o.Prefix == r.route.Prefix && o.Hop == r.route.Hop && r.route.Hop.IsValid()
		}) {
			k.left = append(k.left, "route "+r.name())
		}
	}
	return nil
}

// checkSource counts the routes that are left in the cluster's bring-your-own route table. AKS does
// not remove them, and no keeper writes such a table.
func (k *copies) checkSource(ctx context.Context, client *azure.Client) error {
	table, err := readTable(ctx, client, k.source)
	if err != nil || table == nil {
		return err
	}
	var names []string
	for _, r := range table.Routes() {
		if k.had[plan.Pair{Prefix: r.Prefix, Hop: r.Hop}] {
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 {
		command := finding.Command("az network route-table route delete --subscription %s -g %s "+
			"--route-table-name %s -n ROUTE", table.ID.Subscription(), table.ID.ResourceGroup(),
			table.ID.Name())
		k.left = append(k.left,
			fmt.Sprintf("%d routes of the cluster in its route table %s, which "+
				"others made; next, for each of %s: %s", len(names), table.ID.Short(),
				strings.Join(names, ", "), command))
	}
	return nil
}

// steps makes the steps of a report about the copies.
func (k *copies) steps(executed bool) (steps []report.BuildStep) {
	for _, r := range k.found {
		s := report.BuildStep{Verb: string(build.Delete), Kind: "route", Resource: string(r.id()),
			Name: r.name(), State: "planned"}
		if r.route.Prefix.IsValid() {
			s.Note = fmt.Sprintf("a copy: %s to %s", r.route.Prefix, r.route.Hop)
		}
		switch {
		case k.done[r.id().Key()]:
			s.State = "done"
		case executed:
			s.State, s.Error = "failed", "it could not be proven that nothing is behind it"
		}
		steps = append(steps, s)
	}
	return steps
}
