package trace

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestAllLost: the matrix contains nodes whose routes are wrong or missing. The names of routes,
// and the interfaces, show them.
func TestAllLost(t *testing.T) {
	const group = arm.ID("/subscriptions/s/resourceGroups/mc")
	nic := func(s *inventory.Snapshot, instance, address string) *inventory.Interface {
		id := group + "/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-1-vmss/virtualMachines/" + arm.ID(instance) + "/networkInterfaces/nic"
		n := &inventory.Interface{Document: arm.Document{ID: id}, Forwarding: true,
			Configs: []inventory.IPConfig{{Address: netip.MustParseAddr(address), Subnet: nodes}}}
		s.Interfaces[id.Key()] = n
		return n
	}
	read := func(s *inventory.Snapshot) {
		nic(s, "0", "10.0.1.4")
		nic(s, "1", "10.0.1.5")
		s.InterfacesOf = []arm.ID{group}
	}
	route := func(s *inventory.Snapshot, name, hop string) { // of the second node
		r := user("10.244.1.0/24", hop)
		r.Name = name
		setRoute(s, table, 1, r)
	}
	const first, second = "aks-np-1-vmss000000", "aks-np-1-vmss000001____102441024"
	for name, tt := range map[string]struct {
		change func(*inventory.Snapshot)
		says   []string // the counts first
		unseen int
	}{
		"all is well": {func(s *inventory.Snapshot) { read(s); route(s, second, "10.0.1.5") },
			[]string{"6 pairs, 6 delivered, 0 dropped, 0 unknown"}, 0},
		"a hop outside the node subnets": {func(s *inventory.Snapshot) {
			read(s)
			route(s, second, "10.0.9.4")
		}, []string{"6 pairs, 4 delivered, 0 dropped, 2 unknown",
			"leaves 1 pod to pod (answer: false) 10.0.1.4 -> aks-np-1-vmss000001: 10.0.9.4 is " +
				"not a cluster node", "leaves 1 node to pod (answer: false) 10.0.1.4 -> " +
				"aks-np-1-vmss000001: 10.0.9.4 is not a cluster node"}, 0},
		"a hop in no subnet": {func(s *inventory.Snapshot) {
			read(s)
			route(s, second, "10.0.77.4")
		}, []string{"6 pairs, 4 delivered, 2 dropped, 0 unknown",
			"dropped 1 pod to pod (answer: false) 10.0.1.4 -> aks-np-1-vmss000001: no subnet of " +
				"the network has the address of the next hop"}, 0},
		"a hop in no network": {func(s *inventory.Snapshot) {
			read(s)
			route(s, second, "172.16.9.4")
		}, []string{"6 pairs, 4 delivered, 2 dropped, 0 unknown",
			"dropped 1 pod to pod (answer: false) 10.0.1.4 -> aks-np-1-vmss000001: the next hop " +
				"is in no network"}, 0},
		"another node's hop": {func(s *inventory.Snapshot) {
			read(s)
			route(s, second, "10.0.1.4")
		}, []string{"6 pairs, 4 delivered, 2 dropped, 0 unknown", "-> aks-np-1-vmss000001: the " +
			"next hop is where it comes from"}, 0},
		"a route to nowhere": {func(s *inventory.Snapshot) { read(s); route(s, second, "None") },
			[]string{"6 pairs, 4 delivered, 2 dropped, 0 unknown",
				"-> aks-np-1-vmss000001: subnet v/nodes has no better route"}, 0},
		"an old route's name": {func(s *inventory.Snapshot) {
			read(s)
			route(s, "aks-np-1-vmss000001", "10.0.9.4")
		}, []string{"6 pairs, 4 delivered, 0 dropped, 2 unknown"}, 0},
		// The first node and its pods send to the second node's pods; nothing shows where the first
		// node is.
		"no interface was read": {func(s *inventory.Snapshot) {
			route(s, second, "172.16.9.4")
			setRoutes(s, copied, nil)
		}, []string{"2 pairs, 0 delivered, 2 dropped, 0 unknown",
			"10.0.1.4 -> aks-np-1-vmss000001: the next hop is in no network"}, 0},
		"a node that is gone": {func(s *inventory.Snapshot) {
			nic(s, "0", "10.0.1.4")
			s.InterfacesOf = []arm.ID{group}
			route(s, second, "172.16.9.4")
		}, []string{"1 pairs, 1 delivered, 0 dropped, 0 unknown"}, 0},
		"another appliance": {func(s *inventory.Snapshot) {
			route(s, "special", "10.0.9.4")
		}, []string{"1 pairs, 1 delivered, 0 dropped, 0 unknown"}, 0},
		"another cluster's machine": {func(s *inventory.Snapshot) {
			route(s, "aks-other-1-vmss000001", "10.0.9.4")
		}, []string{"1 pairs, 1 delivered, 0 dropped, 0 unknown"}, 0},

		// of itself, only its own packets
		"no route": {func(s *inventory.Snapshot) { read(s); nic(s, "2", "10.0.1.6") },
			[]string{"13 pairs, 8 delivered, 5 dropped, 0 unknown",
				"dropped 2 pod to pod (answer: false) 10.0.1.4,10.0.1.5 -> aks-np-1-vmss000002: " +
					"subnet v/nodes has no better route to the destination than 10.0.0.0/8 to " +
					"None (system route)",
				"dropped 1 subnet to pod (answer: false) v/gateway -> aks-np-1-vmss000002: " +
					"subnet v/gateway has no better route"}, 0},
		"no route, and one that may be it": {func(s *inventory.Snapshot) {
			read(s)
			nic(s, "2", "10.0.1.6")
			addRoute(s, table, user("10.244.7.0/25", "10.0.9.4"))
		}, []string{"13 pairs, 8 delivered, 0 dropped, 5 unknown", "-> aks-np-1-vmss000002: only " +
			"Kubernetes knows the node's pods: route r 10.244.7.0/25 in rt may lead to them"}, 0},
		"a private endpoint": {func(s *inventory.Snapshot) {
			read(s)
			n := nic(s, "2", "10.0.1.6")
			n.ID = group + "/providers/Microsoft.Network/networkInterfaces/kube-apiserver.nic"
		}, []string{"6 pairs, 6 delivered, 0 dropped, 0 unknown"}, 0},
		"another virtual machine": {func(s *inventory.Snapshot) {
			read(s)
			n := nic(s, "2", "10.0.1.6")
			n.ID, n.Machine = group+"/providers/Microsoft.Network/networkInterfaces/jump-nic",
				group+"/providers/Microsoft.Compute/virtualMachines/jump"
		}, []string{"6 pairs, 6 delivered, 0 dropped, 0 unknown"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			s.Clusters[cluster.Key()].NodeResourceGroup = "mc"
			tt.change(s)
			m := New(s, Options{}).All()
			for i, want := range tt.says {
				if got := m.says(); i == 0 && !strings.HasPrefix(got, want) ||
					!strings.Contains(got, want) {
					t.Errorf("%s\nwant %s", got, want)
				}
			}
			if len(m.Unseen) != tt.unseen {
				t.Errorf("not seen %q", m.Unseen)
			}
		})
	}
}

// TestNext: the next prefix can change earlier bytes.
func TestNext(t *testing.T) {
	for p, want := range map[string]string{"10.244.0.0/24": "10.244.1.0/24",
		"10.244.255.0/24": "10.245.0.0/24", "10.0.0.0/25": "10.0.0.128/25",
		"10.0.0.128/25": "10.0.1.0/25", "fd00:0:0:ffff::/64": "fd00:0:1::/64"} {
		if got := next(netip.MustParsePrefix(p)); got.String() != want {
			t.Errorf("after %s comes %s", p, got)
		}
	}
}

// TestUnusedHop: packets to an unused next hop are dropped, if everything in its subnet is known.
func TestUnusedHop(t *testing.T) {
	const nic = arm.ID(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/jump-nic")
	const frontend = arm.ID(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/lb/frontendIPConfigurations/f")
	config := nic + "/ipConfigurations/c"
	hold := func(s *inventory.Snapshot, subnet *inventory.Subnet, configurations ...arm.ID) {
		s.Subnets[subnet.ID.Key()] = subnet.WithConfigurations(configurations)
	}
	for name, tt := range map[string]struct {
		change func(*inventory.Snapshot, *inventory.Subnet)
		want   Verdict
	}{
		"unused": {func(*inventory.Snapshot, *inventory.Subnet) {}, Dropped},
		"unused, by what the subnet shows": {func(s *inventory.Snapshot, bare *inventory.Subnet) {
			s.InterfacesOf = []arm.ID{"/subscriptions/s/resourceGroups/mc"}
			hold(s, bare, config)
		}, Dropped},
		"an interface has it": {func(s *inventory.Snapshot, _ *inventory.Subnet) {
			s.Interfaces[nic.Key()].Configs[0].Address = netip.MustParseAddr("10.0.3.50")
		}, Leaves},
		"not all interfaces were read": {func(s *inventory.Snapshot, _ *inventory.Subnet) {
			s.InterfacesOf = []arm.ID{"/subscriptions/s/resourceGroups/mc"}
		}, Leaves},
		"one shows that was not read": {func(s *inventory.Snapshot, bare *inventory.Subnet) {
			hold(s, bare, config,
				"/subscriptions/x/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/n/ipConfigurations/c")
		}, Leaves},
		"one has something that is not an address": {
			func(s *inventory.Snapshot, bare *inventory.Subnet) {
				hold(s, bare, config)
				s.Interfaces[nic.Key()].Unreadable = true
			}, Leaves},
		"a load balancer is there": {func(s *inventory.Snapshot, bare *inventory.Subnet) {
			hold(s, bare, config, frontend)
		}, Leaves},
		"an application gateway is there": {func(_ *inventory.Snapshot, bare *inventory.Subnet) {
			bare.Gateways = []arm.ID{
				"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/applicationGateways/agw"}
		}, Leaves},
		"a service has it, by delegation": {func(_ *inventory.Snapshot, bare *inventory.Subnet) {
			bare.Delegations = []string{"Microsoft.ContainerInstance/containerGroups"}
		}, Leaves},
		"of a network elsewhere it is not": {func(s *inventory.Snapshot, _ *inventory.Subnet) {
			s.InterfacesOf = []arm.ID{"/subscriptions/other"}
		}, Leaves},
	} {
		s := shop()
		s.Interfaces[nic.Key()] = &inventory.Interface{Document: arm.Document{ID: nic},
			Forwarding: true, Configs: []inventory.IPConfig{
				{Address: netip.MustParseAddr("10.0.3.9"), Subnet: bare}}}
		s.InterfacesOf = []arm.ID{"/subscriptions/s"}
		setRoute(s, copied, 1, user("10.244.1.0/24", "10.0.3.50"))
		tt.change(s, s.Subnets[bare.Key()])
		way, _ := New(s, Options{}).Ways(Endpoint{Addr: netip.MustParseAddr("10.0.2.4")},
			Endpoint{Addr: netip.MustParseAddr("10.244.1.7")})
		if way.Verdict != tt.want || tt.want == Dropped && way.Why != "the address of the next "+
			"hop 10.0.3.50 is unused: nothing in subnet v/bare has it" {
			t.Errorf("%s: %s: %s", name, way.Verdict, way.Why)
		}
	}
}
