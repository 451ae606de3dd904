package controller

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// A controller that runs inside a cluster it guards. How it works: if the cluster's egress is in
// the route table that can be lost, its nodes lose Azure together with the table, and nothing
// inside the cluster can put the table back. The guard then only observes, and the condition
// Guarded says why. Until a check has shown where a cluster's egress is, the guard observes too.

// judgement says whether a cluster can be guarded from where the controller runs.
type judgement struct {
	made   bool
	refuse string // why not, or ""
}

// judge judges a cluster by what a check read. own is the node resource group of the nodes that
// the controller runs on.
func judge(own arm.ID, r keeper.Result, config *v1alpha1.ClusterRoutes) judgement {
	cluster := r.Seen.Cluster(arm.ID(config.Spec.ClusterID))
	if cluster == nil {
		return judgement{}
	}
	if !cluster.IsNodeGroup(own) {
		return judgement{made: true}
	}
	egress := ""
	switch table := r.Seen.Table(plan.Discover(r.Seen, config, plan.TakenBy(r.Configs)).Table); {
	case table != nil && defaultRoute(table) != "":
		egress = fmt.Sprintf("%s has the route %s", table.ID.Short(), defaultRoute(table))
	case strings.EqualFold(cluster.Outbound, "userDefinedRouting"):
		egress = "its outbound type is userDefinedRouting"
	case table == nil:
		return judgement{}
	}
	if egress == "" {
		return judgement{made: true}
	}
	return judgement{true, "the cluster's egress is in the route table that a subnet can lose (" +
		egress + "), and this controller runs in the cluster: it would lose Azure together with " +
		"the table. Lost tables are reported, and not put back; run routekeeper outside the " +
		"cluster"}
}

// defaultRoute describes a table's default route, unless it leads to the internet as it would
// without a table.
func defaultRoute(table *inventory.RouteTable) string {
	i := slices.IndexFunc(table.Routes(), func(r inventory.Route) bool {
		return r.Prefix.Addr().Is4() && r.Prefix.Bits() <= 1 && // or half of it
			!strings.EqualFold(r.HopType, inventory.HopInternet)
	})
	if i < 0 {
		return ""
	}
	return table.Routes()[i].Prefix.String() + " to " + table.Routes()[i].NextHop()
}
