package clients

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

func allow(name, port string, priority int32) *armnetwork.SecurityRule {
	return &armnetwork.SecurityRule{Name: to.Ptr(name),
		Properties: &armnetwork.SecurityRulePropertiesFormat{
			Access: to.Ptr(armnetwork.SecurityRuleAccessAllow), Direction: to.Ptr(
				armnetwork.SecurityRuleDirectionInbound),
			Protocol: to.Ptr(armnetwork.SecurityRuleProtocolTCP),
			Priority: to.Ptr(priority), SourceAddressPrefix: to.Ptr("*"), SourcePortRange: to.Ptr(
				"*"),
			DestinationAddressPrefix: to.Ptr("*"), DestinationPortRange: to.Ptr(port),
		}}
}

func TestSecurityGroups(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	groups, rules := client(a, armnetwork.NewSecurityGroupsClient), client(a,
		armnetwork.NewSecurityRulesClient)
	vnets, subnets := client(a, armnetwork.NewVirtualNetworksClient), client(a,
		armnetwork.NewSubnetsClient)

	g := poll(groups.BeginCreateOrUpdate(a.ctx, "net", "nsg", armnetwork.SecurityGroup{
		Location: to.Ptr(region), Properties: &armnetwork.SecurityGroupPropertiesFormat{
			SecurityRules: []*armnetwork.SecurityRule{allow("https", "443", 100)}},
	}, nil)).ok(t).SecurityGroup
	is(t, "rule id", g.Properties.SecurityRules[0].ID,
		id("net", "Microsoft.Network/networkSecurityGroups/nsg/securityRules/https"))
	is(t, "rule provisioningState", g.Properties.SecurityRules[0].Properties.ProvisioningState,
		armnetwork.ProvisioningStateSucceeded)
	if len(g.Properties.DefaultSecurityRules) != 6 {
		t.Errorf("%d default rules, Azure has 6", len(g.Properties.DefaultSecurityRules))
	}
	a.requests()

	poll(rules.BeginCreateOrUpdate(a.ctx, "net", "nsg", "ssh", *allow("", "22", 100), nil)).refused(
		t, 400, "SecurityRuleConflict")
	ssh := poll(rules.BeginCreateOrUpdate(a.ctx, "net", "nsg", "ssh", *allow("", "22", 110), nil)).
		ok(t)
	is(t, "priority", ssh.Properties.Priority, 110)
	all(a, rules.NewListPager("net", "nsg", nil),
		func(p armnetwork.SecurityRulesClientListResponse) []*armnetwork.SecurityRule {
			return p.Value
		}, 2)
	poll(rules.BeginDelete(a.ctx, "net", "nsg", "https", nil)).ok(t)
	call(rules.Get(a.ctx, "net", "nsg", "https", nil)).refused(t, 404, "NotFound")
	a.wire(
		"PUT Microsoft.Network/networkSecurityGroups/nsg/securityRules/ssh 2025-05-01 400",
		"PUT Microsoft.Network/networkSecurityGroups/nsg/securityRules/ssh 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/networkSecurityGroups/nsg/securityRules/ssh 2025-05-01 200",
		"GET Microsoft.Network/networkSecurityGroups/nsg/securityRules 2025-05-01 200",
		"DELETE Microsoft.Network/networkSecurityGroups/nsg/securityRules/https 2025-05-01 202",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/networkSecurityGroups/nsg/securityRules/https 2025-05-01 404",
	)

	guarded := subnet("a", "10.0.1.0/24", "")
	guarded.Properties.NetworkSecurityGroup = &armnetwork.SecurityGroup{ID: g.ID}
	poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", vnet("10.0.0.0/16", guarded), nil)).ok(t)
	g = call(groups.Get(a.ctx, "net", "nsg", nil)).ok(t).SecurityGroup
	is(t, "the group's subnet", g.Properties.Subnets[0].ID,
		id("net", "Microsoft.Network/virtualNetworks/vnet/subnets/a"))
	poll(groups.BeginDelete(a.ctx, "net", "nsg", nil)).refused(t, 400,
		"InUseNetworkSecurityGroupCannotBeDeleted")
	poll(subnets.BeginDelete(a.ctx, "net", "vnet", "a", nil)).ok(t)
	tagged := call(groups.UpdateTags(a.ctx, "net", "nsg",
		armnetwork.TagsObject{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)).ok(t)
	is(t, "tag", tagged.Tags["a"], "b")
	poll(groups.BeginDelete(a.ctx, "net", "nsg", nil)).ok(t)
	all(a, groups.NewListPager("net", nil),
		func(p armnetwork.SecurityGroupsClientListResponse) []*armnetwork.SecurityGroup {
			return p.Value
		}, 0)
	all(a, groups.NewListAllPager(nil),
		func(p armnetwork.SecurityGroupsClientListAllResponse) []*armnetwork.SecurityGroup {
			return p.Value
		}, 0)
}
