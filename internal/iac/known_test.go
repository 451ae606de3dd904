package iac

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestWhosePods: of clusters with one pod CIDR, the next hop shows to whose pods a table leads.
func TestWhosePods(t *testing.T) {
	const group = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/"
	s := inventory.NewSnapshot()
	for i, name := range []string{"a", "b", "c"} {
		nodes := fmt.Sprintf("%sMicrosoft.Network/virtualNetworks/%s/subnets/nodes", group, name)
		for _, doc := range []string{
			fmt.Sprintf(`{"id":"%sMicrosoft.ContainerService/managedClusters/%s","properties":{`+
				`"networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},`+
				`"agentPoolProfiles":[{"name":"np","vnetSubnetID":%q}]}}`, group, name, nodes),
			fmt.Sprintf(`{"id":%q,"properties":{"addressPrefix":"10.%d.0.0/24"}}`, nodes, i),
			fmt.Sprintf(`{"id":"%sMicrosoft.Network/routeTables/%s-rt","properties":{"routes":[{`+
				`"name":"r","properties":{"addressPrefix":"10.244.0.0/24","nextHopType":`+
				`"VirtualAppliance","nextHopIpAddress":"10.%d.0.4"}}]}}`, group, name, i),
		} {
			if err := s.Add([]byte(doc)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var k Known
	k.Observe(s)
	for _, name := range []string{"a", "b", "c"} {
		table := arm.ID(group + "Microsoft.Network/routeTables/" + name + "-rt")
		if why := k.Tables[table.Key()]; !strings.HasSuffix(why, "routes to pods of "+name) {
			t.Errorf("%s: %q", table.Name(), why)
		}
	}
}
