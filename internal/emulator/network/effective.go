package network

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// effectiveRoute is one effective route of an interface.
type effectiveRoute struct {
	name, source string // User or Default
	prefix       string // or a service tag
	hopType, hop string
	active       bool
	bgp          any    // disableBgpRoutePropagation of the table
	table        arm.ID // with the user's route
}

// Next hop types that only Azure makes.
const (
	hopPeering  = "VNetPeering"
	hopLocal    = "VnetLocal"
	hopInternet = "Internet"
	hopNone     = "None"
)

// ReservedPrefixes are dropped unless a route covers them (virtual-networks-udr-overview; recorded
// in 2023).
var ReservedPrefixes = []string{
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "25.4.0.0/14", "25.33.0.0/16",
	"25.41.0.0/20", "25.48.0.0/12",
	"20.35.252.0/22", "23.103.0.0/18", "40.108.0.0/17", "40.109.0.0/16", "104.146.0.0/17",
	"104.147.0.0/16", "157.59.0.0/16", "198.18.0.0/15",
}

// effectiveRoutes computes the routes of every interface in a subnet: the system's, and the user's.
// For the same prefix the user's win. BGP routes are not emulated, and the prefixes of service tags
// and service endpoints are unknown. A stale call uses subnet and table as they were before their
// last write: Azure's network follows ARM with a delay.
func (s *Network) effectiveRoutes(c *kernel.Call, subnet *kernel.Resource) []effectiveRoute {
	vnet := s.kernel.Store.Get(subnet.ID.Parent())
	own := AddressSpace(vnet.Body)
	var routes []effectiveRoute
	add := func(prefix, hopType string) {
		routes = append(routes, effectiveRoute{source: "Default", prefix: prefix, hopType: hopType,
			active: true, bgp: false})
	}
	v6 := false
	for _, p := range own {
		add(p.String(), hopLocal)
		v6 = v6 || p.Addr().Is6()
	}
	for _, peering := range s.kernel.Store.List(TypePeering, vnet.ID) {
		p := peering.Properties()
		// also without allowVirtualNetworkAccess, which only concerns the tag VirtualNetwork
		if kernel.Text(p, "peeringState") == peeringConnected {
			for _, prefix := range arm.ParsePrefixes(
				kernel.List(p, "remoteAddressSpace", "addressPrefixes")) {
				add(prefix.String(), hopPeering)
			}
		}
	}
	add("0.0.0.0/0", hopInternet)
	if v6 {
		add("::/0", hopInternet)
	}
	for _, reserved := range ReservedPrefixes {
		if !Covered(netip.MustParsePrefix(reserved), own) {
			add(reserved, hopNone)
		}
	}
	table := s.kernel.Store.Get(kernel.LinkOf(s.kernel.SeenBy(c, subnet), "routeTable"))
	if table == nil {
		return routes
	}
	properties := kernel.ObjectAt(s.kernel.SeenBy(c, table), "properties")
	for _, item := range kernel.ListAt(properties, "routes") {
		p := kernel.ObjectAt(item, "properties")
		route := effectiveRoute{
			name: kernel.Text(item, "name"), source: "User", prefix: kernel.Text(p,
				"addressPrefix"), hopType: kernel.Text(p, "nextHopType"),
			hop:    kernel.Text(p, "nextHopIpAddress"),
			active: true, bgp: properties["disableBgpRoutePropagation"], table: table.ID,
		}
		for i := range routes {
			if routes[i].source == "Default" &&
				arm.ParsePrefix(routes[i].prefix) == arm.ParsePrefix(route.prefix) {
				routes[i].active = false
			}
		}
		routes = append(routes, route)
	}
	return routes
}

// Covered reports whether one of the prefixes equals or contains p.
func Covered(p netip.Prefix, by []netip.Prefix) bool {
	return slices.ContainsFunc(by, func(q netip.Prefix) bool {
		return q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}

// bestRoute returns the route of a packet to an address: the longest prefix among the active ones.
func bestRoute(routes []effectiveRoute, to netip.Addr) *effectiveRoute {
	var best *effectiveRoute
	longest := -1
	for i, r := range routes {
		p, err := netip.ParsePrefix(r.prefix)
		if err == nil && r.active && p.Contains(to) && p.Bits() > longest {
			best, longest = &routes[i], p.Bits()
		}
	}
	return best
}

func (r effectiveRoute) document() kernel.Object {
	doc := kernel.Object{
		"source": r.source, "state": map[bool]string{true: "Active", false: "Invalid"}[r.active],
		"addressPrefix": []string{r.prefix}, "nextHopType": r.hopType,
		"nextHopIpAddress": []string{}, "disableBgpRoutePropagation": r.bgp,
		"hasBgpOverride":         false,
		"destinationServiceTags": []string{}, "tagMap": kernel.Object{},
	}
	if r.name != "" {
		doc["name"] = r.name
	}
	if r.hop != "" {
		doc["nextHopIpAddress"] = []string{r.hop}
	}
	return doc
}

// effectiveCall answers POST {interface}/effectiveRouteTable and /effectiveNetworkSecurityGroups,
// of an interface and of one of a scale set's instance. Azure requires a running machine with the
// interface [U for its message]; here any interface will do, because tests rarely make machines.
func (s *Network) effectiveCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	n := len(c.Path)
	if c.Method != http.MethodPost || n < 9 ||
		!strings.HasPrefix(strings.ToLower(c.Path[n-1]), "effective") {
		return kernel.Reply{}, nil, false
	}
	id := c.ID(n - 1)
	subnet := s.subnetOf(id)
	if subnet == nil {
		return kernel.Reply{}, s.kernel.Missing(id), true
	}
	values := []kernel.Object{}
	switch strings.ToLower(c.Path[n-1]) {
	case "effectiveroutetable":
		for _, r := range s.effectiveRoutes(c, subnet) {
			values = append(values, r.document())
		}
	case "effectivenetworksecuritygroups":
		if own := s.kernel.Store.Get(id); own != nil {
			values = append(values, s.effectiveRules(own.Body,
				kernel.Object{"networkInterface": arm.Link(own.ID)})...)
		}
		values = append(values,
			s.effectiveRules(subnet.Body, kernel.Object{"subnet": arm.Link(subnet.ID)})...)
	default:
		return kernel.Reply{}, kernel.NotFound(c), true
	}
	c.LocationOnly = true
	return s.kernel.Accepted(c, kernel.Encode(kernel.Object{"value": values})), nil, true
}

// effectiveRules returns the effective rules of the security group that a document links to, if
// any. The prefixes of service tags are unknown.
func (s *Network) effectiveRules(of, association kernel.Object) []kernel.Object {
	group := s.kernel.Store.Get(kernel.LinkOf(of, "networkSecurityGroup"))
	if group == nil {
		return nil
	}
	rules := []any{}
	for _, list := range []string{"securityRules", "defaultSecurityRules"} {
		for _, item := range kernel.ListAt(s.kernel.Document(group, kernel.NetworkVersion),
			"properties", list) {
			rule := kernel.Clone(kernel.ObjectAt(item, "properties"))
			delete(rule, "provisioningState")
			rule["name"] = list + "/" + kernel.Text(item, "name")
			rules = append(rules, rule)
		}
	}
	return []kernel.Object{{"networkSecurityGroup": arm.Link(group.ID),
		"association": association, "effectiveSecurityRules": rules}}
}

// subnetOf returns the subnet of an interface's first address, or nil.
func (s *Network) subnetOf(id arm.ID) *kernel.Resource {
	if r := s.kernel.Store.Get(id); r != nil && id.Is(arm.TypeInterface) {
		configuration := kernel.ListAt(r.Properties(), "ipConfigurations")[0]
		return s.kernel.Store.Get(kernel.LinkOf(configuration, "subnet"))
	}
	if nic, subnet, known := s.Instances.InterfaceOf(id); known && nic.Equal(id) {
		return s.kernel.Store.Get(subnet)
	}
	return nil
}
