package keeper

import (
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// memory is what a keeper knows of a cluster from earlier rounds.
type memory struct {
	cluster    *network.Cluster
	unread     *network.Unread // why the cluster could not be read the last time
	incomplete bool            // the node subnets that AKS made could not be looked for
	read       time.Time       // when all that was tried

	lastTable  network.ID
	lastProven bool           // by what the cluster did
	subnets    []netip.Prefix // of all node subnets ever seen
	ownSubnets []network.ID
	right      map[string]map[netip.Prefix]netip.Addr // as network.Known.True
	laid       Lasting                                // from before the restart, and not looked at yet
	recalled   bool                                   // lastTable is from before the restart, and nothing has shown since that it is right

	// what was read to find the cluster's own table, and when
	asked time.Time
	found network.Known

	hops map[netip.Addr]ledBy  // the next hops in its own table, and since when these prefixes lead to them
	had  map[network.Pair]bool // as network.Known.Had

	nics     *network.NICs
	nicsRead time.Time
	looked   map[netip.Addr]bool // the addresses that were looked for among them

	rests    []string // the resources on which what is planned for it rests, by ID.Key(), sorted
	slow     bool     // one of them could not be read, and that took long
	troubled int      // rounds in a row that it kept waiting
	rest     time.Time
	again    time.Time // when it is to be looked at whatever else happens, zero for never
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

// recall puts what is remembered of a cluster into a snapshot.
func (m *memory) recall(s *network.Snapshot, id network.ID) {
	if m.cluster != nil {
		s.Clusters[id.Key()] = m.cluster
	}
	if m.unread != nil {
		s.Unread[id.Key()] = *m.unread
	}
	known := s.Learn(id)
	known.LastTable, known.LastProven, known.Subnets, known.OwnSubnets = m.lastTable, m.lastProven, m.subnets, m.ownSubnets
	known.True, known.Had = m.right, m.had
	if !m.asked.IsZero() && time.Since(m.asked) < askAgain {
		known.LogRead, known.Written, known.LogNext, known.LogCut = m.found.LogRead, m.found.Written, m.found.LogNext, m.found.LogCut
		known.ManagedRead, known.Managed = m.found.ManagedRead, m.found.Managed
	}
}

// forgetNetwork is for a cluster that is another one now, under the same name.
func (m *memory) forgetNetwork() {
	// The prefixes stay: what leads into them in a target is the cluster's, and follows its new nodes.
	*m = memory{cluster: m.cluster, unread: m.unread, read: m.read, subnets: m.subnets, had: m.had,
		rests: m.rests, troubled: m.troubled, rest: m.rest}
}

// ledBy is by which prefixes a next hop is reached in a cluster's own table, and since when.
type ledBy struct {
	prefixes []netip.Prefix
	since    time.Time
}

// timeSources notes since when each next hop in the clusters' own tables has been reached as it is,
// and which routes these tables had.
func (t *turn) timeSources(s *network.Snapshot, planner *plan.Planner) {
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		m, known := t.memory[id.Key()], s.Learn(id)
		if routes := planner.Source(id); routes != nil {
			m.noteSource(routes, time.Now())
			m.had = planner.Had(id)
			known.Had = m.had
		}
		known.Settled = m.settled(time.Now())
	}
}

// noteSource notes the routes of the cluster's own table.
func (m *memory) noteSource(routes map[netip.Prefix]network.Route, now time.Time) {
	led := map[netip.Addr][]netip.Prefix{}
	for prefix, r := range routes {
		led[r.Hop] = append(led[r.Hop], prefix)
	}
	hops := make(map[netip.Addr]ledBy, len(led))
	for hop, prefixes := range led {
		was, there := m.hops[hop]
		if network.SortPrefixes(prefixes); !there || !slices.Equal(was.prefixes, prefixes) {
			was = ledBy{prefixes, now}
		}
		hops[hop] = was
	}
	m.hops = hops
}

// settled is network.Known.Settled. A table that is known only from before a restart settles
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
func (t *turn) rememberTrue(planner *plan.Planner, p plan.Plan) {
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		t.memory[id.Key()].right = planner.True(id, p)
	}
}

// remember keeps what the next round has to know: which table each cluster was seen with, and all
// node subnets it ever had.
func (t *turn) remember(s *network.Snapshot) {
	for i := range t.part {
		id := network.ID(t.part[i].Spec.ClusterID)
		m := t.memory[id.Key()]
		m.slow = slowed(s, id, m.rests)
		cluster := s.Cluster(id)
		if cluster == nil {
			continue
		}
		m.subnets = s.NodePrefixes(cluster)
		d := plan.Discover(s, &t.part[i], t.taken)
		m.recalled = m.recalled && !d.Proven && m.lastTable.Equal(d.Table)
		switch table := s.Table(d.Table); {
		case s.Unread[d.Table.Key()].Absent:
			m.lastTable, m.lastProven = "", false // gone: what is associated from now on counts
		case table == nil, d.Doubtful:
			// Somebody may have put a wrong table on the subnets before this keeper saw them. To remember it would be to
			// defend it against whoever puts the right one back.
		case d.Proven || plan.Carries(s, &t.part[i], table):
			m.lastTable, m.lastProven = d.Table, d.Proven
		}
	}
}
