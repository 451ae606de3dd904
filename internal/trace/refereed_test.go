package trace

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestRefereed: what trace said otherwise until packets in Linux contradicted it (kernel/), and the
// document that decided.
func TestRefereed(t *testing.T) {
	nic := func(s *inventory.Snapshot, a string) *inventory.Interface {
		for _, n := range s.Interfaces {
			if n.Configs[0].Address.String() == a {
				return n
			}
		}
		return nil
	}
	closed := func(s *inventory.Snapshot) {
		far := peer(s, true)
		far.Peerings[0].Access, s.VNets[vnet.Key()].Peerings[0].Access = false, false
	}
	noneIn := func(s *inventory.Snapshot) {
		s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
		s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup, "deny in 100 * * * *")
	}
	flat := func(s *inventory.Snapshot) { // node n0 has a pod with an address of its subnet
		c := s.Clusters[cluster.Key()]
		c.Plugin, c.PodCIDRs = "azure", nil
		own := nic(s, "10.0.1.4")
		own.Configs = append(own.Configs,
			inventory.IPConfig{Subnet: nodes, Address: netip.MustParseAddr("10.0.1.44")})
		s.Subnets[nodes.Key()].RouteTable = ""
	}
	private := func(s *inventory.Snapshot) { s.Subnets[bare.Key()].Private = true }
	nat := func(s *inventory.Snapshot) {
		s.Subnets[bare.Key()].NATGateway = nodes.Parent() + "/natGateways/nat"
	}
	byNode := func(prefix, hop string) func(*inventory.Snapshot) {
		return func(s *inventory.Snapshot) {
			s.Subnets[bare.Key()].RouteTable = copied
			addRoute(s, copied, user(prefix, hop))
		}
	}
	type changes = []func(*inventory.Snapshot)
	for name, tt := range map[string]struct {
		from, to, protocol   string
		changes              changes
		there, back          Verdict
		why, backWhy, source string
	}{
		// learn.microsoft.com/azure/virtual-network/virtual-network-manage-peering: to deselect it
		// "only changes the definition of the VirtualNetwork service tag"
		"a peering without access, and no security group": {"10.0.3.9", "10.70.0.4", "tcp",
			changes{closed}, Delivered, Delivered, "a-twin/s", "v/bare", "10.0.3.9"},
		"a peering without access, and a security group": {"10.70.0.4", "10.0.1.5", "tcp",
			changes{closed, func(s *inventory.Snapshot) { noneIn(s) }}, Dropped, Delivered,
			"rule deny-100", "a-twin/s", "10.70.0.4"},
		// learn.microsoft.com/azure/virtual-network/ip-services/default-outbound-access
		"nothing gives a machine a public address": {"10.0.3.9", "20.1.2.3", "tcp",
			changes{private}, Dropped, Unknown, "nothing gives it a public address", "",
			"10.0.3.9"},
		"it has one": {"10.0.3.9", "20.1.2.3", "tcp", changes{private,
			func(s *inventory.Snapshot) { nic(s, "10.0.3.9").Configs[0].Exit = true }}, Leaves,
			Unknown, "out to the internet", "", "10.0.3.9"},
		// learn.microsoft.com/azure/nat-gateway/nat-overview: TCP and UDP
		"a ping by a NAT gateway": {"10.0.3.9", "20.1.2.3", "icmp", changes{nat}, Dropped, Unknown,
			"NAT gateway nat only takes TCP and UDP", "", "10.0.3.9"},
		"no ping by a NAT gateway": {"10.0.3.9", "20.1.2.3", "udp", changes{nat}, Leaves, Unknown,
			"by NAT gateway nat", "", "10.0.3.9"},
		// learn.microsoft.com/azure/aks/faq: transparent and bridge mode
		"a node and its pod in the subnet": {"10.0.1.4", "10.0.1.44", "tcp", changes{flat, noneIn},
			Delivered, Delivered, "on one machine", "on one machine", "10.0.1.4"},
		"a bent hop to the node that has the pod": {"10.0.3.9", "10.0.1.44", "tcp",
			changes{flat, byNode("10.0.1.0/24", "10.0.1.4"), func(s *inventory.Snapshot) {
				nic(s, "10.0.1.4").Forwarding = false
			}}, Delivered, Delivered, "10.0.1.44 is in subnet v/nodes", "v/bare", "10.0.3.9"},
		// learn.microsoft.com/azure/aks/azure-cni-overlay
		"an overlay node and its own pod": {"10.0.1.4", "10.244.0.7", "tcp", changes{
			func(s *inventory.Snapshot) {
				s.Clusters[cluster.Key()].Plugin = "azure"
				s.Clusters[cluster.Key()].PluginMode = "overlay"
			}, noneIn}, Delivered, Delivered, "on this node", "own node", "10.0.1.4"},
		// github.com/kubernetes-sigs/ip-masq-agent: the rule is about all that leaves the node
		"a node forwards to something outside": {"10.0.3.9", "10.0.2.4", "tcp",
			changes{byNode("10.0.2.0/24", "10.0.1.4")}, Delivered, Delivered, "v/gateway",
			"v/bare", "10.0.1.4"},
		"and has no way back": {"10.0.3.9", "10.0.2.4", "tcp",
			changes{byNode("10.0.2.0/24", "10.0.1.4"), func(s *inventory.Snapshot) {
				addRoute(s, table, user("10.0.3.0/24", "None"))
			}}, Delivered, Dropped, "v/gateway", "no better route to 10.0.3.9", "10.0.1.4"},
		"a node forwards an answer": {"10.0.2.4", "10.0.3.9",
			"udp", changes{byNode("10.0.2.0/24", "10.0.1.4")}, Delivered, Unknown, "v/bare",
			"replaces its source unless it is TCP", "10.0.2.4"},
		"a node forwards TCP's answer": {"10.0.2.4", "10.0.3.9", "tcp", changes{
			byNode("10.0.2.0/24", "10.0.1.4")}, Delivered, Delivered, "v/bare", "v/gateway",
			"10.0.2.4"},
		// network-security-groups-overview: a flow record lets the opposite direction pass. The
		// answer goes the same way into the node and out of it, and the node saw no connection.
		"a node may not forward an answer": {"10.0.2.4", "10.0.3.9", "tcp", changes{
			byNode("10.0.2.0/24", "10.0.1.4"), func(s *inventory.Snapshot) {
				s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
				s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup, "deny out 100 * * * *")
			}}, Delivered, Dropped, "v/bare", "rule deny-100", "10.0.2.4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := namedShop(t)
			for _, change := range tt.changes {
				change(s)
			}
			there, back := New(s, Options{Protocol: tt.protocol, Port: 80}).Ways(addr(tt.from),
				addr(tt.to))
			if there.Verdict != tt.there || back.Verdict != tt.back ||
				!strings.Contains(there.Why, tt.why) || !strings.Contains(back.Why, tt.backWhy) ||
				there.Source.String() != tt.source {
				t.Errorf("there %s (%s) as %s, back %s (%s)\n%+v\n%+v", there.Verdict, there.Why,
					there.Source, back.Verdict, back.Why, there.Hops, back.Hops)
			}
		})
	}
}
