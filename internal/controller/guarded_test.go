package controller

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/picture"
)

// TestGuarded: node subnets count where they need a route table. With overlay they need none, so
// only the subnets that the spec names count.
func TestGuarded(t *testing.T) {
	nodes := picture.Subnet{Role: picture.RoleNodes, State: picture.Right}
	bare := picture.Subnet{Role: picture.RoleNodes, State: picture.Unknown}
	gateway := picture.Subnet{Role: picture.RoleGuarded, State: picture.Right}
	lost := picture.Subnet{Role: picture.RoleGuarded, State: picture.Lost}
	for _, c := range []struct {
		name, plugin string
		subnets      []picture.Subnet
		want         string
	}{
		{"kubenet", "kubenet", []picture.Subnet{nodes, gateway}, "True Enforced"},
		{"kubenet, table unknown", "kubenet", []picture.Subnet{bare, gateway}, "Unknown NotRead"},
		{"kubenet, no subnet read", "kubenet", nil, "Unknown NotRead"},
		{"cluster not read", "", nil, "Unknown NotRead"},
		{"overlay", "overlay", []picture.Subnet{bare}, "True NoSubnets"},
		{"overlay and a gateway", "overlay", []picture.Subnet{bare, gateway}, "True Enforced"},
		{"no cluster", inventory.NoCluster, []picture.Subnet{gateway}, "True Enforced"},
		{"no cluster, lost", inventory.NoCluster, []picture.Subnet{lost}, "False AssociationLost"},
		{"no cluster, egress only", inventory.NoCluster, nil, "True NoSubnets"},
		{"overlay, gateway lost", "overlay", []picture.Subnet{bare, lost}, "False AssociationLost"},
	} {
		config := &v1alpha1.ClusterRoutes{}
		config.Spec.Guard.Mode = v1alpha1.GuardEnforce
		got := guarded(picture.Cluster{Plugin: c.plugin, Subnets: c.subnets}, config,
			func(arm.ID) string { return "" }, nil)
		if is := got.Status + " " + got.Reason; is != c.want {
			t.Errorf("%s: %s, expected %s", c.name, is, c.want)
		}
		if strings.Contains(got.Message, "a cluster with no cluster") {
			t.Errorf("%s: %s", c.name, got.Message)
		}
	}
}

// TestGuardedObserved: the message does not promise to put back what is only observed: security
// groups, and all that a subnet has in a network that AKS made.
func TestGuardedObserved(t *testing.T) {
	const id = "/subscriptions/s/resourceGroups/%s/providers/Microsoft.Network/virtualNetworks/" +
		"v/subnets/%s"
	subnet := func(group, name, role string, properties ...picture.Property) picture.Subnet {
		return picture.Subnet{ID: arm.ID(fmt.Sprintf(id, group, name)), Role: role,
			State: picture.Right, Properties: properties}
	}
	group := picture.Property{Property: inventory.PropertyGroup, Wanted: "/g", State: picture.Right}
	nodes := subnet("net", "nodes", picture.RoleNodes)
	gateway := subnet("net", "gw", picture.RoleGuarded, group)
	onlyGroup := subnet("net", "db", picture.RoleGuarded, group)
	onlyGroup.State = picture.Unknown
	byAKS := subnet("MC_shop", "nodes", picture.RoleNodes)
	named := subnet("MC_shop", "pods", picture.RoleGuarded)
	for name, c := range map[string]struct {
		subnets []picture.Subnet
		groups  v1alpha1.GuardMode
		plugin  string
		want    string
	}{
		"groups are put back": {[]picture.Subnet{nodes, gateway}, v1alpha1.GuardEnforce, "kubenet",
			"True Enforced 2 subnets have what they must have, and what one loses is put back"},
		"groups are observed": {[]picture.Subnet{nodes, gateway}, "", "kubenet",
			"True Enforced 2 subnets have what they must have, and what one loses is put back, " +
				"but the loss of these is only reported: network security group of v/gw"},
		"nothing else is guarded": {[]picture.Subnet{onlyGroup}, v1alpha1.GuardObserve, "overlay",
			"False Observe the subnets have what they must have, but what one loses is only " +
				"reported"},
		"the table that kubenet needs": {[]picture.Subnet{byAKS}, "", "kubenet",
			"True Enforced 1 subnet has what it must have, and what it loses is put back"},
		"a network of AKS": {[]picture.Subnet{gateway, named}, v1alpha1.GuardEnforce, "overlay",
			"True Enforced 2 subnets have what they must have, and what one loses is put back, " +
				"but the loss of these is only reported: route table of v/pods"},
	} {
		config := &v1alpha1.ClusterRoutes{}
		config.Spec.Guard.Mode, config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce, c.groups
		p := picture.Cluster{Plugin: c.plugin, Subnets: c.subnets}
		p.NodeGroup = arm.ID("/subscriptions/s/resourceGroups/mc_shop")
		got := guarded(p, config, func(arm.ID) string { return "" }, nil)
		if got := got.Status + " " + got.Reason + " " + got.Message; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
