package clients

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

func subnet(name, prefix, table string) *armnetwork.Subnet {
	s := &armnetwork.Subnet{Properties: &armnetwork.SubnetPropertiesFormat{
		AddressPrefix: to.Ptr(prefix)}}
	if name != "" {
		s.Name = to.Ptr(name)
	}
	if table != "" {
		s.Properties.RouteTable = &armnetwork.RouteTable{ID: to.Ptr(table)}
	}
	return s
}

func vnet(space string, subnets ...*armnetwork.Subnet) armnetwork.VirtualNetwork {
	return armnetwork.VirtualNetwork{Location: to.Ptr(region),
		Properties: &armnetwork.VirtualNetworkPropertiesFormat{
			AddressSpace: &armnetwork.AddressSpace{AddressPrefixes: []*string{to.Ptr(space)}},
			Subnets:      subnets,
		}}
}

func TestVirtualNetworks(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	vnets := client(a, armnetwork.NewVirtualNetworksClient)

	v := poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet",
		vnet("10.0.0.0/16", subnet("nodes", "10.0.1.0/24", ""), subnet("appgw", "10.0.2.0/24", "")),
		nil)).ok(t).VirtualNetwork
	a.wire(
		"PUT Microsoft.Network/virtualNetworks/vnet 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/virtualNetworks/vnet 2025-05-01 200",
	)
	is(t, "provisioningState", v.Properties.ProvisioningState,
		armnetwork.ProvisioningStateSucceeded)
	is(t, "enableDdosProtection", v.Properties.EnableDdosProtection, false)
	if len(v.Properties.Subnets) != 2 {
		t.Fatalf("%d subnets", len(v.Properties.Subnets))
	}
	for _, s := range v.Properties.Subnets { // whole subnets, not references
		is(t, "subnet id", s.ID, *v.ID+"/subnets/"+*s.Name)
		is(t, "subnet provisioningState", s.Properties.ProvisioningState,
			armnetwork.ProvisioningStateSucceeded)
		is(t, "privateEndpointNetworkPolicies", s.Properties.PrivateEndpointNetworkPolicies,
			armnetwork.VirtualNetworkPrivateEndpointNetworkPoliciesDisabled)
		if s.Etag == nil || s.Properties.AddressPrefix == nil {
			t.Errorf("subnet %s lacks its ETag or prefix", *s.Name)
		}
	}

	// At this api-version a PUT without subnets keeps them; an empty list deletes them.
	v.Properties.Subnets = nil
	v.Tags = map[string]*string{"team": to.Ptr("net")}
	v = poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", v, nil)).ok(t).VirtualNetwork
	is(t, "tag", v.Tags["team"], "net")
	if len(v.Properties.Subnets) != 2 {
		t.Errorf("a PUT without subnets left %d of them", len(v.Properties.Subnets))
	}
	v.Properties.Subnets = []*armnetwork.Subnet{}
	v = poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", v, nil)).ok(t).VirtualNetwork
	if len(v.Properties.Subnets) != 0 {
		t.Errorf("a PUT with no subnets left %d of them", len(v.Properties.Subnets))
	}

	for _, name := range []string{"b", "c", "d"} {
		poll(vnets.BeginCreateOrUpdate(a.ctx, "net", name, vnet("10.1.0.0/16"), nil)).ok(t)
	}
	all(a, vnets.NewListPager("net", nil),
		func(p armnetwork.VirtualNetworksClientListResponse) []*armnetwork.VirtualNetwork {
			return p.Value
		}, 4)
	poll(vnets.BeginDelete(a.ctx, "net", "vnet", nil)).ok(t)
	call(vnets.Get(a.ctx, "net", "vnet", nil)).refused(t, 404, "ResourceNotFound")
	all(a, vnets.NewListAllPager(nil),
		func(p armnetwork.VirtualNetworksClientListAllResponse) []*armnetwork.VirtualNetwork {
			return p.Value
		}, 3)
}

func TestSubnets(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	vnets, subnets, tables := client(a, armnetwork.NewVirtualNetworksClient), client(a,
		armnetwork.NewSubnetsClient), client(a, armnetwork.NewRouteTablesClient)
	poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", vnet("10.0.0.0/16"), nil)).ok(t)
	rt := poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt",
		table(route("egress", "0.0.0.0/0", "10.0.0.4")), nil)).ok(t).RouteTable
	a.requests()

	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "far", *subnet("", "10.1.0.0/24", ""),
		nil)).refused(t, 400, "NetcfgInvalidSubnet")
	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "nodes",
		*subnet("", "10.0.1.0/24", id("net", "Microsoft.Network/routeTables/none")), nil)).refused(
		t, 400, "InvalidResourceReference")
	nodes := poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "nodes",
		*subnet("", "10.0.1.0/24", *rt.ID), nil)).ok(t).Subnet
	a.wire(
		"PUT Microsoft.Network/virtualNetworks/vnet/subnets/far 2025-05-01 400",
		"PUT Microsoft.Network/virtualNetworks/vnet/subnets/nodes 2025-05-01 400",
		"PUT Microsoft.Network/virtualNetworks/vnet/subnets/nodes 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/virtualNetworks/vnet/subnets/nodes 2025-05-01 200",
	)
	is(t, "the subnet's table", nodes.Properties.RouteTable.ID, *rt.ID)
	rt = call(tables.Get(a.ctx, "net", "rt", nil)).ok(t).RouteTable
	is(t, "the table's subnet", rt.Properties.Subnets[0].ID, *nodes.ID)
	poll(tables.BeginDelete(a.ctx, "net", "rt", nil)).refused(t, 400,
		"InUseRouteTableCannotBeDeleted")
	if expanded := call(vnets.Get(a.ctx, "net", "vnet", nil)).ok(t); *expanded.Etag != *nodes.Etag {
		t.Errorf("the network's ETag %s is not its subnet's %s", *expanded.Etag, *nodes.Etag)
	}

	// A PUT replaces the whole subnet: this is how associations are lost.
	stripped := poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "nodes",
		*subnet("", "10.0.1.0/24", ""), nil)).ok(t).Subnet
	if stripped.Properties.RouteTable != nil {
		t.Errorf("the subnet still has the table %v", stripped.Properties.RouteTable.ID)
	}
	if rt = call(tables.Get(a.ctx, "net", "rt", nil)).ok(t).RouteTable; len(
		rt.Properties.Subnets) != 0 {
		t.Errorf("the table still shows %s", *rt.Properties.Subnets[0].ID)
	}
	poll(tables.BeginDelete(a.ctx, "net", "rt", nil)).ok(t)

	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "b", *subnet("", "10.0.2.0/24", ""),
		nil)).ok(t)
	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "c", *subnet("", "10.0.3.0/24", ""),
		nil)).ok(t)
	poll(subnets.BeginCreateOrUpdate(a.ctx, "net", "vnet", "d", *subnet("", "10.0.3.128/25", ""),
		nil)).refused(t, 400, "NetcfgSubnetRangesOverlap")
	list := func(p armnetwork.SubnetsClientListResponse) []*armnetwork.Subnet { return p.Value }
	all(a, subnets.NewListPager("net", "vnet", nil), list, 3)
	poll(subnets.BeginDelete(a.ctx, "net", "vnet", "b", nil)).ok(t)
	call(subnets.Get(a.ctx, "net", "vnet", "b", nil)).refused(t, 404, "NotFound")
	left := all(a, subnets.NewListPager("net", "vnet", nil), list, 2)
	is(t, "the last one left", left[1].Name, "nodes")
}
