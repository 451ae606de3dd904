package trace

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Matrix is the result for all packets that clusters depend on: from the pods of every node, from
// the nodes, and from every subnet that must reach pods, to the pods of every other node. For
// packets that do not come from pods it includes the answer.
type Matrix struct {
	Pairs     int `json:"pairs"`
	Delivered int `json:"delivered"`
	Dropped   int `json:"dropped"`
	// Unknown counts pairs that are in doubt or leave the network.
	Unknown int `json:"unknown"`
	// Broken are the pairs that are not delivered, grouped by cause. Dropped pairs come first, then
	// the largest groups.
	Broken []Break `json:"broken"`
	// Unseen lists nodes whose pods are unknown, and what Kubernetes did not show. If many nodes
	// have the same reason, it names only a few.
	Unseen []string `json:"unseen,omitempty"`
}

// Break is a group of pairs that fail in the same way.
type Break struct {
	Cluster arm.ID  `json:"cluster"`
	Kind    string  `json:"kind"` // pod to pod, node to pod, subnet to pod
	Answer  bool    `json:"answer"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	Pairs   int     `json:"pairs"`
	// From and To name the ends, each once and sorted: nodes, or subnets for subnet to pod.
	From []string `json:"from"`
	To   []string `json:"to"`
	// Example is one of the pairs, to trace on its own.
	Example [2]netip.Addr `json:"example"`
}

// Kinds of pairs.
const (
	podToPod    = "pod to pod"
	nodeToPod   = "node to pod"
	subnetToPod = "subnet to pod"
)

// All traces all pairs of the clusters, or of all clusters in the snapshot. It takes one address of
// the pods of each node, and one of each subnet. So it misses rules and routes that cover only some
// of them.
func (t *Tracer) All(clusters ...arm.ID) Matrix {
	m := Matrix{Broken: []Break{}}
	for _, key := range slices.Sorted(maps.Keys(t.s.Clusters)) {
		cluster := t.s.Clusters[key]
		if len(clusters) > 0 && !slices.ContainsFunc(clusters, cluster.ID.Equal) {
			continue
		}
		g := grid{Tracer: t, cluster: cluster, causes: map[cause]*gathered{}}
		m.Unseen = append(m.Unseen,
			t.unseenKubernetes(func(c *inventory.Cluster) bool { return c == cluster })...)
		m.Unseen = append(m.Unseen, g.place()...)
		g.trace(&m, newQuick(&g))
	}
	m.sort()
	return m
}

// sort sorts the breaks: dropped pairs come first, then the largest groups.
func (m *Matrix) sort() {
	slices.SortStableFunc(m.Broken, func(a, b Break) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Pairs, a.Pairs),
			strings.Compare(a.Why, b.Why), strings.Compare(a.Kind, b.Kind),
			strings.Compare(fmt.Sprint(a.Answer), fmt.Sprint(b.Answer)))
	})
}

// rank sorts the worst first.
func rank(b Break) int { return slices.Index([]Verdict{Dropped, Unknown, Leaves}, b.Verdict) }

// grid is the matrix of one cluster.
type grid struct {
	*Tracer
	cluster *inventory.Cluster
	from    []sender
	to      []receiver
	causes  map[cause]*gathered
	// reachers are the subnets that must reach the pods: also, and those found by targets.
	reachers []*inventory.Subnet
	also     []arm.ID
	// classes groups the senders whose packets take the same decisions. Each class has the indexes
	// of its members. If classes is nil, each sender is a class of its own.
	classes [][]int
}

// cause groups pairs that fail in the same way.
type cause struct {
	kind    string
	answer  bool
	verdict Verdict
	why     string
}

type gathered struct {
	Break
	from, to []bool // by the index of the sender and the receiver
}

func (g *grid) trace(m *Matrix, q *quick) {
	if g.classes == nil {
		for i := range g.from {
			g.classes = append(g.classes, []int{i})
		}
	}
	for _, class := range g.classes {
		for j := range g.to {
			to, n, i := &g.to[j], 0, -1
			for _, member := range class {
				if g.apart(member, j) {
					if n++; i < 0 {
						i = member
					}
				}
			}
			if n == 0 {
				continue
			}
			m.Pairs += n
			from := &g.from[i]
			delivered, broken := false, (*gathered)(nil)
			if to.doubt != "" {
				broken = g.cause(from, to, Way{Verdict: Unknown, Why: to.doubt}, false)
			} else if delivered, broken = q.delivers(i, j); !delivered && broken == nil {
				broken = g.follow(from, to)
			}
			if broken == nil {
				m.Delivered += n
				continue
			}
			if broken.Verdict == Dropped {
				m.Dropped += n
			} else {
				m.Unknown += n
			}
			broken.Pairs += n
			broken.to[j] = true
			for _, member := range class {
				broken.from[member] = broken.from[member] || g.apart(member, j)
			}
		}
	}
	for _, broken := range g.causes {
		for i, is := range broken.from {
			if is {
				broken.From = append(broken.From, g.from[i].name)
			}
		}
		for j, is := range broken.to {
			if is {
				broken.To = append(broken.To, g.to[j].name)
			}
		}
		slices.Sort(broken.From)
		slices.Sort(broken.To)
		broken.From, broken.To = slices.Compact(broken.From), slices.Compact(broken.To)
		m.Broken = append(m.Broken, broken.Break)
	}
}

// apart reports whether a sender sends packets to a receiver: the receiver is on another node, and
// has the same address family.
func (g *grid) apart(i, j int) bool {
	from, to := &g.from[i], &g.to[j]
	return from.node != to.of && from.Addr.Is4() == to.Addr.Is4() &&
		(from.kind != nodeToPod || from.Addr != to.node.Addr)
}

// follow follows one packet, and its answer if it does not come from a pod. It returns nil if all
// packets arrive.
func (g *grid) follow(from *sender, to *receiver) *gathered {
	there, back := g.ways(from.Endpoint, to.Endpoint, true)
	switch {
	case there.Verdict != Delivered:
		return g.cause(from, to, there, false)
	case from.kind != podToPod && back.Verdict != Delivered:
		return g.cause(from, to, back, true)
	}
	return nil
}

// cause returns the group of pairs that fail like this one.
func (g *grid) cause(from *sender, to *receiver, way Way, answer bool) *gathered {
	c := cause{kind: from.kind, answer: answer, verdict: way.Verdict, why: way.Why}
	broken := g.causes[c]
	if broken == nil {
		broken = &gathered{from: make([]bool, len(g.from)), to: make([]bool, len(g.to)),
			Break: Break{
				Cluster: g.cluster.ID, Kind: from.kind, Answer: answer, Verdict: way.Verdict,
				Why: way.Why, Example: [2]netip.Addr{from.Addr, to.Addr},
			}}
		g.causes[c] = broken
	}
	return broken
}
