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
		if c := t.s.Clusters[key]; len(clusters) == 0 || slices.ContainsFunc(clusters, c.ID.Equal) {
			m.add(&grid{Tracer: t, cluster: c})
		}
	}
	m.sort()
	return m
}

// To works like All for one cluster. The subnets in also must reach the pods, even if their tables
// have no routes to pods.
func (t *Tracer) To(cluster arm.ID, also ...arm.ID) Matrix {
	m := Matrix{Broken: []Break{}}
	if c := t.s.Cluster(cluster); c != nil {
		m.add(&grid{Tracer: t, cluster: c, also: also})
	}
	m.sort()
	return m
}

// add traces all pairs of a cluster.
func (m *Matrix) add(g *grid) {
	m.Unseen = append(m.Unseen,
		g.unseenKubernetes(func(c *inventory.Cluster) bool { return c == g.cluster })...)
	m.Unseen = append(m.Unseen, g.place()...)
	g.trace(m, g.classes())
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
	doors   doors               // set by classes
	causes  map[cause]*gathered // set by trace
	// reachers are the subnets that must reach the pods: also, and those found by targets.
	reachers []*inventory.Subnet
	also     []arm.ID
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
	example  [2]int // the indexes of the first pair
}

// trace traces one sender of each class to each receiver.
func (g *grid) trace(m *Matrix, classes [][]int) {
	g.causes = map[cause]*gathered{}
	for j := range g.to {
		onWay := []netip.Addr{g.to[j].at}
		for _, routes := range g.doors.routes {
			if route, found := routes.Lookup(g.to[j].Addr); found {
				onWay = append(onWay, route.Hop)
			}
		}
		for _, class := range classes {
			var alike []int
			for _, i := range class {
				switch {
				case !g.sendsTo(i, j):
				case slices.Contains(onWay, g.from[i].at):
					g.count(m, []int{i}, j)
				default:
					alike = append(alike, i)
				}
			}
			g.count(m, alike, j)
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

// count follows the packet of the first of some senders that are alike, and counts it for all.
func (g *grid) count(m *Matrix, senders []int, j int) {
	if len(senders) == 0 {
		return
	}
	m.Pairs += len(senders)
	broken := g.follow(senders[0], j)
	if broken == nil {
		m.Delivered += len(senders)
		return
	}
	if broken.Verdict == Dropped {
		m.Dropped += len(senders)
	} else {
		m.Unknown += len(senders)
	}
	broken.Pairs += len(senders)
	broken.to[j] = true
	for _, i := range senders {
		broken.from[i] = true
	}
}

// sendsTo reports whether a sender sends packets to a receiver: the receiver is on another node,
// and has the same address family.
func (g *grid) sendsTo(i, j int) bool {
	from, to := &g.from[i], &g.to[j]
	return from.node != to.of && from.Addr.Is4() == to.Addr.Is4() &&
		(from.kind != nodeToPod || from.Addr != to.node.Addr)
}

// follow follows one packet, and its answer if it does not come from a pod. It returns nil if all
// packets arrive.
func (g *grid) follow(i, j int) *gathered {
	from, to := &g.from[i], &g.to[j]
	if to.doubt != "" {
		return g.cause(i, j, Way{Verdict: Unknown, Why: to.doubt}, false)
	}
	there, answer := g.ways(from.Endpoint, to.Endpoint, true)
	if there.Verdict != Delivered {
		return g.cause(i, j, there, false)
	}
	if from.kind != podToPod {
		if back := answer(); back.Verdict != Delivered {
			return g.cause(i, j, back, true)
		}
	}
	return nil
}

// cause returns the group of pairs that fail like this one. Its example is the first of them.
func (g *grid) cause(i, j int, way Way, answer bool) *gathered {
	c := cause{kind: g.from[i].kind, answer: answer, verdict: way.Verdict, why: way.Why}
	broken := g.causes[c]
	if broken == nil {
		broken = &gathered{from: make([]bool, len(g.from)), to: make([]bool, len(g.to)),
			Break: Break{Cluster: g.cluster.ID, Kind: c.kind, Answer: answer, Verdict: way.Verdict,
				Why: way.Why}, example: [2]int{len(g.from)}}
		g.causes[c] = broken
	}
	if pair := [2]int{i, j}; slices.Compare(pair[:], broken.example[:]) < 0 {
		broken.example, broken.Example = pair, [2]netip.Addr{g.from[i].Addr, g.to[j].Addr}
	}
	return broken
}
