package clients

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// kubenet is a kubenet cluster with its own identity, in an existing subnet or, with "", in a
// network of its own.
func kubenet(identity, subnet string, count int32) armcontainerservice.ManagedCluster {
	pool := &armcontainerservice.ManagedClusterAgentPoolProfile{
		Name: to.Ptr("nodepool1"), Count: to.Ptr(count), VMSize: to.Ptr("Standard_D4s_v5"),
		Mode: to.Ptr(armcontainerservice.AgentPoolModeSystem),
	}
	if subnet != "" {
		pool.VnetSubnetID = to.Ptr(subnet)
	}
	return armcontainerservice.ManagedCluster{
		Location: to.Ptr(region),
		Identity: &armcontainerservice.ManagedClusterIdentity{
			Type:                   to.Ptr(armcontainerservice.ResourceIdentityTypeUserAssigned),
			UserAssignedIdentities: map[string]*armcontainerservice.ManagedServiceIdentityUserAssignedIdentitiesValue{identity: {}},
		},
		Properties: &armcontainerservice.ManagedClusterProperties{
			DNSPrefix: to.Ptr("shop"),
			NetworkProfile: &armcontainerservice.NetworkProfile{
				NetworkPlugin:   to.Ptr(armcontainerservice.NetworkPluginKubenet),
				LoadBalancerSKU: to.Ptr(armcontainerservice.LoadBalancerSKUStandard)},
			AgentPoolProfiles: []*armcontainerservice.ManagedClusterAgentPoolProfile{pool},
		},
	}
}

// shop creates a kubenet cluster of three nodes in an existing network with a bring-your-own table
// that has one route.
func (a *azure) shop() armcontainerservice.ManagedCluster {
	a.Helper()
	a.group("net")
	a.group("shop")
	identity := a.identity("shop", "shop")
	rt := poll(client(a, armnetwork.NewRouteTablesClient).BeginCreateOrUpdate(a.ctx, "net", "rt",
		table(route("egress", "0.0.0.0/0", "10.42.3.4")), nil)).ok(a)
	poll(client(a, armnetwork.NewVirtualNetworksClient).BeginCreateOrUpdate(a.ctx, "net", "vnet",
		vnet("10.42.0.0/16", subnet("nodes", "10.42.1.0/24", *rt.ID),
			subnet("more", "10.42.2.0/24", *rt.ID)), nil)).ok(a)
	a.requests()
	return poll(client(a, armcontainerservice.NewManagedClustersClient).BeginCreateOrUpdate(a.ctx,
		"shop", "shop", kubenet(*identity.ID, nodesSubnet, 3), nil)).ok(a).ManagedCluster
}

const nodesSubnet = subscription +
	"/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet/subnets/nodes"

// routes waits until the bring-your-own table has this many routes: the cluster's cloud provider
// writes them one after the other.
func (a *azure) routes(want int) []*armnetwork.Route {
	a.Helper()
	tables := client(a, armnetwork.NewRouteTablesClient)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(operationTime / 3) {
		got := call(tables.Get(a.ctx, "net", "rt", nil)).ok(a).Properties.Routes
		if len(got) == want {
			return got
		}
		if time.Now().After(deadline) {
			a.Fatalf("the table has %d routes, want %d", len(got), want)
		}
	}
}

func TestClusters(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	clusters := client(a, armcontainerservice.NewManagedClustersClient)
	shop := a.shop()
	wire := a.requests()
	if first, last := line(wire[0]),
		line(wire[len(wire)-1]); first != "PUT Microsoft.ContainerService/managedClusters/shop "+
		"2025-02-01 201" ||
		last != "GET Microsoft.ContainerService/managedClusters/shop 2025-02-01 200" {
		t.Errorf("creating a cluster began with %s and ended with %s", first, last)
	}
	is(t, "id", shop.ID, id("shop", "Microsoft.ContainerService/managedClusters/shop"))
	is(t, "provisioningState", shop.Properties.ProvisioningState, "Succeeded")
	is(t, "powerState", shop.Properties.PowerState.Code, armcontainerservice.CodeRunning)
	is(t, "nodeResourceGroup", shop.Properties.NodeResourceGroup, "MC_shop_shop_westeurope")
	is(t, "podCidr", shop.Properties.NetworkProfile.PodCidr, "10.244.0.0/16")
	is(t, "loadBalancerSku", shop.Properties.NetworkProfile.LoadBalancerSKU,
		armcontainerservice.LoadBalancerSKUStandard)
	pool := shop.Properties.AgentPoolProfiles[0]
	is(t, "pool", pool.Name, "nodepool1")
	is(t, "count", pool.Count, 3)
	is(t, "vmSize", pool.VMSize, "Standard_D4s_v5")
	is(t, "maxPods", pool.MaxPods, 110)
	if pool.OrchestratorVersion == nil || shop.Properties.KubernetesVersion == nil ||
		shop.Properties.Fqdn == nil {
		t.Errorf("AKS also says which Kubernetes version the cluster has, and where it is")
	}
	identity := a.identity("shop", "shop")
	for id, assigned := range shop.Identity.UserAssignedIdentities {
		if !strings.EqualFold(id, *identity.ID) {
			t.Errorf("the cluster has the identity %s", id)
		}
		is(t, "principalId", assigned.PrincipalID, *identity.Properties.PrincipalID)
		is(t, "clientId", assigned.ClientID, *identity.Properties.ClientID)
	}
	a.routes(4)

	// A PUT of the document as read, with two more nodes.
	shop.Properties.AgentPoolProfiles[0].Count = to.Ptr[int32](5)
	shop = poll(clusters.BeginCreateOrUpdate(a.ctx, "shop", "shop", shop, nil)).ok(t).ManagedCluster
	is(t, "count", shop.Properties.AgentPoolProfiles[0].Count, 5)
	hops := map[string]bool{}
	for _, r := range a.routes(6) {
		hops[*r.Properties.NextHopIPAddress] = true
	}
	for _, node := range []string{"10.42.1.4", "10.42.1.5", "10.42.1.6", "10.42.1.7", "10.42.1.8"} {
		if !hops[node] {
			t.Errorf("no route leads to the node at %s: %v", node, hops)
		}
	}
	is(t, "tag", poll(clusters.BeginUpdateTags(a.ctx, "shop", "shop",
		armcontainerservice.TagsObject{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)).ok(t).
		Tags["a"], "b")
	all(a, clusters.NewListByResourceGroupPager("shop", nil),
		func(p armcontainerservice.ManagedClustersClientListByResourceGroupResponse) []*armcontainerservice.ManagedCluster {
			return p.Value
		}, 1)
	all(a, clusters.NewListPager(nil),
		func(p armcontainerservice.ManagedClustersClientListResponse) []*armcontainerservice.ManagedCluster {
			return p.Value
		}, 1)

	credentials := call(clusters.ListClusterUserCredentials(a.ctx, "shop", "shop", nil)).ok(t).
		Kubeconfigs
	if len(credentials) != 1 || !strings.Contains(string(credentials[0].Value), "kind: Config") {
		t.Fatalf("the credentials are not a kubeconfig: %v", credentials)
	}
	is(t, "name of the credentials", credentials[0].Name, "clusterUser")
	poll(clusters.BeginRunCommand(a.ctx, "shop", "shop", armcontainerservice.RunCommandRequest{
		Command: to.Ptr("kubectl get nodes"), Context: to.Ptr(
			base64.StdEncoding.EncodeToString(nil))}, nil)).refused(t, 400,
		"KubernetesOperationError")

	a.requests()
	poll(clusters.BeginStop(a.ctx, "shop", "shop", nil)).ok(t)
	is(t, "powerState",
		call(clusters.Get(a.ctx, "shop", "shop", nil)).ok(t).Properties.PowerState.Code,
		armcontainerservice.CodeStopped)
	poll(clusters.BeginStart(a.ctx, "shop", "shop", nil)).ok(t)
	is(t, "powerState",
		call(clusters.Get(a.ctx, "shop", "shop", nil)).ok(t).Properties.PowerState.Code,
		armcontainerservice.CodeRunning)
	a.routes(6)

	poll(clusters.BeginDelete(a.ctx, "shop", "shop", nil)).ok(t)
	call(clusters.Get(a.ctx, "shop", "shop", nil)).refused(t, 404, "ResourceNotFound")
	poll(clusters.BeginDelete(a.ctx, "shop", "shop", nil)).ok(t)
	nodes := call(client(a, armnetwork.NewSubnetsClient).Get(a.ctx, "net", "vnet", "nodes", nil)).
		ok(t)
	if nodes.Properties.RouteTable == nil || len(nodes.Properties.IPConfigurations) != 0 {
		t.Error("deleting the cluster removed the bring-your-own table from its subnet, or left " +
			"nodes in it")
	}
}

func TestAgentPools(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	pools := client(a, armcontainerservice.NewAgentPoolsClient)
	a.shop()
	a.routes(4)
	a.requests()
	users := armcontainerservice.AgentPool{
		Properties: &armcontainerservice.ManagedClusterAgentPoolProfileProperties{
			Count: to.Ptr[int32](2), VMSize: to.Ptr("Standard_D2s_v5"), Mode: to.Ptr(
				armcontainerservice.AgentPoolModeUser),
			VnetSubnetID: to.Ptr(strings.Replace(nodesSubnet, "/nodes", "/more", 1)),
		}}
	made := poll(pools.BeginCreateOrUpdate(a.ctx, "shop", "shop", "users", users, nil)).ok(t)
	is(t, "id", made.ID,
		id("shop", "Microsoft.ContainerService/managedClusters/shop/agentPools/users"))
	is(t, "mode", made.Properties.Mode, armcontainerservice.AgentPoolModeUser)
	is(t, "provisioningState", made.Properties.ProvisioningState, "Succeeded")
	a.routes(6)
	users.Properties.Count = to.Ptr[int32](1)
	is(t, "count", poll(pools.BeginCreateOrUpdate(a.ctx, "shop", "shop", "users", users, nil)).ok(
		t).Properties.Count, 1)
	a.routes(5)
	list := func(p armcontainerservice.AgentPoolsClientListResponse) []*armcontainerservice.AgentPool {
		return p.Value
	}
	all(a, pools.NewListPager("shop", "shop", nil), list, 2)
	poll(pools.BeginDelete(a.ctx, "shop", "shop", "users", nil)).ok(t)
	call(pools.Get(a.ctx, "shop", "shop", "users", nil)).refused(t, 404, "NotFound")
	all(a, pools.NewListPager("shop", "shop", nil), list, 1)
	a.routes(4)
}

func TestMaintenanceConfigurations(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.shop()
	a.requests()
	windows := client(a, armcontainerservice.NewMaintenanceConfigurationsClient)
	call(windows.Get(a.ctx, "shop", "shop", "default", nil)).refused(t, 404, "NotFound")
	made := call(windows.CreateOrUpdate(a.ctx, "shop", "shop", "default",
		armcontainerservice.MaintenanceConfiguration{
			Properties: &armcontainerservice.MaintenanceConfigurationProperties{
				TimeInWeek: []*armcontainerservice.TimeInWeek{
					{Day: to.Ptr(armcontainerservice.WeekDayMonday),
						HourSlots: []*int32{to.Ptr[int32](1)}}},
			}}, nil)).ok(t)
	is(t, "id", made.ID,
		id("shop", "Microsoft.ContainerService/managedClusters/shop/maintenanceConfigurations/default"))
	is(t, "day", made.Properties.TimeInWeek[0].Day, armcontainerservice.WeekDayMonday)
	list := func(p armcontainerservice.MaintenanceConfigurationsClientListByManagedClusterResponse) []*armcontainerservice.MaintenanceConfiguration {
		return p.Value
	}
	all(a, windows.NewListByManagedClusterPager("shop", "shop", nil), list, 1)
	call(windows.Delete(a.ctx, "shop", "shop", "default", nil)).ok(t)
	all(a, windows.NewListByManagedClusterPager("shop", "shop", nil), list, 0)
}

// TestNodes reads the resources of a cluster: scale sets, instances and their network interfaces.
func TestNodes(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	group := *a.shop().Properties.NodeResourceGroup
	sets, machines, nics := client(a, armcompute.NewVirtualMachineScaleSetsClient), client(a,
		armcompute.NewVirtualMachineScaleSetVMsClient), client(a, armnetwork.NewInterfacesClient)
	set := all(a, sets.NewListPager(group, nil),
		func(p armcompute.VirtualMachineScaleSetsClientListResponse) []*armcompute.VirtualMachineScaleSet {
			return p.Value
		}, 1)[0]
	is(t, "capacity", set.SKU.Capacity, 3)
	is(t, "the pool's tag", set.Tags["aks-managed-poolName"], "nodepool1")
	configuration := set.Properties.VirtualMachineProfile.NetworkProfile.NetworkInterfaceConfigurations[0]
	is(t, "enableIPForwarding", configuration.Properties.EnableIPForwarding, true)
	is(t, "subnet", configuration.Properties.IPConfigurations[0].Properties.Subnet.ID, nodesSubnet)
	a.requests()

	vms := all(a, machines.NewListPager(group, *set.Name,
		&armcompute.VirtualMachineScaleSetVMsClientListOptions{Expand: to.Ptr("instanceView")}),
		func(p armcompute.VirtualMachineScaleSetVMsClientListResponse) []*armcompute.VirtualMachineScaleSetVM {
			return p.Value
		}, 3)
	for _, vm := range vms {
		is(t, "name", vm.Name, *set.Name+"_"+*vm.InstanceID)
		if name := *vm.Properties.OSProfile.ComputerName; len(name) != len(*set.Name)+6 ||
			!strings.HasPrefix(name, *set.Name) {
			t.Errorf("node name %s in the scale set %s", name, *set.Name)
		}
	}
	one := call(machines.Get(a.ctx, group, *set.Name, "2", nil)).ok(t)
	is(t, "instance", one.InstanceID, "2")
	call(machines.Get(a.ctx, group, *set.Name, "9", nil)).refused(t, 404, "NotFound")

	interfaces := all(a, nics.NewListVirtualMachineScaleSetNetworkInterfacesPager(group, *set.Name,
		nil),
		func(p armnetwork.InterfacesClientListVirtualMachineScaleSetNetworkInterfacesResponse) []*armnetwork.Interface {
			return p.Value
		}, 3)
	for i, n := range interfaces {
		is(t, "enableIPForwarding", n.Properties.EnableIPForwarding, true)
		is(t, "its machine", n.Properties.VirtualMachine.ID, *vms[i].ID)
		is(t, "its subnet", n.Properties.IPConfigurations[0].Properties.Subnet.ID, nodesSubnet)
	}
	own := all(a, nics.NewListVirtualMachineScaleSetVMNetworkInterfacesPager(group, *set.Name, "2",
		nil),
		func(p armnetwork.InterfacesClientListVirtualMachineScaleSetVMNetworkInterfacesResponse) []*armnetwork.Interface {
			return p.Value
		}, 1)[0]
	is(t, "address", own.Properties.IPConfigurations[0].Properties.PrivateIPAddress, "10.42.1.6")
	single := call(nics.GetVirtualMachineScaleSetNetworkInterface(a.ctx, group, *set.Name, "2",
		*own.Name, nil)).ok(t)
	is(t, "id", single.ID, *own.ID)
	a.wire(
		"GET Microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/virtualMachines 2026-04-01 200",
		"GET Microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/virtualMachines 2026-04-01 200 next",
		"GET Microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/virtualMachines/2 2026-04-01 200",
		"GET Microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/virtualMachines/9 2026-04-01 404",
		"GET microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/networkInterfaces 2018-10-01 200",
		"GET microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/networkInterfaces 2018-10-01 200 next",
		"GET microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/virtualMachines/2/networkInterfaces 2018-10-01 200",
		"GET microsoft.Compute/virtualMachineScaleSets/"+*set.Name+
			"/virtualMachines/2/networkInterfaces/"+*own.Name+" 2018-10-01 200",
	)
}
