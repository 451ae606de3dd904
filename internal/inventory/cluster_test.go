package inventory

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

func TestPluginName(t *testing.T) {
	id := arm.ResourceID("11111111-1111-1111-1111-111111111111", "shop-rg", arm.TypeCluster, "shop")
	own := `"podSubnetID":"` + string(id.Group()) +
		`/providers/Microsoft.Network/virtualNetworks/v/subnets/pods"`
	for _, c := range []struct {
		profile string
		pools   []string
		want    string
	}{
		{`"networkPlugin":"kubenet"`, []string{""}, "kubenet"},
		{`"networkPlugin":"azure","networkPluginMode":"overlay"`, []string{""}, "overlay"},
		{`"networkPlugin":"azure"`, []string{""}, "node-subnet"},
		{`"networkPlugin":"azure"`, nil, "node-subnet"},
		{`"networkPlugin":"azure"`, []string{own}, "pod-subnet"},
		{`"networkPlugin":"azure"`, []string{own + `,"podIPAllocationMode":"DynamicIndividual"`},
			"pod-subnet"},
		{`"networkPlugin":"Azure"`, []string{own + `,"podIPAllocationMode":"StaticBlock"`},
			"pod-subnet-static"},
		{`"networkPlugin":"azure"`, []string{own, own + `,"podIPAllocationMode":"StaticBlock"`,
			own},
			"pod-subnet and pod-subnet-static"},
		{`"networkPlugin":"none"`, []string{""}, "none"},
		{``, nil, "none"},
	} {
		var pools []string
		for i, pool := range c.pools {
			name := fmt.Sprintf(`{"name":"p%d"`, i)
			if pool != "" {
				name += ","
			}
			pools = append(pools, name+pool+"}")
		}
		cluster, err := DecodeCluster([]byte(`{"id":"` + string(id) +
			`","properties":{"networkProfile":{` +
			c.profile + `},"agentPoolProfiles":[` + strings.Join(pools, ",") + `]}}`))
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if got := cluster.PluginName(); got != c.want {
			t.Errorf("%v is called %q", c, got)
		}
	}
}
