package trace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	cluster = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop")
	gateway = vnet + "/subnets/gateway"
	bare    = vnet + "/subnets/bare"
	copied  = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/copied")
)

// shop is a kubenet cluster of two nodes with egress through a firewall, a gateway's subnet with
// copied pod routes, and a subnet without any table.
func shop() *inventory.Snapshot {
	first, second := user("10.244.0.0/24", "10.0.1.4"), user("10.244.1.0/24", "10.0.1.5")
	s := world("10.0.0.0/16", "10.1.0.0/16", first, second, user("0.0.0.0/0", "10.0.9.4"))
	s.Subnets[nodes.Key()].Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}
	s.Subnets[gateway.Key()] = &inventory.Subnet{Document: arm.Document{ID: gateway},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24")}, RouteTable: copied}
	s.Subnets[bare.Key()] = &inventory.Subnet{Document: arm.Document{ID: bare},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.3.0/24")}}
	firewall := vnet.Child("subnets", "firewall")
	s.Subnets[firewall.Key()] = &inventory.Subnet{Document: arm.Document{ID: firewall},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.9.0/24")}}
	s.Tables[copied.Key()] = &inventory.RouteTable{Document: arm.Document{ID: copied}}
	setRoutes(s, copied, []inventory.Route{first, second})
	s.Clusters[cluster.Key()] = &inventory.Cluster{Document: arm.Document{ID: cluster},
		Plugin: "kubenet", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Pools: []inventory.Pool{{Name: "np", Subnet: nodes, Count: 2}}}
	return s
}

func setRoutes(s *inventory.Snapshot, table arm.ID, routes []inventory.Route) {
	s.Tables[table.Key()] = s.Tables[table.Key()].WithRoutes(routes)
}

func setRoute(s *inventory.Snapshot, table arm.ID, at int, r inventory.Route) {
	routes := slices.Clone(s.Tables[table.Key()].Routes())
	routes[at] = r
	setRoutes(s, table, routes)
}

func addRoute(s *inventory.Snapshot, table arm.ID, r inventory.Route) {
	setRoutes(s, table, append(slices.Clone(s.Tables[table.Key()].Routes()), r))
}

// twin is another network, the first in order, whose only subnet has the table with copied pod
// routes.
func twin(s *inventory.Snapshot, space, prefix string) *inventory.VNet {
	id := arm.ID("/subscriptions/s/resourceGroups/a/providers/Microsoft.Network/virtualNetworks/a-twin")
	v := &inventory.VNet{Document: arm.Document{ID: id},
		Prefixes: []netip.Prefix{netip.MustParsePrefix(space)}}
	s.VNets[id.Key()] = v
	subnet := id.Child("subnets", "s")
	s.Subnets[subnet.Key()] = &inventory.Subnet{Document: arm.Document{ID: subnet},
		Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)}, RouteTable: copied}
	return v
}

// peer is a twin that is peered with the shop's network; forwarded is what its side of the peering
// allows.
func peer(s *inventory.Snapshot, forwarded bool) *inventory.VNet {
	v := twin(s, "10.70.0.0/16", "10.70.0.0/24")
	v.Peerings = []inventory.Peering{
		{Name: "p", Remote: vnet, Prefixes: s.VNets[vnet.Key()].Prefixes, Connected: true,
			Access: true, Forwarded: forwarded}}
	s.VNets[vnet.Key()].Peerings = []inventory.Peering{
		{Name: "q", Remote: v.ID, Prefixes: v.Prefixes, Connected: true, Access: true}}
	return v
}

// serve gives the cluster's services addresses.
func serve(s *inventory.Snapshot) {
	s.Clusters[cluster.Key()].ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.100.0.0/16")}
}

func TestWays(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to    string
		change      func(*inventory.Snapshot)
		there, back Verdict
		why         string
		source      string
	}{
		"pod to pod": {"10.244.0.7", "10.244.1.9", nil, Delivered, Delivered,
			"the pod is on this node", "10.244.0.7"},
		"on one node": {"10.244.0.7", "10.244.0.9", nil, Delivered, Delivered,
			"both pods are on the node 10.0.1.4", "10.244.0.7"},
		"gateway to pod": {"10.0.2.4", "10.244.1.9", nil, Delivered, Delivered,
			"the pod is on this node", "10.0.2.4"},
		"pod to gateway": {"10.244.0.7", "10.0.2.4", nil, Delivered, Delivered,
			"10.0.2.4 is in subnet v/gateway", "10.0.1.4"},
		"no routes, no pods": {"10.0.3.4", "10.244.1.9", nil, Dropped, Delivered,
			"no better route", "10.0.3.4"},
		"pod to its node": {"10.244.0.7", "10.0.1.4", nil, Delivered, Delivered,
			"the pod's own node", "10.244.0.7"},
		"out by the firewall": {"10.244.0.7", "20.1.2.3", nil, Leaves, Unknown,
			"10.0.9.4 is not a cluster node", "10.0.1.4"},
		"a service tag may take it elsewhere": {"10.244.0.7", "20.1.2.3",
			func(s *inventory.Snapshot) {
				addRoute(s, table, inventory.Route{Name: "storage", Tag: "Storage",
					HopType: inventory.HopInternet})
			}, Unknown, Unknown,
			"it is unknown whether Storage to Internet (storage in rt) takes it " +
				"instead", "10.0.1.4"},
		"a service tag does not concern pods": {"10.244.0.7", "10.244.1.9",
			func(s *inventory.Snapshot) {
				addRoute(s, table, inventory.Route{Name: "storage", Tag: "Storage",
					HopType: inventory.HopInternet})
			}, Delivered, Delivered, "the pod is on this node", "10.244.0.7"},
		"to a service": {"10.244.0.7", "10.100.0.10", serve, Unknown, Unknown,
			"10.100.0.10 is in the service CIDR of cluster", "10.0.1.4"},
		"to a service of others": {"10.0.3.4", "10.100.0.10", serve, Dropped, Unknown,
			"no better route", "10.0.3.4"},
		"to a pod of no node": {"10.244.0.7", "10.244.9.9", nil, Dropped, Unknown,
			"10.0.0.0/8 to None", "10.244.0.7"},
		"an unknown address": {"172.16.0.1", "10.244.1.9", nil, Unknown, Dropped,
			"neither in a subnet that was read nor the address of a pod", "172.16.0.1"},
		"a peer that is unread": {"10.0.3.4", "10.1.2.3", nil, Unknown, Unknown,
			"the peered network was not read", "10.0.3.4"},
		"the association is lost": {"10.244.0.7", "10.244.1.9", func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].RouteTable = ""
		}, Dropped, Dropped,
			"subnet v/nodes has no better route to 10.244.1.9 than 10.0.0.0/8 to None (system " +
				"route)", "10.244.0.7"},
		"one route is lost": {"10.244.0.7", "10.244.1.9", func(s *inventory.Snapshot) {
			setRoutes(s, table, s.Tables[table.Key()].Routes()[:1])
		}, Dropped, Unknown, "10.0.0.0/8 to None", "10.244.0.7"},
		"a wrong next hop": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			setRoute(s, copied, 1, user("10.244.1.0/24", "10.0.1.4"))
		}, Delivered, Delivered, "the pod is on this node", "10.0.2.4"},
		// through the other node, which has the right route
		"the table is unread": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			delete(s.Tables, copied.Key())
		}, Unknown, Delivered, "was not read", "10.0.2.4"},
		"another network with the same addresses": {"10.244.0.7", "10.244.1.9",
			func(s *inventory.Snapshot) {
				s.Subnets[nodes.Key()].RouteTable = ""
				twin(s, "10.0.0.0/16", "10.0.1.0/24")
			}, Dropped, Dropped, "subnet v/nodes has no better route", "10.244.0.7"},
		"from where two networks overlap": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			twin(s, "10.0.0.0/16", "10.0.2.0/24")
		}, Unknown, Delivered,
			"10.0.2.4 lies in several subnets that overlap: a-twin/s, v/gateway", "10.0.2.4"},
		"a next hop beyond the network": {"10.70.0.4", "10.244.1.9", func(s *inventory.Snapshot) {
			twin(s, "10.70.0.0/16", "10.70.0.0/24")
		}, Dropped, Dropped,
			"the next hop 10.0.1.5 is in no network that subnet a-twin/s reaches directly",
			"10.70.0.4"},
		"a next hop beyond a peering": {"10.70.0.4", "10.244.1.9", func(s *inventory.Snapshot) {
			peer(s, true)
		}, Delivered, Delivered, "the pod is on this node", "10.70.0.4"},
		"a peering that lets nothing forwarded in, for the answer": {"10.70.0.4", "10.244.1.9",
			func(s *inventory.Snapshot) {
				peer(s, false)
			}, Delivered, Unknown, "the pod is on this node", "10.70.0.4"},
		"to itself": {"10.244.1.9", "10.244.9.9", func(s *inventory.Snapshot) {
			addRoute(s, table, user("10.244.0.0/16", "10.0.1.4"))
		}, Dropped, Unknown, "the next hop is where it comes from: 10.0.1.4 does not have " +
			"10.244.9.9", "10.244.1.9"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			if tt.change != nil {
				tt.change(s)
			}
			there, back := New(s, Options{}).Ways(Endpoint{Addr: netip.MustParseAddr(tt.from)},
				Endpoint{Addr: netip.MustParseAddr(tt.to)})
			if there.Verdict != tt.there || back.Verdict != tt.back ||
				!strings.Contains(there.Why, tt.why) || there.Source.String() != tt.source {
				t.Errorf("there %s (%s) as %s, back %s (%s)\n%+v\n%+v", there.Verdict, there.Why,
					there.Source, back.Verdict, back.Why, there.Hops, back.Hops)
			}
			if back.To != there.Source || len(there.Hops) > maxHops+3 {
				t.Errorf("back to %s, %d hops", back.To, len(there.Hops))
			}
		})
	}
}
