// Package observe reads until a plan has what it needs: what a plan wants next depends on what was read
// before, so it is asked again after each read. The keeper and the commands read in this one way.
//
// It must not decide anything about routes, remember anything, or know how a read is made.
package observe

import (
	"context"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Read reads what is wanted into the snapshot that it is about.
type Read func(context.Context, inventory.Wanted) error

// Until reads what is wanted, until nothing more is. What was tried must not be wanted again.
func Until(ctx context.Context, read Read, wanted func() inventory.Wanted) error {
	for w := wanted(); !w.Empty(); w = wanted() {
		if err := read(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// Sources finds the clusters' own tables, reading what that takes, and returns those that were found.
// Where tables have to be read for it, those that the configs name are read with them: one list may
// show them all.
func Sources(ctx context.Context, s plan.Facts, configs []v1alpha1.ClusterRoutes, taken plan.Taken, read Read) ([]arm.ID, error) {
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

// Tables lists the tables that have not been tried yet: the given ones, the targets, and those to keep
// on further subnets.
func Tables(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes, ids []arm.ID) []arm.ID {
	ids = slices.Clone(ids)
	for _, c := range configs {
		for _, t := range c.Spec.Targets {
			ids = append(ids, arm.ID(t.RouteTableID))
		}
		for _, g := range c.Spec.Guard.Subnets {
			ids = append(ids, arm.ID(g.RouteTableID))
		}
	}
	return Untried(s, ids)
}

// Subnets lists the subnets that have not been tried yet: the clusters' node subnets, and those that are
// guarded.
func Subnets(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) []arm.ID {
	var ids []arm.ID
	for _, c := range configs {
		if cluster := s.Cluster(arm.ID(c.Spec.ClusterID)); cluster != nil && cluster.Kubenet() {
			ids = append(ids, s.NodeSubnetIDs(cluster)...)
		}
		for _, g := range c.Spec.Guard.Subnets {
			ids = append(ids, arm.ID(g.SubnetID))
		}
	}
	return Untried(s, ids)
}

// Untried are the subnets and tables that were neither read nor found unreadable, sorted, each once.
func Untried(s *inventory.Snapshot, ids []arm.ID) []arm.ID {
	return slices.DeleteFunc(inventory.SortIDs(ids), func(id arm.ID) bool {
		_, unread := s.Unread[id.Key()]
		return unread || s.Subnet(id) != nil || s.Table(id) != nil
	})
}
