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

// memory is what a worker knows of a cluster from earlier checks.
type memory struct {
	cluster    *inventory.Cluster
	unread     *inventory.Unread // why the cluster could not be read the last time
	incomplete bool              // the node subnets that AKS made could not be looked for
	read       time.Time         // when all that was tried

	lastTable  arm.ID
	lastProven bool           // by what the cluster did
	subnets    []netip.Prefix // of all node subnets ever seen
	ownSubnets []arm.ID
	right      map[string]map[netip.Prefix]netip.Addr // as plan.Remembered.True
	laid       Lasting                                // from before the restart, and not checked yet
	recalled   bool                                   // lastTable is from before the restart, and nothing has shown since that it is right

	// what was read to find the cluster's own table, and when
	asked time.Time
	found inventory.Known

	hops   map[netip.Addr]ledBy // the next hops in its own table, and since when these prefixes lead to them
	hopsOf string               // the ETag of the table they were noted by
	before Lasting              // from before the restart, until hops are noted
	had    map[plan.Pair]bool   // as plan.Remembered.Had
	nodes  plan.NodeRoutes      // as the last check left them

	nics     *inventory.NICs
	nicsRead time.Time
	looked   map[netip.Addr]bool // the addresses that were looked for among them
}

const (
	// retryCluster is how soon a cluster is asked for again after it could not be read, and how often at most because its
	// table holds routes to addresses nobody knows.
	retryCluster = time.Minute
	// askAgain is for how long an answer of the activity log is believed that did not lead to a table.
	askAgain = 10 * time.Minute
	// steadyAfter is longer than a cluster's cloud provider takes to repair its table: it trusts its copy for two minutes
	// and writes in batches of 30 seconds (AZURE.md).
	steadyAfter = 5 * time.Minute
)

// recall puts what is remembered of a cluster into a check's facts.
func (m *memory) recall(s plan.Facts, id arm.ID) {
	if m.cluster != nil {
		s.Clusters[id.Key()] = m.cluster
	}
	if m.unread != nil {
		s.Unread[id.Key()] = *m.unread
	}
	s.Memory[id.Key()] = &plan.Remembered{LastTable: m.lastTable, LastProven: m.lastProven,
		Subnets: m.subnets, True: m.right, Had: m.had, Nodes: m.nodes}
	known := s.Learn(id)
	known.OwnSubnets = m.ownSubnets
	if !m.asked.IsZero() && time.Since(m.asked) < askAgain {
		known.LogRead, known.Written, known.LogNext, known.LogCut = m.found.LogRead, m.found.Written, m.found.LogNext, m.found.LogCut
		known.ManagedRead, known.Managed = m.found.ManagedRead, m.found.Managed
	}
}

// subnetsMissed reports whether it is not known which node subnets a cluster has, because its document,
// or the network that AKS made for it, could not be read.
func (m *memory) subnetsMissed() bool {
	if m.cluster == nil {
		return m.unread != nil && !m.unread.Absent
	}
	return m.incomplete && len(m.ownSubnets) == 0
}

// forgetNetwork is for a cluster that is another one now, under the same name.
func (m *memory) forgetNetwork() {
	// The prefixes stay: what leads into them in a target is the cluster's, and follows its new nodes.
	*m = memory{cluster: m.cluster, unread: m.unread, read: m.read, subnets: m.subnets, had: m.had}
}

// ledBy is by which prefixes a next hop is reached in a cluster's own table, and since when.
type ledBy struct {
	prefixes []netip.Prefix
	since    time.Time
}

// timeSources notes since when each next hop in the clusters' own tables has been reached as it is,
// and which routes these tables had.
func (c *check) timeSources(planner *plan.Planner) {
	for _, config := range c.configs {
		id := idOf(config)
		m, known := c.mem.clusters[id.Key()], c.s.Memory.Of(id)
		if table, routes := planner.Source(id); routes != nil {
			m.noteSource(routes, time.Now())
			m.hopsOf = table.ETag
			m.steadySince(c.s.Snapshot, c.s.Cluster(id), table, time.Now())
			m.had = planner.Had(id)
			known.Had = m.had
		}
		known.Settled = m.settled(time.Now())
		c.s.Memory[id.Key()] = &known
	}
}

// noteSource notes the routes of the cluster's own table.
func (m *memory) noteSource(routes map[netip.Prefix]inventory.Route, now time.Time) {
	led := map[netip.Addr][]netip.Prefix{}
	for prefix, r := range routes {
		led[r.Hop] = append(led[r.Hop], prefix)
	}
	hops := make(map[netip.Addr]ledBy, len(led))
	for hop, prefixes := range led {
		was, there := m.hops[hop]
		if inventory.SortPrefixes(prefixes); !there || !slices.Equal(was.prefixes, prefixes) {
			was = ledBy{prefixes, now}
		}
		hops[hop] = was
	}
	m.hops = hops
}

// settled is plan.Remembered.Settled. A table that is known only from before a restart settles
// nothing.
func (m *memory) settled(now time.Time) map[netip.Prefix]netip.Addr {
	if m.recalled {
		return nil
	}
	routes := map[netip.Prefix]netip.Addr{}
	for hop, led := range m.hops {
		if now.Sub(led.since) >= steadyAfter {
			for _, prefix := range led.prefixes {
				routes[prefix] = hop
			}
		}
	}
	return routes
}

// rememberTrue keeps which routes of the targets are as they should be.
func (c *check) rememberTrue(planner *plan.Planner, p plan.Plan) {
	for _, config := range c.configs {
		id := idOf(config)
		c.mem.clusters[id.Key()].right = planner.True(id, p)
	}
}

// remember keeps what the next check has to know: which table each cluster was seen with, all node
// subnets it ever had, and its nodes.
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
			m.lastTable, m.lastProven = "", false // gone: what is associated from now on counts
		case table == nil, d.Doubtful:
			// Somebody may have put a wrong table on the subnets before this keeper saw them. To remember it would be to
			// defend it against whoever puts the right one back.
		case d.Proven || plan.Carries(s, &c.configs[i], table):
			m.lastTable, m.lastProven = d.Table, d.Proven
		}
		c.k.owned(id.Key(), m.lastTable)
	}
}

// groupMemory is what a worker knows of its group from earlier checks.
type groupMemory struct {
	clusters  map[string]*memory           // by ID.Key()
	conflicts map[place]*conflict          // changes that were made, and whether they stand
	others    map[string]*otherWriter      // who undoes them, by the resource's ID.Key()
	refused   map[string]*refusal          // by the resource's ID.Key()
	places    map[string]seenAt            // by the subnet's ID.Key()
	failing   map[string][]finding.Finding // what the last write ran into, by the resource's ID.Key()
	planned   []finding.Finding            // what stands by the last plan
	// unfinished are findings of resources that earlier checks write: each stands until that is over.
	unfinished []finding.Finding
	last       *inventory.Snapshot // of the last check that was whole
	wrote      time.Time           // when the last write ended: what was read before may be old
	trouble    int                 // checks in a row that did not see all for reasons that pass
	again      time.Time           // when the group is to be checked whatever else happens; zero for never
}

func newGroupMemory() groupMemory {
	return groupMemory{clusters: map[string]*memory{}, conflicts: map[place]*conflict{}, others: map[string]*otherWriter{},
		refused: map[string]*refusal{}, places: map[string]seenAt{}, failing: map[string][]finding.Finding{}}
}

// complement is facts with the tables of the last check that they lack.
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
	// retryFirst and retryMost are how long a group waits that could not be checked in full, where the
	// interval is longer.
	retryFirst, retryMost = 10 * time.Second, time.Minute
)

// retry has the group checked again before the next tick, where that is far: after waits that double, and
// differ a little.
func (m *groupMemory) retry(interval time.Duration) {
	wait := min(retryFirst<<min(m.trouble, 6), retryMost)
	if m.trouble++; wait >= interval {
		return
	}
	m.again = time.Now().Add(wait - wait/5 + rand.N(wait*2/5+1))
}

func (m *groupMemory) due(now time.Time) bool { return !m.again.IsZero() && !now.Before(m.again) }

// take takes over what another worker remembers of the clusters of a group. The other one has ended;
// what it remembers of resources may be taken by several, so that is copied.
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
			same.change.Cluster = w.nameOf(f.cluster) // it can have another one now
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

// complete makes a memory for every cluster of the group, with what was kept over a restart.
func (m *groupMemory) complete(w *worker, kept map[string]Lasting) {
	for _, c := range w.configs {
		if m.clusters[keyOf(c)] == nil {
			m.clusters[keyOf(c)] = &memory{laid: kept[keyOf(c)], before: kept[keyOf(c)]}
		}
	}
}
