package emulatortest

import (
	"fmt"
	"net/http"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Member is a cluster of a fleet. Gateway and Target are "" if it has no gateway.
type Member struct {
	Cluster, Nodes, Gateway, Target arm.ID
}

// Subscriptions returns IDs of n subscriptions.
func Subscriptions(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("5ab00000-0000-4000-8000-%012d", i+1)
	}
	return all
}

// BuildFleet makes kubenet clusters, spread over the subscriptions, each in its own resource group
// and virtual network. Half of them use an existing route table, whose default route leads to an
// appliance; the others use the one that AKS makes. Three of four have a gateway's subnet with a
// second table, which has one route that is not a pod route. Their pod CIDRs differ, for the first
// hundred.
func BuildFleet(t testing.TB, e *emulator.Emulator, subscriptions []string, clusters,
	nodes int) []Member {
	t.Helper()
	op, err := e.Client(Operator)
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	put := func(id arm.ID, version string, properties object) {
		t.Helper()
		if err := op.Put(id, version,
			object{"location": "westeurope", "properties": properties}); err != nil {
			t.Fatal(err)
		}
	}
	link := func(id arm.ID) object { return object{"id": string(id)} }
	var fleet []Member
	for i := range clusters {
		sub, name := subscriptions[i%len(subscriptions)], fmt.Sprintf("aks-%04d", i)
		group := name + "-rg"
		of := func(resourceType, suffix string) arm.ID {
			return arm.ResourceID(sub, group, resourceType, name+suffix)
		}
		vnet, own := of(arm.TypeVNet, "-vnet"), of(arm.TypeRouteTable, "-rt")
		m := Member{Cluster: of(arm.TypeCluster, ""), Nodes: vnet.Child("subnets", "nodes")}
		put(arm.GroupID(sub, group), "2024-03-01", nil)
		at := fmt.Sprintf("10.%d.%d.", i/256, i%256)
		inNodes := object{"addressPrefix": at + "0/25"}
		if i%2 == 0 {
			put(own, networkVersion,
				object{"routes": []any{
					object{"name": "egress", "properties": object{"addressPrefix": "0.0.0.0/0",
						"nextHopType": inventory.HopAppliance, "nextHopIpAddress": at + "250"}}}})
			inNodes["routeTable"] = link(own)
		}
		subnets := []any{object{"name": "nodes", "properties": inNodes}, object{"name": appliances,
			"properties": object{"addressPrefix": at + "240/28"}}}
		if i%4 != 3 {
			m.Gateway, m.Target = vnet.Child("subnets", "appgw"), of(arm.TypeRouteTable,
				"-appgw-rt")
			put(m.Target, networkVersion,
				object{"routes": []any{
					object{"name": "to-branch-office",
						"properties": object{"addressPrefix": "10.200.0.0/16",
							"nextHopType": inventory.HopGateway}}}})
			subnets = append(subnets,
				object{"name": "appgw", "properties": object{"addressPrefix": at + "128/26",
					"routeTable": link(m.Target)}})
		}
		put(vnet, networkVersion,
			object{"addressSpace": object{"addressPrefixes": []any{at + "0/24"}},
				"subnets": subnets})
		if i%2 == 0 {
			put(of(arm.TypeInterface, "-nva"), networkVersion, object{"enableIPForwarding": true,
				"ipConfigurations": []any{object{"name": "ip", "properties": object{
					"privateIPAllocationMethod": "Static", "privateIPAddress": at + "250",
					"subnet": link(vnet.Child("subnets", appliances))}}}})
		}
		put(m.Cluster, "2025-10-01", object{
			"networkProfile": object{"networkPlugin": "kubenet",
				"podCidr": fmt.Sprintf("10.%d.0.0/16", 100+i%100), "serviceCidr": "172.16.0.0/16"},
			"agentPoolProfiles": []any{object{"name": "np", "mode": "System", "count": nodes,
				"vnetSubnetID": string(m.Nodes)}},
		})
		fleet = append(fleet, m)
	}
	return fleet
}

// appliances is the subnet of the appliance to which the default route leads.
const appliances = "appliances"

const networkVersion = "2025-05-01"

// Strip removes a subnet's route table, like a redeploy whose template does not name the table.
func Strip(t testing.TB, e *emulator.Emulator, subnet arm.ID) {
	t.Helper()
	op, err := e.Client(Operator)
	if err != nil {
		t.Fatal(err)
	}
	if err := op.Strip(subnet); err != nil {
		t.Fatal(err)
	}
}

// TableOf returns the table that a subnet has, or "".
func TableOf(t testing.TB, e *emulator.Emulator, subnet arm.ID) arm.ID {
	t.Helper()
	op, err := e.Client(Operator)
	if err != nil {
		t.Fatal(err)
	}
	status, body := op.Do(http.MethodGet, subnet, networkVersion, nil)
	read, err := inventory.DecodeSubnet(body)
	if status != http.StatusOK || err != nil {
		t.Fatalf("GET %s: %d, %v", subnet, status, err)
	}
	return read.RouteTable
}
