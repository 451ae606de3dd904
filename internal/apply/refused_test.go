package apply

import (
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
)

// TestRefused checks that a refusal names the harm, the cause and a command, in Azure's own words
// for each cause.
func TestRefused(t *testing.T) {
	const group = "/subscriptions/s/resourceGroups/g"
	const table = group + "/providers/Microsoft.Network/routeTables/shop-rt"
	id := arm.ID(group + "/providers/Microsoft.Network/virtualNetworks/shop-vnet/subnets/nodes")
	const harm = "node subnet shop-vnet/nodes has lost its route table"
	const client = "The client 'app' with object id 'o1' "
	const assign = "az role assignment create --assignee-object-id o1 " +
		"--assignee-principal-type ServicePrincipal --role 'Network Contributor' --scope "
	for _, tt := range []struct{ code, message, cause, fix string }{
		{"AuthorizationFailed", client + "does not have authorization to perform action " +
			"'Microsoft.Network/virtualNetworks/subnets/write' over scope '" + string(id) +
			"' or the scope is invalid.",
			"the identity lacks Microsoft.Network/virtualNetworks/subnets/write",
			assign + string(id)},
		{"LinkedAuthorizationFailed", client + "has permission to perform action " +
			"'Microsoft.Network/virtualNetworks/subnets/write' on scope '" + string(id) +
			"'; however, it does not have permission to perform action(s) " +
			"'Microsoft.Network/routeTables/join/action' on the linked scope(s) '" + table +
			"' (respectively) or the linked scope(s) are invalid.",
			"the identity lacks Microsoft.Network/routeTables/join/action",
			assign + table},
		{"ScopeLocked", "The scope is locked.", "a lock forbids the write",
			"az lock list --subscription s --resource-group g -o table"},
		{"RequestDisallowedByPolicy", "Resource 'nodes' was disallowed by policy.",
			"a policy forbids the write",
			"az policy assignment list --scope " + group + " --disable-scope-strict-match"},
		{"RequestDisallowedByAzure", "no", "RequestDisallowedByAzure: no",
			"az role assignment list --scope " + string(id) + " --include-inherited"},
	} {
		fault := &azure.Error{Method: "PUT", ID: id, Status: 403, Code: tt.code,
			Message: tt.message}
		f := refused(id, "shop", harm, fault)
		if want := harm + " and cannot be repaired: " + tt.cause; f.Message != want ||
			f.Fix != tt.fix {
			t.Errorf("%s:\n%s\n%s, want\n%s\n%s", tt.code, f.Message, f.Fix, want, tt.fix)
		}
	}
}
