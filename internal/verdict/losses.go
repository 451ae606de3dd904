package verdict

import (
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Losses compares a subnet's present routes with those of a route table. It returns the packets to
// nodes, pods and guarded subnets of a cluster that have a route now and would lose it, with a
// sentence for each. A route to an appliance counts, because only the appliance knows where it
// forwards packets. If the subnet's present table was not read, it returns nothing.
func Losses(s plan.Facts, config *v1alpha1.ClusterRoutes, subnet *inventory.Subnet,
	table *inventory.RouteTable) (lost []string) {
	world := assume(s, config, plan.Discovery{}).s
	cluster := world.Cluster(arm.ID(config.Spec.ClusterID))
	var others []arm.ID
	for _, other := range world.Subnets {
		others = append(others, other.ID)
	}
	destinations := prefixesOf(world, others...)
	if cluster != nil && cluster.Kubenet() {
		destinations = append(destinations, cluster.PodCIDRs...)
	}
	var named []string // destinations of routes, which decide about parts of the prefixes
	for _, t := range []*inventory.RouteTable{s.Table(subnet.RouteTable), table} {
		if t != nil {
			world.Tables[t.ID.Key()] = t
			for _, r := range t.Routes() {
				named = append(named, r.Prefix.String())
			}
		}
	}
	routes := func(id arm.ID) (*trace.Routes, error) {
		changed := *subnet
		changed.RouteTable = id
		world.Subnets[changed.ID.Key()] = &changed
		return trace.Effective(world, changed.ID, nil)
	}
	now, unread := routes(subnet.RouteTable)
	then, wrong := routes(table.ID)
	if unread != nil || wrong != nil {
		return nil
	}
	leads := func(r trace.Route, found bool) bool {
		return found && r.HopType != trace.HopNone && r.HopType != trace.HopInternet
	}
	for _, prefix := range destinations {
		for _, to := range slices.Concat(covered(prefix, nil), covered(prefix, named)) {
			before, had := now.Lookup(to)
			after, has := then.Lookup(to)
			if !leads(before, had) || leads(after, has) {
				continue
			}
			line := fmt.Sprintf("packets to %s: %s now, and then %s", to, before, after)
			if !slices.Contains(lost, line) {
				lost = append(lost, line)
			}
		}
	}
	slices.Sort(lost)
	return lost
}
