package trace

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

func addr(text string) Endpoint { return Endpoint{Addr: netip.MustParseAddr(text)} }

// TestFilteredWays: security groups and IP forwarding on the path of a packet, in the shop with its
// nodes' interfaces.
func TestFilteredWays(t *testing.T) {
	nodesNSG := func(rules ...string) func(*inventory.Snapshot) {
		return func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
			s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup, rules...)
		}
	}
	nic := func(s *inventory.Snapshot, a string) *inventory.Interface {
		for _, n := range s.Interfaces {
			if n.Configs[0].Address.String() == a {
				return n
			}
		}
		return nil
	}
	for name, tt := range map[string]struct {
		from, to    string
		change      func(*inventory.Snapshot)
		o           Options
		there, back Verdict
		why         string
	}{
		"the default rules let pods through": {"10.244.0.7", "10.244.1.9", nodesNSG(), Options{},
			Delivered, Delivered, "the pod is on this node"},
		"no pods in": {"10.0.2.4", "10.244.1.9", nodesNSG("deny in 100 * * 10.244.0.0/16 *"),
			Options{}, Dropped, Delivered,
			"network security group nodes-nsg: rule deny-100 of nodes-nsg (priority 100) " +
				"denies it"},
		"no pods in, though on the same subnet": {"10.244.0.7", "10.244.1.9",
			nodesNSG("deny in 100 * * 10.244.0.0/16 *"), Options{}, Dropped, Delivered,
			"denies it"},
		"a probe passes by the default rules": {"168.63.129.16", "10.0.1.4", nodesNSG(), Options{},
			Delivered, Delivered, "10.0.1.4 is in subnet v/nodes"},
		"no probes": {"168.63.129.16", "10.0.1.4", nodesNSG("deny in 100 * AzureLoadBalancer * *"),
			Options{}, Dropped, Delivered, "network security group nodes-nsg: rule deny-100 of " +
				"nodes-nsg (priority 100) denies it"},
		"no probes of pods": {"168.63.129.16", "10.244.1.9", nodesNSG(), Options{}, Unknown,
			Delivered, "probes go to machines"},
		"no pods out": {"10.244.0.7", "10.244.1.9",
			nodesNSG("deny out 100 * 10.244.0.0/16 * *"), Options{}, Dropped, Delivered,
			"denies it"},
		"an answer is not asked again": {"10.0.2.4", "10.244.1.9",
			nodesNSG("deny out 100 * * * *"), Options{}, Delivered, Delivered, "the pod is on " +
				"this node"},
		"behind the source NAT pods are their node": {"10.244.0.7", "10.0.2.4",
			nodesNSG("deny out 100 * 10.244.0.0/16 * *"), Options{}, Delivered, Delivered,
			"v/gateway"},
		"and as such denied": {"10.244.0.7", "10.0.2.4",
			nodesNSG("deny out 100 * 10.0.1.4 * *"), Options{}, Dropped, Delivered, "denies it"},
		"on one node nothing asks": {"10.244.0.7", "10.244.0.9",
			nodesNSG("deny in 100 * * * *", "deny out 100 * * * *"), Options{}, Delivered,
			Delivered, "both pods"},
		"it depends on the port": {"10.0.2.4", "10.244.1.9",
			nodesNSG("deny in 100 Tcp * * 8080"), Options{}, Unknown, Delivered, "it depends on " +
				"the protocol and the port: rule deny-100 of nodes-nsg concerns tcp to port 8080"},
		"with the port it is plain": {"10.0.2.4", "10.244.1.9",
			nodesNSG("deny in 100 Tcp * * 8080"), Options{Protocol: "tcp", Port: 80}, Delivered,
			Delivered, ""},
		"a group was not read": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
		}, Options{}, Unknown, Delivered, "network security group nodes-nsg was not read"},
		"the interface's own": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			nic(s, "10.0.1.5").SecurityGroup = nicGroup
			s.SecurityGroups[nicGroup.Key()] = group(nicGroup, "deny in 100 * * * *")
		}, Options{}, Dropped, Delivered, "network security group aks-nsg: "},
		"the other interface's own": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			nic(s, "10.0.1.4").SecurityGroup = nicGroup
			s.SecurityGroups[nicGroup.Key()] = group(nicGroup, "deny in 100 * * * *")
		}, Options{}, Delivered, Delivered, ""},
		"a node between that lets nothing in": {"10.0.2.4", "10.244.1.9",
			func(s *inventory.Snapshot) {
				setRoute(s, copied, 1, user("10.244.1.0/24", "10.0.1.4"))
				nic(s, "10.0.1.4").SecurityGroup = nicGroup
				s.SecurityGroups[nicGroup.Key()] = group(nicGroup, "deny in 100 * * * *")
			}, Options{}, Dropped, Delivered, "network security group aks-nsg: "},
		"the table is lost, and with it the pods' place in VirtualNetwork": {"10.0.2.4",
			"10.244.1.9", func(s *inventory.Snapshot) {
				nodesNSG()(s)
				s.Subnets[nodes.Key()].RouteTable = ""
			}, Options{}, Dropped, Delivered, "rule deny-65500 of nodes-nsg"},
		"IP forwarding is off where the pod is": {"10.0.2.4", "10.244.1.9",
			func(s *inventory.Snapshot) {
				nic(s, "10.0.1.5").Forwarding = false
			}, Options{}, Dropped, Dropped,
			"IP forwarding is off on the network interface of 10.0.1.5 (aks-np-1-vmss instance " +
				"1), so Azure drops packets from or to 10.244.1.9 there"},
		"IP forwarding is off where the pod comes from": {"10.244.0.7", "10.244.1.9",
			func(s *inventory.Snapshot) {
				nic(s, "10.0.1.4").Forwarding = false
			}, Options{}, Dropped, Dropped, "packets from or to 10.244.0.7"},
		"behind source NAT it is not needed": {"10.244.0.7", "10.0.2.4",
			func(s *inventory.Snapshot) {
				nic(s, "10.0.1.4").Forwarding = false
			}, Options{}, Delivered, Delivered, ""},
		"IP forwarding of another node": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			nic(s, "10.0.1.4").Forwarding = false
		}, Options{}, Delivered, Delivered, ""},
		"IP forwarding of an overlay's node, for others": {"10.0.2.4", "10.0.3.9",
			func(s *inventory.Snapshot) {
				c := s.Clusters[cluster.Key()]
				c.Plugin, c.PluginMode = "azure", "overlay"
				nic(s, "10.0.1.5").Forwarding = false
				addRoute(s, copied, user("10.0.3.0/24", "10.0.1.5"))
			}, Options{}, Dropped, Delivered, "IP forwarding is off on the network interface of " +
				"10.0.1.5 (aks-np-1-vmss instance 1), so Azure drops packets from or to 10.0.3.9 " +
				"there"},
		"an appliance that forwards nothing": {"10.0.1.4", "20.1.2.3", func(s *inventory.Snapshot) {
			id := arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/fw")
			fw := vnet + "/subnets/firewall"
			s.Interfaces[id.Key()] = &inventory.Interface{Document: arm.Document{ID: id},
				Configs: []inventory.IPConfig{{Address: netip.MustParseAddr("10.0.9.4"),
					Subnet: fw}}}
		}, Options{}, Dropped, Unknown, "IP forwarding is off on the network interface of " +
			"10.0.9.4 (fw)"},
		// no source NAT between pods of two clusters
		"a network that lets nothing forwarded in": {"10.244.0.7", "10.70.0.4",
			func(s *inventory.Snapshot) {
				peer(s, false)
				s.Clusters[cluster.Key()].PodCIDRs = append(s.Clusters[cluster.Key()].PodCIDRs,
					netip.MustParsePrefix("10.70.0.0/16"))
			}, Options{}, Dropped, Delivered, "the peering of a-twin with v does not allow " +
				"forwarded traffic, and 10.244.0.7 is not in v"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			addNICs(s)
			tt.change(s)
			there, back := New(s, tt.o).Ways(addr(tt.from), addr(tt.to))
			if there.Verdict != tt.there || back.Verdict != tt.back ||
				!strings.Contains(there.Why, tt.why) {
				t.Errorf("there %s (%s), back %s (%s)\n%+v\n%+v", there.Verdict, there.Why,
					back.Verdict, back.Why, there.Hops, back.Hops)
			}
		})
	}
}

// TestRulingsShow: a hop names the rule that allowed a packet, outbound and inbound.
func TestRulingsShow(t *testing.T) {
	s := shop()
	addNICs(s)
	s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
	s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup)
	there, back := New(s, Options{}).Ways(addr("10.244.0.7"), addr("10.244.1.9"))
	var rules []string
	for _, h := range there.Hops {
		for _, r := range h.Filters {
			rules = append(rules, r.Why)
		}
	}
	if want := "rule allow-65000 of nodes-nsg (priority 65000) allows it"; len(rules) != 2 ||
		rules[0] != want || rules[1] != want {
		t.Errorf("%q", rules)
	}
	for _, h := range back.Hops {
		if len(h.Filters) > 0 {
			t.Errorf("the answer was asked: %+v", h)
		}
	}
	if h := there.Hops[1]; h.Because != "it is the longest prefix, before 10.0.0.0/8 to None "+
		"(system route)" {
		t.Errorf("%+v", h)
	}
}
