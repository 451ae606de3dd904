package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: a cluster of 1,000 nodes has a million pairs. But its nodes share a few subnets,
// and so their routes. The matrix traces one sender of each class to a receiver, and counts the
// result for the whole class. Only a sender that is itself a next hop on the way to the receiver is
// traced on its own. TestAllAgrees compares this with each pair on its own.

// class has everything that decides about a sender's packets: the routes and security groups at the
// sender, how the rules of all security groups see its address, and the routes that lead answers
// back to it.
type class struct {
	kind           string
	name           string // of a subnet, or of a node that is like no other
	four, off      bool
	from           *inventory.Subnet
	group          arm.ID // of the interface itself
	rules, answers string
}

// doors are the routes and security groups at the ends of a cluster's packets, each once.
type doors struct {
	routes  []*Routes
	subnets []*inventory.Subnet
	rules   []doorRules
}

type doorRules struct {
	filters *Filters
	group   *inventory.SecurityGroup
}

// door notes what is at the interface of an end. It returns the interface, or nil if it was not
// read.
func (g *grid) door(e *end) *nicPlace {
	if e.subnet == nil {
		return nil
	}
	if !slices.Contains(g.doors.subnets, e.subnet) {
		g.doors.subnets = append(g.doors.subnets, e.subnet)
	}
	routes, err := g.routesOf(e.subnet.ID)
	if err == nil && !slices.Contains(g.doors.routes, routes) {
		g.doors.routes = append(g.doors.routes, routes)
	}
	nic, groups := g.nicAt(e.at, e.subnet), []arm.ID{e.subnet.SecurityGroup}
	if nic != nil {
		groups = append(groups, nic.SecurityGroup)
	}
	for _, id := range groups {
		if group := g.s.SecurityGroups[id.Key()]; group != nil {
			here := doorRules{g.filtersOf(e.subnet), group}
			if !slices.Contains(g.doors.rules, here) {
				g.doors.rules = append(g.doors.rules, here)
			}
		}
	}
	return nic
}

// between adds the security groups at next hops that are no ends, such as a firewall's.
func (g *grid) between() {
	type step struct {
		subnet arm.ID
		hop    netip.Addr
	}
	seen := map[step]bool{}
	for _, subnet := range slices.Clone(g.doors.subnets) {
		routes, err := g.routesOf(subnet.ID)
		if err != nil {
			continue
		}
		for i := range g.to {
			route, found := routes.Lookup(g.to[i].Addr)
			s := step{subnet.ID, route.Hop}
			if !found || !route.Hop.IsValid() || route.Hop == g.to[i].at || seen[s] {
				continue
			}
			seen[s] = true
			if near, _ := g.nextSubnet(subnet, route.Hop); near != nil {
				g.door(&end{at: route.Hop, subnet: near})
			}
		}
	}
}

// classes groups the senders by class. Each has the indexes of its members.
func (g *grid) classes() (all [][]int) {
	for i := range g.to {
		g.door(&g.to[i].end)
	}
	senders := make([]class, len(g.from))
	for i := range g.from {
		from, c := &g.from[i], &senders[i]
		*c = class{kind: from.kind, four: from.Addr.Is4(), from: from.subnet}
		nic := g.door(&from.end)
		if nic != nil {
			c.group = nic.SecurityGroup
		}
		behind := from.kind == podToPod && from.at != from.Addr
		c.off = nic != nil && !nic.Forwarding
		if from.kind == subnetToPod || behind && len(g.nodesOf(from.Addr, from.Cluster)) > 1 {
			c.name = from.name // the reason names it
		}
	}
	g.between()
	index := map[class]int{}
	for i, c := range senders {
		from := &g.from[i]
		var rules []byte
		for _, at := range g.doors.rules {
			for _, r := range at.group.Rules {
				source, _ := at.filters.matchEnd(from.Addr, r.Sources, r.SourceGroups)
				target, _ := at.filters.matchEnd(from.Addr, r.Destinations, r.DestinationGroups)
				rules = append(rules, byte(source), byte(target))
			}
		}
		c.rules = string(rules)
		for _, routes := range g.doors.routes {
			if at, found := routes.lookup.Lookup(from.Addr); found && from.kind != podToPod {
				c.answers += fmt.Sprint(at, routes.All[at].Hop == from.Addr)
			}
			c.answers += " "
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
