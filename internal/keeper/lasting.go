package keeper

import (
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Lasting is what a keeper knows of a cluster that a restart must not forget. It can be old when it
// is read again, so nothing is deleted because of it: a table that only it names needs the NICs for
// every delete. Which node subnets a cluster once had is not in it, because a route counts as the
// cluster's by them, and can be deleted. Only Steady can prove a delete, together with the table as
// it is now.
type Lasting struct {
	// Table is the cluster's own table as last known. It counts only where nothing else tells which it is.
	Table arm.ID `json:"table,omitempty"`
	// NodeGroup and Subnets are those of the cluster it was: another one of the same name has others.
	NodeGroup arm.ID   `json:"nodeGroup,omitempty"`
	Subnets   []arm.ID `json:"subnets,omitempty"`
	// Steady is which routes of Table had settled.
	Steady Steady `json:"steady,omitzero"`
}

// Steady says that all routes of a table with an ETag had settled, but for those to some next hops. No
// time is in it, because clocks jump, and a file can be old: as long as the table has this ETag, nobody
// has written it since, and its routes are still those that had settled.
type Steady struct {
	ETag  string       `json:"etag"`
	Young []netip.Addr `json:"young,omitempty"`
}

// Shelf keeps what is lasting, by the cluster's ID.Key().
type Shelf interface {
	Recall() map[string]Lasting
	Keep(map[string]Lasting)
}

// lasting is what the shelf has, by cluster. It is replaced, and not changed.
func (k *Keeper) lasting() map[string]Lasting {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept
}

// recallTables takes the tables from the shelf of clusters whose tables nothing else tells: they
// lost them on all their subnets, and the activity log does not go back far enough. Deletes that
// rest on such a table have to be proven by the NICs, all of them.
func (c *check) recallTables(ctx context.Context) (recalled bool, err error) {
	s := c.s
	for i := range c.configs {
		config := &c.configs[i]
		id := idOf(*config)
		m, cluster := c.mem.clusters[id.Key()], s.Cluster(id)
		if m.laid.Table == "" || cluster == nil || !allSeen(s.Snapshot, s.NodeSubnetIDs(cluster)) {
			continue
		}
		was := m.laid
		m.laid = Lasting{} // it is looked at once: what this keeper sees itself is newer
		if d := plan.Discover(s, config, c.taken); d.Table != "" && !d.Doubtful || !was.of(s.Snapshot, cluster) {
			continue
		}
		if s.Table(was.Table) == nil {
			if err := c.read(ctx, s.Snapshot, inventory.Wanted{Tables: []arm.ID{was.Table}}); err != nil {
				return false, err
			}
		}
		if u, failed := s.Unread[was.Table.Key()]; failed && passes(u) {
			m.laid = was // the next check looks
			continue
		}
		if table := s.Table(was.Table); table == nil || !plan.Carries(s, config, table) {
			continue
		}
		c.k.log.Warn("the cluster's own table is known from before the restart only", "cluster", config.Metadata.Name, "table", string(was.Table))
		m.lastTable, m.recalled = was.Table, true
		m.recall(s, id)
		recalled = true
	}
	return recalled, nil
}

// of reports whether a cluster is the one that is remembered.
func (l Lasting) of(s *inventory.Snapshot, cluster *inventory.Cluster) bool {
	return l.NodeGroup.Equal(cluster.NodeGroup()) && slices.ContainsFunc(s.NodeSubnetIDs(cluster), func(id arm.ID) bool { return slices.ContainsFunc(l.Subnets, id.Equal) })
}

// allSeen reports whether all of the subnets were looked at.
func allSeen(s *inventory.Snapshot, subnets []arm.ID) bool {
	return !slices.ContainsFunc(subnets, func(id arm.ID) bool { return s.Subnet(id) == nil && !s.Unread[id.Key()].Absent })
}

// shelve keeps what is lasting, where it has changed, before anything is written.
func (c *check) shelve(s *inventory.Snapshot) {
	if c.k.opts.Shelf == nil {
		return
	}
	changed := map[string]Lasting{}
	for _, config := range c.configs {
		id := idOf(config)
		m := c.mem.clusters[id.Key()]
		before := c.k.lasting()[id.Key()]
		now := Lasting{Table: m.lastTable}
		if cluster := s.Cluster(id); cluster != nil && now.Table != "" {
			now.NodeGroup, now.Subnets = cluster.NodeGroup(), inventory.SortIDs(slices.Clone(s.NodeSubnetIDs(cluster)))
		}
		now.Steady = m.steady(s.Table(now.Table), time.Now())
		if now.Table == "" || now.NodeGroup == "" { // not seen this time: what was known of it stays
			now = before
		}
		if !reflect.DeepEqual(now, before) {
			changed[id.Key()] = now
		}
	}
	if len(changed) > 0 {
		c.k.opts.Shelf.Keep(changed)
		c.k.mu.Lock()
		defer c.k.mu.Unlock()
		c.k.kept = mergeLasting(c.k.kept, changed)
	}
}

// steady is what of a table has settled; zero where nothing has.
func (m *memory) steady(table *inventory.RouteTable, now time.Time) Steady {
	if table == nil || table.ETag == "" || table.ETag != m.hopsOf || m.recalled {
		return Steady{}
	}
	var young []netip.Addr
	for hop, led := range m.hops {
		if now.Sub(led.since) < steadyAfter {
			young = append(young, hop)
		}
	}
	if len(young) == len(m.hops) {
		return Steady{}
	}
	slices.SortFunc(young, netip.Addr.Compare)
	return Steady{table.ETag, young}
}

// steadySince takes over from before a restart which routes of the cluster's table had settled: where
// it is the same cluster's, and nobody has written it since.
func (m *memory) steadySince(s *inventory.Snapshot, cluster *inventory.Cluster, table *inventory.RouteTable, now time.Time) {
	was := m.before
	m.before = Lasting{} // what this keeper sees itself is newer
	if was.Steady.ETag == "" || was.Steady.ETag != table.ETag || !was.Table.Equal(table.ID) || !was.of(s, cluster) {
		return
	}
	for hop, led := range m.hops {
		if !slices.Contains(was.Steady.Young, hop) {
			led.since = now.Add(-steadyAfter)
			m.hops[hop] = led
		}
	}
}

func mergeLasting(old, changed map[string]Lasting) map[string]Lasting {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]Lasting{}
	}
	maps.Copy(all, changed)
	return all
}
