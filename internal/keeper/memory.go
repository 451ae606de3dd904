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
	"routekeeper.dev/routekeeper/internal/verdict"
)

// memory is what a worker remembers of one cluster from earlier checks.
type memory struct {
	cluster    *inventory.Cluster
	unread     *inventory.Unread // why the last read of the cluster failed
	incomplete bool              // the node subnets that AKS created could not be listed
	read       time.Time         // when the cluster and its subnets were last read
	againIn    time.Duration     // how long after that an absent cluster is read again

	plan.Remembered
	aksSubnets []arm.ID
	laid       Lasting // from before the restart, not checked yet
	judged     judged

	// what was read to find the cluster's route table, with the time
	asked   time.Time
	found   inventory.Known
	refused bool // the activity log or a list could not be read

	nics      *inventory.NICs
	nicsRead  time.Time
	nicsDueAt time.Time           // nics are read again by then; zero before the first check
	looked    map[netip.Addr]bool // the addresses that were looked up in nics
}

const (
	// retryCluster is how soon a cluster is read again after a failed read. It is also the shortest
	// time between reads that routes to unknown addresses cause.
	retryCluster = time.Minute
	// askAgain is how long the keeper reuses an answer of the activity log that led to no table. A
	// refused read is tried again after retryCluster, so that a role that was assigned late is
	// noticed soon.
	askAgain = 10 * time.Minute
)

// recall adds what is remembered of a cluster to a check's facts.
func (m *memory) recall(s plan.Facts, id arm.ID) {
	if m.cluster != nil && !inventory.Clusterless(id) { // no other config's rules see this one
		s.Clusters[id.Key()] = m.cluster
	}
	if m.unread != nil {
		s.Unread[id.Key()] = *m.unread
	}
	remembered := m.Remembered
	remembered.NICs, remembered.Asked = nil, nil // confirm adds them while they are recent
	remembered.NICsDue = !m.nicsDueAt.IsZero() && !time.Now().Before(m.nicsDueAt)
	s.Memory[id.Key()] = &remembered
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

// forgetNetwork forgets the network of a cluster that was replaced by another one with the same
// name.
func (m *memory) forgetNetwork() {
	// Keep the prefixes: routes to them in a target belong to the cluster and follow its new nodes.
	*m = memory{cluster: m.cluster, unread: m.unread, read: m.read, againIn: m.againIn,
		judged:     m.judged,
		Remembered: plan.Remembered{Subnets: m.Subnets, Had: m.Had}}
}

// remember stores what the next check needs.
func (c *check) remember(next plan.Memory) {
	for _, config := range c.configs {
		id := idOf(config)
		m := c.mem.clusters[id.Key()]
		m.Remembered = next.Of(id)
		if c.s.Cluster(id) != nil {
			c.k.owned(id.Key(), m.LastTable)
		}
	}
}

// groupMemory is what a worker remembers of its group from earlier checks.
type groupMemory struct {
	clusters   map[string]*memory           // by ID.Key()
	conflicts  conflicts                    // changes made, and whether they are in place
	others     map[string]*otherWriter      // who undoes changes, by the resource's ID.Key()
	repaired   map[string]*repaired         // by the ID.Key() of what was put back
	refused    map[string]*refusal          // by the resource's ID.Key()
	places     map[string]seenAt            // by the subnet's ID.Key()
	writers    map[string]seenWriter        // by the table's ID.Key()
	appliances map[string]seenAppliance     // by ID.Key()
	left       map[string]string            // ETags after the last write, by ID.Key()
	failing    map[string][]finding.Finding // the last write's, by the resource's ID.Key()
	planned    []finding.Finding            // findings of the last plan
	// unfinished has findings about resources that earlier checks are writing, until the writes
	// end.
	unfinished []finding.Finding
	last       *inventory.Snapshot // of the last complete check
	changing   bool                // that check planned changes
	rest       time.Time           // until then ticks trigger no check; zero: they do
	basis      basis               // the values from which seen was gathered
	lost       plan.Hops           // next hops that no resource has
	// suspects has the next hops that look lost, and since when, until newer reads confirm it
	suspects map[plan.Hop]time.Time
	seen     []verdict.Evidence
	wrote    time.Time // when the last write ended: older reads may be outdated
	trouble  int       // checks in a row with transient failures
	again    time.Time // check the group by then at the latest; zero: no such time
}

func newGroupMemory() groupMemory {
	return groupMemory{clusters: map[string]*memory{}, conflicts: conflicts{},
		others: map[string]*otherWriter{}, repaired: map[string]*repaired{},
		refused: map[string]*refusal{}, places: map[string]seenAt{}, left: map[string]string{},
		writers: map[string]seenWriter{}, appliances: map[string]seenAppliance{},
		failing: map[string][]finding.Finding{}, lost: plan.Hops{},
		suspects: map[plan.Hop]time.Time{}}
}

// complement returns facts, with the tables of the last check where the facts lack them.
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

// retry schedules a check before the next tick, if that tick is far away. The waits double, with
// some jitter.
func (m *groupMemory) retry(interval time.Duration) {
	wait := min(retryFirst<<min(m.trouble, 6), retryMost)
	if m.trouble++; wait >= interval {
		return
	}
	m.again = time.Now().Add(wait - wait/5 + rand.N(wait*2/5+1))
}

// checkAgain schedules a check.
func (m *groupMemory) checkAgain(at time.Time) {
	if m.again.IsZero() || at.Before(m.again) {
		m.again = at
	}
}

func (m *groupMemory) due(now time.Time) bool { return !m.again.IsZero() && !now.Before(m.again) }

// checked returns when the group's last complete check read, or zero.
func (m *groupMemory) checked() time.Time {
	if m.last == nil {
		return time.Time{}
	}
	return m.last.Taken
}

// take copies another worker's memory of the clusters of a group. The other worker has ended. take
// clones the memory of resources, because several workers may take it.
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
	for id, r := range o.repaired {
		if w.group[r.cluster] {
			same := *r
			m.repaired[id] = &same
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
	maps.Copy(m.appliances, o.appliances)
	maps.Copy(m.left, o.left)
	maps.Copy(m.lost, o.lost)
	for resource, found := range o.failing {
		if len(found) > 0 && clusters[found[0].Cluster] {
			m.failing[resource] = found
		}
	}
	if o.last != nil {
		m.last, m.changing = o.last, o.changing
	}
	if o.wrote.After(m.wrote) {
		m.wrote = o.wrote
	}
}

// complete adds a memory for every cluster of the group that lacks one, with the values that were
// stored before a restart.
func (m *groupMemory) complete(w *worker, stored map[string]Lasting) {
	for _, c := range w.configs {
		if m.clusters[keyOf(c)] == nil {
			was := stored[keyOf(c)]
			m.recallLost(was)
			m.clusters[keyOf(c)] = &memory{laid: was, judged: recallJudged(was)}
		}
	}
}

// recallLost takes the next hops that were lost before a restart, until networks are read.
func (m *groupMemory) recallLost(was Lasting) {
	if was.Verdict == nil {
		return
	}
	for _, e := range was.Verdict.Egress {
		if e.Unreachable.IsValid() {
			m.lost.Explain(plan.Hop{Subnet: e.Subnet, Addr: e.Unreachable}, e.Instead)
		}
	}
}
