package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	nat    = netGroup + "/providers/Microsoft.Network/natGateways/nat"
	fwRT   = netGroup + "/providers/Microsoft.Network/routeTables/fw-rt"
	second = vnet + "/subnets/second"
)

// stripped is a cluster of Azure CNI Overlay with user-defined routing whose subnet has no table.
func stripped(t *testing.T) *world {
	return healthy(t).overlay().profile("outboundType", "userDefinedRouting").
		unset(nodes, "routeTable").muted(finding.RoutesOrphaned)
}

// TestEgressBypassed: without a route to the firewall, packets leave by what comes first of NAT
// gateway, public IP addresses, load balancer and default outbound access; or they are dropped.
func TestEgressBypassed(t *testing.T) {
	withNAT := func(w *world) *world { return w.set(nodes, "natGateway", link(nat)) }
	public := func(w *world) *world {
		w.props(shop)["agentPoolProfiles"].(list)[0].(object)["enableNodePublicIP"] = true
		return w
	}
	private := func(w *world) *world { return w.set(nodes, "defaultOutboundAccess", false) }
	for by, w := range map[string]*world{
		"default outbound access":         stripped(t),
		"the nodes' public IP addresses":  private(public(stripped(t))),
		"NAT gateway nat":                 public(withNAT(stripped(t))),
		"default outbound access ":        stripped(t).set(nodes, "routeTable", link(shopTable)),
		"the nodes' public IP addresses ": public(stripped(t)),
	} {
		by = strings.TrimSpace(by)
		says(t, w.finds(finding.EgressBypassed), "leave past the firewall by "+by,
			"take the system route and leave by "+by)
	}
	says(t, private(stripped(t)).finds(finding.EgressRouteMissing), "are dropped")

	// A config says where the packets must go.
	declared := func() *world {
		w := healthy(t).routes(shopTable, podRoute(0), podRoute(1), podRoute(2), outward).
			muted(finding.EgressDiffers)
		return w.names(shopTable).unset(nodes, "routeTable")
	}
	f := declared().finds(finding.EgressBypassed, finding.AssociationLost)
	says(t, f, "egress of subnet nodes: bypasses 10.42.3.4 by the outbound rules of the cluster's "+
		"load balancer", "node subnet shop-vnet/nodes has lost its route table shop-rt",
		"--route-table "+string(shopTable))
	guarded := func(w *world) *world {
		w.c.Configs = healthy(t).c.Configs
		w.unconfigured().c.Configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
			{SubnetID: string(nodes), NATGatewayID: string(nat)}}
		return w.profile("outboundType", "userAssignedNATGateway")
	}
	says(t, guarded(stripped(t)).finds(finding.EgressBypassed, finding.AssociationLost),
		"bypasses NAT gateway nat by default outbound access", "--nat-gateway "+string(nat))
	says(t, guarded(private(stripped(t))).finds(finding.EgressDropped, finding.AssociationLost),
		"their packets are dropped", "--nat-gateway "+string(nat), "the config names it")
}

// TestHad: without a config, evidence of what a subnet had is all that shows its loss. With a
// config, the config decides.
func TestHad(t *testing.T) {
	const group = netGroup + "/providers/Microsoft.Network/networkSecurityGroups/nsg"
	lost := func(proposed bool) *world {
		w := healthy(t).overlay().muted(finding.RoutesOrphaned).unset(nodes, "networkSecurityGroup")
		w.c.Proposed = proposed
		return w.also(func(s *inventory.Snapshot) {
			for property, id := range map[inventory.Property]arm.ID{
				inventory.PropertyNAT: nat, inventory.PropertyGroup: group} {
				s.NoteFormer(nodes, inventory.Former{Property: property, Value: id, How: "the log"})
			}
		})
	}
	var said []string
	for _, f := range lost(true).check() {
		if f.Code == finding.AssociationLost {
			said = append(said, f.Severity.String(), f.Subject, f.Fix)
		}
	}
	update := "az network vnet subnet update --ids " + string(nodes)
	if want := []string{"warning", "natGateway", update + " --nat-gateway " + string(nat),
		"warning", "networkSecurityGroup", update + " --network-security-group " + string(group),
	}; !slices.Equal(said, want) {
		t.Errorf("got %q", said)
	}
	for _, f := range lost(false).check() {
		if f.Code == finding.AssociationLost {
			t.Errorf("with a config: %v", f)
		}
	}
}

// TestManyBare: a diagnosis of many clusters does not ask the activity log about each of their
// subnets for minutes. It says so.
func TestManyBare(t *testing.T) {
	w := healthy(t).overlay()
	w.c.Proposed = true
	w.c.Snapshot = w.snapshot()
	ask, left := Bare(w.c)
	if len(ask) == 0 || len(left) > 0 {
		t.Fatalf("of few: %v, %v", ask, left)
	}
	cluster, like := w.c.Snapshot.Cluster(shop), w.c.Snapshot.Subnet(nodes)
	for i := range mostBare {
		subnet := *like
		subnet.ID = vnet.Child("subnets", fmt.Sprintf("more-%d", i))
		w.c.Snapshot.Subnets[subnet.ID.Key()] = &subnet
		cluster.Pools = append(cluster.Pools, inventory.Pool{Subnet: subnet.ID})
	}
	if ask, left = Bare(w.c); len(ask) != mostBare {
		t.Errorf("asks about %d", len(ask))
	}
	says(t, left[0], "the activity log was asked about 100 of 101 without a route table",
		"routekeeper doctor with the name of a cluster")
}

// TestLost: the command gives back what evidence shows that a subnet or a table had; several
// candidates get a command each, and none has a word to fill in.
func TestLost(t *testing.T) {
	had := func(of arm.ID, all ...inventory.Former) func(*inventory.Snapshot) {
		return func(s *inventory.Snapshot) { s.NoteFormer(of, all...) }
	}
	hadTable := func(id arm.ID) inventory.Former {
		return inventory.Former{Property: inventory.PropertyTable, Value: id,
			How: "the write of nodes"}
	}
	loose := func(w *world, id arm.ID, hop string) *world {
		return w.put(table(id, "", route("egress", "0.0.0.0/0", "VirtualAppliance", hop))).
			set(id, "subnets", list{})
	}
	update := "az network vnet subnet update --ids " + string(nodes)
	attach := func(id arm.ID) string { return update + " --route-table " + string(id) }

	// what was written counts before what else is there
	f := loose(stripped(t), fwRT, "10.42.3.4").also(had(nodes, hadTable(shopTable))).
		finds(finding.EgressBypassed)
	says(t, f, attach(shopTable), "the subnet had it: the write of nodes")
	f = loose(stripped(t), fwRT, "10.42.3.4").finds(finding.EgressBypassed)
	says(t, f, attach(fwRT), "it is on no subnet, and its route egress leads to 10.42.3.4")
	// a table that does not exist any more cannot be given back
	f = loose(stripped(t), fwRT, "10.42.3.4").absent(shopTable).
		also(had(nodes, hadTable(shopTable))).finds(finding.EgressBypassed)
	says(t, f, attach(fwRT))
	// a firewall that the subnet does not reach, and another region
	unsure := func(w *world) {
		t.Helper()
		f := w.finds(finding.EgressBypassed)
		says(t, f, "az monitor activity-log list --resource-id "+string(nodes)+" --offset 89d")
		if strings.Contains(strings.Join(f.Evidence, " "), "fw-rt") {
			t.Errorf("%q", f.Evidence)
		}
	}
	unsure(stripped(t))
	unsure(loose(stripped(t), fwRT, "10.77.3.4"))
	far := loose(stripped(t), fwRT, "10.42.3.4")
	far.docs[fwRT.Key()]["location"] = "northeurope"
	unsure(far)
	// another node subnet
	pool := func(w *world, properties object) *world {
		pools := w.props(shop)["agentPoolProfiles"].(list)
		w.props(shop)["agentPoolProfiles"] = append(pools, object{"name": "two", "count": 0,
			"vnetSubnetID": string(second), "type": "VirtualMachineScaleSets", "maxPods": 110})
		properties["addressPrefix"] = "10.42.4.0/24"
		return w.addSubnet(second, properties)
	}
	both := loose(loose(stripped(t), fwRT, "10.42.3.4"), shopTable, "10.42.3.4")
	f = pool(both, object{"routeTable": link(fwRT)}).finds(finding.EgressBypassed)
	says(t, f, attach(fwRT), "node subnet shop-vnet/second of the cluster has it")

	// several: a command each, at most three
	many := stripped(t)
	for i := range 5 {
		loose(many, fwRT+arm.ID(fmt.Sprint(i)), "10.42.3.4")
	}
	f = many.finds(finding.EgressBypassed)
	all := strings.Join(f.Evidence, "\n")
	if f.Fix != "" || strings.Count(all, "either route table: ") != 5 ||
		strings.Count(all, update) != 3 {
		t.Errorf("fix %q, %s", f.Fix, all)
	}

	// a NAT gateway
	noNAT := func() *world {
		return healthy(t).overlay().profile("outboundType", "userAssignedNATGateway").
			muted(finding.RoutesOrphaned)
	}
	f = noNAT().also(had(nodes, inventory.Former{Property: inventory.PropertyNAT, Value: nat,
		How: "the history"})).finds(finding.EgressDiffers)
	says(t, f, "they leave by default outbound access", update+" --nat-gateway "+string(nat))
	f = pool(noNAT(), object{"natGateway": link(nat)}).finds(finding.EgressDiffers)
	says(t, f, update+" --nat-gateway "+string(nat))
	says(t, noNAT().finds(finding.EgressDiffers), "az monitor activity-log list")

	// the route to the firewall
	create := "az network route-table route create --subscription " + sub + " --resource-group " +
		"net-rg --route-table-name shop-rt --name egress --address-prefix 0.0.0.0/0 " +
		"--next-hop-type VirtualAppliance --next-hop-ip-address "
	noRoute := func() *world { return stripped(t).set(nodes, "routeTable", link(shopTable)) }
	f = loose(noRoute(), fwRT, "10.42.3.4").also(had(shopTable, inventory.Former{Route: "out",
		Hop: netip.MustParseAddr("10.42.3.9"), How: "the write of shop-rt"})).
		finds(finding.EgressBypassed)
	says(t, f, create+"10.42.3.9", "the table had it: the write of shop-rt")
	says(t, loose(noRoute(), fwRT, "10.42.3.4").finds(finding.EgressBypassed), create+"10.42.3.4",
		"route egress in fw-rt leads to it")
	f = loose(loose(noRoute(), fwRT, "10.42.3.4"), fwRT+"2", "10.42.3.4").
		finds(finding.EgressBypassed)
	says(t, f, create+"10.42.3.4", "egress in fw-rt leads to it; route egress in fw-rt2 leads")
	says(t, noRoute().finds(finding.EgressBypassed), "az monitor activity-log list --resource-id "+
		string(shopTable))
}
