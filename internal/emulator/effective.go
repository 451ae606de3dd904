package emulator

import (
	"net/http"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// effectiveRoute is one route as an interface has it.
type effectiveRoute struct {
	name, source string // User or Default
	prefix       string // or a service tag
	hopType, hop string
	active       bool
	bgp          any    // disableBgpRoutePropagation of the table
	table        arm.ID // a user's route is in
}

// Next hop types that only Azure makes.
const (
	hopPeering  = "VNetPeering"
	hopLocal    = "VnetLocal"
	hopInternet = "Internet"
	hopNone     = "None"
)

// reservedPrefixes are dropped unless something routes them (virtual-networks-udr-overview;
// recorded in 2023).
var reservedPrefixes = []string{
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "25.4.0.0/14", "25.33.0.0/16",
	"25.41.0.0/20", "25.48.0.0/12",
	"20.35.252.0/22", "23.103.0.0/18", "40.108.0.0/17", "40.109.0.0/16", "104.146.0.0/17",
	"104.147.0.0/16", "157.59.0.0/16", "198.18.0.0/15",
}

// effectiveRoutes computes the routes of every interface in a subnet: the system's, and the user's,
// which win where the prefix is the same. There are no BGP routes here, and the prefixes behind
// service tags and service endpoints are unknown. A call that is answered stale sees subnet and
// table as they were before they were last written: Azure's network takes a while to follow ARM.
func (s *network) effectiveRoutes(c *call, subnet *resource) []effectiveRoute {
	vnet := s.kernel.store.get(subnet.id.Parent())
	own := addressSpace(vnet.body)
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
	for _, peering := range s.kernel.store.list(typePeering, vnet.id) {
		p := objectAt(peering.body, "properties")
		if text(p, "peeringState") == peeringConnected && p["allowVirtualNetworkAccess"] != false {
			for _, prefix := range validPrefixes(list(objectAt(p, "remoteAddressSpace"),
				"addressPrefixes")) {
				add(prefix.String(), hopPeering)
			}
		}
	}
	add("0.0.0.0/0", hopInternet)
	if v6 {
		add("::/0", hopInternet)
	}
	for _, reserved := range reservedPrefixes {
		if !covered(netip.MustParsePrefix(reserved), own) {
			add(reserved, hopNone)
		}
	}
	table := s.kernel.store.get(linkOf(s.kernel.seenBy(c, subnet), "routeTable"))
	if table == nil {
		return routes
	}
	properties := objectAt(s.kernel.seenBy(c, table), "properties")
	for _, item := range listAt(properties, "routes") {
		p := objectAt(item, "properties")
		route := effectiveRoute{
			name: text(item, "name"), source: "User", prefix: text(p,
				"addressPrefix"), hopType: text(p, "nextHopType"), hop: text(p, "nextHopIpAddress"),
			active: true, bgp: properties["disableBgpRoutePropagation"], table: table.id,
		}
		for i := range routes {
			if routes[i].source == "Default" && samePrefix(routes[i].prefix, route.prefix) {
				routes[i].active = false
			}
		}
		routes = append(routes, route)
	}
	return routes
}

// covered reports whether one of the prefixes equals or contains p.
func covered(p netip.Prefix, by []netip.Prefix) bool {
	for _, q := range by {
		if q.Bits() <= p.Bits() && q.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

func samePrefix(a, b string) bool {
	p, err := netip.ParsePrefix(a)
	q, err2 := netip.ParsePrefix(b)
	return err == nil && err2 == nil && p == q
}

// bestRoute is the route that a packet to an address takes: the longest prefix among the active
// ones.
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

func (r effectiveRoute) document() object {
	doc := object{
		"source": r.source, "state": map[bool]string{true: "Active", false: "Invalid"}[r.active],
		"addressPrefix": []string{r.prefix}, "nextHopType": r.hopType,
		"nextHopIpAddress": []string{}, "disableBgpRoutePropagation": r.bgp,
		"hasBgpOverride":         false,
		"destinationServiceTags": []string{}, "tagMap": object{},
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
// of an interface of its own and of one of a scale set's instance. Azure asks for a running machine
// behind the interface [U for its words]; here any will do, because tests rarely make machines.
func (s *network) effectiveCall(c *call) (reply, *failure, bool) {
	n := len(c.path)
	if c.method != http.MethodPost || n < 9 ||
		!strings.HasPrefix(strings.ToLower(c.path[n-1]), "effective") {
		return reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.path[:n-1], "/"))
	subnet := s.subnetOf(id)
	if subnet == nil {
		return reply{}, s.kernel.missing(id), true
	}
	values := []object{}
	switch strings.ToLower(c.path[n-1]) {
	case "effectiveroutetable":
		for _, r := range s.effectiveRoutes(c, subnet) {
			values = append(values, r.document())
		}
	case "effectivenetworksecuritygroups":
		if own := s.kernel.store.get(id); own != nil {
			values = append(values,
				s.effectiveRules(own.body,
					object{"networkInterface": object{"id": string(own.id)}})...)
		}
		values = append(values,
			s.effectiveRules(subnet.body, object{"subnet": object{"id": string(subnet.id)}})...)
	default:
		return reply{}, notFound(c), true
	}
	c.locationOnly = true
	return s.kernel.accepted(c, encode(object{"value": values})), nil, true
}

// effectiveRules are the rules of the security group that a document links to, if it does, as an
// interface has them. What is behind service tags is unknown.
func (s *network) effectiveRules(of, association object) []object {
	group := s.kernel.store.get(linkOf(of, "networkSecurityGroup"))
	if group == nil {
		return nil
	}
	rules := []any{}
	for _, list := range []string{"securityRules", "defaultSecurityRules"} {
		for _, item := range listAt(objectAt(s.kernel.document(group, networkVersion),
			"properties"),
			list) {
			rule := clone(objectAt(item, "properties"))
			delete(rule, "provisioningState")
			rule["name"] = list + "/" + text(item, "name")
			rules = append(rules, rule)
		}
	}
	return []object{{"networkSecurityGroup": object{"id": string(group.id)},
		"association": association, "effectiveSecurityRules": rules}}
}

// subnetOf is where an interface has its first address, or nil.
func (s *network) subnetOf(id arm.ID) *resource {
	if r := s.kernel.store.get(id); r != nil && id.Is(typeNIC) {
		configuration := listAt(objectAt(r.body, "properties"), "ipConfigurations")[0]
		return s.kernel.store.get(linkOf(configuration, "subnet"))
	}
	if nic, subnet, known := s.instances.interfaceOf(id); known && nic.Equal(id) {
		return s.kernel.store.get(subnet)
	}
	return nil
}
