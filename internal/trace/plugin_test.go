package trace

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// overlay makes the shop an overlay cluster: no routes lead to its pods, and Kubernetes knows the
// nodes' pod CIDRs.
func overlay(t *testing.T) *inventory.Snapshot {
	s := namedShop(t)
	c := s.Clusters[cluster.Key()]
	c.Plugin, c.PluginMode = "azure", "overlay"
	s.Subnets[nodes.Key()].RouteTable, s.Subnets[gateway.Key()].RouteTable = "", ""
	for _, nic := range s.Interfaces {
		nic.Forwarding = false // it is not asked for
	}
	return s
}

func TestOverlay(t *testing.T) {
	shopGateway := arm.ID(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/applicationGateways/shop-agw")
	for name, tt := range map[string]struct {
		from, to    string
		change      func(*inventory.Snapshot)
		there, back Verdict
		why, source string
	}{
		"pod to pod": {"10.244.0.7", "10.244.1.9", nil, Delivered, Delivered,
			"the overlay knows it", "10.244.0.7"},
		"on one node": {"10.244.0.7", "10.244.0.9", nil, Delivered, Delivered, "both pods",
			"10.244.0.7"},
		"node to pod": {"10.0.1.4", "10.244.1.9", nil, Delivered, Delivered,
			"the overlay knows it", "10.0.1.4"},
		"pod to node": {"10.244.0.7", "10.0.1.5", nil, Delivered, Delivered, "v/nodes", "10.0.1.4"},
		"pod to outside": {"10.244.0.7", "10.0.3.9", nil, Delivered, Delivered, "v/bare",
			"10.0.1.4"},
		"outside to pod": {"10.0.3.9", "10.244.1.9", nil, Dropped, Delivered,
			"no better route", "10.0.3.9"},
		"an unknown pod": {"10.244.0.7", "10.244.9.9", nil, Unknown, Unknown,
			"it is unknown which node of cluster shop has the pod 10.244.9.9: only Kubernetes " +
				"knows it", "10.244.0.7"},
		"without Kubernetes": {"10.244.0.7", "10.244.1.9", func(s *inventory.Snapshot) {
			s.Kubernetes = nil
		}, Unknown, Unknown, "10.244.0.7 is a pod's address of cluster shop, but it is unknown " +
			"which node has it", "10.244.0.7"},
		"a gateway may know": {"10.0.2.4", "10.244.1.9", nil, Unknown, Delivered,
			"if an ingress controller drives it", "10.0.2.4"},
		"the cluster's own": {"10.0.2.4", "10.244.1.9", func(s *inventory.Snapshot) {
			s.Clusters[cluster.Key()].Ingress = shopGateway
		}, Delivered, Delivered, "the overlay knows it", "10.0.2.4"},
		"by a route, for once": {"10.0.3.9", "10.244.1.9", func(s *inventory.Snapshot) {
			s.Subnets[bare.Key()].RouteTable = copied
		}, Delivered, Delivered, "the pod is on this node; by a route this is not settled: " +
			"Microsoft documents", "10.0.3.9"},
		"security groups see the pods' addresses": {"10.244.0.7", "10.244.1.9",
			func(s *inventory.Snapshot) {
				s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
				s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup,
					"deny in 100 * 10.244.0.0/16 * *")
			}, Dropped, Delivered, "rule deny-100 of nodes-nsg", "10.244.0.7"},
		"and let them through by default": {"10.244.0.7", "10.244.1.9",
			func(s *inventory.Snapshot) {
				s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
				s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup)
			}, Delivered, Delivered, "", "10.244.0.7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := overlay(t)
			if tt.change != nil {
				tt.change(s)
			}
			there, back := New(s, Options{}).Ways(addr(tt.from), addr(tt.to))
			if there.Verdict != tt.there || back.Verdict != tt.back ||
				!strings.Contains(there.Why, tt.why) || there.Source.String() != tt.source {
				t.Errorf("there %s (%s) as %s, back %s (%s)\n%+v\n%+v", there.Verdict, there.Why,
					there.Source, back.Verdict, back.Why, there.Hops, back.Hops)
			}
		})
	}
}

// TestFlat: with node-subnet and pod-subnet, pods have network addresses and need no routes.
func TestFlat(t *testing.T) {
	pods := vnet + "/subnets/pods"
	flat := func(t *testing.T, podSubnet bool) *inventory.Snapshot {
		s := namedShop(t)
		peer(s, true)
		c := s.Clusters[cluster.Key()]
		c.Plugin, c.PodCIDRs, c.NodeResourceGroup = "azure", nil, "mc"
		s.Subnets[nodes.Key()].RouteTable = ""
		s.Subnets[pods.Key()] = &inventory.Subnet{Document: arm.Document{ID: pods},
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.4.0/22")}}
		place, at := nodes, "10.0.1.44"
		if podSubnet {
			c.Pools[0].PodSubnet = pods
			place, at = pods, "10.0.4.44"
		} else {
			for _, nic := range s.Interfaces {
				if nic.Configs[0].Address.String() == "10.0.1.4" {
					nic.Configs = append(nic.Configs,
						inventory.IPConfig{Address: netip.MustParseAddr(at), Subnet: nodes})
				}
			}
		}
		k := s.Kubernetes[cluster.Key()]
		k.Pods = append(k.Pods, inventory.Pod{Namespace: "shop", Name: "flat", Node: "n0",
			Phase: "Running", Addresses: []netip.Addr{netip.MustParseAddr(at)}})
		if e, err := New(s, Options{}).Resolve("shop/flat"); err != nil || e.Subnet != place ||
			e.Cluster != "" {
			t.Fatal(e, err)
		}
		return s
	}
	for name, tt := range map[string]struct {
		podSubnet   bool
		from, to    string
		there, back Verdict
		why, source string
	}{
		"node-subnet, inside": {false, "shop/flat", "10.0.3.9", Delivered,
			Delivered, "v/bare", "10.0.1.44"},
		"node-subnet, to it": {false, "10.0.3.9", "shop/flat", Delivered,
			Delivered, "v/nodes", "10.0.3.9"},
		"node-subnet, outside it is its node": {false, "shop/flat", "10.70.0.4", Delivered,
			Delivered, "a-twin/s", "10.0.1.4"},
		"node-subnet, the node itself": {false, "10.0.1.4", "10.70.0.4", Delivered,
			Delivered, "a-twin/s", "10.0.1.4"},
		"pod-subnet, inside": {true, "shop/flat", "10.0.3.9", Delivered,
			Delivered, "v/bare", "10.0.4.44"},
		"pod-subnet, to it": {true, "10.0.3.9", "shop/flat", Delivered,
			Delivered, "v/pods", "10.0.3.9"},
		"pod-subnet, outside it is still the pod": {true, "shop/flat", "10.70.0.4", Delivered,
			Delivered, "a-twin/s", "10.0.4.44"},
	} {
		t.Run(name, func(t *testing.T) {
			tracer := New(flat(t, tt.podSubnet), Options{})
			from, err := tracer.Resolve(tt.from)
			if err != nil {
				t.Fatal(err)
			}
			to, err := tracer.Resolve(tt.to)
			if err != nil {
				t.Fatal(err)
			}
			there, back := tracer.Ways(from, to)
			if there.Verdict != tt.there || back.Verdict != tt.back ||
				!strings.Contains(there.Why, tt.why) || there.Source.String() != tt.source {
				t.Errorf("there %s (%s) as %s, back %s (%s)\n%+v\n%+v", there.Verdict, there.Why,
					there.Source, back.Verdict, back.Why, there.Hops, back.Hops)
			}
		})
	}
}
