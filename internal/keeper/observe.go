package keeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// observe reads what the configs concern: clusters (rarely), subnets, and then the tables, once it is known which.
func (t *turn) observe(ctx context.Context) (*network.Snapshot, error) {
	s := network.NewSnapshot()
	s.Taken = time.Now()
	if err := t.observeClusters(ctx, s); err != nil {
		return nil, err
	}
	var subnets []network.ID
	for _, c := range t.part {
		if cluster := s.Cluster(network.ID(c.Spec.ClusterID)); cluster != nil && cluster.Kubenet() {
			for _, id := range s.NodeSubnetIDs(cluster) {
				if s.Subnet(id) == nil {
					subnets = append(subnets, id)
				}
			}
		}
		for _, g := range c.Spec.Guard.Subnets {
			subnets = append(subnets, network.ID(g.SubnetID))
		}
	}
	if err := t.read(ctx, s, network.Wanted{Subnets: network.SortIDs(subnets)}); err != nil {
		return nil, err
	}
	sources, err := t.discover(ctx, s)
	if err != nil {
		return nil, err
	}
	if recalled, err := t.recallTables(ctx, s); err != nil {
		return nil, err
	} else if recalled {
		if sources, err = t.discover(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, t.read(ctx, s, network.Wanted{Tables: t.tables(s, sources)})
}

// observeClusters puts the clusters into the snapshot, from memory where that is fresh enough, with what is remembered of
// them.
func (t *turn) observeClusters(ctx context.Context, s *network.Snapshot) error {
	var due []network.ID
	known := false // whether there is a cluster to go on with
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		m := t.memory[id.Key()]
		age := t.opts.ClusterInterval
		if m.unread != nil || m.incomplete {
			age = min(age, retryCluster)
		}
		if m.read.IsZero() || time.Since(m.read) >= age {
			due = append(due, id)
		}
		known = known || m.cluster != nil
	}
	if err := t.read(ctx, s, network.Wanted{Clusters: due}); err != nil {
		return err
	}
	first := t.agenda == nil || !t.agenda.worked && len(t.part) == len(t.configs) // otherwise it is a finding like any other
	if u, silent := allSilent(s, due); silent && !known && first {
		return fmt.Errorf("reading cluster %s: %s", u.ID.Short(), u.Reason())
	}
	var ownSubnets []network.ID
	for _, id := range due {
		if !t.keeps(id) {
			continue
		}
		m := t.memory[id.Key()]
		m.read, m.unread, m.incomplete = time.Now(), nil, false
		if u, failed := s.Unread[id.Key()]; failed {
			m.unread = &u
			if u.Absent {
				m.cluster = nil
				m.forgetNetwork()
			}
			continue
		}
		before := m.cluster
		m.cluster = s.Cluster(id)
		if before != nil && elsewhere(before, m.cluster) {
			m.forgetNetwork()
		}
		if m.cluster.Kubenet() && m.cluster.MakesOwnVNet() {
			ownSubnets = append(ownSubnets, id)
		}
	}
	for _, c := range t.configs { // whose table it is that is found where it does not belong
		id := network.ID(c.Spec.ClusterID)
		s.Learn(id).LastTable = t.memory[id.Key()].lastTable
	}
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		t.memory[id.Key()].recall(s, id)
	}
	if err := t.read(ctx, s, network.Wanted{OwnSubnets: ownSubnets}); err != nil {
		return err
	}
	for _, id := range ownSubnets {
		if !t.keeps(id) {
			continue
		}
		m := t.memory[id.Key()]
		m.ownSubnets = s.Known(id).OwnSubnets // those from before where they could not be looked for
		_, m.incomplete = s.Unread[m.cluster.NodeGroup().Key()]
	}
	return nil
}

// elsewhere reports whether a cluster has brought subnets, before and now, and none of them is the same: it was deleted and
// made again.
func elsewhere(before, now *network.Cluster) bool {
	old := before.BroughtSubnets()
	for _, id := range now.BroughtSubnets() {
		if slices.ContainsFunc(old, id.Equal) {
			return false
		}
	}
	return len(old) > 0 && len(now.BroughtSubnets()) > 0
}

// allSilent reports whether Azure gave no answer for any of the resources.
func allSilent(s *network.Snapshot, ids []network.ID) (last network.Unread, silent bool) {
	for _, id := range ids {
		u, failed := s.Unread[id.Key()]
		if !failed || u.Status != 0 {
			return u, false
		}
		last = u
	}
	return last, len(ids) > 0
}

// discover finds the clusters' own tables, reading what that takes.
func (t *turn) discover(ctx context.Context, s *network.Snapshot) ([]network.ID, error) {
	for {
		var want network.Wanted
		var sources []network.ID
		for i := range t.part {
			d := plan.Discover(s, &t.part[i], t.taken)
			want.Written = append(want.Written, d.Want.Written...)
			want.Managed = append(want.Managed, d.Want.Managed...)
			want.Tables = append(want.Tables, d.Want.Tables...)
			if d.Table != "" {
				sources = append(sources, d.Table)
			}
		}
		if want.Empty() {
			return sources, nil
		}
		if len(want.Tables) > 0 { // the others with them: one list may show them all
			want.Tables = t.tables(s, append(sources, want.Tables...))
		}
		if err := t.read(ctx, s, want); err != nil {
			return nil, err
		}
		for _, id := range slices.Concat(want.Written, want.Managed) {
			if t.keeps(id) {
				m := t.memory[id.Key()]
				m.asked, m.found = time.Now(), s.Known(id)
			}
		}
	}
}

// tables lists the tables to read: the clusters' own, the targets, and those to keep on further subnets.
func (t *turn) tables(s *network.Snapshot, sources []network.ID) []network.ID {
	ids := slices.Clone(sources)
	for _, c := range t.part {
		for _, t := range c.Spec.Targets {
			ids = append(ids, network.ID(t.RouteTableID))
		}
		for _, g := range c.Spec.Guard.Subnets {
			ids = append(ids, network.ID(g.RouteTableID))
		}
	}
	return slices.DeleteFunc(network.SortIDs(ids), func(id network.ID) bool {
		_, tried := s.Unread[id.Key()]
		return tried || s.Table(id) != nil
	})
}

// outdated are the findings that an old document of the cluster can explain: a pool was added since, or the cluster has left
// kubenet, and its table with it.
var outdated = []finding.Code{finding.SourceHop, finding.SourceEmpty, finding.TableMissing, finding.TableUnknown}

// doubted returns the clusters of which something is found that may be because their documents are old.
func (t *turn) doubted(p plan.Plan) []network.ID {
	var ids []network.ID
	for _, f := range p.Findings {
		if !slices.Contains(outdated, f.Code) {
			continue
		}
		for _, c := range t.part {
			id := network.ID(c.Spec.ClusterID)
			if c.Metadata.Name == f.Cluster && time.Since(t.memory[id.Key()].read) >= retryCluster {
				ids = append(ids, id)
			}
		}
	}
	return network.SortIDs(ids)
}

// forget makes clusters be read again.
func (t *turn) forget(ids []network.ID) {
	for _, id := range ids {
		t.memory[id.Key()].read = time.Time{}
	}
}
