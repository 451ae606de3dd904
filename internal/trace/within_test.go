package trace

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	play = arm.ID(
		"/subscriptions/s/resourceGroups/g2/providers/Microsoft.ContainerService/managedClusters/play")
	playVNet = arm.ID(
		"/subscriptions/s/resourceGroups/g2/providers/Microsoft.Network/virtualNetworks/w")
	playNodes = playVNet + "/subnets/nodes"
)

// twoShops is the shop and a second cluster with the same addresses and names, in another network.
// The shop's network is peered with one that has a machine.
func twoShops(t *testing.T) *inventory.Snapshot {
	s := namedShop(t)
	table := playVNet.Group() + "/providers/Microsoft.Network/routeTables/play-rt"
	s.Tables[table.Key()] = &inventory.RouteTable{Document: arm.Document{ID: table}}
	setRoutes(s, table,
		[]inventory.Route{user("10.244.0.0/24", "10.0.1.4"), user("10.244.1.0/24", "10.0.1.5")})
	s.VNets[playVNet.Key()] = &inventory.VNet{Document: arm.Document{ID: playVNet},
		Prefixes: s.VNets[vnet.Key()].Prefixes}
	s.Subnets[playNodes.Key()] = &inventory.Subnet{Document: arm.Document{ID: playNodes},
		Prefixes: s.Subnets[nodes.Key()].Prefixes, RouteTable: table}
	other := *s.Clusters[cluster.Key()]
	other.ID, other.Pools = play, []inventory.Pool{{Name: "np", Subnet: playNodes, Count: 2}}
	s.Clusters[play.Key()] = &other
	s.Kubernetes[play.Key()] = s.Kubernetes[cluster.Key()]
	hub := peer(s, true)
	for id, at := range map[arm.ID]inventory.IPConfig{
		"/subscriptions/s/resourceGroups/hub/providers/Microsoft.Network/networkInterfaces/build": {
			Address: netip.MustParseAddr("10.70.0.9"), Subnet: hub.ID.Child("subnets", "s")},
		"/subscriptions/s/resourceGroups/g2/providers/Microsoft.Network/networkInterfaces/lone": {
			Address: netip.MustParseAddr("10.0.1.77"), Subnet: playNodes},
	} {
		s.Interfaces[id.Key()] = &inventory.Interface{Document: arm.Document{ID: id},
			Configs: []inventory.IPConfig{at}}
	}
	return s
}

func TestWithin(t *testing.T) {
	s := twoShops(t)
	for of, home := range map[arm.ID]arm.ID{cluster: nodes, play: playNodes} {
		in := New(s, Options{Cluster: of})
		for text, want := range map[string]Endpoint{
			"10.244.0.7": {Cluster: of},
			"shop/web-0": {Cluster: of},
			"node/n1":    {Subnet: home},
			"10.0.1.5":   {Subnet: home},
			"10.0.1.9":   {Subnet: home},
		} {
			got, err := in.Resolve(text)
			if err != nil || got.Cluster != want.Cluster || got.Subnet != want.Subnet {
				t.Errorf("%s within %s: %+v, %v", text, of.Name(), got, err)
			}
		}
		from, _ := in.Resolve("10.244.0.7")
		to, _ := in.Resolve("shop/web-1")
		there, back := in.Ways(from, to)
		if there.Verdict != Delivered || back.Verdict != Delivered {
			t.Errorf("within %s: %s, %s", of.Name(), there.Why, back.Why)
		}
	}
	// Connected networks are visible, others are not.
	in := New(s, Options{Cluster: cluster})
	if got, err := in.Resolve("vm/build"); err != nil || got.Addr.String() != "10.70.0.9" {
		t.Error(got, err)
	}
	for of, text := range map[arm.ID]string{cluster: "vm/lone", play: "vm/build"} {
		_, err := New(s, Options{Cluster: of}).Resolve(text)
		if err == nil || !strings.HasSuffix(err.Error(), "which is not connected with cluster "+
			of.Name()+
			": omit --cluster to search everywhere") {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Without a cluster it is an error that names the flag.
	everywhere := New(s, Options{})
	for _, text := range []string{"10.244.0.7", "shop/web-0", "node/n1", "10.0.1.9",
		"10.244.77.1"} {
		got, err := everywhere.Resolve(text)
		if err == nil || !strings.Contains(err.Error(), "with --cluster") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	// A unique name needs no flag.
	for _, text := range []string{"10.0.3.9", "vm/lone", "10.70.0.9"} {
		if _, err := everywhere.Resolve(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAllInOrder: breaks that differ only in kind have a fixed order.
func TestAllInOrder(t *testing.T) {
	s := shop()
	s.Subnets[nodes.Key()].RouteTable = ""
	for range 50 {
		m := New(s, Options{}).All()
		if len(m.Broken) != 2 || m.Broken[0].Kind != nodeToPod || m.Broken[1].Kind != podToPod {
			t.Fatalf("%+v", m.Broken)
		}
	}
}
