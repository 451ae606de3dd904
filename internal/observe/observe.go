// Package observe reads until a plan has what it needs. The next thing that a plan needs depends on
// what was read before, so observe asks the plan again after each read. The keeper and the commands
// both read this way.
//
// It must not decide anything about routes, remember anything, or know how to make a read.
package observe

import (
	"context"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Read reads what is wanted into its snapshot.
type Read func(context.Context, inventory.Wanted) error

// Until reads until nothing more is wanted. wanted must not return what was already tried.
func Until(ctx context.Context, read Read, wanted func() inventory.Wanted) error {
	for w := wanted(); !w.Empty(); w = wanted() {
		if err := read(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// Sources finds the clusters' route tables, reads the evidence for that, and returns the tables. If
// it must read tables, it also reads the ones that the configs name, because one list may show them
// all.
func Sources(ctx context.Context, s plan.Facts, configs []v1alpha1.ClusterRoutes, taken plan.Taken,
	read Read) ([]arm.ID, error) {
	var sources []arm.ID
	err := Until(ctx, read, func() inventory.Wanted {
		var want inventory.Wanted
		sources = nil
		for i := range configs {
			d := plan.Discover(s, &configs[i], taken)
			want.Add(d.Want)
			if d.Table != "" {
				sources = append(sources, d.Table)
			}
		}
		if len(want.Tables) > 0 {
			want.Tables = Tables(s.Snapshot, configs, append(slices.Clone(sources), want.Tables...))
		}
		return want
	})
	return sources, err
}

// Tables lists the tables that were not tried yet: the given ones, all that the configs name, and
// the tables on the subnets.
// Without the tables on the subnets, it is unknown what becomes of packets from there.
func Tables(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes, ids []arm.ID) []arm.ID {
	ids = slices.Clone(ids)
	for _, c := range configs {
		ids = append(ids, plan.NamedTables(&c)...)
		for _, g := range c.Spec.Guard.Subnets {
			ids = append(ids, tableOn(s, arm.ID(g.SubnetID))...)
		}
		if cluster := s.Cluster(arm.ID(c.Spec.ClusterID)); cluster != nil &&
			plan.Routed(&c, cluster) {
			for _, subnet := range s.NodeSubnetIDs(cluster) {
				ids = append(ids, tableOn(s, subnet)...)
			}
		}
	}
	return Untried(s, ids)
}

// tableOn returns the table that a subnet has, if it was read and has one.
func tableOn(s *inventory.Snapshot, id arm.ID) []arm.ID {
	if subnet := s.Subnet(id); subnet != nil && subnet.RouteTable != "" {
		return []arm.ID{subnet.RouteTable}
	}
	return nil
}

// Subnets lists the subnets that were not tried yet: those of the clusters' nodes and pods, and the
// guarded subnets. For a cluster without pod routes it lists only those in its config or its
// document, because reading the others would take a list.
func Subnets(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) []arm.ID {
	var ids []arm.ID
	for _, c := range configs {
		if cluster := s.Cluster(arm.ID(c.Spec.ClusterID)); cluster != nil {
			ids = append(ids, cluster.PodSubnets()...)
			if plan.Routed(&c, cluster) {
				ids = append(ids, s.NodeSubnetIDs(cluster)...)
			} else {
				ids = append(ids, cluster.ExistingSubnets()...)
			}
		}
		for _, g := range c.Spec.Guard.Subnets {
			ids = append(ids, arm.ID(g.SubnetID))
		}
	}
	return Untried(s, ids)
}

// Untried returns the subnets and tables that were neither read nor found unreadable, sorted, each
// once.
func Untried(s *inventory.Snapshot, ids []arm.ID) []arm.ID {
	return slices.DeleteFunc(inventory.SortIDs(ids), func(id arm.ID) bool {
		_, unread := s.Unread[id.Key()]
		return unread || s.Subnet(id) != nil || s.Table(id) != nil
	})
}
