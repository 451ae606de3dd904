package clients

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v4"

	"routekeeper.dev/routekeeper/internal/emulator"
)

func TestResourceGroups(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	groups, resources := client(a, armresources.NewResourceGroupsClient), client(a,
		armresources.NewClient)

	if call(groups.CheckExistence(a.ctx, "net", nil)).ok(t).Success {
		t.Error("a group exists before it was made")
	}
	g := call(groups.CreateOrUpdate(a.ctx, "net",
		armresources.ResourceGroup{Location: to.Ptr("West Europe"),
			Tags: map[string]*string{"team": to.Ptr("net")}}, nil)).ok(t)
	is(t, "id", g.ID, "/subscriptions/"+sub+"/resourceGroups/net")
	is(t, "type", g.Type, "Microsoft.Resources/resourceGroups")
	is(t, "location", g.Location, region)
	is(t, "provisioningState", g.Properties.ProvisioningState, "Succeeded")
	if !call(groups.CheckExistence(a.ctx, "NET", nil)).ok(t).Success {
		t.Error("the group does not exist")
	}
	updated := call(groups.Update(a.ctx, "net", armresources.ResourceGroupPatchable{
		Tags: map[string]*string{"cost": to.Ptr("1")}}, nil)).ok(t)
	is(t, "tag", updated.Tags["cost"], "1")
	if len(updated.Tags) != 1 {
		t.Errorf("a PATCH of tags replaces them, but there are %d", len(updated.Tags))
	}
	a.wire(
		"HEAD resourcegroups/net 2025-04-01 404",
		"PUT resourcegroups/net 2025-04-01 201",
		"HEAD resourcegroups/NET 2025-04-01 204",
		"PATCH resourcegroups/net 2025-04-01 200",
	)
	for _, name := range []string{"b", "c"} {
		call(groups.CreateOrUpdate(a.ctx, name,
			armresources.ResourceGroup{Location: to.Ptr(region)}, nil)).ok(t)
	}
	all(a, groups.NewListPager(nil),
		func(p armresources.ResourceGroupsClientListResponse) []*armresources.ResourceGroup {
			return p.Value
		}, 3)
	a.wire(
		"PUT resourcegroups/b 2025-04-01 201",
		"PUT resourcegroups/c 2025-04-01 201",
		"GET resourcegroups 2025-04-01 200",
		"GET resourcegroups 2025-04-01 200 next",
	)

	// A group is deleted with everything in it, as one operation.
	for _, resource := range []string{"Microsoft.Network/networkSecurityGroups/a",
		"microsoft.network/ROUTETABLES/B", "Acme.Rockets/launchPads/c"} {
		made := poll(resources.BeginCreateOrUpdateByID(a.ctx, "/subscriptions/"+sub+
			"/resourcegroups/net/providers/"+resource, "2025-05-01",
			armresources.GenericResource{Location: to.Ptr(region),
				Properties: map[string]any{"height": 12}}, nil)).ok(t)
		// names keep their case, other words get Azure's
		if resource == "microsoft.network/ROUTETABLES/B" {
			is(t, "id", made.ID, id("net", "Microsoft.Network/routeTables/B"))
			is(t, "type", made.Type, "Microsoft.Network/routeTables")
		}
	}
	unknown := call(resources.GetByID(a.ctx, id("net", "Acme.Rockets/launchPads/c"), "2019-01-01",
		nil)).ok(t)
	if height := unknown.Properties.(map[string]any)["height"]; height != 12.0 {
		t.Errorf("a resource of an unknown type lost its height: %v", unknown.Properties)
	}
	list := func(p armresources.ClientListByResourceGroupResponse) []*armresources.GenericResourceExpanded {
		return p.Value
	}
	all(a, resources.NewListByResourceGroupPager("net", nil), list, 3)
	tables := resources.NewListByResourceGroupPager("net",
		&armresources.ClientListByResourceGroupOptions{
			Filter: to.Ptr("resourceType eq 'Microsoft.Network/routeTables'")})
	is(t, "the only table", all(a, tables, list, 1)[0].Name, "B")
	a.requests()
	poll(groups.BeginDelete(a.ctx, "net", nil)).ok(t)
	call(groups.Get(a.ctx, "net", nil)).refused(t, 404, "ResourceGroupNotFound")
	call(resources.GetByID(a.ctx, id("net", "Acme.Rockets/launchPads/c"), "2019-01-01", nil)).
		refused(t, 404, "ResourceGroupNotFound")
	a.wire(
		"DELETE resourcegroups/net 2025-04-01 202",
		"GET operationResults 2025-04-01 202",
		"GET operationResults 2025-04-01 204",
		"GET resourcegroups/net 2025-04-01 404",
		"GET Acme.Rockets/launchPads/c 2019-01-01 404",
	)
	poll(groups.BeginDelete(a.ctx, "net", nil)).refused(t, 404, "ResourceGroupNotFound")
}

func TestProviders(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	providers := client(a, armresources.NewProvidersClient)
	p := call(providers.Get(a.ctx, "Microsoft.Network", nil)).ok(t)
	is(t, "namespace", p.Namespace, "Microsoft.Network")
	is(t, "registrationState", p.RegistrationState, "Registered")
	types := map[string]*armresources.ProviderResourceType{}
	for _, resourceType := range p.ResourceTypes {
		types[*resourceType.ResourceType] = resourceType
	}
	if rt := types["routeTables"]; rt == nil || len(rt.APIVersions) == 0 || len(rt.Locations) == 0 {
		t.Errorf("Microsoft.Network has no routeTables with API versions and locations: %v", rt)
	}
	is(t, "after unregistering",
		call(providers.Unregister(a.ctx, "Microsoft.Network", nil)).ok(t).RegistrationState,
		"Unregistering")
	is(t, "after registering",
		call(providers.Register(a.ctx, "Microsoft.Network", nil)).ok(t).RegistrationState,
		"Registering")
	time.Sleep(2 * operationTime)
	is(t, "later", call(providers.Get(a.ctx, "Microsoft.Network", nil)).ok(t).RegistrationState,
		"Registered")
	found := map[string]bool{}
	for pager := providers.NewListPager(nil); pager.More(); {
		page := call(pager.NextPage(a.ctx)).ok(t)
		for _, p := range page.Value {
			found[*p.Namespace] = true
		}
	}
	for _, namespace := range []string{"Microsoft.Network", "Microsoft.Compute",
		"Microsoft.ContainerService", "Microsoft.ManagedIdentity", "Microsoft.Authorization",
		"Microsoft.Insights"} {
		if !found[namespace] {
			t.Errorf("the list of providers lacks %s", namespace)
		}
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	tags, groups := client(a, armresources.NewTagsClient), client(a,
		armresources.NewResourceGroupsClient)
	scope := "subscriptions/" + sub + "/resourceGroups/net"
	of := func(pairs ...string) *armresources.Tags {
		m := map[string]*string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = to.Ptr(pairs[i+1])
		}
		return &armresources.Tags{Tags: m}
	}
	poll(tags.BeginCreateOrUpdateAtScope(a.ctx, scope,
		armresources.TagsResource{Properties: of("a", "1", "b", "2")}, nil)).ok(t)
	poll(tags.BeginUpdateAtScope(a.ctx, scope, armresources.TagsPatchResource{
		Operation: to.Ptr(armresources.TagsPatchOperationMerge), Properties: of("b", "3", "c",
			"4")}, nil)).ok(t)
	poll(tags.BeginUpdateAtScope(a.ctx, scope, armresources.TagsPatchResource{
		Operation: to.Ptr(armresources.TagsPatchOperationDelete), Properties: of("a", "1")}, nil)).
		ok(t)
	got := call(tags.GetAtScope(a.ctx, scope, nil)).ok(t)
	is(t, "name", got.Name, "default")
	is(t, "b", got.Properties.Tags["b"], "3")
	is(t, "c", got.Properties.Tags["c"], "4")
	group := call(groups.Get(a.ctx, "net", nil)).ok(t)
	is(t, "b of the group", group.Tags["b"], "3")
	if len(group.Tags) != 2 {
		t.Errorf("the group has %d tags", len(group.Tags))
	}
	poll(tags.BeginDeleteAtScope(a.ctx, scope, nil)).ok(t)
	if left := call(groups.Get(a.ctx, "net", nil)).ok(t).Tags; len(left) != 0 {
		t.Errorf("after deleting them the group has %d tags", len(left))
	}
}
