// Package trace follows packets: which routes count in a subnet, which of them a packet takes and why, and its way from
// hop to hop until it arrives, leaves what is known, or is dropped.
//
// It is pure and stands on a snapshot. Route selection is written here and once more in the emulator, on purpose: each is
// checked against the other.
package trace

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Source says where a route comes from. Of two routes to the same prefix a user's wins over a learned one, and that over
// the system's (virtual-networks-udr-overview).
type Source string

// The sources, as effective routes of a network interface name them.
const (
	System  Source = "Default"
	User    Source = "User"
	Learned Source = "VirtualNetworkGateway" // by BGP
)

// Next hop types of routes that Azure makes, beside those of user-defined ones.
const (
	HopLocal    = "VnetLocal"
	HopPeering  = "VNetPeering"
	HopInternet = "Internet"
	HopNone     = "None"
)

// Route is one effective route.
type Route struct {
	Prefix  netip.Prefix // invalid for a service tag
	Tag     string
	Source  Source
	HopType string
	Hop     netip.Addr // where the next hop has an address
	// Name and Table are those of a user-defined route, Peering is the peering behind a system route.
	Name    string
	Table   arm.ID
	Peering string
	// Active is set when it counts; otherwise Beaten says by what it is overridden.
	Active bool
	Beaten string
}

// Routes are the effective routes of a subnet: the same for every network interface in it.
type Routes struct {
	Subnet arm.ID
	All    []Route
	lookup bart.Table[int]
}

// reserved are dropped unless something routes them: the first four by virtual-networks-udr-overview, the
// others recorded since 2023 (docs/azure.md).
var reserved = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("25.4.0.0/14"), netip.MustParsePrefix("25.33.0.0/16"),
	netip.MustParsePrefix("25.41.0.0/20"), netip.MustParsePrefix("25.48.0.0/12"),
	netip.MustParsePrefix("20.35.252.0/22"), netip.MustParsePrefix("23.103.0.0/18"),
	netip.MustParsePrefix("40.108.0.0/17"), netip.MustParsePrefix("40.109.0.0/16"),
	netip.MustParsePrefix("104.146.0.0/17"), netip.MustParsePrefix("104.147.0.0/16"),
	netip.MustParsePrefix("157.59.0.0/16"), netip.MustParsePrefix("198.18.0.0/15"),
}

// Effective computes the routes of a subnet from its network, its table and what gateways have learned. It fails when one of
// the first two was not read: then nothing can be said.
func Effective(s *inventory.Snapshot, id arm.ID, learned []Route) (*Routes, error) {
	subnet, vnet := s.Subnet(id), s.VNets[id.Parent().Key()]
	switch {
	case subnet == nil:
		return nil, fmt.Errorf("subnet %s was not read", id)
	case vnet == nil:
		return nil, fmt.Errorf("virtual network %s was not read", id.Parent())
	}
	r := &Routes{Subnet: subnet.ID}
	if subnet.RouteTable != "" {
		table := s.Table(subnet.RouteTable)
		if table == nil {
			return nil, fmt.Errorf("route table %s was not read: %s", subnet.RouteTable, s.Unread[subnet.RouteTable.Key()].Reason())
		}
		for _, route := range table.Routes {
			r.All = append(r.All, Route{Prefix: route.Prefix, Tag: route.Tag, Source: User, HopType: route.HopType, Hop: route.Hop, Name: route.Name, Table: table.ID})
		}
		if table.NoLearned {
			learned = nil
		}
	}
	r.All = append(r.All, learned...)
	r.All = append(r.All, system(vnet)...)
	r.choose()
	return r, nil
}

// system are the routes Azure makes for every subnet of a network.
func system(vnet *inventory.VNet) []Route {
	var routes []Route
	v6 := false
	for _, p := range vnet.Prefixes {
		routes = append(routes, Route{Prefix: p, Source: System, HopType: HopLocal})
		v6 = v6 || p.Addr().Is6()
	}
	for _, peering := range vnet.Peerings {
		if !peering.Connected || !peering.Access {
			continue
		}
		for _, p := range peering.Prefixes {
			routes = append(routes, Route{Prefix: p, Source: System, HopType: HopPeering, Peering: peering.Name})
		}
	}
	routes = append(routes, Route{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Source: System, HopType: HopInternet})
	if v6 {
		routes = append(routes, Route{Prefix: netip.MustParsePrefix("::/0"), Source: System, HopType: HopInternet})
	}
	for _, p := range reserved {
		replaced := false
		for _, own := range vnet.Prefixes {
			replaced = replaced || own.Bits() <= p.Bits() && own.Contains(p.Addr())
		}
		if !replaced {
			routes = append(routes, Route{Prefix: p, Source: System, HopType: HopNone})
		}
	}
	return routes
}

// choose decides which routes count.
func (r *Routes) choose() {
	var near bart.Table[int] // system routes of the network and its peerings that count
	first := map[netip.Prefix]int{}
	for i := range r.All { // user's first, the system's last
		route := &r.All[i]
		if !route.Prefix.IsValid() {
			route.Active = true // a service tag: its prefixes are not known here
			continue
		}
		better, taken := first[route.Prefix]
		switch {
		case taken && r.All[better].Source != route.Source:
			route.Beaten = r.All[better].String()
			continue
		case taken && route.Source == User:
			route.Beaten = r.All[better].String() // Azure refuses a second one
			continue
		case !taken:
			first[route.Prefix] = i
		}
		route.Active = true
		if route.Source == System && (route.HopType == HopLocal || route.HopType == HopPeering) {
			near.Insert(route.Prefix, i)
		}
	}
	for i := range r.All {
		route := &r.All[i]
		if !route.Active || !route.Prefix.IsValid() {
			continue
		}
		// The network's own prefixes and its peers' beat what is learned, be it more specific.
		if j, inside := near.LookupPrefix(route.Prefix); inside && route.Source == Learned {
			route.Active, route.Beaten = false, r.All[j].String()
			continue
		}
		if _, taken := r.lookup.Get(route.Prefix); !taken {
			r.lookup.Insert(route.Prefix, i)
		}
	}
}

// Lookup returns the route that a packet takes: of those that count the one with the longest prefix.
func (r *Routes) Lookup(to netip.Addr) (Route, bool) {
	i, found := r.lookup.Lookup(to.Unmap())
	if !found {
		return Route{}, false
	}
	return r.All[i], true
}

// Because says why a packet takes the route that Lookup returns: which others it beats.
func (r *Routes) Because(to netip.Addr) string {
	won, found := r.Lookup(to)
	if !found {
		return ""
	}
	var shorter *Route
	for i := range r.All {
		other := &r.All[i]
		switch {
		case !other.Prefix.IsValid() || !other.Prefix.Contains(to.Unmap()):
		case !other.Active && other.Prefix == won.Prefix && other.Source != won.Source:
			return fmt.Sprintf("%s wins over %s for the same prefix", sourceNames[won.Source], *other)
		case !other.Active && other.Source == Learned && other.Prefix.Bits() > won.Prefix.Bits():
			return fmt.Sprintf("the network's own prefixes win over %s, be it longer", *other)
		case other.Active && other.Prefix.Bits() < won.Prefix.Bits() && (shorter == nil || other.Prefix.Bits() > shorter.Prefix.Bits()):
			shorter = other
		}
	}
	if shorter == nil {
		return "no other route matches"
	}
	return fmt.Sprintf("it is the longest prefix, before %s", *shorter)
}

// sourceNames says where a route comes from.
var sourceNames = map[Source]string{System: "system route", Learned: "learned by a gateway", User: "user-defined"}

// tagged is a user's route for a service tag that may take a packet another way than a route does: which prefixes are behind a tag is
// not known here. Only public addresses are.
func (r *Routes) tagged(to netip.Addr, instead Route) (Route, bool) {
	for _, route := range r.All {
		if route.Tag != "" && public(to) && (route.HopType != instead.HopType || route.Hop != instead.Hop) {
			return route, true
		}
	}
	return Route{}, false
}

// String names the route and its way, such as 10.244.1.0/24 to 10.240.0.5 (n1 in shop-rt).
func (r Route) String() string {
	what, way := r.Tag, r.HopType
	if r.Prefix.IsValid() {
		what = r.Prefix.String()
	}
	if r.Hop.IsValid() {
		way = r.Hop.String()
	}
	switch {
	case r.Table != "":
		return fmt.Sprintf("%s to %s (%s in %s)", what, way, r.Name, r.Table.Short())
	case r.Peering != "":
		return fmt.Sprintf("%s to %s (peering %s)", what, way, r.Peering)
	}
	return fmt.Sprintf("%s to %s (%s)", what, way, sourceNames[r.Source])
}
