package clients

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

func publicIP() armnetwork.PublicIPAddress {
	return armnetwork.PublicIPAddress{
		Location: to.Ptr(region), SKU: &armnetwork.PublicIPAddressSKU{
			Name: to.Ptr(armnetwork.PublicIPAddressSKUNameStandard)},
		Properties: &armnetwork.PublicIPAddressPropertiesFormat{
			PublicIPAllocationMethod: to.Ptr(armnetwork.IPAllocationMethodStatic)},
	}
}

// TestNATGateways also covers its public address.
func TestNATGateways(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	addresses, gateways := client(a, armnetwork.NewPublicIPAddressesClient), client(a,
		armnetwork.NewNatGatewaysClient)
	vnets, subnets := client(a, armnetwork.NewVirtualNetworksClient), client(a,
		armnetwork.NewSubnetsClient)

	pip := poll(addresses.BeginCreateOrUpdate(a.ctx, "net", "pip", publicIP(), nil)).ok(t).
		PublicIPAddress
	is(t, "provisioningState", pip.Properties.ProvisioningState,
		armnetwork.ProvisioningStateSucceeded)
	is(t, "publicIPAddressVersion", pip.Properties.PublicIPAddressVersion, armnetwork.IPVersionIPv4)
	if pip.Properties.IPAddress == nil {
		t.Error("a static public address without an address")
	}
	nat := poll(gateways.BeginCreateOrUpdate(a.ctx, "net", "nat", armnetwork.NatGateway{
		Location: to.Ptr(region), SKU: &armnetwork.NatGatewaySKU{
			Name: to.Ptr(armnetwork.NatGatewaySKUNameStandard)},
		Properties: &armnetwork.NatGatewayPropertiesFormat{
			PublicIPAddresses: []*armnetwork.SubResource{{ID: pip.ID}}},
	}, nil)).ok(t).NatGateway
	a.wire(
		"PUT Microsoft.Network/publicIPAddresses/pip 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/publicIPAddresses/pip 2025-05-01 200",
		"PUT Microsoft.Network/natGateways/nat 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/natGateways/nat 2025-05-01 200",
	)
	pip = call(addresses.Get(a.ctx, "net", "pip", nil)).ok(t).PublicIPAddress
	is(t, "the address's NAT gateway", pip.Properties.NatGateway.ID, *nat.ID)
	poll(addresses.BeginDelete(a.ctx, "net", "pip", nil)).refused(t, 400,
		"PublicIPAddressCannotBeDeleted")

	out := subnet("out", "10.0.1.0/24", "")
	out.Properties.NatGateway = &armnetwork.SubResource{ID: nat.ID}
	poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", vnet("10.0.0.0/16", out), nil)).ok(t)
	nat = call(gateways.Get(a.ctx, "net", "nat", nil)).ok(t).NatGateway
	is(t, "the gateway's subnet", nat.Properties.Subnets[0].ID,
		id("net", "Microsoft.Network/virtualNetworks/vnet/subnets/out"))
	poll(gateways.BeginDelete(a.ctx, "net", "nat", nil)).refused(t, 400,
		"CannotDeleteNatGatewayAssociatedToSubnet")
	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "out", *subnet("", "10.0.1.0/24", ""),
		nil)).ok(t)

	is(t, "tag", call(gateways.UpdateTags(a.ctx, "net", "nat",
		armnetwork.TagsObject{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)).ok(t).Tags["a"],
		"b")
	all(a, gateways.NewListPager("net", nil),
		func(p armnetwork.NatGatewaysClientListResponse) []*armnetwork.NatGateway {
			return p.Value
		}, 1)
	all(a, gateways.NewListAllPager(nil),
		func(p armnetwork.NatGatewaysClientListAllResponse) []*armnetwork.NatGateway {
			return p.Value
		}, 1)
	poll(gateways.BeginDelete(a.ctx, "net", "nat", nil)).ok(t)
	is(t, "tag", call(addresses.UpdateTags(a.ctx, "net", "pip",
		armnetwork.TagsObject{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)).ok(t).Tags["a"],
		"b")
	all(a, addresses.NewListPager("net", nil),
		func(p armnetwork.PublicIPAddressesClientListResponse) []*armnetwork.PublicIPAddress {
			return p.Value
		}, 1)
	poll(addresses.BeginDelete(a.ctx, "net", "pip", nil)).ok(t)
	all(a, addresses.NewListAllPager(nil),
		func(p armnetwork.PublicIPAddressesClientListAllResponse) []*armnetwork.PublicIPAddress {
			return p.Value
		}, 0)
}

func gateway(subnet string) armnetwork.ApplicationGateway {
	return armnetwork.ApplicationGateway{Location: to.Ptr(region),
		Properties: &armnetwork.ApplicationGatewayPropertiesFormat{
			SKU: &armnetwork.ApplicationGatewaySKU{
				Name: to.Ptr(armnetwork.ApplicationGatewaySKUNameStandardV2), Tier: to.Ptr(
					armnetwork.ApplicationGatewayTierStandardV2), Capacity: to.Ptr[int32](1)},
			GatewayIPConfigurations: []*armnetwork.ApplicationGatewayIPConfiguration{{
				Name: to.Ptr("subnet"),
				Properties: &armnetwork.ApplicationGatewayIPConfigurationPropertiesFormat{
					Subnet: &armnetwork.SubResource{ID: to.Ptr(subnet)}},
			}},
		}}
}

func TestApplicationGateways(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	gateways, tables := client(a, armnetwork.NewApplicationGatewaysClient), client(a,
		armnetwork.NewRouteTablesClient)
	vnets, subnets := client(a, armnetwork.NewVirtualNetworksClient), client(a,
		armnetwork.NewSubnetsClient)
	poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet",
		vnet("10.0.0.0/16", subnet("appgw", "10.0.2.0/24", "")), nil)).ok(t)
	rt := poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt",
		table(route("egress", "0.0.0.0/0", "10.0.0.4")), nil)).ok(t).RouteTable
	a.requests()

	g := poll(gateways.BeginCreateOrUpdate(a.ctx, "net", "agw",
		gateway(id("net", "Microsoft.Network/virtualNetworks/vnet/subnets/appgw")), nil)).ok(t).
		ApplicationGateway
	a.wire(
		"PUT Microsoft.Network/applicationGateways/agw 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/applicationGateways/agw 2025-05-01 200",
	)
	is(t, "provisioningState", g.Properties.ProvisioningState,
		armnetwork.ProvisioningStateSucceeded)
	is(t, "operationalState", g.Properties.OperationalState,
		armnetwork.ApplicationGatewayOperationalStateRunning)
	is(t, "capacity", g.Properties.SKU.Capacity, 1)
	appgw := call(subnets.Get(a.ctx, "net", "vnet", "appgw", nil)).ok(t).Subnet
	is(t, "who is in the subnet", appgw.Properties.ApplicationGatewayIPConfigurations[0].ID, *g.ID+
		"/gatewayIPConfigurations/subnet")

	// The subnet of a gateway without network isolation refuses 0.0.0.0/0 to an appliance, also if
	// it is delegated.
	associated := subnet("", "10.0.2.0/24", *rt.ID)
	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "appgw", *associated, nil)).refused(t,
		400, "ApplicationGatewaySubnetRouteTableNotSupported")
	associated.Properties.Delegations = []*armnetwork.Delegation{{
		Name: to.Ptr("gateway"), Properties: &armnetwork.ServiceDelegationPropertiesFormat{
			ServiceName: to.Ptr("Microsoft.Network/applicationGateways")},
	}}
	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "appgw", *associated, nil)).refused(t,
		400, "ApplicationGatewaySubnetRouteTableNotSupported")

	poll(subnets.BeginDelete(a.ctx, "net", "vnet", "appgw", nil)).refused(t, 400,
		"InUseSubnetCannotBeDeleted")
	poll(gateways.BeginStop(a.ctx, "net", "agw", nil)).ok(t)
	is(t, "operationalState",
		call(gateways.Get(a.ctx, "net", "agw", nil)).ok(t).Properties.OperationalState,
		armnetwork.ApplicationGatewayOperationalStateStopped)
	poll(gateways.BeginStart(a.ctx, "net", "agw", nil)).ok(t)
	is(t, "tag", call(gateways.UpdateTags(a.ctx, "net", "agw",
		armnetwork.TagsObject{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)).ok(t).Tags["a"],
		"b")
	all(a, gateways.NewListPager("net", nil),
		func(p armnetwork.ApplicationGatewaysClientListResponse) []*armnetwork.ApplicationGateway {
			return p.Value
		}, 1)
	all(a, gateways.NewListAllPager(nil),
		func(p armnetwork.ApplicationGatewaysClientListAllResponse) []*armnetwork.ApplicationGateway {
			return p.Value
		}, 1)
	poll(gateways.BeginDelete(a.ctx, "net", "agw", nil)).ok(t)
	poll(subnets.BeginDelete(a.ctx, "net", "vnet", "appgw", nil)).ok(t)
}
