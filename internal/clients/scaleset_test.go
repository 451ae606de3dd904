package clients

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

func TestScaleSets(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("vm")
	sets, machines, nics := client(a, armcompute.NewVirtualMachineScaleSetsClient), client(a,
		armcompute.NewVirtualMachineScaleSetVMsClient), client(a, armnetwork.NewInterfacesClient)
	v := poll(client(a, armnetwork.NewVirtualNetworksClient).BeginCreateOrUpdate(a.ctx, "vm",
		"vnet", vnet("10.0.0.0/16", subnet("a", "10.0.1.0/24", "")), nil)).ok(t)
	a.requests()
	in := &armcompute.VirtualMachineScaleSetIPConfiguration{Name: to.Ptr("ip"),
		Properties: &armcompute.VirtualMachineScaleSetIPConfigurationProperties{
			Primary: to.Ptr(true), Subnet: &armcompute.APIEntityReference{
				ID: v.Properties.Subnets[0].ID},
		}}
	made := poll(sets.BeginCreateOrUpdate(a.ctx, "vm", "web", armcompute.VirtualMachineScaleSet{
		Location: to.Ptr(region), SKU: &armcompute.SKU{Name: to.Ptr("Standard_D2s_v5"),
			Capacity: to.Ptr[int64](3)},
		Properties: &armcompute.VirtualMachineScaleSetProperties{
			Overprovision: to.Ptr(false), // surplus machines keep their interfaces for a while
			VirtualMachineProfile: &armcompute.VirtualMachineScaleSetVMProfile{
				NetworkProfile: &armcompute.VirtualMachineScaleSetNetworkProfile{
					NetworkInterfaceConfigurations: []*armcompute.VirtualMachineScaleSetNetworkConfiguration{{
						Name:       to.Ptr("nic"),
						Properties: &armcompute.VirtualMachineScaleSetNetworkConfigurationProperties{Primary: to.Ptr(true), IPConfigurations: []*armcompute.VirtualMachineScaleSetIPConfiguration{in}},
					}}},
			}},
	}, nil)).ok(t).VirtualMachineScaleSet
	a.wire(
		"PUT Microsoft.Compute/virtualMachineScaleSets/web 2026-04-01 201",
		"GET operations 2026-04-01 200",
		"GET Microsoft.Compute/virtualMachineScaleSets/web 2026-04-01 200",
	)
	is(t, "id", made.ID, id("vm", "Microsoft.Compute/virtualMachineScaleSets/web"))
	is(t, "provisioningState", made.Properties.ProvisioningState, "Succeeded")
	vms := func(p armcompute.VirtualMachineScaleSetVMsClientListResponse) []*armcompute.VirtualMachineScaleSetVM {
		return p.Value
	}
	all(a, machines.NewListPager("vm", "web", nil), vms, 3)

	patched := poll(sets.BeginUpdate(a.ctx, "vm", "web", armcompute.VirtualMachineScaleSetUpdate{
		SKU: &armcompute.SKU{Capacity: to.Ptr[int64](1)}, Tags: map[string]*string{
			"a": to.Ptr("b")}}, nil)).ok(t)
	is(t, "capacity", patched.SKU.Capacity, 1)
	is(t, "size", patched.SKU.Name, "Standard_D2s_v5")
	is(t, "tag", patched.Tags["a"], "b")
	all(a, machines.NewListPager("vm", "web", nil), vms, 1)
	n := all(a, nics.NewListVirtualMachineScaleSetNetworkInterfacesPager("vm", "web", nil),
		func(p armnetwork.InterfacesClientListVirtualMachineScaleSetNetworkInterfacesResponse) []*armnetwork.Interface {
			return p.Value
		}, 1)[0]
	is(t, "address", n.Properties.IPConfigurations[0].Properties.PrivateIPAddress, "10.0.1.4")

	all(a, sets.NewListAllPager(nil),
		func(p armcompute.VirtualMachineScaleSetsClientListAllResponse) []*armcompute.VirtualMachineScaleSet {
			return p.Value
		}, 1)
	poll(sets.BeginDelete(a.ctx, "vm", "web", nil)).ok(t)
	call(sets.Get(a.ctx, "vm", "web", nil)).refused(t, 404, "ResourceNotFound")
	left := call(client(a, armnetwork.NewSubnetsClient).Get(a.ctx, "vm", "vnet", "a", nil)).ok(t)
	if len(left.Properties.IPConfigurations) != 0 {
		t.Errorf("%d addresses are still in use", len(left.Properties.IPConfigurations))
	}
}
