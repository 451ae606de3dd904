package keeper

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// memory is what a worker remembers of one cluster from earlier checks.
type memory struct {
	cluster    *inventory.Cluster
	unread     *inventory.Unread // why the last read of the cluster failed
	incomplete bool              // the node subnets that AKS created could not be listed
	read       time.Time         // when these were last read

	lastTable  arm.ID
	lastProven bool           // shown by what the cluster itself did
	subnets    []netip.Prefix // of all node subnets ever seen
	aksSubnets []arm.ID
	inSync     map[string]map[netip.Prefix]netip.Addr // as plan.Remembered.InSync
	laid       Lasting                                // from before the restart, not checked yet
	// lastTable is from before the restart, not confirmed since
	recalled bool

	// what was read to find the cluster's route table, and when
	asked   time.Time
	found   inventory.Known
	refused bool // the activity log or a list could not be read

	// next hops in its table, and since when which prefixes lead to them
	hops  map[netip.Addr]ledBy
	noted time.Time          // when hops was noted
	had   map[plan.Pair]bool // as plan.Remembered.Had
	nodes plan.NodeRoutes    // as of the last check

	nics     *inventory.NICs
	nicsRead time.Time
	lookAt   time.Time           // when they are read at the latest; zero before the first check
	looked   map[netip.Addr]bool // the addresses that were looked up in nics
}

const (
	// retryCluster is how soon a cluster that could not be read is read again, and the shortest
	// time between reads because its table has routes to unknown addresses.
	retryCluster = time.Minute
	// askAgain is how long an answer of the activity log that led to no table is reused. A refused
	// read is tried again after retryCluster: a role that was assigned late is noticed soon.
	askAgain = 10 * time.Minute
	// steadyAfter is longer than a cloud provider takes to repair its table: it trusts its cache
	// for two minutes and writes in batches of 30 seconds (docs/azure.md).
	steadyAfter = 5 * time.Minute
)

// recall adds what is remembered of a cluster to a check's facts.
func (m *memory) recall(s plan.Facts, id arm.ID) {
	if m.cluster != nil {
		s.Clusters[id.Key()] = m.cluster
	}
	if m.unread != nil {
		s.Unread[id.Key()] = *m.unread
	}
	s.Memory[id.Key()] = &plan.Remembered{LastTable: m.lastTable, LastProven: m.lastProven,
		Subnets: m.subnets, InSync: m.inSync, Had: m.had, Nodes: m.nodes,
		LookDue: !m.lookAt.IsZero() && !time.Now().Before(m.lookAt)}
	known := s.Learn(id)
	known.AKSSubnets = m.aksSubnets
	reuse := askAgain
	if m.refused {
		reuse = retryCluster
	}
	if !m.asked.IsZero() && time.Since(m.asked) < reuse {
		known.LogRead, known.Written, known.LogNext, known.LogCut = m.found.LogRead,
			m.found.Written, m.found.LogNext, m.found.LogCut
		known.ManagedRead, known.Managed = m.found.ManagedRead, m.found.Managed
	}
}

// subnetsMissed reports whether the cluster's node subnets are unknown because its document, or the
// network that AKS created for it, could not be read.
func (m *memory) subnetsMissed() bool {
	if m.cluster == nil {
		return m.unread != nil && !m.unread.Absent
	}
	return m.incomplete && len(m.aksSubnets) == 0
}

// forgetNetwork is for a cluster that was replaced by another one with the same name.
func (m *memory) forgetNetwork() {
	// Keep the prefixes: routes into them in a target belong to the cluster and follow its new
	// nodes.
	*m = memory{cluster: m.cluster, unread: m.unread, read: m.read, subnets: m.subnets, had: m.had}
}

// ledBy says which prefixes lead to a next hop in a cluster's route table, and since when. After is
// the time of the last check that did not see this, or of the first check of all.
type ledBy struct {
	prefixes     []netip.Prefix
	since, after time.Time
}

// timeSources notes since when each next hop in the clusters' route tables has had its prefixes,
// and which routes these tables had.
func (c *check) timeSources(planner *plan.Planner) {
	for _, config := range c.configs {
		id := idOf(config)
		m, known := c.mem.clusters[id.Key()], c.s.Memory.Of(id)
		if _, routes := planner.Source(id); routes != nil {
			m.noteSource(routes, time.Now())
			m.had = planner.Had(id)
			known.Had = m.had
		}
		known.Settled = m.settled(time.Now())
		c.s.Memory[id.Key()] = &known
	}
}

// noteSource notes the routes of the cluster's route table.
func (m *memory) noteSource(routes map[netip.Prefix]inventory.Route, now time.Time) {
	led := map[netip.Addr][]netip.Prefix{}
	for prefix, r := range routes {
		led[r.Hop] = append(led[r.Hop], prefix)
	}
	hops := make(map[netip.Addr]ledBy, len(led))
	for hop, prefixes := range led {
		was, there := m.hops[hop]
		if inventory.SortPrefixes(prefixes); !there || !slices.Equal(was.prefixes, prefixes) {
			was = ledBy{prefixes, now, m.noted}
			if m.noted.IsZero() {
				was.after = now
			}
		}
		hops[hop] = was
	}
	m.hops, m.noted = hops, now
}

// settled is plan.Remembered.Settled. A table that is known only from before a restart settles
// nothing.
func (m *memory) settled(now time.Time) map[netip.Prefix]plan.Settled {
	if m.recalled {
		return nil
	}
	routes := map[netip.Prefix]plan.Settled{}
	for hop, led := range m.hops {
		if now.Sub(led.since) >= steadyAfter {
			for _, prefix := range led.prefixes {
				routes[prefix] = plan.Settled{Hop: hop, After: led.after}
			}
		}
	}
	return routes
}

// rememberTrue remembers which routes of the targets are correct.
func (c *check) rememberTrue(planner *plan.Planner, p plan.Plan) {
	for _, config := range c.configs {
		id := idOf(config)
		c.mem.clusters[id.Key()].inSync = planner.InSync(id, p)
	}
}

// remember stores what the next check needs: each cluster's table, all node subnets it ever had,
// and its nodes.
func (c *check) remember(p plan.Plan) {
	s := c.s
	for i := range c.configs {
		id := idOf(c.configs[i])
		m := c.mem.clusters[id.Key()]
		if nodes, checked := p.Nodes[id.Key()]; checked {
			m.nodes = nodes
		}
		cluster := s.Cluster(id)
		if cluster == nil {
			continue
		}
		m.subnets = s.NodePrefixesEver(cluster)
		d := plan.Discover(s, &c.configs[i], c.taken)
		m.recalled = m.recalled && !d.Proven && m.lastTable.Equal(d.Table)
		switch table := s.Table(d.Table); {
		case s.Unread[d.Table.Key()].Absent:
			m.lastTable, m.lastProven = "", false // gone: from now on associations count
		case table == nil, d.Doubtful:
			// A wrong table may have been put on the subnets before this keeper saw them. Do not
			// remember it, because the keeper would then defend it against the correct one.
		case d.Proven || plan.LeadsToNodes(s, &c.configs[i], table):
			m.lastTable, m.lastProven = d.Table, d.Proven
		}
		c.k.owned(id.Key(), m.lastTable)
	}
}

// groupMemory is what a worker remembers of its group from earlier checks.
type groupMemory struct {
	clusters  map[string]*memory           // by ID.Key()
	conflicts map[place]*conflict          // changes that were made, and whether they are in place
	others    map[string]*otherWriter      // who undoes changes, by the resource's ID.Key()
	refused   map[string]*refusal          // by the resource's ID.Key()
	places    map[string]seenAt            // by the subnet's ID.Key()
	writers   map[string]seenWriter        // by the table's ID.Key()
	left      map[string]string            // ETags after the last write, by the resource's ID.Key()
	failing   map[string][]finding.Finding // findings of the last write, by the resource's ID.Key()
	planned   []finding.Finding            // findings of the last plan
	// unfinished are findings of resources that earlier checks are writing, until the writes end.
	unfinished []finding.Finding
	last       *inventory.Snapshot // of the last complete check
	wrote      time.Time           // when the last write ended: older reads may be outdated
	trouble    int                 // checks in a row with transient failures
	again      time.Time           // when to check the group at the latest; zero: no such time
}

func newGroupMemory() groupMemory {
	return groupMemory{clusters: map[string]*memory{}, conflicts: map[place]*conflict{},
		others:  map[string]*otherWriter{},
		refused: map[string]*refusal{}, places: map[string]seenAt{}, left: map[string]string{},
		writers: map[string]seenWriter{},
		failing: map[string][]finding.Finding{}}
}

// complement returns facts with the tables of the last check added where they are missing.
func (m *groupMemory) complement(s plan.Facts) plan.Facts {
	s = s.Fork()
	if m.last != nil {
		for key, table := range m.last.Tables {
			if _, tried := s.Unread[key]; !tried && s.Tables[key] == nil {
				s.Tables[key] = table
			}
		}
	}
	return s
}

const (
	// retryFirst and retryMost are the first and the longest wait of a group whose check was
	// incomplete, if the interval is longer.
	retryFirst, retryMost = 10 * time.Second, time.Minute
)

// retry schedules a check before the next tick, if that is far away. The waits double, with some
// jitter.
func (m *groupMemory) retry(interval time.Duration) {
	wait := min(retryFirst<<min(m.trouble, 6), retryMost)
	if m.trouble++; wait >= interval {
		return
	}
	m.again = time.Now().Add(wait - wait/5 + rand.N(wait*2/5+1))
}

func (m *groupMemory) due(now time.Time) bool { return !m.again.IsZero() && !now.Before(m.again) }

// take copies what another worker remembers of the clusters of a group. The other worker has ended.
// What it remembers of resources is cloned, because several workers may take it.
func (m *groupMemory) take(o *groupMemory, w *worker) {
	clusters := nameSet(w.configs)
	for key := range w.group {
		if known := o.clusters[key]; known != nil {
			m.clusters[key] = known
		}
	}
	for at, f := range o.conflicts {
		if w.group[f.cluster] {
			same := *f
			same.undone = slices.Clone(f.undone)
			same.change.Cluster = w.nameOf(f.cluster) // its name may have changed
			m.conflicts[at] = &same
		}
	}
	for resource, other := range o.others {
		same := *other
		m.others[resource] = &same
	}
	for resource, r := range o.refused {
		if r != nil && len(r.outcomes) > 0 && clusters[r.outcomes[0].Cluster] {
			same := *r
			m.refused[resource] = &same
		}
	}
	maps.Copy(m.places, o.places)
	maps.Copy(m.writers, o.writers)
	maps.Copy(m.left, o.left)
	for resource, found := range o.failing {
		if len(found) > 0 && clusters[found[0].Cluster] {
			m.failing[resource] = found
		}
	}
	if m.last == nil {
		m.last = o.last
	}
	if o.wrote.After(m.wrote) {
		m.wrote = o.wrote
	}
}

// complete adds a memory for every cluster of the group that lacks one, with what was stored over a
// restart.
func (m *groupMemory) complete(w *worker, stored map[string]Lasting) {
	for _, c := range w.configs {
		if m.clusters[keyOf(c)] == nil {
			m.clusters[keyOf(c)] = &memory{laid: stored[keyOf(c)]}
		}
	}
}
