package diagnose

import (
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	me          = "77777777-0000-0000-0000-000000000001"
	natGateway  = netGroup + "/providers/Microsoft.Network/natGateways/nat"
	policyOfSub = netGroup + "/providers/Microsoft.Network/serviceEndpointPolicies/sep"
	reading     = "*/read"
)

// watch lets the config ask for nothing to be written.
func (w *world) watch() *world {
	spec := &w.c.Configs[0].Spec
	spec.Guard.Mode, spec.Targets[0].Policy = v1alpha1.GuardObserve, v1alpha1.PolicyObserve
	return w
}

// may says which actions somebody may do at a scope: the caller, or the cluster's identity.
func (w *world) may(who string, scope arm.ID, actions ...string) *world {
	return w.rights(who, scope,
		inventory.Rights{Permissions: []inventory.Permission{{Actions: actions}}})
}

func (w *world) rights(who string, scope arm.ID, r inventory.Rights) *world {
	return w.also(func(s *inventory.Snapshot) { setRights(s, who, scope, r) })
}

func setRights(s *inventory.Snapshot, who string, scope arm.ID, r inventory.Rights) {
	s.Caller = me
	if who == me {
		s.Own[scope.Key()] = r
		return
	}
	if s.Rights[who] == nil {
		s.Rights[who] = map[string]inventory.Rights{}
	}
	s.Rights[who][scope.Key()] = r
}

// mighty lets everybody do everything where it matters.
func (w *world) mighty() *world {
	return w.also(func(s *inventory.Snapshot) {
		c := w.c
		c.Snapshot = s
		scopes, principals := c.Scopes()
		for _, scope := range scopes {
			for _, who := range append(principals, me) {
				setRights(s, who, scope,
					inventory.Rights{Permissions: []inventory.Permission{{Actions: []string{"*"}}}})
			}
		}
	})
}

// lock locks something.
func (w *world) lock(scope arm.ID, level string) *world {
	return w.put(object{"id": string(scope) + "/providers/Microsoft.Authorization/locks/hold",
		"name": "hold", "properties": object{"level": level, "notes": "ask Ann"}})
}

// managed gives the cluster a table that AKS made.
func (w *world) managed() *world {
	table := w.docs[shopTable.Key()]
	w.without(shopTable)
	table["id"], table["name"] = string(managedTable), managedTable.Name()
	return w.put(table).set(nodes, "routeTable", link(managedTable))
}

const managedTable = nodeGroup +
	"/providers/Microsoft.Network/routeTables/aks-agentpool-12345678-routetable"

func TestScopes(t *testing.T) {
	w := healthy(t).set(nodes, "natGateway", link(natGateway)).set(appgw, "serviceEndpointPolicies",
		list{link(policyOfSub)})
	w.c.Snapshot = w.snapshot()
	scopes, principals := w.c.Scopes()
	want := inventory.SortIDs([]arm.ID{shop, shopTable, gwTable, nodes, appgw, nodesNSG, natGateway,
		policyOfSub, nodeGroup})
	if !slices.Equal(scopes, want) || !slices.Equal(principals, []string{principal}) {
		t.Errorf("scopes %v, want %v; principals %v", scopes, want, principals)
	}
}

// TestIdentityLacks: what the cluster's identity has to do on what was brought to it.
func TestIdentityLacks(t *testing.T) {
	f := healthy(t).mighty().may(principal, shopTable, reading,
		"Microsoft.Network/routeTables/routes/*").finds(finding.IdentityLacks)
	if f.Resource != string(shopTable) ||
		!strings.Contains(f.Message, "cluster shop lacks Microsoft.Network/routeTables/write on "+
			"route table shop-rt") {
		t.Errorf("%s: %s", f.Resource, f.Message)
	}
	if want := `az role assignment create --assignee-object-id ` + principal +
		` --assignee-principal-type ServicePrincipal --role 'Network Contributor' --scope ` +
		string(shopTable); f.Fix != want {
		t.Errorf("fix %s", f.Fix)
	}
	// The smallest custom role has all that is needed there, also what another role gives already.
	if last := f.Evidence[len(f.Evidence)-1]; !strings.Contains(last, "routeTables/routes/delete") {
		t.Errorf("evidence %q", f.Evidence)
	}
	f = healthy(t).mighty().may(principal, nodes, reading).finds(finding.IdentityLacks)
	if f.Resource != string(nodes) || !strings.Contains(f.Message, "subnets/join/action") {
		t.Errorf("%s: %s", f.Resource, f.Message)
	}

	// What AKS made itself needs no role of anybody's; what was not read in full proves nothing,
	// and what nobody asked for neither.
	healthy(t).mighty().managed().may(principal, managedTable).finds()
	f = healthy(t).mighty().rights(principal, shopTable, inventory.Rights{Failed: "no"}).finds(
		finding.RightsUnread)
	if !strings.Contains(f.Message, "identity of cluster shop") ||
		f.Fix != "az role assignment create --assignee "+me+" --role Reader --scope "+
			string(shopTable) {
		t.Errorf("%s fix %s", f.Message, f.Fix)
	}
	healthy(t).finds()
}

// TestCallerLacks: what the config asks for and the caller may not do; what the config does not ask
// for is nobody's lack.
func TestCallerLacks(t *testing.T) {
	const join = "Microsoft.Network/networkSecurityGroups/join/action"
	f := healthy(t).mighty().may(me, nodesNSG, reading).finds(finding.CallerLacks)
	if f.Severity != finding.Error || f.Resource != string(nodesNSG) ||
		!strings.Contains(f.Message, join) ||
		!strings.Contains(f.Message, "subnet shop-vnet/nodes") ||
		f.Fix != `az role assignment create --assignee `+me+
			` --role 'Network Contributor' --scope `+string(nodesNSG) {
		t.Errorf("%v %s: %s fix %s", f.Severity, f.Resource, f.Message, f.Fix)
	}
	healthy(t).mighty().may(me, nodesNSG, join).finds()

	for name, tt := range map[string]struct {
		scope   arm.ID
		actions []string
	}{
		"the node subnet":       {nodes, []string{reading}},
		"the guarded subnet":    {appgw, []string{reading}},
		"joining the own table": {shopTable, []string{reading}},
		"the target": {gwTable,
			[]string{reading, "Microsoft.Network/routeTables/join/action"}},
		"the nodes' NICs": {nodeGroup, nil},
		"the cluster":     {shop, []string{"Microsoft.Network/*"}},
	} {
		if f := healthy(t).mighty().may(me, tt.scope,
			tt.actions...).finds(finding.CallerLacks); f.Resource != string(tt.scope) {
			t.Errorf("%s: %s %s", name, f.Resource, f.Message)
		}
	}
	// Who only watches needs to read, and no more.
	watched := healthy(t).watch()
	for _, scope := range []arm.ID{shop, nodes, appgw, shopTable, gwTable} {
		watched.may(me, scope, reading)
	}
	watched.finds()
	if f := watched.may(me, gwTable).finds(finding.CallerLacks); !strings.HasSuffix(f.Fix,
		`--role Reader --scope `+string(gwTable)) {
		t.Errorf("fix %s", f.Fix)
	}

	// Where nobody has configured anything it is only told.
	w := healthy(t).mighty().may(me, gwTable, reading)
	w.c.Proposed = true
	if f := w.finds(finding.CallerLacks); f.Severity != finding.Info {
		t.Errorf("proposed: %v", f.Severity)
	}
}

// TestDenied: no role helps against a deny assignment.
func TestDenied(t *testing.T) {
	denied := inventory.Rights{Permissions: []inventory.Permission{{Actions: []string{"*"}}},
		Denied:   []inventory.Permission{{Actions: []string{"*"}, NotActions: []string{reading}}},
		DeniedBy: []string{"stack"}}
	f := healthy(t).mighty().rights(me, gwTable, denied).finds(finding.CallerLacks)
	if strings.Contains(f.Fix, "az role") ||
		!slices.Contains(f.Evidence, "deny assignments there: stack") {
		t.Errorf("fix %q, evidence %q", f.Fix, f.Evidence)
	}
	// It is certain also where the roles could not be read; who may only read is not concerned.
	denied.Permissions, denied.Failed = nil, "no"
	healthy(t).mighty().rights(me, gwTable, denied).finds(finding.CallerLacks)
	denied.Permissions, denied.Failed = []inventory.Permission{{Actions: []string{"*"}}}, ""
	healthy(t).watch().mighty().rights(me, gwTable, denied).finds()
	// That deny assignments could not be read makes nothing wrong, and nothing sure.
	healthy(t).mighty().rights(me, gwTable, inventory.Rights{Permissions: denied.Permissions,
		Undenied: "no"}).finds(finding.RightsUnread)
}

func TestLocks(t *testing.T) {
	for name, tt := range map[string]struct {
		w        *world
		scope    arm.ID
		level    string
		severity finding.Severity
		evidence string
	}{
		"the own table": {healthy(t), shopTable, "ReadOnly", finding.Warning,
			"the cluster's cloud provider writes route table shop-rt to manage the pod routes " +
				"in it"},
		"the network of a guarded subnet": {healthy(t), vnet, "ReadOnly", finding.Error,
			"the keeper writes subnet shop-vnet/nodes to repair a lost route table on subnet " +
				"shop-vnet/nodes"},
		"a target": {healthy(t), gwTable, "ReadOnly", finding.Error,
			"the keeper writes route table appgw-rt to copy the pod routes to it"},
		"the node group": {healthy(t), nodeGroup, "ReadOnly", finding.Warning,
			"AKS refuses to scale, upgrade or repair the cluster while anything is locked in its " +
				"node resource group MC_shop-rg_shop_westeurope"},
		"deletes in the node group": {healthy(t), scaleSet(), "CanNotDelete",
			finding.Warning, "AKS refuses to scale, upgrade or repair the cluster while anything " +
				"is locked in its node resource group MC_shop-rg_shop_westeurope"},
		"the subscription, over all of these": {healthy(t), "/subscriptions/" + sub, "ReadOnly",
			finding.Error, "notes of the lock: ask Ann"},
	} {
		f := tt.w.lock(tt.scope, tt.level).finds(finding.ResourceLocked)
		if f.Severity != tt.severity || f.Resource != string(tt.scope) ||
			!slices.Contains(f.Evidence, tt.evidence) ||
			f.Fix != "az lock delete --ids "+string(tt.scope)+
				"/providers/Microsoft.Authorization/locks/hold" ||
			!strings.Contains(f.Advice, tt.level) {
			t.Errorf("%s: %v %s %s %q fix %s", name, f.Severity, f.Resource, f.Message, f.Evidence,
				f.Fix)
		}
	}
	w := healthy(t).lock(gwTable, "ReadOnly")
	w.c.Proposed = true
	if f := w.finds(finding.ResourceLocked); f.Severity != finding.Info {
		t.Errorf("proposed: %v", f.Severity)
	}

	// Routes are removed by writing their table, which a lock against deletes lets pass; what
	// nobody writes may be read-only.
	healthy(t).lock(gwTable, "CanNotDelete").finds()
	healthy(t).lock(netGroup, "CanNotDelete").finds()
	healthy(t).watch().lock(vnet, "ReadOnly").finds()
	healthy(t).lock(gateway, "ReadOnly").finds()
	healthy(t).lock(nodeGroup+"-2", "CanNotDelete").finds()
}

func TestLockdown(t *testing.T) {
	locked := func(w *world) *world {
		return w.set(shop, "nodeResourceGroupProfile", object{"restrictionLevel": "ReadOnly"})
	}
	f := locked(healthy(t).managed()).finds(finding.NodeGroupLocked)
	if f.Resource != string(nodeGroup) || f.Fix != "az aks update --subscription "+sub+
		" --resource-group shop-rg --name shop --yes" ||
		!strings.Contains(f.Message, managedTable.Name()) {
		t.Errorf("%s %s fix %s", f.Resource, f.Message, f.Fix)
	}
	// The deny assignment behind it is the same thing.
	locked(healthy(t).managed().mighty().rights(me, managedTable, inventory.Rights{
		Permissions: []inventory.Permission{
			{Actions: []string{"*"}}}, Denied: []inventory.Permission{
			{Actions: []string{"*"}, NotActions: []string{reading}}},
	})).finds(finding.NodeGroupLocked)
	// Who guards nothing loses nothing, and a table that was brought is not in the group.
	if f := locked(healthy(t).watch().managed()).finds(
		finding.NodeGroupLocked); f.Severity != finding.Info {
		t.Errorf("without a guard: %v", f.Severity)
	}
	for _, f := range locked(healthy(t)).check() {
		if f.Code == finding.NodeGroupLocked {
			t.Errorf("a table that was brought: %s", f.Message)
		}
	}
}

// TestServicePrincipal: whose object ID is not known has rights that are not known, and that is
// said.
func TestServicePrincipal(t *testing.T) {
	w := healthy(t)
	delete(w.docs[shop.Key()], "identity")
	w.set(shop, "servicePrincipalProfile",
		object{"clientId": "99999999-0000-0000-0000-000000000009"})
	f := w.finds(finding.RightsUnread, finding.MigrationIdentity)
	if f.Severity != finding.Info || !strings.Contains(f.Message, "service principal") {
		t.Errorf("%+v", f)
	}
}
