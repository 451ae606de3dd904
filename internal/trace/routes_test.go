package trace

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	vnet  = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v")
	nodes = vnet + "/subnets/nodes"
	table = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/rt")
)

// world is a network with one subnet and its table.
func world(space, peer string, routes ...inventory.Route) *inventory.Snapshot {
	s := inventory.NewSnapshot()
	v := &inventory.VNet{Document: arm.Document{ID: vnet},
		Prefixes: []netip.Prefix{netip.MustParsePrefix(space)}}
	if peer != "" {
		v.Peerings = []inventory.Peering{
			{Name: "hub", Prefixes: []netip.Prefix{netip.MustParsePrefix(peer)}, Connected: true,
				Access: true}}
	}
	s.VNets[vnet.Key()] = v
	s.Subnets[nodes.Key()] = &inventory.Subnet{Document: arm.Document{ID: nodes}, RouteTable: table}
	s.Tables[table.Key()] = &inventory.RouteTable{Document: arm.Document{ID: table}}
	setRoutes(s, table, routes)
	return s
}

func user(prefix, hop string) inventory.Route {
	r := inventory.Route{Name: "r " + prefix, Prefix: netip.MustParsePrefix(prefix), HopType: hop}
	if addr, err := netip.ParseAddr(hop); err == nil {
		r.HopType, r.Hop = inventory.HopAppliance, addr
	}
	return r
}

func learned(prefix string) Route {
	return Route{Prefix: netip.MustParsePrefix(prefix), Source: Learned,
		HopType: inventory.HopGateway}
}

// TestSelection: the rules of virtual-networks-udr-overview.
func TestSelection(t *testing.T) {
	for name, tt := range map[string]struct {
		snapshot *inventory.Snapshot
		learned  []Route
		to, want string
	}{
		"inside the network": {world("10.0.0.0/16", ""), nil,
			"10.0.3.4", "10.0.0.0/16 to VnetLocal (system route)"},
		"a pod without its route is dropped": {world("10.0.0.0/16", ""), nil,
			"10.244.1.2", "10.0.0.0/8 to None (system route)"},
		"a pod by its node": {
			world("10.0.0.0/16", "", user("10.244.1.0/24", "10.0.0.5")), nil, "10.244.1.2",
			"10.244.1.0/24 to 10.0.0.5 (r 10.244.1.0/24 in rt)"},
		"a network as wide as a reserved range": {world("10.0.0.0/8", ""), nil,
			"10.244.1.2", "10.0.0.0/8 to VnetLocal (system route)"},
		"the internet": {world("10.0.0.0/16", ""), nil,
			"20.1.2.3", "0.0.0.0/0 to Internet (system route)"},
		"a user's default route": {
			world("10.0.0.0/16", "", user("0.0.0.0/0", "10.0.9.4")), nil, "20.1.2.3",
			"0.0.0.0/0 to 10.0.9.4 (r 0.0.0.0/0 in rt)"},
		"the longest prefix of any source": {
			world("10.0.0.0/16", "", user("10.0.0.0/16", "10.0.9.4")), []Route{
				learned("0.0.0.0/0")}, "10.0.3.4", "10.0.0.0/16 to 10.0.9.4 (r 10.0.0.0/16 in rt)"},
		"the user's beats the learned": {
			world("10.0.0.0/16", "", user("192.168.0.0/16", "10.0.9.4")), []Route{
				learned("192.168.0.0/16")}, "192.168.3.4",
			"192.168.0.0/16 to 10.0.9.4 (r 192.168.0.0/16 in rt)"},
		"the learned beats the system's": {world("10.0.0.0/16", ""),
			[]Route{learned("0.0.0.0/0")}, "20.1.2.3", "0.0.0.0/0 to VirtualNetworkGateway " +
				"(learned by a gateway)"},
		"the network beats a longer learned one": {world("10.0.0.0/16", ""),
			[]Route{learned("10.0.3.0/24")}, "10.0.3.4", "10.0.0.0/16 to VnetLocal (system route)"},
		"so does a peering": {world("10.0.0.0/16", "10.1.0.0/16"),
			[]Route{learned("10.1.3.0/24")}, "10.1.3.4",
			"10.1.0.0/16 to VNetPeering (peering hub)"},
		"a user's route to nowhere": {
			world("10.0.0.0/16", "10.1.0.0/16", user("10.1.3.0/24", "None")), nil, "10.1.3.4",
			"10.1.3.0/24 to None (r 10.1.3.0/24 in rt)"},
		"IPv6 is not routed in an IPv4 network": {world("10.0.0.0/16", ""), nil, "fd00::1", ""},
		"an address of IPv4 in the form of IPv6 is IPv4": {world("10.0.0.0/16", ""), nil,
			"::ffff:10.0.3.4", "10.0.0.0/16 to VnetLocal (system route)"},
	} {
		r, err := Effective(tt.snapshot, nodes, tt.learned)
		if err != nil {
			t.Fatal(err)
		}
		got, found := r.Lookup(netip.MustParseAddr(tt.to))
		if found != (tt.want != "") || found && got.String() != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestBecause: the reason names the overridden route and the rule.
func TestBecause(t *testing.T) {
	for name, tt := range map[string]struct {
		routes   []inventory.Route
		learned  []Route
		to, want string
	}{
		// The examples of virtual-networks-udr-overview, how Azure selects a route.
		"10.0.0.5, of 10.0.0.0/24 and 10.0.0.0/16": {
			[]inventory.Route{user("10.0.0.0/24", "10.0.9.4")}, nil, "10.0.0.5",
			"it is the longest prefix, before 10.0.0.0/16 to VnetLocal (system route)"},
		"10.0.1.5, of 10.0.0.0/24 and 10.0.0.0/16": {
			[]inventory.Route{user("10.0.0.0/24", "10.0.9.4")}, nil, "10.0.1.5",
			"it is the longest prefix, before 10.0.0.0/8 to None (system route)"},
		"0.0.0.0/0, a user's and the system's": {
			[]inventory.Route{user("0.0.0.0/0", "10.0.9.4")}, nil, "20.1.2.3", "user-defined " +
				"wins over 0.0.0.0/0 to Internet (system route) for the same prefix"},
		"a user's and a learned one": {
			[]inventory.Route{user("192.168.0.0/24", "10.0.9.4")}, []Route{
				learned("192.168.0.0/24")}, "192.168.0.5", "user-defined wins over " +
				"192.168.0.0/24 to VirtualNetworkGateway (learned by a gateway) for the same " +
				"prefix"},
		"a learned one and the system's": {nil, []Route{learned("0.0.0.0/0")}, "20.1.2.3",
			"learned by a gateway wins over 0.0.0.0/0 to Internet (system route) for the same " +
				"prefix"},
		"the network's own and a longer learned": {nil, []Route{learned("10.0.3.0/24")},
			"10.0.3.4", "the network's own prefixes win over 10.0.3.0/24 to " +
				"VirtualNetworkGateway (learned by a gateway), even if it is longer"},
		"nothing else": {nil, nil, "20.1.2.3", "no other route matches"},
	} {
		r, err := Effective(world("10.0.0.0/16", "", tt.routes...), nodes, tt.learned)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Because(netip.MustParseAddr(tt.to)); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestUnread: without the table or the network, nothing is claimed.
func TestUnread(t *testing.T) {
	s := world("10.0.0.0/16", "")
	delete(s.Tables, table.Key())
	s.Unread[table.Key()] = inventory.Unread{ID: table, Code: "AuthorizationFailed", Message: "no"}
	if _, err := Effective(s, nodes, nil); err == nil ||
		err.Error() != "route table "+string(table)+" was not read: AuthorizationFailed: no" {
		t.Error(err)
	}
	delete(s.VNets, vnet.Key())
	if _, err := Effective(s, nodes, nil); err == nil {
		t.Error("without its network")
	}
}

// TestLongestPrefix: the lookup agrees with one that checks every route.
func TestLongestPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var routes []inventory.Route
		seen := map[netip.Prefix]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "routes") {
			p := drawPrefix(t)
			if !seen[p] {
				seen[p] = true
				routes = append(routes,
					user(p.String(), rapid.SampledFrom([]string{"10.0.0.4", "None", "Internet",
						"VnetLocal"}).Draw(t, "hop")))
			}
		}
		r, err := Effective(world("10.0.0.0/16", "10.1.0.0/16", routes...), nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			to := drawPrefix(t).Addr()
			var best *Route
			for i, route := range r.All {
				if route.Active && route.Prefix.Contains(to) &&
					(best == nil || route.Prefix.Bits() > best.Prefix.Bits()) {
					best = &r.All[i]
				}
			}
			got, found := r.Lookup(to)
			if found != (best != nil) || found && got.String() != best.String() {
				t.Fatalf("%s takes %s, want %v", to, got, best)
			}
		}
	})
}

func drawPrefix(t *rapid.T) netip.Prefix {
	first := rapid.SampledFrom([]byte{10, 10, 10, 172, 192, 20}).Draw(t, "first")
	addr := netip.AddrFrom4([4]byte{first, byte(rapid.IntRange(0, 3).Draw(t, "second")),
		byte(rapid.IntRange(0, 3).Draw(t, "third")), byte(rapid.IntRange(0, 255).Draw(t,
			"fourth"))})
	return netip.PrefixFrom(addr, rapid.IntRange(0, 32).Draw(t, "bits")).Masked()
}

// BenchmarkLookup looks up all pairs of 1,000 nodes and 1,000 pod CIDRs: with the longest-prefix
// table, and with a scan of all routes.
func BenchmarkLookup(b *testing.B) {
	const n = 1000
	var routes []inventory.Route
	var pods []netip.Addr
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(200 + i/256), byte(i), 0}), 24)
		routes = append(routes,
			user(p.String(), netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(4 + i%250)}).
				String()))
		pods = append(pods, p.Addr().Next())
	}
	r, err := Effective(world("10.0.0.0/16", "", routes...), nodes, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run(fmt.Sprintf("table/%dx%d", n, n), func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			for range n {
				for _, to := range pods {
					if _, found := r.Lookup(to); !found {
						b.Fatal(to)
					}
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n/n, "ns/pair")
	})
	b.Run(fmt.Sprintf("each/1x%d", n), func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			for _, to := range pods {
				longest := -1
				for i := range r.All {
					if p := r.All[i].Prefix; r.All[i].Active && p.Bits() > longest &&
						p.Contains(to) {
						longest = p.Bits()
					}
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/pair")
	})
}
