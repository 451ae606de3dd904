package diagnose

import (
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	spare        = vnet + "/subnets/spare"
	managerGroup = arm.ID("/subscriptions/" + sub + "/resourceGroups/AVNM_Managed_ResourceGroup_" +
		sub)
	avnmTable = managerGroup +
		"/providers/Microsoft.Network/routeTables/AVNM_Managed_312496641AD74FC994A9D15A92911F72"
	otherTable = netGroup + "/providers/Microsoft.Network/routeTables/other-rt"
)

// is checks the severity of a finding.
func is(t *testing.T, f finding.Finding, want finding.Severity) {
	t.Helper()
	if f.Code == "" || f.Severity != want {
		t.Errorf("%q is of severity %s, want %s: %s", f.Code, f.Severity, want, f.Message)
	}
}

// secondPool gives the cluster a pool in its own subnet.
func (w *world) secondPool(subnet object) *world {
	pool := object{"name": "spare", "count": 0, "vnetSubnetID": string(spare), "osType": "Linux"}
	p := w.props(shop)
	p["agentPoolProfiles"] = append(p["agentPoolProfiles"].(list), pool)
	subnet["addressPrefix"] = "10.42.3.0/24"
	return w.addSubnet(spare, subnet)
}

func TestPoolWithoutTable(t *testing.T) {
	f := healthy(t).secondPool(object{}).finds(finding.PoolWithoutTable)
	is(t, f, finding.Error)
	says(t, f, "shop-vnet/spare", "pool spare", "shop-vnet/nodes has shop-rt", "az aks update",
		"az network vnet subnet update --ids "+string(spare)+" --route-table "+string(shopTable))

	healthy(t).secondPool(object{"routeTable": link(shopTable)}).finds()
	// The subnet of all pools has lost it: another finding reports that.
	healthy(t).unset(nodes, "routeTable").names(shopTable).finds(finding.AssociationLost)
	// A guarded subnet with the table is not a pool's.
	w := healthy(t).unset(appgw, "routeTable")
	w.c.Configs[0].Spec.Guard.Subnets[0].RouteTableID = string(shopTable)
	w.finds(finding.AssociationLost)
	// No subnet was read, so the tables are unknown.
	healthy(t).secondPool(object{}).also(func(s *inventory.Snapshot) {
		delete(s.Subnets, spare.Key())
	}).finds()
	// A table that does not exist cannot be associated.
	w = healthy(t).secondPool(object{}).absent(shopTable).also(func(s *inventory.Snapshot) {
		s.Learn(shop).LogRead = true
	})
	w.c.Configs[0].Spec.RouteTableID = string(shopTable)
	w.finds(finding.TableMissing)
}

func TestAnotherTable(t *testing.T) {
	config := func(w *world) *world {
		w.c.Configs[0].Spec.RouteTableID = string(shopTable)
		return w.also(func(s *inventory.Snapshot) { s.Learn(shop).LogRead = true })
	}
	taken := func(by arm.ID) *world {
		return config(healthy(t).put(table(by, nodes)).set(nodes, "routeTable", link(by)))
	}
	f := taken(avnmTable).finds(finding.NetworkManagerTable)
	is(t, f, finding.Error)
	says(t, f, "Azure Virtual Network Manager", "AVNM_Managed_3124", "instead of shop-rt",
		"UseExisting")

	f = taken(otherTable).finds(finding.AssociationOther)
	is(t, f, finding.Error)
	// A similar name alone proves nothing.
	taken(netGroup + "/providers/Microsoft.Network/routeTables/AVNM_Managed_copy").finds(
		finding.AssociationOther)
	// The manager's table is the cluster's if the config says so.
	w := healthy(t).put(table(avnmTable, nodes, podRoute(0), podRoute(1), podRoute(2))).without(
		shopTable).set(nodes, "routeTable", link(avnmTable))
	w.c.Configs[0].Spec.RouteTableID = string(avnmTable)
	w.finds()
	// The cluster's route table is unknown, and this is not it.
	w = healthy(t).put(table(avnmTable, nodes)).set(nodes, "routeTable",
		link(avnmTable)).also(func(s *inventory.Snapshot) { s.Learn(shop).LogRead = true })
	says(t, w.finds(finding.NetworkManagerTable), "instead of the cluster's route table")
	w = healthy(t).put(table(avnmTable, spare)).routes(shopTable).secondPool(object{
		"routeTable": link(avnmTable)}).also(func(s *inventory.Snapshot) {
		s.Learn(shop).LogRead = true
	})
	says(t, w.finds(finding.NetworkManagerTable, finding.TableUnknown), "shop-vnet/spare",
		"instead of shop-rt")
	// Also on a guarded subnet.
	guarded := healthy(t).put(table(avnmTable, appgw)).set(appgw, "routeTable",
		link(avnmTable)).finds(finding.NetworkManagerTable)
	says(t, guarded, "shop-vnet/appgw", "instead of appgw-rt")

	wrote := func(line string) *world {
		return taken(otherTable).also(func(s *inventory.Snapshot) {
			s.Writers[nodes.Key()] = inventory.Writer{Line: line}
		})
	}
	f = wrote("nodes was last written by 1234, the identity of policy assignment force-firewall " +
		"at 2026-11-20").finds(finding.PolicyTable)
	is(t, f, finding.Error)
	says(t, f, "a policy associated", "other-rt instead of shop-rt", "exempt")
	// The expected table is unknown: this one may be right.
	w = healthy(t).put(table(otherTable, spare)).routes(shopTable).secondPool(object{
		"routeTable": link(otherTable)}).also(func(s *inventory.Snapshot) {
		s.Learn(shop).LogRead = true
		s.Writers[spare.Key()] = inventory.Writer{
			Line: "by the identity of policy assignment force-firewall"}
	})
	w.finds(finding.TableUnknown)
	wrote("nodes was last written by policy-admin@example.com at 2026-11-20").finds(
		finding.AssociationOther)
}

func TestTableElsewhere(t *testing.T) {
	guard := func(location, group string) *world {
		far := arm.ID(group + "/providers/Microsoft.Network/routeTables/far-rt")
		w := healthy(t)
		w.put(table(far, "")).docs[far.Key()]["location"] = location
		w.c.Configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
			{SubnetID: string(appgw), RouteTableID: string(far)}}
		return w
	}
	f := guard("northeurope", string(netGroup)).finds(finding.TableElsewhere)
	is(t, f, finding.Error)
	says(t, f, "shop-vnet/appgw", "far-rt", "northeurope", "westeurope")
	guard("westeurope",
		"/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/net-rg").finds(
		finding.TableElsewhere)
	// A table in the right place is only not associated yet.
	guard("WestEurope", string(netGroup)).finds(finding.AssociationOther)
	// The network was not read.
	guard("northeurope", string(netGroup)).also(func(s *inventory.Snapshot) {
		clear(s.VNets)
	}).finds(finding.AssociationOther)
}

func TestEgressInTable(t *testing.T) {
	w := healthy(t).profile("outboundType", "userDefinedRouting")
	f := w.routes(shopTable, podRoute(0), podRoute(1), podRoute(2),
		route("egress", "0.0.0.0/0", "VirtualAppliance", "10.42.3.4")).finds(finding.EgressInTable)
	is(t, f, finding.Info)
	says(t, f, "shop-rt", "0.0.0.0/0 to 10.42.3.4")
	for _, f := range healthy(t).routes(shopTable, podRoute(0), podRoute(1), podRoute(2),
		route("branch", "10.0.0.0/8", "VirtualAppliance", "10.42.9.4")).check() {
		if f.Code == finding.EgressInTable {
			t.Errorf("found %s", f.Message)
		}
	}
}

// TestEgressDropped: a default route to None is not egress.
func TestEgressDropped(t *testing.T) {
	drops := func() *world {
		return healthy(t).routes(shopTable, podRoute(0), podRoute(1), podRoute(2),
			route("nowhere", "0.0.0.0/0", "None", ""))
	}
	f := drops().finds(finding.EgressDropped)
	is(t, f, finding.Error)
	says(t, f, "route nowhere", "az network route-table route delete --ids "+string(shopTable)+
		"/routes/nowhere")
	cutOff := drops()
	cutOff.props(shop)["networkProfile"].(object)["outboundType"] = "none"
	is(t, cutOff.finds(finding.EgressDropped), finding.Info)
}

// TestTableGoneForGood: the table was dissociated and deleted. The activity log still shows which
// it was.
func TestTableGoneForGood(t *testing.T) {
	gone := healthy(t).unset(nodes, "routeTable").absent(shopTable).also(
		func(s *inventory.Snapshot) {
			known := s.Learn(shop)
			known.LogRead, known.ManagedRead, known.Written = true, true, []arm.ID{shopTable}
		})
	f := gone.finds(finding.TableMissing)
	if f.Resource != string(shopTable) {
		t.Errorf("%+v", f)
	}
	// As long as the log continues, another table may be found.
	healthy(t).unset(nodes, "routeTable").absent(shopTable).also(func(s *inventory.Snapshot) {
		known := s.Learn(shop)
		known.LogRead, known.ManagedRead, known.LogCut, known.Written = true, true, true, []arm.ID{
			shopTable}
	}).finds(finding.TableUnknown)
}
