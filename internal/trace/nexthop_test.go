package trace

import (
	"net/netip"
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestNextHop: a next hop is lost only if everything that could have its address is known. What
// must be read for that is named, once.
func TestNextHop(t *testing.T) {
	const provider = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.")
	const (
		firewall = provider + "Network/azureFirewalls/fw"
		nva      = provider + "Network/networkInterfaces/nva"
		instance = provider + "Compute/virtualMachineScaleSets/x/virtualMachines/0/networkInterfaces/n"
	)
	has := func(s *inventory.Snapshot, holders ...arm.ID) { // the subnet, as Azure shows it
		var configurations []arm.ID
		for _, id := range holders {
			kind := "ipConfigurations"
			if id.Is(arm.TypeLoadBalancer) {
				kind = "frontendIPConfigurations"
			}
			configurations = append(configurations, id.Child(kind, "c"))
		}
		subnet := s.Subnets[bare.Key()].WithConfigurations(configurations)
		subnet.ETag = `W/"1"`
		s.Subnets[bare.Key()] = subnet
	}
	nic := func(s *inventory.Snapshot, id arm.ID, address string) {
		s.Interfaces[id.Key()] = &inventory.Interface{Document: arm.Document{ID: id},
			Configs: []inventory.IPConfig{{Address: netip.MustParseAddr(address), Subnet: bare}}}
	}
	runs := func(s *inventory.Snapshot, addresses ...netip.Addr) {
		s.Firewalls[firewall.Key()] = &inventory.Firewall{Document: arm.Document{ID: firewall},
			Addresses: addresses}
	}
	unread := func(s *inventory.Snapshot, id arm.ID) {
		s.Unread[id.Key()] = inventory.Unread{ID: id, Status: 403}
	}
	hop, other := "10.0.3.50", netip.MustParseAddr("10.0.3.9")
	for _, tt := range []struct {
		name   string
		hop    string
		change func(*inventory.Snapshot)
		v      Verdict
		want   []arm.ID
	}{
		{"code shows no machines", hop, func(*inventory.Snapshot) {}, Unknown, nil},
		{"an empty subnet", hop, func(s *inventory.Snapshot) { has(s) }, Dropped, nil},
		{"in no subnet", "10.0.77.4", func(*inventory.Snapshot) {}, Dropped, nil},
		{"a machine, unread", hop, func(s *inventory.Snapshot) { has(s, nva) }, Unknown,
			[]arm.ID{nva}},
		{"a machine", hop, func(s *inventory.Snapshot) { has(s, nva); nic(s, nva, hop) }, Delivered,
			nil},
		{"a machine with another address", hop, func(s *inventory.Snapshot) {
			has(s, nva)
			nic(s, nva, "10.0.3.4")
		}, Dropped, nil},
		{"a machine that may not be read", hop, func(s *inventory.Snapshot) {
			has(s, nva)
			unread(s, nva)
		}, Unknown, nil},
		{"an instance of a scale set, unread", hop, func(s *inventory.Snapshot) {
			has(s, instance)
		}, Unknown, []arm.ID{instance}},
		{"an instance of a scale set", hop, func(s *inventory.Snapshot) {
			has(s, instance)
			nic(s, instance, hop)
		}, Delivered, nil},
		{"a firewall, unread", hop, func(s *inventory.Snapshot) { has(s, firewall) }, Unknown,
			[]arm.ID{firewall}},
		{"a firewall", hop, func(s *inventory.Snapshot) {
			has(s, firewall)
			runs(s, other, netip.MustParseAddr(hop))
		}, Delivered, nil},
		{"a firewall with another address", hop, func(s *inventory.Snapshot) {
			has(s, firewall)
			runs(s, other)
		}, Dropped, nil},
		{"a firewall that starts", hop, func(s *inventory.Snapshot) {
			has(s, firewall)
			runs(s)
		}, Unknown, nil},
		{"a load balancer, unread", hop, func(s *inventory.Snapshot) {
			has(s, nva)
			nic(s, nva, "10.0.3.4")
			balanced(s)
			clear(s.Balancers)
		}, Unknown, []arm.ID{balancer}},
		{"a load balancer that may not be read", hop, func(s *inventory.Snapshot) {
			balanced(s)
			clear(s.Balancers)
			unread(s, balancer)
		}, Unknown, nil},
		{"a load balancer's front end", hop, func(s *inventory.Snapshot) {
			balanced(s, behind(nva))
		}, Delivered, nil},
		{"a load balancer without backends", hop, func(s *inventory.Snapshot) {
			balanced(s)
		}, Dropped, nil},
		{"a load balancer with another address", "10.0.3.51", func(s *inventory.Snapshot) {
			balanced(s, behind(nva))
		}, Dropped, nil},
		{"a front end that the load balancer's document lacks", "10.0.3.51",
			func(s *inventory.Snapshot) {
				balanced(s, behind(nva))
				has(s, balancer, balancer+"2")
				s.Balancers[(balancer + "2").Key()] = &inventory.Balancer{}
			}, Unknown, nil},
		{"a service", hop, func(s *inventory.Snapshot) {
			has(s)
			s.Subnets[bare.Key()].Services = true
		}, Unknown, nil},
		{"a gateway", hop, func(s *inventory.Snapshot) {
			has(s, provider+"Network/virtualNetworkGateways/vpn")
		}, Unknown, nil},
		{"the nodes of many scale sets", hop, func(s *inventory.Snapshot) {
			var all []arm.ID
			for _, set := range []arm.ID{"a", "b", "c", "d", "e"} {
				all = append(all, provider+"Compute/virtualMachineScaleSets/"+set+
					"/virtualMachines/0/networkInterfaces/n")
			}
			has(s, all...)
		}, Unknown, nil},
		{"in no network", "172.16.9.4", func(*inventory.Snapshot) {}, Dropped, nil},
		{"in a peered network, in no subnet", "10.70.9.4", func(s *inventory.Snapshot) {
			peer(s, true)
		}, Dropped, nil},
		{"in a peered network that was not read", "10.70.9.4", func(s *inventory.Snapshot) {
			delete(s.VNets, peer(s, true).ID.Key())
		}, Unknown, []arm.ID{
			"/subscriptions/s/resourceGroups/a/providers/Microsoft.Network/virtualNetworks/a-twin"}},
		{"in a peered network that may not be read", "10.70.9.4", func(s *inventory.Snapshot) {
			id := peer(s, true).ID
			delete(s.VNets, id.Key())
			unread(s, id)
		}, Unknown, nil},
		{"there is a peering that does not say its address space", "172.16.9.4",
			func(s *inventory.Snapshot) {
				peer(s, true)
				s.VNets[vnet.Key()].Peerings[0].Prefixes = nil
			}, Unknown, nil},
		{"its own network was not read", hop, func(s *inventory.Snapshot) {
			delete(s.VNets, vnet.Key())
		}, Unknown, []arm.ID{vnet}},
		{"its own network may not be read", hop, func(s *inventory.Snapshot) {
			delete(s.VNets, vnet.Key())
			unread(s, vnet)
		}, Unknown, nil},
	} {
		s := shop()
		tt.change(s)
		v, want := New(s, Options{}).NextHop(nodes, netip.MustParseAddr(tt.hop))
		if read := slices.Concat(want.Networks, want.Interfaces, want.Firewalls,
			want.Balancers); v != tt.v ||
			!slices.Equal(read, tt.want) {
			t.Errorf("%s: %s, reads %v", tt.name, v, read)
		}
	}
}
