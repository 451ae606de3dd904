package plan

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// quiet is shop with nothing to do for its target.
func quiet(t testing.TB) *world {
	w := shop(t)
	w.configs[0].Spec.Targets = nil
	return w
}

func TestGuardNodeSubnets(t *testing.T) {
	second := vnet + "/subnets/shop-nodes2"
	w := quiet(t)
	w.cluster(clusterA, "10.244.0.0/16", nodesA, second).subnet(second, "10.240.1.0/24", "")
	// the other cluster's config names the table
	w.expect("associate vnet/shop-nodes2 - shop-rt", "")

	w.subnet(nodesA, "10.240.0.0/24", "") // both lost it: the keeper remembers
	w.remembered(clusterA).LastTable = tableA
	w.expect("associate vnet/shop-nodes - shop-rt\nassociate vnet/shop-nodes2 - shop-rt", "")

	guard := &w.configs[0].Spec.Guard
	guard.Mode = v1alpha1.GuardObserve
	p := w.expect("", "association-lost\nassociation-lost")
	if !strings.Contains(p.Findings[0].Fix, "--ids "+string(nodesA)+" --route-table "+
		string(tableA)) {
		t.Errorf("the fix is not to be pasted: %s", p.Findings[0].Fix)
	}
	guard.Mode = v1alpha1.GuardOff
	w.expect("", "")
}

func TestGuardOtherTable(t *testing.T) {
	w := quiet(t)
	w.remembered(clusterA).LastTable = tableA
	w.table(hub).subnet(nodesA, "10.240.0.0/24", hub)
	p := w.expect("", "association-other-table")
	for _, side := range []string{"hub-rt", "shop-rt"} {
		if !strings.Contains(p.Findings[0].Message, side) {
			t.Errorf("the finding does not name %s: %s", side, p.Findings[0].Message)
		}
	}
	w.configs[0].Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
	w.expect("associate vnet/shop-nodes hub-rt shop-rt", "")
	w.configs[0].Spec.Guard.Mode = v1alpha1.GuardObserve
	w.expect("", "association-other-table")
}

func TestGuardFurtherSubnets(t *testing.T) {
	w := quiet(t)
	guard := &w.configs[0].Spec.Guard
	guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: strings.ToUpper(string(gatewayIn)),
		RouteTableID: string(gateway)}}
	w.expect("", "")
	w.subnet(gatewayIn, "10.240.9.0/24", "")
	w.expect("associate vnet/gw - gw-rt", "")

	delete(w.s.Tables, gateway.Key()) // nothing to associate with
	w.s.Unread[gateway.Key()] = inventory.Unread{ID: gateway, Absent: true}
	w.expect("", "table-missing")

	w.table(gateway)
	delete(w.s.Subnets, gatewayIn.Key())
	w.s.Unread[gatewayIn.Key()] = inventory.Unread{ID: gatewayIn, Absent: true}
	w.expect("", "subnet-missing")
}

const (
	inRG  = "/subscriptions/" + sub + "/resourceGroups/rg/providers/"
	nat   = arm.ID(inRG + arm.TypeNATGateway + "/nat")
	other = arm.ID(inRG + arm.TypeNATGateway + "/nat2")
	group = arm.ID(inRG + arm.TypeSecurityGroup + "/nsg")
)

// has gives a subnet other properties than its table.
func (w *world) has(id, nat, group arm.ID) *world {
	subnet := *w.s.Subnet(id)
	subnet.NATGateway, subnet.SecurityGroup = nat, group
	w.s.Subnets[id.Key()] = &subnet
	return w
}

// guarded is a cluster of Azure CNI Overlay behind a firewall, with a config that guards its
// subnet.
func guarded(t testing.TB) *world {
	w := quiet(t)
	cluster := w.s.Clusters[clusterA.Key()]
	cluster.Plugin, cluster.PluginMode = "azure", "overlay"
	w.table(hub).subnet(nodesA, "10.240.0.0/24", hub).has(nodesA, nat, group)
	w.configs[0].Spec.RouteTableID = ""
	w.configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(nodesA),
		RouteTableID: string(hub), NATGatewayID: string(nat),
		NetworkSecurityGroupID: string(group)}}
	return w
}

// TestGuardProperties: a subnet of any cluster keeps its table, NAT gateway and security group.
func TestGuardProperties(t *testing.T) {
	w := guarded(t)
	w.expect("", "")

	w.subnet(nodesA, "10.240.0.0/24", "") // everything is lost
	w.expect("associate vnet/shop-nodes - hub-rt\nassociate vnet/shop-nodes - nat",
		"association-lost")
	w.configs[0].Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
	p := w.expect("associate vnet/shop-nodes - hub-rt\nassociate vnet/shop-nodes - nat\n"+
		"associate vnet/shop-nodes - nsg", "")
	if keys := map[ChangeKey]bool{p.Changes[0].Key(): true, p.Changes[1].Key(): true,
		p.Changes[2].Key(): true}; len(keys) != 3 {
		t.Errorf("the changes have the same key: %v", keys)
	}
	if got := p.Desired.Properties(nodesA); len(got) != 3 || got[inventory.PropertyNAT] != nat {
		t.Errorf("desired %v", got)
	}
	w.configs[0].Spec.Guard.Mode = v1alpha1.GuardObserve // says less than securityGroups
	p = w.expect("", "association-lost\nassociation-lost\nassociation-lost")
	for _, option := range []string{"--route-table ", "--nat-gateway ",
		"--network-security-group "} {
		fixes := ""
		for _, f := range p.Findings {
			fixes += f.Fix
		}
		if !strings.Contains(fixes, option) {
			t.Errorf("no finding says %s: %s", option, fixes)
		}
	}

	w = guarded(t)
	w.has(nodesA, other, group)
	p = w.expect("", "association-other-table")
	if !strings.Contains(p.Findings[0].Message, "has the NAT gateway nat2 instead of nat") {
		t.Error(p.Findings[0].Message)
	}
	w.configs[0].Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
	p = w.expect("associate vnet/shop-nodes nat2 nat", "")
	if seen := w.s.Subnet(nodesA); p.Changes[0].SeenInSubnet(seen) ||
		!p.Changes[0].SeenInSubnet(w.has(nodesA, nat, group).s.Subnet(nodesA)) {
		t.Error("the change is seen before it is made, or not afterwards")
	}
}

// TestGuardUnread: a subnet that could not be read is reported once, guarded or not.
func TestGuardUnread(t *testing.T) {
	pods := vnet + "/subnets/pods"
	w := guarded(t)
	w.s.Clusters[clusterA.Key()].PluginMode, w.s.Clusters[clusterA.Key()].Pools[0].PodSubnet = "",
		pods
	for _, id := range []arm.ID{nodesA, pods} {
		delete(w.s.Subnets, id.Key())
		w.s.Unread[id.Key()] = inventory.Unread{ID: id, Status: 403, Code: "AuthorizationFailed"}
	}
	w.expect("", "read-failed\nread-failed")
}

// TestGuardManagedNetwork: what AKS made is only watched.
func TestGuardManagedNetwork(t *testing.T) {
	w := guarded(t)
	id := arm.ID(string(w.s.Clusters[clusterA.Key()].NodeGroup()) +
		"/providers/Microsoft.Network/virtualNetworks/aks-vnet/subnets/aks-subnet")
	w.subnet(id, "10.224.0.0/16", "")
	w.configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(id),
		NATGatewayID: string(nat)}}
	p := w.expect("", "association-lost")
	if len(p.Findings[0].Evidence) == 0 {
		t.Errorf("the finding does not say why: %+v", p.Findings[0])
	}
}

// TestGuardAfterKubenet: AKS takes the table off the subnets when a cluster leaves kubenet. The
// guard of the table ends then, and stays for everything else.
func TestGuardAfterKubenet(t *testing.T) {
	w := guarded(t)
	w.configs[0].Spec.Guard.Subnets[0].RouteTableID = string(tableA)
	w.remembered(clusterA).LastTable = tableA
	w.subnet(nodesA, "10.240.0.0/24", "")
	w.expect("associate vnet/shop-nodes - nat", "association-lost\nguard-ended")
	w.configs[0].Spec.Guard.Subnets[0].RouteTableID = string(
		tables + "/aks-agentpool-12345678-routetable") // of another cluster
	w.expect("associate vnet/shop-nodes - nat", "association-lost\nguard-ended")
	w.configs[0].Spec.Guard.Subnets[0].RouteTableID = string(tableA)
	w.s.Clusters[clusterA.Key()].Plugin = "kubenet"
	w.expect("associate vnet/shop-nodes - shop-rt\nassociate vnet/shop-nodes - nat",
		"association-lost")
}

func TestGuardDisagreement(t *testing.T) {
	w := quiet(t)
	w.config("play", clusterB)
	w.cluster(clusterB, "10.245.0.0/16", nodesB).subnet(nodesB, "10.250.0.0/24",
		tableB).table(tableB, "p0 10.245.0.0/24 10.250.0.4")
	w.configs[1].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(nodesA), RouteTableID: string(tableB)}}
	w.configs[1].Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
	w.expect("", "association-other-table")
	// Also while the cluster's route table cannot be read.
	w.remembered(clusterA).LastTable = tableA
	delete(w.s.Tables, tableA.Key())
	w.s.Unread[tableA.Key()] = inventory.Unread{ID: tableA, Status: 403,
		Code: "AuthorizationFailed"}
	w.expect("", "association-other-table\nread-failed")
}

// TestGuardSpelling: the association has the ID in Azure's spelling, not in the config's.
func TestGuardSpelling(t *testing.T) {
	w := quiet(t)
	w.configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(gatewayIn), RouteTableID: strings.ToUpper(string(gateway))}}
	w.subnet(gatewayIn, "10.240.9.0/24", "")
	if p := w.expect("associate vnet/gw - gw-rt", ""); p.Changes[0].New.RouteTable != gateway {
		t.Errorf("spelled %s", p.Changes[0].New.RouteTable)
	}
}

// TestEmptySource: a table without a route to any node may not be the cluster's.
func TestEmptySource(t *testing.T) {
	w := quiet(t)
	w.table(tableA, "n0 10.244.0.0/24 10.77.0.4")
	w.s.Learn(clusterA).LogRead = true
	p := w.expect("", "source-empty\nsource-hop-outside")
	if !strings.Contains(p.Findings[0].Message, "because the node subnets are associated with it") {
		t.Error(p.Findings[0].Message)
	}
	w.s.Clusters[clusterA.Key()].Pools[0].Count = 0 // no nodes, no routes
	w.expect("", "source-hop-outside")
}

// TestDiscover tests the ways to find the cluster's route table, in their order.
func TestDiscover(t *testing.T) {
	managed := arm.ID("/subscriptions/" + sub +
		"/resourceGroups/mc_shop/providers/Microsoft.Network/routeTables/aks-agentpool-12345678-routetable")
	second := vnet + "/subnets/shop-nodes2"
	const carried = "n0 10.244.0.0/24 10.240.0.4"
	none := func(w *world) { w.subnet(nodesA, "10.240.0.0/24", "") }
	log := func(ids ...arm.ID) func(*world) {
		return func(w *world) {
			w.s.Learn(clusterA).LogRead, w.s.Learn(clusterA).Written = true, ids
		}
	}
	managedRead := func(ids ...arm.ID) func(*world) {
		return func(w *world) {
			w.s.Learn(clusterA).ManagedRead, w.s.Learn(clusterA).Managed = true, ids
		}
	}
	table := func(id arm.ID, routes ...string) func(*world) {
		return func(w *world) { w.table(id, routes...) }
	}
	absent := func(id arm.ID) func(*world) {
		return func(w *world) { w.s.Unread[id.Key()] = inventory.Unread{ID: id, Absent: true} }
	}
	both := func(w *world) { // a second node subnet with another table
		w.cluster(clusterA, "10.244.0.0/16", nodesA, second).subnet(second, "10.240.1.0/24", tableB)
	}
	names := func(id arm.ID) func(*world) {
		return func(w *world) { w.configs[0].Spec.RouteTableID = string(id) }
	}
	remembers := func(id arm.ID) func(*world) {
		return func(w *world) { w.remembered(clusterA).LastTable = id }
	}
	lacking := func(w *world) {
		w.remembered(clusterA).Nodes.Lacks = map[string]Lack{"n1": {Reported: true}}
	}
	copies := func(w *world) {
		w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5")
	}
	inUse := func(id arm.ID) func(*world) {
		return func(w *world) { w.s.Table(id).Subnets = []arm.ID{gatewayIn} }
	}
	atNodes := func(id arm.ID) func(*world) {
		return func(w *world) { w.subnet(nodesA, "10.240.0.0/24", id) }
	}
	noTargets := func(w *world) { w.configs[0].Spec.Targets = nil }
	swapped := func(w *world) { // as a config that confuses the two
		w.subnet(nodesA, "10.240.0.0/24", gateway)
		w.configs[0].Spec.Targets[0].RouteTableID = string(tableA)
	}
	steps := func(s ...func(*world)) []func(*world) { return s }
	tests := []struct {
		name     string
		steps    []func(*world)
		table    arm.ID
		doubtful bool
		want     string // what to read, or words of the finding
	}{
		{"the config names it",
			steps(func(w *world) { w.configs[0].Spec.RouteTableID = string(tableA) }), tableA,
			false, ""},
		{"the config names it, the nodes have another: ask the log", steps(names(hub)), "", false,
			"written"},
		{"the config names it, the log shows nothing", steps(names(hub), log()), hub, false, ""},
		{"the config names it, and so does the log", steps(names(hub), log(hub, tableA)), hub,
			false, ""},
		{"the config names one, the log another with routes", steps(names(hub), log(tableA)), "",
			false, "the config names hub-rt, but its identity wrote shop-rt"},
		{"the config names one, the log another cluster's",
			steps(names(hub), log(tableB), table(tableB, "p0 10.245.0.0/24 10.250.0.4")), hub,
			false, ""},
		{"memory before an association without routes",
			steps(remembers(tableB), table(tableA)), tableB, false, ""},
		{"memory against an association with routes: ask the log", steps(remembers(tableB)), "",
			false, "written"},
		{"memory against an association with routes, the log knows",
			steps(remembers(tableB), log(tableA)), tableA, false, ""},
		{"memory against an association with routes, the log does not know",
			steps(remembers(tableB), log()), "", false, "had several tables with routes to its " +
				"nodes: play-rt, shop-rt"},
		{"memory of a copy that a new node's route is not in: ask the log",
			steps(remembers(tableA), lacking), "", false, "written"},
		{"and the log knows: another one", steps(remembers(tableA), lacking, log(tableB),
			table(tableB, carried, "n1 10.244.1.0/24 10.240.0.5")), tableB, false, ""},
		{"and the log knows: that one", steps(remembers(tableA), lacking, log(tableA)), tableA,
			false, ""},
		{"and the log has only another cluster's so far: read on",
			steps(remembers(tableA), lacking, log(tableB), table(tableB), func(w *world) {
				w.s.Learn(clusterA).LogNext = []string{"more"}
			}), "", false, "written"},
		{"and the log shows a target", steps(remembers(tableA), lacking, copies, log(gateway)), "",
			false, "its identity wrote gw-rt, which is a target"},
		{"and the log shows nothing", steps(remembers(tableA), lacking, log()), tableA, false, ""},
		{"proven memory before any association",
			steps(remembers(tableB), func(w *world) { w.remembered(clusterA).LastProven = true }),
			tableB, false, ""},

		{"the association: ask the log", nil, "", false, "written"},
		{"the association, and the log shows nothing", steps(log()), tableA, false, ""},
		{"a managed table at the nodes: nothing to ask",
			steps(atNodes(managed), table(managed, carried)), managed, false, ""},
		{"the association, its table not read yet",
			steps(func(w *world) { delete(w.s.Tables, tableA.Key()) }), "", false, "tables"},
		{"the association with a table without routes: ask the log", steps(table(tableA)), "",
			false, "written"},
		{"and the log knows the right one",
			steps(table(tableA), table(tableB, carried), log(tableB)), tableB, false, ""},
		{"and the log does not: doubtful", steps(table(tableA), log()), tableA, true, ""},
		{"no nodes, no routes: the association counts", steps(table(tableA), func(w *world) {
			w.s.Clusters[clusterA.Key()].Pools[0].Count = 0
		}), tableA, false, ""},
		{"the association is a target, which is not a candidate",
			steps(func(w *world) { w.subnet(nodesA, "10.240.0.0/24", gateway) }, log(),
				managedRead()), "", false, "holds no managed table"},
		{"two associations, one with routes",
			steps(both, table(tableB, "egress 0.0.0.0/0 10.1.0.4"), log()), tableA, false, ""},
		{"two with routes: ask the log", steps(both, table(tableB, carried)), "", false, "written"},
		{"two with routes, the log decides", steps(both, table(tableB, carried), log(tableB)),
			tableB, false, ""},
		{"two with routes, nothing decides", steps(both, table(tableB, carried), log()), "", false,
			"its node subnets have several tables with routes to its nodes: play-rt, shop-rt"},
		{"two, neither with routes", steps(both, table(tableA), table(tableB), log()), "", false,
			"its node subnets have different tables, and none holds a route to its nodes"},

		{"the nodes have a copy, and the cluster's table is a target: ask the log",
			steps(copies, swapped), "", false, "written"},
		{"and the log knows: the cluster's table is no target",
			steps(copies, swapped, log(tableA)), "", false,
			"its identity wrote shop-rt, which is a target"},
		{"the nodes have a copy, the log knows the cluster's table",
			steps(copies, atNodes(gateway), noTargets, table(hub), log(tableA)), tableA, false, ""},
		{"a target with copies: ask the log", steps(copies), "", false, "written"},
		{"a target with copies, the log shows nothing, the target is in use",
			steps(copies, inUse(gateway), log()), tableA, false, ""},
		{"a target with copies, the log shows nothing, the target is on no subnet",
			steps(copies, log()), "", false, "nothing shows which of them the cluster writes"},
		{"the config names a copy, and the log the target",
			steps(copies, swapped, names(gateway), log(tableA)), "", false,
			"the config names gw-rt, but its identity wrote shop-rt"},
		{"the config names it, a target has copies: ask the log", steps(copies, names(tableA)), "",
			false, "written"},
		{"the config names it, a target has copies, the log read so far shows another cluster's",
			steps(copies, names(tableA), log(tableB), table(tableB), func(w *world) {
				w.s.Learn(clusterA).LogNext = []string{"more"}
			}), "", false, "written"},
		{"the config names a table of AKS's: nothing to ask",
			steps(copies, names(managed), table(managed, carried)), managed, false, ""},

		{"stripped: ask the log", steps(none), "", false, "written"},
		{"the log, its tables not read yet", steps(none, log(tableB)), "", false, "tables"},
		{"the log", steps(none, log(tableA)), tableA, false, ""},
		{"the log of an identity shared with another cluster",
			steps(none, log(tableB, tableA), table(tableB, "p0 10.245.0.0/24 10.250.0.4")), tableA,
			false, ""},
		{"the log, several with routes", steps(none, log(tableB, tableA), table(tableB, carried)),
			"", false, "the cluster's identity wrote several tables with routes to its nodes: " +
				"play-rt, shop-rt"},
		{"another config names it as its own",
			steps(none, log(tableB, tableA), table(tableB, carried), func(w *world) {
				w.config("play", clusterB).Spec.RouteTableID = string(tableB)
			}), tableA, false, ""},
		{"the log, a table that is gone, and then one that is there",
			steps(none, log(tableB, tableA), absent(tableB)), tableA, false, ""},
		{"the log, none with routes so far: read on",
			steps(none, log(tableB), table(tableB), func(w *world) {
				w.s.Learn(clusterA).LogNext = []string{"more"}
			}), "", false, "written"},
		{"the log names a target, which is not a candidate", steps(none, log(gateway)), "", false,
			"managed"},
		{"the log, none with routes", steps(none, log(tableB), table(tableB), managedRead()), "",
			false, "no table that its identity wrote holds a route to its nodes: play-rt"},

		{"the log says nothing: ask for managed tables", steps(none, log()), "", false, "managed"},
		{"the only managed one, not read yet", steps(none, log(), managedRead(managed)), "", false,
			"tables"},
		{"the only managed one, with routes of the cluster",
			steps(none, log(), managedRead(managed), table(managed, carried)), managed, false, ""},
		{"an unused managed one next to an existing one", steps(none, log(), managedRead(managed),
			table(managed, "x 10.244.0.0/24 10.77.0.4")), "", false,
			"holds no route to a node of this cluster, so it must use a bring-your-own table"},
		{"a managed one that is a target",
			steps(none, log(), managedRead(managed), table(managed, carried), func(w *world) {
				w.configs[0].Spec.Targets[0].RouteTableID = string(managed)
			}), "", false, "holds no managed table"},
		{"a virtual network of AKS's own: the managed one, even empty", steps(func(w *world) {
			w.cluster(clusterA, "10.244.0.0/16")
			w.s.Learn(clusterA).AKSSubnets = []arm.ID{nodesA}
		}, none, log(), managedRead(managed), table(managed)), managed, false, ""},
		{"several managed ones", steps(none, log(), managedRead(managed, managed+"x"),
			table(managed), table(managed+"x")), "", false, "several managed tables"},
		{"several managed ones, one with routes",
			steps(none, log(), managedRead(managed, managed+"x"), table(managed, carried),
				table(managed+"x")), managed, false, ""},
		{"none at all", steps(none, log(), managedRead()), "", false,
			"no node subnet has a suitable table, the activity log shows none"},
		{"not kubenet: nothing to look for",
			steps(none, func(w *world) { w.s.Clusters[clusterA.Key()].Plugin = "azure" }), "",
			false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := shop(t)
			for _, step := range tt.steps {
				step(w)
			}
			d := Discover(w.s, &w.configs[0], TakenBy(w.configs))
			if d.Table != tt.table || d.Doubtful != tt.doubtful {
				t.Errorf("table %q (%s), doubtful %v, want %q, %v", d.Table, d.How, d.Doubtful,
					tt.table, tt.doubtful)
			}
			got := ""
			switch {
			case d.Finding != nil:
				got = d.Finding.Message
			case len(d.Want.Written) > 0:
				got = "written"
			case len(d.Want.Managed) > 0:
				got = "managed"
			case len(d.Want.Tables) > 0:
				got = "tables"
			}
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if p := Make(w.s, w.configs); tt.table == "" && len(p.Changes) > 0 {
				t.Errorf("writes without knowing the table: %s", changes(p))
			}
		})
	}
}

// TestRivalIsNotWritten: the config names the table that its nodes have. A target leads to them,
// too, and is on no subnet. While nothing shows which of them the cluster writes, the target is not
// written.
func TestRivalIsNotWritten(t *testing.T) {
	w := shop(t).table(gateway, "n0 10.244.0.0/24 10.240.0.4")
	w.configs[0].Spec.RouteTableID = string(tableA)
	w.wrote(clusterA)
	w.expect("", "target-is-source")
	w.s.Table(gateway).Subnets = []arm.ID{gatewayIn}
	w.expect(`
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`, "")
	w.s.Table(gateway).Subnets = nil
	w.wrote(clusterA, tableA)
	w.expect(`
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`, "")
	w.wrote(clusterA, gateway)
	w.expect("", "table-unknown\ntarget-is-source")
}

// TestDoubtfulTableIsNotSpread: one node subnet has a table without the cluster's routes, the other
// lost its table. The wrong table is not associated with the second subnet.
func TestDoubtfulTableIsNotSpread(t *testing.T) {
	second := vnet + "/subnets/shop-nodes2"
	w := quiet(t)
	w.cluster(clusterA, "10.244.0.0/16", nodesA, second).subnet(nodesA, "10.240.0.0/24",
		hub).subnet(second, "10.240.1.0/24", "")
	w.table(hub, "egress 0.0.0.0/0 10.1.0.4")
	w.s.Learn(clusterA).LogRead = true
	w.expect("", "source-empty")
	w.s.Learn(clusterA).Written = []arm.ID{tableA} // the log knows better
	w.expect("associate vnet/shop-nodes2 - shop-rt", "association-other-table")
}
