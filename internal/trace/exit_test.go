package trace

import (
	"net/netip"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestToInternet: a packet of a node leaves by what gives it a public address, or is dropped; and
// past the way that is declared.
func TestToInternet(t *testing.T) {
	const firewall = "the declared route 0.0.0.0/0 to 10.0.9.4 (r 0.0.0.0/0 in rt)"
	const nat = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/natGateways/nat")
	udr := func(s *inventory.Snapshot) { s.Clusters[cluster.Key()].Outbound = "userDefinedRouting" }
	stripped := func(s *inventory.Snapshot) { s.Subnets[nodes.Key()].RouteTable = "" }
	withNAT := func(s *inventory.Snapshot) { s.Subnets[nodes.Key()].NATGateway = nat }
	private := func(s *inventory.Snapshot) { s.Subnets[nodes.Key()].Private = true }
	public := func(s *inventory.Snapshot) { s.Clusters[cluster.Key()].Pools[0].PublicIPs = true }
	balanced := func(s *inventory.Snapshot) { s.Clusters[cluster.Key()].Outbound = "loadBalancer" }
	ipv6 := func(s *inventory.Snapshot) {
		s.VNets[vnet.Key()].Prefixes = append(s.VNets[vnet.Key()].Prefixes,
			netip.MustParsePrefix("2001:db8::/64"))
	}
	egress := []Route{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Source: User, Name: "out",
		HopType: inventory.HopAppliance, Hop: netip.MustParseAddr("10.0.9.9"), Table: table}}
	type changes = []func(*inventory.Snapshot)
	const udrWords = "the firewall: the outboundType of cluster shop is userDefinedRouting, and " +
		"subnet v/nodes has no "
	for name, tt := range map[string]struct {
		to           string
		changes      changes
		declared     Declared
		want         Verdict
		exit, bypass string
	}{
		"by the firewall": {"20.1.2.3", changes{udr, withNAT}, Declared{Table: table}, Leaves, "",
			""},
		"default outbound access": {"20.1.2.3", changes{stripped}, Declared{}, Leaves,
			"default outbound access", ""},
		"NAT gateway before public addresses": {"20.1.2.3", changes{stripped, withNAT, public},
			Declared{}, Leaves, "NAT gateway nat", ""},
		"public addresses before the load balancer": {"20.1.2.3", changes{stripped, balanced,
			public}, Declared{}, Leaves, "the nodes' public IP addresses", ""},
		"load balancer": {"20.1.2.3", changes{stripped, balanced, private}, Declared{}, Leaves,
			"the outbound rules of the cluster's load balancer", ""},
		"nothing": {"20.1.2.3", changes{stripped, udr, private}, Declared{Table: table}, Dropped,
			"", ""},
		"user-defined routing without a table": {"20.1.2.3", changes{stripped, udr}, Declared{},
			Leaves, "default outbound access", udrWords + "route table"},
		"user-defined routing without a route": {"20.1.2.3",
			changes{udr, func(s *inventory.Snapshot) {
				setRoutes(s, table, s.Tables[table.Key()].Routes()[:2])
			}}, Declared{}, Leaves, "default outbound access", udrWords + "route for it in rt"},
		"a route to the internet is meant": {"20.1.2.3", changes{udr, func(s *inventory.Snapshot) {
			setRoute(s, table, 2, inventory.Route{Name: "out", HopType: inventory.HopInternet,
				Prefix: netip.MustParsePrefix("0.0.0.0/0")})
		}}, Declared{Table: table}, Leaves, "default outbound access", ""},
		"to the declared next hop itself": {"10.0.2.4", changes{stripped}, Declared{
			Egress: []Route{{Prefix: netip.MustParsePrefix("10.0.0.0/16"), Source: User,
				Hop: netip.MustParseAddr("10.0.2.4"), HopType: inventory.HopAppliance}}},
			Delivered, "", ""},
		"out to the internet, to a declared next hop that is not here": {"52.2.0.5",
			changes{stripped}, Declared{Egress: []Route{{
				Prefix: netip.MustParsePrefix("0.0.0.0/0"), Source: User,
				Hop: netip.MustParseAddr("52.2.0.5"), HopType: inventory.HopAppliance}}}, Leaves,
			"default outbound access", "the declared route 0.0.0.0/0 to 52.2.0.5 (user-defined)"},
		"to another address of the declared next hop": {"10.0.2.5",
			changes{stripped, func(s *inventory.Snapshot) {
				s.Interfaces["hop"] = &inventory.Interface{Configs: []inventory.IPConfig{
					{Address: netip.MustParseAddr("10.0.2.4"), Subnet: gateway},
					{Address: netip.MustParseAddr("10.0.2.5"), Subnet: gateway}}}
			}}, Declared{Egress: []Route{{Prefix: netip.MustParsePrefix("10.0.0.0/16"),
				Source: User, Hop: netip.MustParseAddr("10.0.2.4"),
				HopType: inventory.HopAppliance}}}, Delivered, "", ""},
		"a route to the internet, without the declared NAT gateway": {"20.1.2.3", changes{
			func(s *inventory.Snapshot) {
				setRoute(s, table, 2, inventory.Route{Name: "out", HopType: inventory.HopInternet,
					Prefix: netip.MustParsePrefix("0.0.0.0/0")})
			}}, Declared{Table: table, NATGateway: nat}, Leaves, "default outbound access",
			"the declared NAT gateway nat"},
		"a declared table": {"20.1.2.3", changes{stripped, withNAT}, Declared{Table: table}, Leaves,
			"NAT gateway nat", firewall},
		"another firewall": {"20.1.2.3", changes{func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].RouteTable = copied
			addRoute(s, copied, user("0.0.0.0/0", "10.0.9.5"))
		}}, Declared{Table: table}, Leaves, "", firewall},
		"spec.egress without a table": {"20.1.2.3", changes{stripped, udr},
			Declared{Egress: egress}, Leaves, "default outbound access",
			"the declared route 0.0.0.0/0 to 10.0.9.9 (out in rt)"},
		"spec.egress before the table": {"20.1.2.3", nil, Declared{Table: table, Egress: egress},
			Leaves, "", "the declared route 0.0.0.0/0 to 10.0.9.9 (out in rt)"},
		"spec.egress, a further prefix": {"20.9.2.3", nil, Declared{Egress: append(egress, Route{
			Prefix: netip.MustParsePrefix("20.9.0.0/16"), Source: User, Table: table,
			HopType: inventory.HopAppliance, Hop: netip.MustParseAddr("10.0.9.4"), Name: "on"})},
			Leaves, "", ""},
		"spec.egress, where the firewall is now": {"20.1.2.3", nil, Declared{Egress: egress,
			Hops: []netip.Addr{netip.MustParseAddr("10.0.9.4")}}, Leaves, "", ""},
		"spec.egress, into the network": {"10.0.2.4", changes{stripped}, Declared{Egress: egress},
			Delivered, "", ""},
		"another table with the same next hop": {"20.1.2.3", changes{func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].RouteTable = copied
			addRoute(s, copied, user("0.0.0.0/0", "10.0.9.4"))
		}}, Declared{Table: table}, Leaves, "", ""},
		"a declared NAT gateway": {"20.1.2.3", changes{stripped}, Declared{NATGateway: nat}, Leaves,
			"default outbound access", "the declared NAT gateway nat"},
		"the declared NAT gateway": {"20.1.2.3", changes{stripped, withNAT},
			Declared{NATGateway: nat}, Leaves, "NAT gateway nat", ""},
		"a route before the declared NAT gateway": {"20.1.2.3", nil,
			Declared{Table: table, NATGateway: nat}, Leaves, "", ""},
		"a cluster that needs a NAT gateway": {"20.1.2.3",
			changes{stripped, func(s *inventory.Snapshot) {
				s.Clusters[cluster.Key()].Outbound = "userAssignedNATGateway"
			}}, Declared{}, Leaves, "default outbound access", "the NAT gateway that " +
				"outboundType userAssignedNATGateway of cluster shop calls for"},
		"into the network": {"10.0.2.4", changes{stripped, udr}, Declared{Table: table}, Delivered,
			"", ""},
		"IPv6": {"2603::1", changes{stripped, private, ipv6}, Declared{}, Leaves, "", ""},
		"IPv6 without the declared NAT gateway": {"2603::1", changes{stripped, ipv6},
			Declared{NATGateway: nat}, Leaves, "", ""},
		"IPv6 of a cluster that needs a NAT gateway": {"2603::1",
			changes{stripped, ipv6, func(s *inventory.Snapshot) {
				s.Clusters[cluster.Key()].Outbound = "userAssignedNATGateway"
			}}, Declared{}, Leaves, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			for _, change := range tt.changes {
				change(s)
			}
			there, _ := New(s, Options{Declared: map[string]Declared{nodes.Key(): tt.declared}}).
				Ways(Endpoint{Addr: netip.MustParseAddr("10.0.1.4")},
					Endpoint{Addr: netip.MustParseAddr(tt.to)})
			if there.Verdict != tt.want || there.Exit != tt.exit || there.Bypasses != tt.bypass {
				t.Errorf("%s (%s) by %q, bypasses %q", there.Verdict, there.Why, there.Exit,
					there.Bypasses)
			}
		})
	}
}

// TestToInternetOfOthers: which way other machines leave is only said if the subnet decides it. An
// address of a node subnet where nothing is known to be stands for a node.
func TestToInternetOfOthers(t *testing.T) {
	s := shop()
	s.Subnets[nodes.Key()].RouteTable = ""
	to := func(from string) Way {
		there, _ := New(s, Options{}).Ways(Endpoint{Addr: netip.MustParseAddr(from)},
			Endpoint{Addr: netip.MustParseAddr("20.1.2.3")})
		return there
	}
	if w := to("10.0.3.4"); w.Verdict != Leaves || w.Exit != "" ||
		w.Why != "it goes out to the internet" {
		t.Errorf("%+v", w)
	}
	s.Subnets[bare.Key()].NATGateway = "/subscriptions/s/resourceGroups/g/providers/" +
		"Microsoft.Network/natGateways/nat"
	if w := to("10.0.3.4"); w.Exit != "NAT gateway nat" {
		t.Errorf("%+v", w)
	}
	if w := to("10.0.1.77"); w.Exit != "default outbound access" {
		t.Errorf("%+v", w)
	}
	s.Interfaces["jump"] = &inventory.Interface{Configs: []inventory.IPConfig{
		{Address: netip.MustParseAddr("10.0.1.77"), Subnet: nodes}}}
	if w := to("10.0.1.77"); w.Exit != "" {
		t.Errorf("%+v", w)
	}
}
