package monitor

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Watched is what has to be watched for configs.
type Watched struct {
	Subscriptions []Scopes
	// Unknown says what could not be found out and may be missing, one line each.
	Unknown []string
}

// Scopes are the resources of one subscription to watch: none is inside another, in the order of
// their IDs.
type Scopes struct {
	Subscription string   `json:"subscription"`
	IDs          []arm.ID `json:"scopes"`
}

// maxScopes is how many scopes a rule gets before they are made coarser. Azure's limit is not
// documented.
const maxScopes = 100

// Watch collects what the configured clusters use: the clusters, their node resource groups (where
// managed tables and networks come and go), their route tables, the networks of node subnets and
// guarded subnets with their tables, targets, and the tables of egress routes. A cluster that
// cannot be read is an error: its resources would otherwise be removed from the rules.
func Watch(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) (Watched, error) {
	var w Watched
	var ids []arm.ID
	taken := plan.TakenBy(configs)
	for i := range configs {
		c := &configs[i]
		id := arm.ID(c.Spec.ClusterID)
		if !c.Clusterless() {
			ids = append(ids, id)
		}
		ids = append(ids, plan.NamedTables(c)...)
		for _, g := range c.Spec.Guard.Subnets {
			ids = append(ids, arm.ID(g.SubnetID).Parent())
		}
		cluster := s.Cluster(id)
		if cluster == nil {
			if u := s.Unread[id.Key()]; !u.Absent {
				return w, fmt.Errorf("cluster %s could not be read, so its resources are "+
					"unknown: %s", id, u.Reason())
			}
			w.Unknown = append(w.Unknown,
				fmt.Sprintf("cluster %s does not exist: the rule watches only what the config of "+
					"%s names", id.Short(), c.Metadata.Name))
			continue
		}
		if cluster.NodeResourceGroup != "" {
			ids = append(ids, cluster.NodeGroup())
		}
		for _, subnet := range s.NodeSubnetIDs(cluster) {
			ids = append(ids, subnet.Parent())
		}
		switch d := plan.Discover(plan.Facts{Snapshot: s}, c, taken); {
		case d.Table != "":
			ids = append(ids, d.Table)
		case c.Spec.RouteTableID != "": // even if it is not the cluster's, its routes are read
			ids = append(ids, arm.ID(c.Spec.RouteTableID))
		case cluster.Kubenet():
			w.Unknown = append(w.Unknown, fmt.Sprintf("the route table of cluster %s is unknown: "+
				"it is watched only if it is in the node resource group", id.Short()))
		}
	}
	for _, some := range bySubscription(ids) {
		w.Subscriptions = append(w.Subscriptions,
			Scopes{some[0].Subscription(), coarse(outermost(some))})
	}
	return w, nil
}

// bySubscription groups IDs by subscription.
func bySubscription(ids []arm.ID) [][]arm.ID {
	var out [][]arm.ID
	for _, id := range inventory.SortIDs(slices.Clone(ids)) {
		if n := len(out); n > 0 &&
			strings.EqualFold(out[n-1][0].Subscription(), id.Subscription()) {
			out[n-1] = append(out[n-1], id)
		} else {
			out = append(out, []arm.ID{id})
		}
	}
	return out
}

// outermost omits IDs that are inside another.
func outermost(ids []arm.ID) []arm.ID {
	var out []arm.ID
	for _, id := range ids {
		if !slices.ContainsFunc(ids, func(o arm.ID) bool { return !o.Equal(id) && within(id, o) }) {
			out = append(out, id)
		}
	}
	return out
}

// within reports whether a scope contains a resource.
func within(id, scope arm.ID) bool { return strings.HasPrefix(id.Key()+"/", scope.Key()+"/") }

// coarse reduces the number of scopes: it replaces them with their resource groups, or with the
// subscription.
func coarse(ids []arm.ID) []arm.ID {
	if len(ids) <= maxScopes {
		return ids
	}
	groups := make([]arm.ID, len(ids))
	for i, id := range ids {
		groups[i] = id.Group()
	}
	if groups = inventory.SortIDs(groups); len(groups) <= maxScopes {
		return groups
	}
	return []arm.ID{ids[0].SubscriptionID()}
}
