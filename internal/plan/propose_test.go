package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// addGateway puts an Application Gateway into a subnet.
func (w *world) addGateway(subnet arm.ID, name string) *world {
	w.s.Subnet(subnet).Gateways = append(w.s.Subnet(subnet).Gateways,
		arm.ResourceID(sub, "net-rg", arm.TypeGateway, name))
	return w
}

func targetsOf(p Proposal) []string {
	var out []string
	for _, t := range p.Config.Spec.Targets {
		out = append(out, arm.ID(t.RouteTableID).Name())
	}
	return out
}

func TestPropose(t *testing.T) {
	w := shop(t)
	peer := arm.ID("/subscriptions/" + sub +
		"/resourceGroups/hub-rg/providers/Microsoft.Network/virtualNetworks/hub")
	far := arm.ID("/subscriptions/" + sub +
		"/resourceGroups/far-rg/providers/Microsoft.Network/virtualNetworks/far")
	w.s.VNets[vnet.Key()] = &inventory.VNet{Document: arm.Document{ID: vnet},
		Peerings: []inventory.Peering{{Remote: peer}}}
	farTable, spoke, plain := tables+"/far-rt", tables+"/spoke-rt", vnet+"/subnets/plain"
	w.table(hub).table(farTable).table(spoke, "copied 10.244.1.0/24 10.240.0.5",
		"stale 10.244.9.0/24 10.240.0.9").
		subnet(peer+"/subnets/agw", "10.1.0.0/24", hub).addGateway(peer+"/subnets/agw", "hub-agw").
		// not peered: out of reach
		subnet(far+"/subnets/agw", "10.2.0.0/24", farTable).addGateway(far+"/subnets/agw",
		"far-agw").
		subnet(plain, "10.240.8.0/24", "").addGateway(plain, "bare-agw").
		addGateway(gatewayIn, "shop-agw")
	w.cluster(clusterB, "10.245.0.0/16", nodesB)
	w.s.Clusters[clusterB.Key()].Plugin, w.s.Clusters[clusterB.Key()].PluginMode =
		"azure", "overlay"
	if p := Propose(w.s.Snapshot)[1]; len(p.Want.Written) != 1 ||
		p.Config.Spec.RouteTableID != "" || slices.Contains(targetsOf(p), "spoke-rt") {
		t.Errorf("without the activity log: %+v", p)
	}
	w.wrote(clusterA, tableA)
	proposals := Propose(w.s.Snapshot)
	if len(proposals) != 2 {
		t.Fatalf("%d proposals", len(proposals))
	}
	if p := proposals[0]; !strings.Contains(p.Skip, "overlay") {
		t.Errorf("the overlay cluster: %+v", p)
	} else if p.Offer != nil {
		t.Errorf("no table holds its routes, and yet there is an offer: %+v", p.Offer)
	}
	w.subnet(nodesB, "10.241.0.0/24", "").table(tables+"/vms-rt", "a 10.245.1.0/24 10.241.0.4")
	if p := Propose(w.s.Snapshot)[0]; !strings.Contains(p.Skip, "to its pods are in vms-rt") ||
		!strings.Contains(p.Skip, "source: Nodes") {
		t.Errorf("the overlay cluster with a table: %+v", p)
	} else if o := p.Offer; o == nil || o.Spec.Source != v1alpha1.SourceNodes ||
		o.Spec.ClusterID != string(clusterB) || len(o.Spec.Targets) != 1 ||
		!arm.ID(o.Spec.Targets[0].RouteTableID).Equal(tables+"/vms-rt") {
		t.Errorf("the overlay cluster's offer: %+v", o)
	}
	p := proposals[1]
	if got, want := targetsOf(p), []string{"hub-rt", "gw-rt", "spoke-rt"}; !slices.Equal(got,
		want) {
		t.Errorf("targets %v, want %v", got, want)
	}
	if got := p.TargetWhy[2]; got != "it has 2 pod routes of the cluster" {
		t.Errorf("why spoke-rt: %s", got)
	}
	if arm.ID(p.Config.Spec.RouteTableID) != tableA ||
		p.Table != "the cluster's identity wrote it" ||
		len(p.Config.Spec.Guard.Subnets) != 2 || len(p.SubnetWhy) != 2 {
		t.Errorf("%+v", p)
	}
	if len(p.Notes) != 1 ||
		!strings.Contains(p.Notes[0],
			"bare-agw is in subnet vnet/plain, which has no route table") {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestProposeWhatIsNotToBeWritten(t *testing.T) {
	w := shop(t)
	// shares the cluster's route table
	w.subnet(gatewayIn, "10.240.9.0/24", tableA).addGateway(gatewayIn, "agw")
	other := arm.ResourceID(sub, "MC_x", arm.TypeRouteTable, "aks-agentpool-12345678-routetable")
	second := vnet + "/subnets/gw2"
	w.table(other, "x 10.244.0.0/24 10.240.0.4").subnet(second, "10.240.7.0/24",
		other).addGateway(second, "agw2")
	delete(w.s.Tables, gateway.Key())
	w.wrote(clusterA, tableA)
	p := Propose(w.s.Snapshot)[0]
	if len(p.Config.Spec.Targets) != 0 || len(p.Config.Spec.Guard.Subnets) != 0 {
		t.Errorf("targets %v, guarded %v", p.Config.Spec.Targets, p.Config.Spec.Guard.Subnets)
	}
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{"shares the cluster's route table",
		"has the route table of another cluster, aks-agentpool-12345678-routetable"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q:\n%s", want, notes)
		}
	}
	// Without any table it asks for what would identify it.
	w.subnet(nodesA, "10.240.0.0/24", "")
	w.s.Learn(clusterA).LogRead = false
	if p := Propose(w.s.Snapshot)[0]; len(p.Want.Written) != 1 || p.Config.Spec.RouteTableID != "" {
		t.Errorf("%+v", p)
	}
}

// TestProposeTwins: networks of several stages often have the same addresses, and their clusters
// the same pod CIDR. A table that leads to one cluster's nodes is not a target of the other, nor is
// a cluster's route table.
func TestProposeTwins(t *testing.T) {
	twin := arm.ID("/subscriptions/" + sub +
		"/resourceGroups/twin-rg/providers/Microsoft.Network/virtualNetworks/twin")
	twinHub := arm.ID("/subscriptions/" + sub +
		"/resourceGroups/twin-rg/providers/Microsoft.Network/virtualNetworks/twin-hub")
	same := netip.MustParsePrefix("10.240.0.0/16")
	twins := func(other bool) *world {
		w := shop(t)
		w.s.VNets[vnet.Key()] = &inventory.VNet{Document: arm.Document{ID: vnet},
			Prefixes: []netip.Prefix{same}}
		w.s.VNets[twin.Key()] = &inventory.VNet{Document: arm.Document{ID: twin},
			Prefixes: []netip.Prefix{same}}
		w.s.VNets[twinHub.Key()] = &inventory.VNet{Document: arm.Document{ID: twinHub},
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
			Peerings: []inventory.Peering{{Remote: twin, Prefixes: []netip.Prefix{same}}}}
		w.subnet(twin+"/subnets/nodes", "10.240.0.0/24", tableB).subnet(twin+"/subnets/gw",
			"10.240.9.0/24", hub).subnet(twinHub+"/subnets/vms", "10.1.0.0/24", tables+"/vms-rt")
		for id, on := range map[arm.ID]arm.ID{tableB: twin + "/subnets/nodes", hub: twin +
			"/subnets/gw", tables + "/vms-rt": twinHub + "/subnets/vms"} {
			w.table(id, "n0____102440024 10.244.0.0/24 10.240.0.4")
			w.s.Table(id).Subnets = []arm.ID{on}
		}
		if other {
			w.cluster(clusterB, "10.244.0.0/16", twin+"/subnets/nodes").wrote(clusterB, tableB)
		}
		return w.wrote(clusterA, tableA)
	}
	for _, other := range []bool{false, true} {
		for _, p := range Propose(twins(other).s.Snapshot) {
			if got := targetsOf(p); p.Cluster.Equal(clusterA) && len(got) > 0 ||
				p.Cluster.Equal(clusterB) && !slices.Equal(got, []string{"hub-rt", "vms-rt"}) {
				t.Errorf("the other cluster is seen: %v: %s: targets %v", other, p.Cluster.Name(),
					got)
			}
		}
	}
	// A table peered with both networks belongs to the one whose addresses it reaches; an
	// unassociated table may belong to either.
	w := twins(false)
	w.s.VNets[twinHub.Key()].Peerings = []inventory.Peering{
		{Remote: vnet, Prefixes: []netip.Prefix{same}}}
	w.s.Table(hub).Subnets = nil
	if got := targetsOf(Propose(w.s.Snapshot)[0]); !slices.Equal(got,
		[]string{"hub-rt", "vms-rt"}) {
		t.Errorf("targets %v", got)
	}
	// One network, and two clusters with the same pod CIDR.
	w = shop(t).cluster(clusterB, "10.244.0.0/16", nodesB).subnet(nodesB, "10.240.1.0/24",
		tableB).table(tableB, "x 10.244.7.0/24 10.240.0.4")
	for _, p := range Propose(w.s.Snapshot) {
		if got := targetsOf(p); len(got) > 0 {
			t.Errorf("%s: targets %v", p.Cluster.Name(), got)
		}
	}
}
