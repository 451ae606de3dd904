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

// watch makes the config write nothing.
func (w *world) watch() *world {
	spec := &w.c.Configs[0].Spec
	spec.Guard.Mode, spec.Targets[0].Policy = v1alpha1.GuardObserve, v1alpha1.PolicyObserve
	return w
}

// may sets the allowed actions at a scope, of the caller or the cluster's identity.
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
		s.CallerRights[scope.Key()] = r
		return
	}
	if s.Rights[who] == nil {
		s.Rights[who] = map[string]inventory.Rights{}
	}
	s.Rights[who][scope.Key()] = r
}

// mighty allows everything at all scopes that matter.
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

// lock locks a scope.
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

// TestIdentityLacks: the rights that the cluster's identity needs on bring-your-own resources.
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
	// The smallest custom role has all needed actions, including actions that another role
	// grants already.
	if last := f.Evidence[len(f.Evidence)-1]; !strings.Contains(last, "routeTables/routes/delete") {
		t.Errorf("evidence %q", f.Evidence)
	}
	f = healthy(t).mighty().may(principal, nodes, reading).finds(finding.IdentityLacks)
	if f.Resource != string(nodes) || !strings.Contains(f.Message, "subnets/join/action") {
		t.Errorf("%s: %s", f.Resource, f.Message)
	}

	// Azure documents no right on the pods' subnet.
	f = withPodSubnet(t).mighty().may(principal, podSubnet, reading).finds(finding.IdentityLacks)
	if f.Severity != finding.Info || f.Fix != "" ||
		!strings.Contains(f.Message, "does not document") {
		t.Errorf("%s: %s, fix %s", f.Severity, f.Message, f.Fix)
	}

	// Resources that AKS made need no role. Rights that were only read in part, or not requested,
	// prove nothing.
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

// TestCallerLacks: the rights that the config needs and the caller lacks. Other rights are not
// reported.
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
		"the node subnet":             {nodes, []string{reading}},
		"the guarded subnet":          {appgw, []string{reading}},
		"joining the cluster's table": {shopTable, []string{reading}},
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
	// Observe needs only reads.
	watched := healthy(t).watch()
	for _, scope := range []arm.ID{shop, nodes, appgw, shopTable, gwTable} {
		watched.may(me, scope, reading)
	}
	watched.finds()
	if f := watched.may(me, gwTable).finds(finding.CallerLacks); !strings.HasSuffix(f.Fix,
		`--role Reader --scope `+string(gwTable)) {
		t.Errorf("fix %s", f.Fix)
	}

	// Without a config it is only info.
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
	// The deny is certain even if the roles could not be read. A caller that only reads is not
	// affected.
	denied.Permissions, denied.Failed = nil, "no"
	healthy(t).mighty().rights(me, gwTable, denied).finds(finding.CallerLacks)
	denied.Permissions, denied.Failed = []inventory.Permission{{Actions: []string{"*"}}}, ""
	healthy(t).watch().mighty().rights(me, gwTable, denied).finds()
	// Unread deny assignments make nothing wrong, and nothing certain.
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
		"the cluster's table": {healthy(t), shopTable, "ReadOnly", finding.Warning,
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

	// A write of the table removes routes, so a delete lock does no harm. A resource that is never
	// written may be read-only.
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
	// The deny assignment behind it is the same problem.
	locked(healthy(t).managed().mighty().rights(me, managedTable, inventory.Rights{
		Permissions: []inventory.Permission{
			{Actions: []string{"*"}}}, Denied: []inventory.Permission{
			{Actions: []string{"*"}, NotActions: []string{reading}}},
	})).finds(finding.NodeGroupLocked)
	// Without a guard nothing is lost, and an existing table is not in the group.
	if f := locked(healthy(t).watch().managed()).finds(
		finding.NodeGroupLocked); f.Severity != finding.Info {
		t.Errorf("without a guard: %v", f.Severity)
	}
	for _, f := range locked(healthy(t)).check() {
		if f.Code == finding.NodeGroupLocked {
			t.Errorf("an existing table: %s", f.Message)
		}
	}
}

// TestServicePrincipal: without its object ID, the identity's rights are unknown, which is
// reported.
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
