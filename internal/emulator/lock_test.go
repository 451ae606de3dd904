package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func TestLocks(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	lock := func(scope arm.ID) arm.ID {
		return scope + "/providers/Microsoft.Authorization/locks/keep"
	}
	b.refused(http.MethodPut, lock(rt), `{"properties":{"level":"Sometimes"}}`, 400,
		"InvalidLockLevel")

	// A table with a lock against deletes can be written; neither it nor its group can be deleted.
	b.put(lock(rt), `{"properties":{"level":"canNotDelete","notes":"n"}}`)
	b.put(rt, `{"location":"westeurope","tags":{"a":"b"}}`)
	b.says(http.MethodDelete, rt, "", 409, "ScopeLocked", "The scope '"+string(rt)+
		"' cannot perform delete operation because following scope(s) are locked: '"+string(rt)+
		"'. Please remove the lock and try again.")
	b.says(http.MethodDelete, group, "", 409, "ScopeLocked", "The scope '"+string(group)+
		"' cannot perform delete operation because following scope(s) are locked: '"+string(rt)+
		"'. Please remove the lock and try again.")
	b.refused(http.MethodDelete, rt.Child("routes", "r"), "", 409, "ScopeLocked")

	// A read-only scope cannot be written, and neither can the resources in it.
	b.put(lock(group), `{"properties":{"level":"ReadOnly"}}`)
	b.says(http.MethodPut, vnet.Child("subnets", "a"),
		`{"properties":{"addressPrefix":"10.0.1.0/24"}}`, 409, "ScopeLocked", "The scope '"+
			string(vnet)+"/subnets/a' cannot perform write operation because following scope(s) "+
			"are locked: '"+string(group)+"'. Please remove the lock and try again.")
	if kernel.LinkOf(b.get(vnet.Child("subnets", "a")), "routeTable") == "" {
		t.Error("the locked subnet was stripped")
	}
	if got := len(kernel.ListAt(b.get(rt+"/providers/Microsoft.Authorization/locks"),
		"value")); got != 2 {
		t.Errorf("%d locks count for the table", got)
	}
	for _, scope := range []arm.ID{group, rt} {
		if status, code := b.try(http.MethodDelete, lock(scope), api, ""); status != 200 {
			t.Fatalf("DELETE of the lock: %d %s", status, code)
		}
	}
	b.put(vnet.Child("subnets", "a"), `{"properties":{"addressPrefix":"10.0.1.0/24"}}`)
	if status, code := b.try(http.MethodDelete, rt, api, ""); status != 200 {
		t.Errorf("without the lock: %d %s", status, code)
	}
}

// TestLockedNodes: a lock on anything in the node resource group forbids changes of the cluster.
func TestLockedNodes(t *testing.T) {
	b := newBench(t, Options{})
	const cluster = `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"np","count":2}]}}`
	b.put(aksID, cluster)
	nodes := arm.GroupID(sub, "MC_net-rg_c_westeurope")
	table := arm.ID(kernel.Text(
		kernel.ListAt(b.get(nodes+"/providers/Microsoft.Network/routeTables"),
			"value")[0], "id"))
	lock := table + "/providers/Microsoft.Authorization/locks/keep"
	b.put(lock, `{"properties":{"level":"CanNotDelete"}}`)
	message := "Resource group 'MC_net-rg_c_westeurope' under subscription: '" + sub +
		"' is locked, please remove lock and retry. Please see http://aka.ms/azure-lock-resources"
	b.says(http.MethodPut, aksID.Child("agentPools", "np"), `{"properties":{"count":1}}`, 409,
		"ScopeLocked", message)
	b.says(http.MethodDelete, aksID, "", 409, "ScopeLocked", message)
	if status, code := b.try(http.MethodDelete, lock, api, ""); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	b.put(aksID.Child("agentPools", "np"), `{"properties":{"count":1}}`)
}

// TestLockedNetwork: a cluster cannot associate its table with a locked subnet; a deleted one
// leaves no link.
func TestLockedNetwork(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	lock := vnet + "/providers/Microsoft.Authorization/locks/keep"
	onB := strings.Replace(fmt.Sprintf(existing, 1), "/subnets/a", "/subnets/b", 1)
	b.put(lock, `{"properties":{"level":"ReadOnly"}}`)
	b.refused(http.MethodPut, aksID, onB, 409, "ScopeLocked")
	b.refused(http.MethodGet, aksID, "", 404, "ResourceNotFound")
	b.refused(http.MethodGet, arm.GroupID(sub, "MC_net-rg_c_westeurope"), "", 404,
		"ResourceGroupNotFound")
	if status, code := b.try(http.MethodDelete, lock, api, ""); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	b.put(aksID, onB)
	b.put(lock, `{"properties":{"level":"ReadOnly"}}`)
	if kernel.LinkOf(b.get(vnet.Child("subnets", "b")), "routeTable") == "" {
		t.Fatal("the subnet has no table")
	}
	if status, code := b.try(http.MethodDelete, aksID, api, ""); status != 204 {
		t.Fatalf("%d %s", status, code)
	}
	if table := kernel.LinkOf(b.get(vnet.Child("subnets", "b")), "routeTable"); table != "" {
		t.Errorf("the subnet has the table %s", table)
	}
}

func TestPolicies(t *testing.T) {
	b := newBench(t, Options{})
	scope := "/subscriptions/" + arm.ID(sub)
	definition := scope + "/providers/Microsoft.Authorization/policyDefinitions/subnets-need-tables"
	assignment := group + "/providers/Microsoft.Authorization/policyAssignments/net"
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.refused(http.MethodPut, definition, `{"properties":{}}`, 400, "InvalidPolicyRule")
	b.refused(http.MethodPut, assignment, `{"properties":{"policyDefinitionId":"`+
		string(definition)+`"}}`, 404, "PolicyDefinitionNotFound")
	b.put(definition, `{"properties":{"displayName":"Subnets need a table","mode":"All","parameters":{"effect":{"type":"String","defaultValue":"Audit"},"free":{"type":"Array"}},"policyRule":{
		"if":{"allOf":[{"field":"type","equals":"Microsoft.Network/virtualNetworks/subnets"},{"field":"name","notIn":"[parameters('free')]"},
			{"field":"Microsoft.Network/virtualNetworks/subnets/routeTable.id","exists":"false"}]},
		"then":{"effect":"[parameters('effect')]"}}}}`)
	bare := `{"properties":{"addressPrefix":"10.0.1.0/24"}}`
	b.put(assignment, `{"properties":{"displayName":"net","policyDefinitionId":"`+
		string(definition)+`","parameters":{"free":{"value":["b"]}}}}`)
	b.put(vnet.Child("subnets", "a"), bare) // it only audits
	b.put(assignment, `{"properties":{"displayName":"net","policyDefinitionId":"`+
		string(definition)+`","parameters":{"free":{"value":["b"]},"effect":{"value":"deny"}}}}`)
	b.says(http.MethodPut, vnet.Child("subnets", "a"), bare, 403, "RequestDisallowedByPolicy",
		`Resource 'a' was disallowed by policy. Policy identifiers: '[{"policyAssignment":{"id":"`+
			string(assignment)+`","name":"net"},"policyDefinition":{"id":"`+string(definition)+
			`","name":"Subnets need a table"}}]'.`)
	b.put(vnet.Child("subnets", "b"), `{"properties":{"addressPrefix":"10.0.2.0/24"}}`)
	b.put(vnet.Child("subnets", "a"),
		`{"properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"`+string(rt)+`"}}}`)
	if status, code := b.try(http.MethodDelete, assignment, api, ""); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	b.put(vnet.Child("subnets", "a"), bare)
}
