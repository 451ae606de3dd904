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
	}
	w.subnet(nodesB, "10.241.0.0/24", "").table(tables+"/vms-rt", "a 10.245.1.0/24 10.241.0.4")
	if p := Propose(w.s.Snapshot)[0]; p.Skip != "" || !slices.Equal(targetsOf(p),
		[]string{"vms-rt"}) || p.Config.Spec.Source != v1alpha1.SourceNodes {
		t.Errorf("the overlay cluster with a table: %+v", p)
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

// TestProposeGuard: a config for a cluster of any plugin guards what its subnets have now, and says
// what its outbound type needs and they do not have.
func TestProposeGuard(t *testing.T) {
	pods, api := vnet+"/subnets/pods", vnet+"/subnets/api"
	w := guarded(t)
	c := w.s.Clusters[clusterA.Key()]
	c.PluginMode, c.Outbound, c.APISubnet = "", "userDefinedRouting", api
	c.Pools[0].PodSubnet = pods
	w.subnet(pods, "10.240.16.0/20", hub).subnet(api, "10.240.4.0/28", "").has(api, "", group)
	w.table(hub, "out 0.0.0.0/0 10.1.0.4").subnet(gatewayIn, "10.240.9.0/24", gateway).
		has(gatewayIn, "", group).addGateway(gatewayIn, "agw")
	p := Propose(w.s.Snapshot)[0]
	want := map[arm.ID]v1alpha1.GuardedSubnet{
		api: {SubnetID: string(api), NetworkSecurityGroupID: string(group)},
		nodesA: {SubnetID: string(nodesA), RouteTableID: string(hub), NATGatewayID: string(nat),
			NetworkSecurityGroupID: string(group)},
		pods: {SubnetID: string(pods), RouteTableID: string(hub)},
	}
	if got := p.Config.Spec.Guard.Subnets; len(got) != len(want) || p.Skip != "" ||
		len(p.Notes) > 0 {
		t.Errorf("%+v", p)
	}
	for i, g := range p.Config.Spec.Guard.Subnets {
		if g != want[arm.ID(g.SubnetID)] || !strings.Contains(p.SubnetWhy[i], "of the cluster") {
			t.Errorf("%+v: %s", g, p.SubnetWhy[i])
		}
	}
	for outbound, lacks := range map[string]string{
		"userDefinedRouting":     "a route table with a default route on vnet/shop-nodes",
		"userAssignedNATGateway": "a NAT gateway on vnet/shop-nodes", "loadBalancer": ""} {
		c.Outbound = outbound
		w.subnet(nodesA, "10.240.0.0/24", "")
		notes := strings.Join(Propose(w.s.Snapshot)[0].Notes, "\n")
		if lacks == "" && notes != "" || !strings.Contains(notes, lacks) {
			t.Errorf("%s: %q", outbound, notes)
		}
	}
	// Nothing hangs on the subnets: there is nothing to guard.
	w.subnet(pods, "10.240.16.0/20", "").subnet(api, "10.240.4.0/28", "")
	if p := Propose(w.s.Snapshot)[0]; !strings.Contains(p.Skip, "to guard") {
		t.Errorf("%+v", p)
	}
	// The table of a kubenet cluster's nodes is its own, and the rest of that subnet is guarded.
	w = quiet(t)
	w.has(nodesA, nat, "").wrote(clusterA, tableA)
	if got := Propose(w.s.Snapshot)[0].Config.Spec.Guard.Subnets; len(got) != 1 ||
		got[0].RouteTableID != "" || got[0].NATGatewayID != string(nat) {
		t.Errorf("%+v", got)
	}
}

// TestProposeProvisioned: a subnet that only an AKSNodeClass names is guarded like the others, once
// the interfaces in it were read. One of a private endpoint shows no nodes.
func TestProposeProvisioned(t *testing.T) {
	gpu, private := vnet+"/subnets/gpu", vnet+"/subnets/private"
	w := guarded(t)
	c := w.s.Clusters[clusterA.Key()]
	c.AutoProvisioned, c.Outbound = true, "userAssignedNATGateway"
	w.subnet(gpu, "10.240.16.0/24", hub).subnet(private, "10.240.17.0/24", hub)
	in := func(group, subnet arm.ID, name string) arm.ID {
		id := group + "/providers/Microsoft.Network/networkInterfaces/" + arm.ID(name)
		at := w.s.Subnets[subnet.Key()]
		w.s.Subnets[subnet.Key()] = at.WithConfigurations(append(at.Configurations(),
			id.Child("ipConfigurations", "c")))
		return id
	}
	nic := func(id, subnet, machine arm.ID) {
		w.s.Interfaces[id.Key()] = &inventory.Interface{Document: arm.Document{ID: id},
			Machine: machine, Configs: []inventory.IPConfig{{Name: "c", Subnet: subnet}}}
	}
	node, endpoint := in(c.NodeGroup(), gpu, "node"), in(c.NodeGroup(), private, "endpoint")
	in(vnet.Group(), private, "another") // in another resource group: not asked about
	p := Propose(w.s.Snapshot)[0]
	if got := p.Want.Interfaces; len(got) != 2 || len(p.Config.Spec.Guard.Subnets) != 1 {
		t.Fatalf("it wants %v, and guards %+v", got, p.Config.Spec.Guard.Subnets)
	}
	nic(node, gpu, c.NodeGroup()+"/providers/Microsoft.Compute/virtualMachines/node")
	nic(endpoint, private, "")
	p = Propose(w.s.Snapshot)[0]
	got := p.Config.Spec.Guard.Subnets
	if len(p.Want.Interfaces) > 0 || len(got) != 2 ||
		!gpu.Equal(arm.ID(got[0].SubnetID)) || got[0].RouteTableID != string(hub) ||
		!strings.HasSuffix(p.SubnetWhy[0], "only an AKSNodeClass names the subnet") {
		t.Errorf("%+v", p)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "a NAT gateway on vnet/gpu") {
		t.Errorf("%q", notes)
	}
	delete(w.s.Interfaces, node.Key())
	w.s.Unread[node.Key()] = inventory.Unread{ID: node, Status: 403, Code: "AuthorizationFailed"}
	p = Propose(w.s.Snapshot)[0]
	if len(p.Want.Interfaces) > 0 || len(p.Config.Spec.Guard.Subnets) != 1 ||
		!strings.Contains(strings.Join(p.Notes, "\n"), "interface in subnet vnet/gpu could not be") {
		t.Errorf("%+v", p)
	}
	c.AutoProvisioned = false
	delete(w.s.Unread, node.Key())
	if p := Propose(w.s.Snapshot)[0]; len(p.Want.Interfaces) > 0 {
		t.Errorf("without auto-provisioning it wants %v", p.Want.Interfaces)
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
