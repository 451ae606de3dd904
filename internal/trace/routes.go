// Package trace follows packets from hop to hop until they arrive, leave the known network, or are
// dropped. It says which routes are effective in a subnet, which one a packet takes, and why.
//
// How it works. A Tracer reads one snapshot. Ways follows a packet (follow.go) and then its answer.
// At each interface network security groups decide (filter.go, tag.go). In each subnet the
// effective routes decide (routes.go). All traces every pair of nodes and subnets, with one sender
// for all that are alike (classes.go).
//
// The package is pure and must not read anything but the snapshot. The emulator has a second
// implementation of route selection, on purpose: the two check each other.
package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Source is the origin of a route. For the same prefix a user-defined route wins over a learned
// route, and a learned route over a system route (virtual-networks-udr-overview).
type Source string

// The sources, as a network interface's effective routes name them.
const (
	System  Source = "Default"
	User    Source = "User"
	Learned Source = "VirtualNetworkGateway" // by BGP
)

// Next hop types of routes that Azure makes, in addition to those of user-defined routes.
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
	// Name and Table identify a user-defined route. Peering identifies the peering of a system
	// route.
	Name    string
	Table   arm.ID
	Peering string
	// Active is set for an effective route. Otherwise Beaten names the route that overrides it.
	Active bool
	Beaten string
}

// Routes has the effective routes of a subnet. They are the same for every network interface in it.
type Routes struct {
	Subnet arm.ID
	All    []Route
	lookup bart.Table[int]
}

// reserved has prefixes that Azure drops unless a route covers them: the first four by
// virtual-networks-udr-overview, the others recorded since 2023 (docs/azure.md).
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

// Effective computes the routes of a subnet from its network, its table and the routes that
// gateways have learned. It returns an error if the network or the table was not read.
func Effective(s *inventory.Snapshot, id arm.ID, learned []Route) (*Routes, error) {
	subnet := s.Subnet(id)
	if subnet == nil {
		return nil, fmt.Errorf("subnet %s was not read", id)
	}
	return effective(s, subnet, learned)
}

// effective computes the routes of a subnet as if its table had the given routes, too. They replace
// the table's routes for the same prefixes.
func effective(s *inventory.Snapshot, subnet *inventory.Subnet, learned []Route,
	instead ...Route) (*Routes, error) {
	vnet := s.VNets[subnet.ID.Parent().Key()]
	if vnet == nil {
		return nil, fmt.Errorf("virtual network %s was not read", subnet.ID.Parent())
	}
	r := &Routes{Subnet: subnet.ID, All: slices.Clone(instead)}
	if subnet.RouteTable != "" {
		table := s.Table(subnet.RouteTable)
		if table == nil {
			return nil, fmt.Errorf("route table %s was not read: %s", subnet.RouteTable,
				s.Unread[subnet.RouteTable.Key()].Reason())
		}
		for _, route := range table.Routes() {
			r.All = append(r.All, Route{Prefix: route.Prefix, Tag: route.Tag, Source: User,
				HopType: route.HopType, Hop: route.Hop, Name: route.Name, Table: table.ID})
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

// system returns the routes that Azure makes for every subnet of a network. A peering adds them
// even without allowVirtualNetworkAccess, which "only changes the definition of the VirtualNetwork
// service tag" (virtual-network-manage-peering).
func system(vnet *inventory.VNet) []Route {
	var routes []Route
	v6 := false
	for _, p := range vnet.Prefixes {
		routes = append(routes, Route{Prefix: p, Source: System, HopType: HopLocal})
		v6 = v6 || p.Addr().Is6()
	}
	for _, peering := range vnet.Peerings {
		if !peering.Connected {
			continue
		}
		for _, p := range peering.Prefixes {
			routes = append(routes,
				Route{Prefix: p, Source: System, HopType: HopPeering, Peering: peering.Name})
		}
	}
	routes = append(routes,
		Route{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Source: System, HopType: HopInternet})
	if v6 {
		routes = append(routes,
			Route{Prefix: netip.MustParsePrefix("::/0"), Source: System, HopType: HopInternet})
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

// choose decides which routes are effective.
func (r *Routes) choose() {
	var near bart.Table[int] // the effective system routes of the network and its peerings
	first := map[netip.Prefix]int{}
	for i := range r.All { // user-defined routes come first, system routes last
		route := &r.All[i]
		if !route.Prefix.IsValid() {
			route.Active = true // a service tag, whose prefixes are not known here
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
		// The prefixes of the network and its peers win over learned routes, even over more
		// specific ones.
		if j, inside := near.LookupPrefix(route.Prefix); inside && route.Source == Learned {
			route.Active, route.Beaten = false, r.All[j].String()
			continue
		}
		if _, taken := r.lookup.Get(route.Prefix); !taken {
			r.lookup.Insert(route.Prefix, i)
		}
	}
}

// Lookup returns the route that a packet takes: the effective route with the longest prefix.
func (r *Routes) Lookup(to netip.Addr) (Route, bool) {
	i, found := r.lookup.Lookup(to.Unmap())
	if !found {
		return Route{}, false
	}
	return r.All[i], true
}

// Because says why a packet takes the route that Lookup returns: it names the routes that lose
// against it.
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
			return fmt.Sprintf("%s wins over %s for the same prefix", sourceNames[won.Source],
				*other)
		case !other.Active && other.Source == Learned && other.Prefix.Bits() > won.Prefix.Bits():
			return fmt.Sprintf("the network's own prefixes win over %s, even if it is longer",
				*other)
		case other.Active && other.Prefix.Bits() < won.Prefix.Bits() &&
			(shorter == nil || other.Prefix.Bits() > shorter.Prefix.Bits()):
			shorter = other
		}
	}
	if shorter == nil {
		return "no other route matches"
	}
	return fmt.Sprintf("it is the longest prefix, before %s", *shorter)
}

// sourceNames says where a route comes from.
var sourceNames = map[Source]string{System: "system route", Learned: "learned by a gateway",
	User: "user-defined"}

// tagged returns a user-defined route for a service tag that the packet may take instead. The
// prefixes of a tag are unknown here, but are always public.
func (r *Routes) tagged(to netip.Addr, instead Route) (Route, bool) {
	for i := range r.All {
		if route := &r.All[i]; route.Tag != "" && public(to) &&
			(route.HopType != instead.HopType || route.Hop != instead.Hop) {
			return *route, true
		}
	}
	return Route{}, false
}

// String shows the route and its next hop, such as 10.244.1.0/24 to 10.240.0.5 (n1 in shop-rt).
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
