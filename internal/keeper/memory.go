package keeper

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// memory is what a worker knows of a cluster from earlier checks.
type memory struct {
	spec       v1alpha1.ClusterRoutes // the config that it was kept by
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
	*m = memory{cluster: m.cluster, unread: m.unread, read: m.read, subnets: m.subnets, held: map[string]bool{}, fresh: m.fresh, spec: m.spec}
}

// timeSources notes since when each cluster's own table has held the pod routes it holds.
func (c *check) timeSources(s *network.Snapshot, planner *plan.Planner) {
	for _, config := range c.configs {
		id := idOf(config)
		m := c.mem.clusters[id.Key()]
		if routes := planner.Fingerprint(id); routes != "" && routes != m.routes {
			m.routes, m.since = routes, time.Now()
		}
		s.Learn(id).Steady = !m.since.IsZero() && time.Since(m.since) >= steadyAfter
	}
}

// rememberTrue keeps which routes of the targets are as they should be.
func (c *check) rememberTrue(planner *plan.Planner, p plan.Plan) {
	for _, config := range c.configs {
		id := idOf(config)
		c.mem.clusters[id.Key()].right = planner.True(id, p)
	}
}

// remember keeps what the next round has to know: which table each cluster was seen with, all node subnets it ever had,
// and whose deletes are held back. The last counts from now on: a write plans again on what it reads back, and the routes
// it has just added must not let the others go.
func (c *check) remember(s *network.Snapshot, p plan.Plan) {
	for _, part := range p.Held {
		m := c.mem.clusters[part.Cluster.Key()]
		m.held[part.Target.Key()] = true
		delete(m.fresh, part.Target.Key())
	}
	for _, part := range p.Released { // where nothing could be looked at, nothing is released
		m := c.mem.clusters[part.Cluster.Key()]
		delete(m.held, part.Target.Key())
		delete(m.fresh, part.Target.Key())
	}
	for i := range c.configs {
		id := idOf(c.configs[i])
		m := c.mem.clusters[id.Key()]
		known := s.Learn(id)
		known.Held, known.Fresh = maps.Clone(m.held), maps.Clone(m.fresh)
		if nodes, checked := p.Nodes[id.Key()]; checked {
			m.nodes = nodes
		}
		cluster := s.Cluster(id)
		if cluster == nil {
			continue
		}
		m.subnets = s.NodePrefixes(cluster)
		d := plan.Discover(s, &c.configs[i], c.taken)
		if m.recalled = m.recalled && !d.Proven && m.lastTable.Equal(d.Table); m.recalled {
			m.holdAll(c.configs[i].Spec.Targets)
			known.Held = maps.Clone(m.held)
		}
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
	clusters map[string]*memory           // by ID.Key()
	fights   map[place]*fight             // changes that were made, and whether they stand
	foes     map[string]*foe              // who undoes them, by the resource's ID.Key()
	refused  map[string]*refusal          // by the resource's ID.Key()
	places   map[string]seenAt            // by the subnet's ID.Key()
	failing  map[string][]finding.Finding // what the last write ran into, by the resource's ID.Key()
	planned  []finding.Finding            // what stands by the last plan
	last     *network.Snapshot            // of the last check that was whole
	wrote    time.Time                    // when the last write ended: what was read before may be old
	trouble  int                          // checks in a row that did not see all for reasons that pass
	again    time.Time                    // when the group is to be checked whatever else happens; zero for never
}

func newGroupMemory() groupMemory {
	return groupMemory{clusters: map[string]*memory{}, fights: map[place]*fight{}, foes: map[string]*foe{},
		refused: map[string]*refusal{}, places: map[string]seenAt{}, failing: map[string][]finding.Finding{}}
}

// complement is a snapshot with the tables of the last check that it lacks.
func (m *groupMemory) complement(s *network.Snapshot) *network.Snapshot {
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
	for at, f := range o.fights {
		if w.group[f.cluster] {
			same := *f
			same.undone = slices.Clone(f.undone)
			same.change.Cluster = w.nameOf(f.cluster) // it can have another one now
			m.fights[at] = &same
		}
	}
	for resource, foe := range o.foes {
		same := *foe
		m.foes[resource] = &same
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

// complete makes a memory for every cluster of the group. Of a cluster that was kept before it is still
// known what was, but deletes in its targets have to be proven anew where anything in its config has
// changed: what was held back before was so by the old one.
func (m *groupMemory) complete(w *worker) {
	for _, c := range w.configs {
		known := m.clusters[keyOf(c)]
		if known == nil {
			known = &memory{}
			known.recallLasting(w.k.lasting(keyOf(c)), c)
			m.clusters[keyOf(c)] = known
		}
		if !sameSpec(known.spec, c) {
			held := known.held
			known.fresh, known.held = map[string]bool{}, map[string]bool{}
			for _, t := range c.Spec.Targets {
				target := network.ID(t.RouteTableID).Key()
				known.fresh[target] = true
				if held[target] {
					known.held[target] = true
				}
			}
		}
		known.spec = c
	}
}
