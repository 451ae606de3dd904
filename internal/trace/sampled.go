package trace

import (
	"maps"
	"slices"
	"strconv"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: a cluster of 1,000 nodes has a million pairs. But its nodes share a few subnets,
// and so their routes. Sampled traces one sender of each class to all receivers, and counts the
// result for the whole class. TestAllAgrees compares it with All.

// Sampled returns the same as All for one cluster, with representatives: of the senders whose
// packets take the same decisions it traces one. The subnets in also must reach the pods, even if
// their tables have no routes to pods.
func (t *Tracer) Sampled(cluster arm.ID, also ...arm.ID) Matrix {
	m := Matrix{Broken: []Break{}}
	doc := t.s.Cluster(cluster)
	if doc == nil {
		return m
	}
	g := grid{Tracer: t, cluster: doc, causes: map[cause]*gathered{}, also: also}
	m.Unseen = append(t.unseenKubernetes(func(c *inventory.Cluster) bool { return c == doc }),
		g.place()...)
	q := newQuick(&g)
	g.classes = q.classes()
	g.trace(&m, q)
	m.sort()
	return m
}

// class has everything that decides about a sender's packets: the routes and security groups at the
// sender, and the routes that lead answers back to it.
type class struct {
	kind, name     string // the name of a subnet, "" for nodes and their pods
	four, plain    bool
	from           *inventory.Subnet
	exit           exit
	gates, answers string
}

// classes groups the senders by class.
func (q *quick) classes() [][]int {
	var all [][]int
	index := map[class]int{}
	var returns []*Routes
	for i := range q.grid.to {
		if subnet := q.grid.to[i].node.subnet; subnet != nil {
			routes, err := q.routesOf(subnet.ID)
			if err == nil && !slices.Contains(returns, routes) {
				returns = append(returns, routes)
			}
		}
	}
	gates := slices.Collect(maps.Values(q.gates))
	for i := range q.grid.from {
		from := &q.grid.from[i]
		c := class{kind: from.kind, four: from.Addr.Is4(), plain: from.plain, from: from.subnet,
			exit: q.from[i]}
		for _, g := range gates {
			c.gates += strconv.Itoa(g.from[i]) + " "
		}
		for _, routes := range returns {
			at, found := routes.lookup.Lookup(from.Addr)
			if found && from.kind != podToPod {
				c.answers += strconv.Itoa(at)
			}
			c.answers += " "
		}
		if from.kind == subnetToPod {
			c.name = from.name
		}
		at, known := index[c]
		if !known {
			at = len(all)
			index[c], all = at, append(all, nil)
		}
		all[at] = append(all[at], i)
	}
	return all
}
