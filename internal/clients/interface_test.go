package clients

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

func nic(subnet string) armnetwork.Interface {
	return armnetwork.Interface{Location: to.Ptr(region),
		Properties: &armnetwork.InterfacePropertiesFormat{
			EnableIPForwarding: to.Ptr(true),
			IPConfigurations: []*armnetwork.InterfaceIPConfiguration{{
				Name: to.Ptr("ipconfig1"),
				Properties: &armnetwork.InterfaceIPConfigurationPropertiesFormat{
					Subnet: &armnetwork.Subnet{ID: to.Ptr(subnet)}},
			}},
		}}
}

func TestNetworkInterfaces(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	nics, vnets, subnets := client(a, armnetwork.NewInterfacesClient), client(a,
		armnetwork.NewVirtualNetworksClient), client(a, armnetwork.NewSubnetsClient)
	v := poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet",
		vnet("10.0.0.0/16", subnet("a", "10.0.1.0/24", "")), nil)).ok(t).VirtualNetwork
	in := *v.Properties.Subnets[0].ID
	a.requests()

	n := poll(nics.BeginCreateOrUpdate(a.ctx, "net", "fw", nic(in), nil)).ok(t).Interface
	a.wire("PUT Microsoft.Network/networkInterfaces/fw 2025-05-01 201") // synchronous
	is(t, "enableIPForwarding", n.Properties.EnableIPForwarding, true)
	configuration := n.Properties.IPConfigurations[0]
	is(t, "id", configuration.ID, *n.ID+"/ipConfigurations/ipconfig1")
	is(t, "privateIPAddress", configuration.Properties.PrivateIPAddress, "10.0.1.4")
	is(t, "privateIPAllocationMethod", configuration.Properties.PrivateIPAllocationMethod,
		armnetwork.IPAllocationMethodDynamic)
	is(t, "primary", configuration.Properties.Primary, true)
	s := call(subnets.Get(a.ctx, "net", "vnet", "a", nil)).ok(t).Subnet
	// upper case
	if who := s.Properties.IPConfigurations[0].ID; !strings.EqualFold(*who, *configuration.ID) ||
		*who == *configuration.ID {
		t.Errorf("in the subnet is %s, want %s in upper case", *who, *configuration.ID)
	}
	poll(subnets.BeginDelete(a.ctx, "net", "vnet", "a", nil)).refused(t, 400,
		"InUseSubnetCannotBeDeleted")

	static := nic(in)
	static.Properties.IPConfigurations[0].Properties.PrivateIPAllocationMethod =
		to.Ptr(armnetwork.IPAllocationMethodStatic)
	static.Properties.IPConfigurations[0].Properties.PrivateIPAddress = to.Ptr("10.0.1.4")
	poll(nics.BeginCreateOrUpdate(a.ctx, "net", "other", static, nil)).refused(t, 400,
		"PrivateIPAddressIsAllocated")
	static.Properties.IPConfigurations[0].Properties.PrivateIPAddress = to.Ptr("10.0.1.77")
	is(t, "static address", poll(nics.BeginCreateOrUpdate(a.ctx, "net", "other", static, nil)).ok(
		t).Properties.IPConfigurations[0].Properties.PrivateIPAddress, "10.0.1.77")

	n.Properties.EnableIPForwarding = to.Ptr(false)
	n = poll(nics.BeginCreateOrUpdate(a.ctx, "net", "fw", n, nil)).ok(t).Interface
	is(t, "enableIPForwarding", n.Properties.EnableIPForwarding, false)
	is(t, "the same address as before",
		n.Properties.IPConfigurations[0].Properties.PrivateIPAddress, "10.0.1.4")
	is(t, "tag", call(nics.UpdateTags(a.ctx, "net", "fw",
		armnetwork.TagsObject{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)).ok(t).Tags["a"],
		"b")
	all(a, nics.NewListPager("net", nil),
		func(p armnetwork.InterfacesClientListResponse) []*armnetwork.Interface {
			return p.Value
		}, 2)
	poll(nics.BeginDelete(a.ctx, "net", "fw", nil)).ok(t)
	poll(nics.BeginDelete(a.ctx, "net", "other", nil)).ok(t)
	all(a, nics.NewListAllPager(nil),
		func(p armnetwork.InterfacesClientListAllResponse) []*armnetwork.Interface {
			return p.Value
		}, 0)
	poll(subnets.BeginDelete(a.ctx, "net", "vnet", "a", nil)).ok(t)
}

// TestEffectiveRoutes calls both APIs in which Azure says where a packet goes, with a peering and a
// table.
func TestEffectiveRoutes(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	nics, vnets, tables := client(a, armnetwork.NewInterfacesClient), client(a,
		armnetwork.NewVirtualNetworksClient), client(a, armnetwork.NewRouteTablesClient)
	peerings, watchers := client(a, armnetwork.NewVirtualNetworkPeeringsClient), client(a,
		armnetwork.NewWatchersClient)
	rt := poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt",
		table(route("egress", "0.0.0.0/0", "10.0.0.4"), route("pods", "10.244.0.0/24", "10.0.1.9")),
		nil)).ok(t).RouteTable
	v := poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "vnet",
		vnet("10.0.0.0/16", subnet("a", "10.0.1.0/24", *rt.ID)), nil)).ok(t).VirtualNetwork
	hub := poll(vnets.BeginCreateOrUpdate(a.ctx, "net", "hub", vnet("10.9.0.0/16"), nil)).ok(t).
		VirtualNetwork
	n := poll(nics.BeginCreateOrUpdate(a.ctx, "net", "vm", nic(*v.Properties.Subnets[0].ID), nil)).
		ok(t).Interface
	a.requests()

	peer := func(remote *string) armnetwork.VirtualNetworkPeering {
		return armnetwork.VirtualNetworkPeering{
			Properties: &armnetwork.VirtualNetworkPeeringPropertiesFormat{
				AllowVirtualNetworkAccess: to.Ptr(true),
				RemoteVirtualNetwork: &armnetwork.SubResource{
					ID: remote},
			}}
	}
	half := poll(peerings.BeginCreateOrUpdate(a.ctx, "net", "vnet", "to-hub", peer(hub.ID), nil)).
		ok(t)
	is(t, "peeringState of one half", half.Properties.PeeringState,
		armnetwork.VirtualNetworkPeeringStateInitiated)
	poll(peerings.BeginCreateOrUpdate(a.ctx, "net", "hub", "to-vnet", peer(v.ID), nil)).ok(t)
	whole := call(peerings.Get(a.ctx, "net", "vnet", "to-hub", nil)).ok(t)
	is(t, "peeringState of both", whole.Properties.PeeringState,
		armnetwork.VirtualNetworkPeeringStateConnected)
	is(t, "remoteAddressSpace", whole.Properties.RemoteAddressSpace.AddressPrefixes[0],
		"10.9.0.0/16")
	all(a, peerings.NewListPager("net", "vnet", nil),
		func(p armnetwork.VirtualNetworkPeeringsClientListResponse) []*armnetwork.VirtualNetworkPeering {
			return p.Value
		}, 1)
	a.requests()

	effective := poll(nics.BeginGetEffectiveRouteTable(a.ctx, "net", "vm", nil)).ok(t)
	a.wire(
		"POST Microsoft.Network/networkInterfaces/vm/effectiveRouteTable 2025-05-01 202",
		"GET operationResults 2025-05-01 202",
		"GET operationResults 2025-05-01 200",
	)
	got := map[string]string{}
	for _, r := range effective.Value {
		to := string(*r.NextHopType)
		for _, address := range r.NextHopIPAddress {
			to += " " + *address
		}
		got[*r.AddressPrefix[0]+" "+string(*r.Source)+" "+string(*r.State)] = to
	}
	for route, want := range map[string]string{
		"10.0.0.0/16 Default Active":    "VnetLocal",
		"10.9.0.0/16 Default Active":    "VNetPeering",
		"0.0.0.0/0 Default Invalid":     "Internet",
		"0.0.0.0/0 User Active":         "VirtualAppliance 10.0.0.4",
		"10.244.0.0/24 User Active":     "VirtualAppliance 10.0.1.9",
		"10.0.0.0/8 Default Active":     "None",
		"192.168.0.0/16 Default Active": "None",
	} {
		if got[route] != want {
			t.Errorf("effective route %s leads to %q, want %q", route, got[route], want)
		}
	}

	call(watchers.CreateOrUpdate(a.ctx, "net", "watcher",
		armnetwork.Watcher{Location: to.Ptr(region)}, nil)).ok(t)
	a.requests()
	for destination, want := range map[string]armnetwork.NextHopType{
		"10.244.0.7": armnetwork.NextHopTypeVirtualAppliance,
		"10.244.1.7": armnetwork.NextHopTypeNone, "10.0.1.200": armnetwork.NextHopTypeVnetLocal,
		"8.8.8.8": armnetwork.NextHopTypeVirtualAppliance,
	} {
		hop := poll(watchers.BeginGetNextHop(a.ctx, "net", "watcher", armnetwork.NextHopParameters{
			TargetResourceID: n.ID, SourceIPAddress: to.Ptr("10.0.1.4"),
			DestinationIPAddress: to.Ptr(destination),
		}, nil)).ok(t)
		is(t, "next hop to "+destination, hop.NextHopType, want)
		if want == armnetwork.NextHopTypeVirtualAppliance {
			is(t, "table to "+destination, hop.RouteTableID, *rt.ID)
		}
	}

	poll(peerings.BeginDelete(a.ctx, "net", "hub", "to-vnet", nil)).ok(t)
	is(t, "peeringState of what is left",
		call(peerings.Get(a.ctx, "net", "vnet", "to-hub", nil)).ok(t).Properties.PeeringState,
		armnetwork.VirtualNetworkPeeringStateDisconnected)
}
