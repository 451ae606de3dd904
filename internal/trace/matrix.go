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

// Matrix is what became of all packets that clusters live by: from the pods of every node, from the nodes themselves, and from every
// subnet that is to reach pods, to the pods of every other node; of those that do not come from pods, the answer, too.
type Matrix struct {
	Pairs     int `json:"pairs"`
	Delivered int `json:"delivered"`
	Dropped   int `json:"dropped"`
	// Unknown counts what is in doubt, and what leaves the network.
	Unknown int `json:"unknown"`
	// Broken are the pairs that are not delivered, those of one cause together: what is dropped first, then by their number.
	Broken []Break `json:"broken"`
	// Unseen says of which nodes nothing is said, because where their pods are is not known, and what Kubernetes did not show. Of
	// many nodes for the same reason it names a few.
	Unseen []string `json:"unseen,omitempty"`
}

// Break are pairs that fail in the same way.
type Break struct {
	Cluster arm.ID  `json:"cluster"`
	Kind    string  `json:"kind"` // pod to pod, node to pod, subnet to pod
	Answer  bool    `json:"answer"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	Pairs   int     `json:"pairs"`
	// From and To name the ends, each once, sorted: nodes, and for subnet to pod subnets.
	From []string `json:"from"`
	To   []string `json:"to"`
	// Example is one of the pairs, to be traced on its own.
	Example [2]netip.Addr `json:"example"`
}

// Kinds of pairs.
const (
	podToPod    = "pod to pod"
	nodeToPod   = "node to pod"
	subnetToPod = "subnet to pod"
)

// All traces all pairs of the clusters, or of all in the snapshot where none are given. Of every node's pods it takes one address, and
// of every subnet one: what a rule or route says of only some of them is not seen.
func (t *Tracer) All(clusters ...arm.ID) Matrix {
	m := Matrix{Broken: []Break{}}
	for _, key := range slices.Sorted(maps.Keys(t.s.Clusters)) {
		cluster := t.s.Clusters[key]
		if len(clusters) > 0 && !slices.ContainsFunc(clusters, cluster.ID.Equal) {
			continue
		}
		g := grid{Tracer: t, cluster: cluster, causes: map[cause]*gathered{}}
		m.Unseen = append(m.Unseen, t.unseenKubernetes(func(c *inventory.Cluster) bool { return c == cluster })...)
		m.Unseen = append(m.Unseen, g.place()...)
		g.trace(&m)
	}
	slices.SortStableFunc(m.Broken, func(a, b Break) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Pairs, a.Pairs), strings.Compare(a.Why, b.Why),
			strings.Compare(a.Kind, b.Kind), strings.Compare(fmt.Sprint(a.Answer), fmt.Sprint(b.Answer)))
	})
	return m
}

// rank puts the worst first.
func rank(b Break) int { return slices.Index([]Verdict{Dropped, Unknown, Leaves}, b.Verdict) }

// grid is the matrix of one cluster.
type grid struct {
	*Tracer
	cluster *inventory.Cluster
	from    []sender
	to      []receiver
	causes  map[cause]*gathered
}

// cause is what pairs that fail in the same way have in common.
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

func (g *grid) trace(m *Matrix) {
	q := newQuick(g)
	for i := range g.from {
		from := &g.from[i]
		for j := range g.to {
			to := &g.to[j]
			if from.node == j || from.Addr.Is4() != to.Addr.Is4() || from.kind == nodeToPod && from.Addr == to.node.Addr {
				continue
			}
			m.Pairs++
			delivered, broken := false, (*gathered)(nil)
			if to.doubt != "" {
				broken = g.cause(from, to, Way{Verdict: Unknown, Why: to.doubt}, false)
			} else if delivered, broken = q.delivers(i, j); !delivered && broken == nil {
				broken = g.follow(from, to)
			}
			if broken == nil {
				m.Delivered++
				continue
			}
			if broken.Verdict == Dropped {
				m.Dropped++
			} else {
				m.Unknown++
			}
			broken.Pairs++
			broken.from[i], broken.to[j] = true, true
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

// follow follows one packet, and where it does not come from a pod, its answer: nil where both arrive.
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

// cause finds where pairs that fail like this one are gathered.
func (g *grid) cause(from *sender, to *receiver, way Way, answer bool) *gathered {
	c := cause{kind: from.kind, answer: answer, verdict: way.Verdict, why: way.Why}
	broken := g.causes[c]
	if broken == nil {
		broken = &gathered{from: make([]bool, len(g.from)), to: make([]bool, len(g.to)), Break: Break{
			Cluster: g.cluster.ID, Kind: from.kind, Answer: answer, Verdict: way.Verdict, Why: way.Why, Example: [2]netip.Addr{from.Addr, to.Addr},
		}}
		g.causes[c] = broken
	}
	return broken
}
