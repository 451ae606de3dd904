package keeper

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/observe"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Lasting has what must survive a restart, for one cluster. It can be outdated when it is read, so
// it alone never justifies a delete: if only Lasting names the table, NICs must prove every delete.
// It omits earlier node subnets, because with them a route would count as the cluster's and could
// be deleted. It also omits which routes had settled.
type Lasting struct {
	// Table is the cluster's route table as last known, or "" if no check has identified it.
	Table arm.ID `json:"table,omitempty"`
	// Proven is set if the cluster's own actions identified it, as plan.Remembered.LastProven.
	Proven bool `json:"proven,omitempty"`
	// NodeGroup and Subnets identify the cluster: another cluster with the same name has different
	// ones.
	NodeGroup arm.ID   `json:"nodeGroup,omitempty"`
	Subnets   []arm.ID `json:"subnets,omitempty"`
	// Had is the last value of each property of each node subnet and guarded subnet, by its
	// ID.Key(), including values that the subnet has lost since. It causes no change: doctor uses
	// it to complete its commands.
	Had map[string]map[inventory.Property]arm.ID `json:"had,omitempty"`
	// Lacks are the nodes without a route, as in plan.NodeRoutes.Lacks. They cause no change. They
	// keep since when a node lacks its route, so that a restart does not turn an error back into a
	// warning.
	Lacks map[string]plan.Lack `json:"lacks,omitempty"`
	// Verdict is the last verdict on the cluster. It causes no change either.
	Verdict *verdict.Verdict `json:"verdict,omitempty"`
}

// Store stores Lasting values by the cluster's ID.Key().
type Store interface {
	Recall() map[string]Lasting
	Keep(map[string]Lasting)
}

// stored is the content of a store, if there is one.
type stored struct {
	store Store

	mu  sync.Mutex
	all map[string]Lasting // by cluster; replaced, not changed
}

func newStored(store Store) *stored {
	s := &stored{store: store}
	if store != nil {
		s.all = store.Recall()
	}
	return s
}

// recall returns the content, which callers must not change.
func (s *stored) recall() map[string]Lasting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// keep stores what has changed, if there is a store.
func (s *stored) keep(changed map[string]Lasting) {
	if s.store == nil || len(changed) == 0 {
		return
	}
	s.store.Keep(changed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = mergeLasting(s.all, changed)
}

// recallTables takes the clusters' tables from the store before it uses any other source: after a
// restart, a copy on the node subnets must not become the cluster's table. If the subnets have
// another table, the stored one is only the last known, and the activity log decides
// (plan.Discover). NICs must prove every delete that relies on such a table.
func (o *observation) recallTables(ctx context.Context) error {
	s := o.s
	for i := range o.configs {
		config := &o.configs[i]
		id := idOf(*config)
		m, cluster := o.mem.clusters[id.Key()], s.Cluster(id)
		if m.laid.NodeGroup == "" || cluster == nil ||
			!allSeen(s.Snapshot, s.NodeSubnetIDs(cluster)) {
			continue
		}
		was := m.laid
		m.laid = Lasting{} // used once: what this keeper reads itself is newer
		if !was.isOf(s.Snapshot, cluster) {
			continue
		}
		if m.Nodes.Hops == nil { // before the first check of its nodes
			m.Nodes.Lacks = was.Lacks
			m.recall(s, id)
		}
		if m.LastTable != "" || was.Table == "" {
			continue
		}
		if err := o.read(ctx, s.Snapshot, inventory.Wanted{
			Tables: observe.Untried(s.Snapshot, []arm.ID{was.Table})}); err != nil {
			return err
		}
		if u, failed := s.Unread[was.Table.Key()]; failed && u.Transient() {
			m.laid = was // the next check tries again
			continue
		}
		agrees := hasOnly(s.Snapshot, s.NodeSubnetIDs(cluster), was.Table)
		if table := s.Table(was.Table); table == nil ||
			!agrees && !plan.LeadsToNodes(s, config, table) {
			continue
		}
		m.LastTable, m.LastProven, m.Recalled = was.Table, was.Proven && agrees, !agrees
		m.recall(s, id)
	}
	return nil
}

// hasOnly reports whether all of a cluster's node subnets have one table.
func hasOnly(s *inventory.Snapshot, subnets []arm.ID, table arm.ID) bool {
	return len(subnets) > 0 && !slices.ContainsFunc(subnets, func(id arm.ID) bool {
		subnet := s.Subnet(id)
		return subnet == nil || !subnet.RouteTable.Equal(table)
	})
}

// isOf reports whether a cluster is the remembered one.
func (l Lasting) isOf(s *inventory.Snapshot, cluster *inventory.Cluster) bool {
	return l.NodeGroup.Equal(cluster.NodeGroup()) && slices.ContainsFunc(s.NodeSubnetIDs(cluster),
		func(id arm.ID) bool { return slices.ContainsFunc(l.Subnets, id.Equal) })
}

// allSeen reports whether every subnet was read or does not exist.
func allSeen(s *inventory.Snapshot, subnets []arm.ID) bool {
	return !slices.ContainsFunc(subnets, func(id arm.ID) bool {
		return s.Subnet(id) == nil && !s.Unread[id.Key()].Absent
	})
}

// storeLasting stores the lasting values that have changed, before anything is written.
func (c *check) storeLasting(s *inventory.Snapshot) {
	if c.k.opts.Store == nil {
		return
	}
	changed := map[string]Lasting{}
	for _, config := range c.configs {
		id := idOf(config)
		m := c.mem.clusters[id.Key()]
		before := c.k.stored.recall()[id.Key()]
		cluster := s.Cluster(id)
		if cluster == nil {
			continue // not seen this time: keep what is known
		}
		now := Lasting{Table: m.LastTable, Proven: m.LastProven, NodeGroup: cluster.NodeGroup(),
			Subnets: inventory.SortIDs(slices.Clone(s.NodeSubnetIDs(cluster))),
			Had:     had(s, config, cluster, before.Had),
			Lacks:   m.Nodes.Lacks, Verdict: before.Verdict}
		if now.Table == "" && before.isOf(s, cluster) {
			now.Table, now.Proven = before.Table, before.Proven
		}
		if !reflect.DeepEqual(now, before) {
			changed[id.Key()] = now
		}
	}
	c.k.stored.keep(changed)
}

// had returns what the subnets of a cluster have, or had before they lost it.
func had(s *inventory.Snapshot, config v1alpha1.ClusterRoutes, cluster *inventory.Cluster,
	before map[string]map[inventory.Property]arm.ID) map[string]map[inventory.Property]arm.ID {
	ids := slices.Clone(s.NodeSubnetIDs(cluster))
	for _, g := range config.Spec.Guard.Subnets {
		ids = append(ids, arm.ID(g.SubnetID))
	}
	var all map[string]map[inventory.Property]arm.ID
	for _, id := range ids {
		of := maps.Clone(before[id.Key()])
		for _, property := range inventory.Properties {
			if subnet := s.Subnet(id); subnet != nil && subnet.Has(property) != "" {
				if of == nil {
					of = map[inventory.Property]arm.ID{}
				}
				of[property] = subnet.Has(property)
			}
		}
		if len(of) > 0 {
			if all == nil {
				all = map[string]map[inventory.Property]arm.ID{}
			}
			all[id.Key()] = of
		}
	}
	return all
}

func mergeLasting(old, changed map[string]Lasting) map[string]Lasting {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]Lasting{}
	}
	maps.Copy(all, changed)
	return all
}
