package clients

import (
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v4"

	"routekeeper.dev/routekeeper/internal/emulator"
)

const subscription = "/subscriptions/" + sub

// reader is a principal that can log in and has no role at first.
var reader = emulator.Principal{Name: "reader", ClientID: "0a0a0000-0000-4000-8000-00000000000a",
	Secret: "s", ObjectID: "0b0b0000-0000-4000-8000-00000000000a", NoRoles: true}

func (a *azure) definitions() *armauthorization.RoleDefinitionsClient {
	c, err := armauthorization.NewRoleDefinitionsClient(a.cred, a.opts)
	if err != nil {
		a.Fatal(err)
	}
	return c
}

func roleDefinitions(
	p armauthorization.RoleDefinitionsClientListResponse) []*armauthorization.RoleDefinition {
	return p.Value
}

func TestRoleDefinitions(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	definitions := a.definitions()
	for name, guid := range map[string]string{
		"Owner":               "8e3af657-a8ff-443c-a75c-2fe8c4bcb635",
		"Contributor":         "b24988ac-6180-42a0-ab88-20f7382dd24c",
		"Reader":              "acdd72a7-3385-48ef-bd42-f606fba81ae7",
		"Network Contributor": "4d97b98b-1d4f-4787-a291-c67834d212e7",
	} {
		found := all(a, definitions.NewListPager(subscription,
			&armauthorization.RoleDefinitionsClientListOptions{
				Filter: to.Ptr("roleName eq '" + name + "'")}), roleDefinitions, 1)[0]
		is(t, "name of "+name, found.Name, guid)
		is(t, "type of "+name, found.Properties.RoleType, "BuiltInRole")
		if len(found.Properties.Permissions) != 1 ||
			len(found.Properties.Permissions[0].Actions) == 0 {
			t.Errorf("%s permits nothing", name)
		}
		byID := call(definitions.GetByID(a.ctx, *found.ID, nil)).ok(t)
		is(t, "role of that ID", byID.Properties.RoleName, name)
	}

	const custom = "c0570000-0000-4000-8000-000000000001"
	role := armauthorization.RoleDefinition{Properties: &armauthorization.RoleDefinitionProperties{
		RoleName: to.Ptr("Route Keeper"), RoleType: to.Ptr("CustomRole"),
		AssignableScopes: []*string{to.Ptr(subscription)},
		Permissions: []*armauthorization.Permission{
			{Actions: []*string{to.Ptr("Microsoft.Network/routeTables/*")}}},
	}}
	a.requests()
	made := call(definitions.CreateOrUpdate(a.ctx, subscription, custom, role, nil)).ok(t)
	is(t, "id", made.ID, subscription+"/providers/Microsoft.Authorization/roleDefinitions/"+custom)
	is(t, "type", made.Properties.RoleType, "CustomRole")
	all(a, definitions.NewListPager(subscription,
		&armauthorization.RoleDefinitionsClientListOptions{Filter: to.Ptr("type eq 'CustomRole'")}),
		roleDefinitions, 1)
	call(definitions.Delete(a.ctx, subscription, custom, nil)).ok(t)
	call(definitions.Get(a.ctx, subscription, custom, nil)).refused(t, 404,
		"RoleDefinitionDoesNotExist")
	a.wire(
		"PUT Microsoft.Authorization/roleDefinitions/"+custom+" 2022-04-01 201",
		"GET Microsoft.Authorization/roleDefinitions 2022-04-01 200",
		"DELETE Microsoft.Authorization/roleDefinitions/"+custom+" 2022-04-01 200",
		"GET Microsoft.Authorization/roleDefinitions/"+custom+" 2022-04-01 404",
	)
}

// TestRoleAssignments assigns roles one by one and checks what each allows.
func TestRoleAssignments(t *testing.T) {
	t.Parallel()
	a := start(t,
		emulator.Options{Principals: []emulator.Principal{emulator.DefaultPrincipal, reader}})
	a.group("net")
	a.group("hidden")
	assignments, tables := client(a, armauthorization.NewRoleAssignmentsClient), client(a,
		armnetwork.NewRouteTablesClient)
	poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)).ok(t)
	poll(tables.BeginCreateOrUpdate(a.ctx, "hidden", "rt", table(), nil)).ok(t)

	they := *a
	they.cred, they.opts = a.login(reader.ClientID, reader.Secret)
	theirs := client(&they, armnetwork.NewRouteTablesClient)
	call(theirs.Get(a.ctx, "net", "rt", nil)).refused(t, 403, "AuthorizationFailed")
	list := func(p armnetwork.RouteTablesClientListAllResponse) []*armnetwork.RouteTable {
		return p.Value
	}

	scope := subscription + "/resourceGroups/net"
	assign := func(name, role string) armauthorization.RoleAssignment {
		return call(assignments.Create(a.ctx, scope, name,
			armauthorization.RoleAssignmentCreateParameters{
				Properties: &armauthorization.RoleAssignmentProperties{
					PrincipalID: to.Ptr(reader.ObjectID), PrincipalType: to.Ptr(
						armauthorization.PrincipalTypeServicePrincipal),
					RoleDefinitionID: to.Ptr(subscription +
						"/providers/Microsoft.Authorization/roleDefinitions/" + role),
				}}, nil)).ok(t).RoleAssignment
	}
	a.requests()
	const first, second = "a55160ed-0000-4000-8000-000000000001",
		"a55160ed-0000-4000-8000-000000000002"
	made := assign(first, "acdd72a7-3385-48ef-bd42-f606fba81ae7") // Reader
	a.wire("PUT Microsoft.Authorization/roleAssignments/" + first + " 2022-04-01 201")
	is(t, "id", made.ID, scope+"/providers/Microsoft.Authorization/roleAssignments/"+first)
	is(t, "scope", made.Properties.Scope, scope)
	is(t, "principalType", made.Properties.PrincipalType,
		armauthorization.PrincipalTypeServicePrincipal)
	if made.Properties.CreatedOn == nil || made.Properties.CreatedBy == nil {
		t.Error("the assignment does not say who made it, and when")
	}
	call(theirs.Get(a.ctx, "net", "rt", nil)).ok(t)
	is(t, "the one table they see", all(&they, theirs.NewListAllPager(nil), list, 1)[0].ID,
		id("net", "Microsoft.Network/routeTables/rt"))
	poll(theirs.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)).refused(t, 403,
		"AuthorizationFailed")
	assign(second, "4d97b98b-1d4f-4787-a291-c67834d212e7") // Network Contributor
	poll(theirs.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)).ok(t)

	permissions := client(&they, armauthorization.NewPermissionsClient)
	var actions []string
	for _, p := range all(&they, permissions.NewListForResourceGroupPager("net", nil),
		func(p armauthorization.PermissionsClientListForResourceGroupResponse) []*armauthorization.Permission {
			return p.Value
		}, 2) {
		for _, action := range p.Actions {
			actions = append(actions, *action)
		}
	}
	if got := " " + strings.Join(actions, " ") + " "; !strings.Contains(got, " */read ") ||
		!strings.Contains(got, " Microsoft.Network/* ") {
		t.Errorf("permissions at the group are%s", got)
	}

	all(&they, permissions.NewListForResourcePager("net", "Microsoft.Network", "", "routeTables",
		"rt", nil), func(p armauthorization.PermissionsClientListForResourceResponse) []*armauthorization.Permission {
		return p.Value
	}, 2)
	forScope := func(p armauthorization.RoleAssignmentsClientListForScopeResponse) []*armauthorization.RoleAssignment {
		return p.Value
	}
	// this client does not escape it
	filter := url.PathEscape("principalId eq '" + reader.ObjectID + "'")
	all(a, assignments.NewListForScopePager(scope,
		&armauthorization.RoleAssignmentsClientListForScopeOptions{Filter: &filter}), forScope, 2)
	is(t, "role", call(assignments.GetByID(a.ctx, *made.ID, nil)).ok(t).Properties.PrincipalID,
		reader.ObjectID)
	call(assignments.Delete(a.ctx, scope, first, nil)).ok(t)
	call(assignments.Delete(a.ctx, scope, second, nil)).ok(t)
	call(assignments.Get(a.ctx, scope, second, nil)).refused(t, 404, "RoleAssignmentNotFound")
	call(theirs.Get(a.ctx, "net", "rt", nil)).refused(t, 403, "AuthorizationFailed")
}

// TestLocks writes locks through the generic client: the SDK's module for locks makes the same
// calls.
func TestLocks(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	resources, tables := client(a, armresources.NewClient), client(a,
		armnetwork.NewRouteTablesClient)
	poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)).ok(t)
	lock := func(level string) string {
		id := id("net", "Microsoft.Network/routeTables/rt/providers/Microsoft.Authorization/locks/keep")
		made := poll(resources.BeginCreateOrUpdateByID(a.ctx, id, "2020-05-01",
			armresources.GenericResource{Properties: map[string]any{"level": level,
				"notes": "why"}}, nil)).ok(t)
		is(t, "id", made.ID, id)
		return id
	}
	lock("CanNotDelete")
	poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(route("a", "10.1.0.0/16", "")), nil)).
		ok(t)
	poll(tables.BeginDelete(a.ctx, "net", "rt", nil)).refused(t, 409, "ScopeLocked")
	locked := lock("ReadOnly")
	poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)).refused(t, 409,
		"ScopeLocked")
	got := call(resources.GetByID(a.ctx, locked, "2020-05-01", nil)).ok(t)
	if properties := got.Properties.(map[string]any); properties["level"] != "ReadOnly" ||
		properties["notes"] != "why" {
		t.Errorf("the lock is %v", properties)
	}
	poll(resources.BeginDeleteByID(a.ctx, locked, "2020-05-01", nil)).ok(t)
	poll(tables.BeginDelete(a.ctx, "net", "rt", nil)).ok(t)
}
