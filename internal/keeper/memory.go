package keeper

import (
	"maps"
	"net/netip"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
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
	held       map[string]bool                        // targets whose deletes are held back, by ID.Key()
	fresh      map[string]bool                        // targets not looked at yet
	laid       Lasting                                // from before the restart, and not looked at yet
	recalled   bool                                   // lastTable is from before the restart, and nothing has shown since that it is right

	// what was read to find the cluster's own table, and when
	asked time.Time
	found network.Known

	// the pod routes of its own table, and since when they are these
	routes string
	since  time.Time

	nodes network.NodeRoutes // as the last check left them

	nics     *network.NICs
	nicsRead time.Time
	nicsHeld bool // they held deletes back, and not only showed which nodes have no route

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
	known.Held, known.Fresh, known.True = maps.Clone(m.held), maps.Clone(m.fresh), m.right
	known.Nodes = m.nodes
	if !m.asked.IsZero() && time.Since(m.asked) < askAgain {
		known.LogRead, known.Written, known.LogNext, known.LogCut = m.found.LogRead, m.found.Written, m.found.LogNext, m.found.LogCut
		known.ManagedRead, known.Managed = m.found.ManagedRead, m.found.Managed
	}
}

// holdAll holds the deletes in all targets back until the nodes' addresses prove them.
func (m *memory) holdAll(targets []v1alpha1.Target) {
	for _, t := range targets {
		m.held[network.ID(t.RouteTableID).Key()] = true
	}
}

// forgetNetwork is for a cluster that is another one now, under the same name.
func (m *memory) forgetNetwork() {
	for target := range m.held {
		m.fresh[target] = true
	}
	// The prefixes stay: what leads into them in a target is the cluster's, and follows its new nodes.
	*m = memory{cluster: m.cluster, unread: m.unread, read: m.read, subnets: m.subnets, held: map[string]bool{}, fresh: m.fresh,
		rests: m.rests, troubled: m.troubled, rest: m.rest}
}

// timeSources notes since when each cluster's own table has held the pod routes it holds.
func (t *turn) timeSources(s *network.Snapshot, planner *plan.Planner) {
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		m := t.memory[id.Key()]
		if routes := planner.Fingerprint(id); routes != "" && routes != m.routes {
			m.routes, m.since = routes, time.Now()
		}
		s.Learn(id).Steady = !m.since.IsZero() && time.Since(m.since) >= steadyAfter
	}
}

// rememberTrue keeps which routes of the targets are as they should be.
func (t *turn) rememberTrue(planner *plan.Planner, p plan.Plan) {
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		t.memory[id.Key()].right = planner.True(id, p)
	}
}

// remember keeps what the next round has to know: which table each cluster was seen with, all node subnets it ever had,
// and whose deletes are held back. The last counts from now on: a write plans again on what it reads back, and the routes
// it has just added must not let the others go.
func (t *turn) remember(s *network.Snapshot, p plan.Plan) {
	for _, part := range p.Held {
		if !t.keeps(part.Cluster) {
			continue
		}
		m := t.memory[part.Cluster.Key()]
		m.held[part.Target.Key()] = true
		delete(m.fresh, part.Target.Key())
	}
	for _, part := range p.Released { // where nothing could be looked at, nothing is released
		if !t.keeps(part.Cluster) {
			continue
		}
		m := t.memory[part.Cluster.Key()]
		delete(m.held, part.Target.Key())
		delete(m.fresh, part.Target.Key())
	}
	for i := range t.part {
		id := network.ID(t.part[i].Spec.ClusterID)
		m := t.memory[id.Key()]
		known := s.Learn(id)
		known.Held, known.Fresh = maps.Clone(m.held), maps.Clone(m.fresh)
		m.slow = slowed(s, id, m.rests)
		if nodes, checked := p.Nodes[id.Key()]; checked {
			m.nodes = nodes
		}
		cluster := s.Cluster(id)
		if cluster == nil {
			continue
		}
		m.subnets = s.NodePrefixes(cluster)
		d := plan.Discover(s, &t.part[i], t.taken)
		if m.recalled = m.recalled && !d.Proven && m.lastTable.Equal(d.Table); m.recalled {
			m.holdAll(t.part[i].Spec.Targets)
			known.Held = maps.Clone(m.held)
		}
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
