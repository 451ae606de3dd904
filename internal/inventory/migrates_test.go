package inventory

import (
	"fmt"
	"testing"
)

// TestMigrates: an overlay cluster that is being updated leaves kubenet only if its node subnet's
// table still has routes to its pods.
func TestMigrates(t *testing.T) {
	const net = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network"
	const id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/" +
		"managedClusters/c"
	for _, c := range []struct {
		name, mode, state, prefix, hop string
		want                           bool
	}{
		{"leaving", "overlay", "Updating", "10.244.1.0/24", "10.0.0.4", true},
		{"upgraded later", "overlay", "Upgrading", "10.60.0.0/24", "10.0.0.4", false},
		{"done", "overlay", "Succeeded", "10.244.1.0/24", "10.0.0.4", false},
		{"a route past the nodes", "overlay", "Updating", "10.244.0.0/16", "10.9.0.4", false},
		{"not overlay", "", "Updating", "10.244.1.0/24", "10.0.0.4", false},
	} {
		s := NewSnapshot()
		for _, raw := range []string{
			fmt.Sprintf(`{"id":%q,"properties":{"provisioningState":%q,"networkProfile":{`+
				`"networkPlugin":"azure","networkPluginMode":%q,"podCidr":"10.244.0.0/16"},`+
				`"agentPoolProfiles":[{"name":"np","vnetSubnetID":"%s/virtualNetworks/v/subnets/n"}`+
				`]}}`, id, c.state, c.mode, net),
			fmt.Sprintf(`{"id":"%s/virtualNetworks/v/subnets/n","properties":{"addressPrefix":`+
				`"10.0.0.0/24","routeTable":{"id":"%s/routeTables/rt"}}}`, net, net),
			fmt.Sprintf(`{"id":"%s/routeTables/rt","properties":{"routes":[{"name":"a",`+
				`"properties":{"addressPrefix":%q,"nextHopType":"VirtualAppliance",`+
				`"nextHopIpAddress":%q}}]}}`, net, c.prefix, c.hop),
		} {
			if err := s.Add([]byte(raw)); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Migrates(s.Cluster(id)); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
