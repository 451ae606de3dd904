package trace

import (
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// quick decides most pairs without following them: one route leads straight to the node and nothing
// can stop the packet, or a route drops the packet at once. It leaves all other pairs to a journey.
// It remembers results per pair of subnets, and per pair of address classes that security rules do
// not distinguish.
type quick struct {
	*grid
	overlay bool
	from    []exit
	to      []entry
	links   map[link]bool
	answers map[answerTo]bool
	gates   map[gateID]*gate
	drops   map[drop]*gathered
}

// exit and entry have what is known about the interfaces of a sender and a receiver. Routes are nil
// if they are unknown. A gate is nil if there is none.
type exit struct {
	routes   *Routes
	forwards bool
	gate     *gate
}

type entry struct {
	forwards bool
	gate     *gate
}

// link is a path from one subnet to another, for a packet whose source is its interface or a pod.
type link struct {
	from, to *inventory.Subnet
	pod      bool
}

// answerTo is the path back from a subnet to an address.
type answerTo struct {
	from *inventory.Subnet
	to   netip.Addr
}

// drop is a route to None that packets of one class take in a subnet.
type drop struct {
	routes *Routes
	route  int
	kind   string
}

func newQuick(g *grid) *quick {
	q := &quick{grid: g, overlay: g.cluster.Overlay(), links: map[link]bool{},
		answers: map[answerTo]bool{}, gates: map[gateID]*gate{}, drops: map[drop]*gathered{}}
	for i := range g.from {
		from := &g.from[i]
		routes, err := g.routesOf(from.subnet.ID)
		if err != nil {
			routes = nil
		}
		e := exit{routes: routes}
		e.gate, e.forwards = q.door(from.at, from.subnet, false)
		q.from = append(q.from, e)
	}
	for i := range g.to {
		var e entry
		if node := &g.to[i].node; node.subnet != nil {
			e.gate, e.forwards = q.door(node.Addr, node.subnet, true)
			e.forwards = e.forwards && !q.unused(node.Addr, node.subnet)
		}
		q.to = append(q.to, e)
	}
	return q
}

// delivers reports whether a sender's packet certainly reaches a receiver, and the answer the
// sender. If a packet is dropped at once, it returns the cause. If neither is set, the pair is
// undecided.
func (q *quick) delivers(i, j int) (bool, *gathered) {
	from, to, exit, entry := &q.grid.from[i], &q.grid.to[j], &q.from[i], &q.to[j]
	pod := from.kind == podToPod
	if !from.plain || !pod && !to.plain || from.at == to.node.Addr || !to.node.Pods.IsValid() &&
		!to.node.bare || q.overlay && from.kind == subnetToPod {
		return false, nil
	}
	if !q.overlay {
		if exit.routes == nil {
			return false, nil
		}
		at, found := exit.routes.lookup.Lookup(to.Addr)
		if !found {
			return false, nil
		}
		route := &exit.routes.All[at]
		switch {
		case route.HopType == HopNone:
			return false, q.dropped(drop{exit.routes, at, from.kind}, from, to)
		case to.node.subnet == nil || route.Hop != to.node.Addr || !entry.forwards ||
			pod && !exit.forwards || !q.linked(link{from.subnet, to.node.subnet, pod}, from, to):
			return false, nil
		}
	}
	return (pod || q.answered(from, to)) && exit.gate.passes(q, i, j) &&
		entry.gate.passes(q, i, j), nil
}

// dropped returns the cause for all packets that take a route to None.
func (q *quick) dropped(d drop, from *sender, to *receiver) *gathered {
	known := q.drops[d]
	if known == nil {
		there, _ := q.ways(from.Endpoint, to.Endpoint, true)
		if there.Verdict != Dropped {
			return nil
		}
		known = q.cause(from, to, there, false)
		q.drops[d] = known
	}
	return known
}

// linked reports whether one subnet reaches next hops in another.
func (q *quick) linked(l link, from *sender, to *receiver) bool {
	known, done := q.links[l]
	if !done {
		near, v := q.nextSubnet(from.subnet, to.node.Addr)
		known = v == Delivered && near == to.node.subnet &&
			q.forwarded(from.subnet, near, from.Addr) && q.forwarded(near, from.subnet, to.Addr)
		q.links[l] = known
	}
	return known
}

// answered reports whether answers from a node's subnet reach the sender directly.
func (q *quick) answered(from *sender, to *receiver) bool {
	a := answerTo{to.node.subnet, from.Addr}
	known, done := q.answers[a]
	if !done {
		routes, err := q.routesOf(to.node.subnet.ID)
		if err == nil {
			route, found := routes.Lookup(from.Addr)
			near := found && (route.HopType == HopLocal || route.HopType == HopPeering)
			known = near &&
				q.reach(to.node.subnet, from.Addr, route.HopType == HopPeering) == from.subnet
		}
		q.answers[a] = known
	}
	return known
}

// gateID identifies the security groups that a packet passes at an interface.
type gateID struct {
	subnet  *inventory.Subnet
	group   arm.ID // the interface's own
	inbound bool
}

// gate remembers the decisions of its groups for classes of addresses: every rule treats the
// addresses of a class alike.
type gate struct {
	gateID
	filters *Filters
	nic     *inventory.Interface // one interface that has the groups
	from    []int                // the senders' classes
	to      []int                // the receivers' classes
	allowed map[[2]int]bool
}

// door returns the gate at an interface, or nil if there is none. It also returns whether the
// interface forwards packets of others, as far as is known.
func (q *quick) door(at netip.Addr, subnet *inventory.Subnet, inbound bool) (g *gate,
	forwards bool) {
	id := gateID{subnet: subnet, inbound: inbound}
	forwards = true
	var itself *inventory.Interface
	if nic := q.nicAt(at, subnet); nic != nil {
		itself, id.group, forwards = nic.Interface, nic.SecurityGroup, nic.Forwarding
	}
	if id.group == "" && subnet.SecurityGroup == "" {
		return nil, forwards
	}
	if g = q.gates[id]; g == nil {
		g = q.makeGate(id, itself)
		q.gates[id] = g
	}
	return g, forwards
}

func (q *quick) makeGate(id gateID, nic *inventory.Interface) *gate {
	g := &gate{gateID: id, filters: q.filtersOf(id.subnet), nic: nic, allowed: map[[2]int]bool{}}
	var rules []inventory.SecurityRule
	for _, group := range []arm.ID{id.group, id.subnet.SecurityGroup} {
		if known := q.s.SecurityGroups[group.Key()]; known != nil {
			rules = append(rules, known.Rules...)
		}
	}
	rules = slices.DeleteFunc(rules, func(r inventory.SecurityRule) bool {
		return r.Inbound != id.inbound
	})
	classes := map[string]int{}
	class := func(a netip.Addr) int {
		name := make([]byte, 0, 2*len(rules))
		for _, r := range rules {
			from, _ := g.filters.matchEnd(a, r.Sources, r.SourceGroups)
			to, _ := g.filters.matchEnd(a, r.Destinations, r.DestinationGroups)
			name = append(name, byte(from), byte(to))
		}
		if _, known := classes[string(name)]; !known {
			classes[string(name)] = len(classes)
		}
		return classes[string(name)]
	}
	for i := range q.grid.from {
		g.from = append(g.from, class(q.grid.from[i].Addr))
	}
	for i := range q.grid.to {
		g.to = append(g.to, class(q.grid.to[i].Addr))
	}
	return g
}

// passes reports whether a sender's packet to a receiver certainly passes. A nil gate lets all
// packets pass.
func (g *gate) passes(q *quick, i, j int) bool {
	if g == nil {
		return true
	}
	pair := [2]int{g.from[i], g.to[j]}
	known, done := g.allowed[pair]
	if !done {
		p := Packet{From: q.grid.from[i].Addr, To: q.grid.to[j].Addr, Protocol: q.o.Protocol,
			Port: q.o.Port}
		known = g.filters.Pass(g.nic, p, g.inbound).Decision == Allowed
		g.allowed[pair] = known
	}
	return known
}
