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

func client(t testing.TB, e *emulator.Emulator, as emulator.Principal) *emulator.Client {
	t.Helper()
	c, err := e.Client(as)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Subscriptions returns IDs of n subscriptions.
func Subscriptions(n int) []string {
	var o emulator.Options
	o.AddSubscriptions(n, 1)
	return o.Subscriptions
}

// BuildFleet makes kubenet clusters, spread over the subscriptions, each in its own resource group
// and virtual network. Half of them use an existing route table, whose default route leads to an
// appliance; the others use the one that AKS makes. Three of four have a gateway's subnet with a
// second table, which has one route that is not a pod route. Their pod CIDRs differ, for the first
// hundred.
func BuildFleet(t testing.TB, e *emulator.Emulator, subscriptions []string, clusters,
	nodes int) []Member {
	t.Helper()
	op := client(t, e, Operator)
	var fleet []Member
	for i := range clusters {
		sub, name := subscriptions[i%len(subscriptions)], fmt.Sprintf("aks-%04d", i)
		of := func(resourceType, suffix string) arm.ID {
			return arm.ResourceID(sub, name+"-rg", resourceType, name+suffix)
		}
		vnet, own := of(arm.TypeVNet, "-vnet"), of(arm.TypeRouteTable, "-rt")
		m := Member{Cluster: of(arm.TypeCluster, ""), Nodes: vnet.Child("subnets", "nodes")}
		at := fmt.Sprintf("10.%d.%d.", i/256, i%256)
		p := emulator.Place{Cluster: m.Cluster, Network: vnet, Space: at + "0/24",
			Subnets: []emulator.PlaceSubnet{{Name: "nodes", Prefix: at + "0/25"},
				{Name: appliances, Prefix: at + "240/28"}},
			Profile: object{"networkPlugin": "kubenet",
				"podCidr": fmt.Sprintf("10.%d.0.0/16", 100+i%100), "serviceCidr": "172.16.0.0/16"},
			Pool: "np", Nodes: nodes,
		}
		if i%2 == 0 {
			p.Subnets[0].Table = own
			p.Linked = append(p.Linked, emulator.PlaceResource{ID: own,
				Properties: emulator.TableWith(emulator.DefaultRoute(at + "250"))})
			p.Inside = append(p.Inside, appliance(of(arm.TypeInterface, "-nva"), vnet, at+"250"))
		}
		if i%4 != 3 {
			m.Gateway = vnet.Child("subnets", "appgw")
			m.Target = of(arm.TypeRouteTable, "-appgw-rt")
			p.Linked = append(p.Linked, emulator.PlaceResource{ID: m.Target,
				Properties: emulator.TableWith(emulator.RouteToBranch("10.200.0.0/16"))})
			p.Subnets = append(p.Subnets,
				emulator.PlaceSubnet{Name: "appgw", Prefix: at + "128/26", Table: m.Target})
		}
		if err := op.Make(p); err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, m)
	}
	return fleet
}

type object = map[string]any

// appliance returns the interface of the appliance to which the default route leads.
func appliance(id, vnet arm.ID, address string) emulator.PlaceResource {
	return emulator.PlaceResource{ID: id, Properties: object{"enableIPForwarding": true,
		"ipConfigurations": []any{object{"name": "ip", "properties": object{
			"privateIPAllocationMethod": "Static", "privateIPAddress": address,
			"subnet": arm.Link(vnet.Child("subnets", appliances))}}}}}
}

// appliances is the subnet of the appliance to which the default route leads.
const appliances = "appliances"

const networkVersion = "2025-05-01"

// Strip removes a subnet's route table, like a redeploy whose template does not name the table.
func Strip(t testing.TB, e *emulator.Emulator, subnet arm.ID) {
	t.Helper()
	if err := client(t, e, Operator).Strip(subnet); err != nil {
		t.Fatal(err)
	}
}

// TableOf returns the table that a subnet has, or "".
func TableOf(t testing.TB, e *emulator.Emulator, subnet arm.ID) arm.ID {
	t.Helper()
	status, body := client(t, e, Operator).Do(http.MethodGet, subnet, networkVersion, nil)
	read, err := inventory.DecodeSubnet(body)
	if status != http.StatusOK || err != nil {
		t.Fatalf("GET %s: %d, %v", subnet, status, err)
	}
	return read.RouteTable
}
