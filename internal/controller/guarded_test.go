package controller

import (
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
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
		{"overlay, gateway lost", "overlay", []picture.Subnet{bare, lost},
			"False AssociationLost"},
	} {
		config := &v1alpha1.ClusterRoutes{}
		config.Spec.Guard.Mode = v1alpha1.GuardEnforce
		got, _ := guarded(picture.Cluster{Plugin: c.plugin, Subnets: c.subnets}, config,
			func(arm.ID) string { return "" }, nil)
		if got := got.Status + " " + got.Reason; got != c.want {
			t.Errorf("%s: %s, expected %s", c.name, got, c.want)
		}
	}
}
