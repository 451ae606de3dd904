package plan

import (
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// TestSeveralRequire: two configs require the same of a subnet, or the same egress route. It is put
// back if one of them says so, whatever the other says, and in whatever order they are.
func TestSeveralRequire(t *testing.T) {
	replaces := func(w *world, c *v1alpha1.ClusterRoutes) {
		w.configs[0].Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
	}
	for name, tt := range map[string]struct {
		differs func(w *world, c *v1alpha1.ClusterRoutes)
		has     arm.ID // the table on the gateway's subnet
		change  string
	}{
		"one observes": {func(w *world, c *v1alpha1.ClusterRoutes) {
			c.Spec.Guard.Mode, c.Spec.Egress.Mode = v1alpha1.GuardObserve, v1alpha1.GuardObserve
		}, "", "associate vnet/gw - gw-rt"},
		"one is paused": {func(w *world, c *v1alpha1.ClusterRoutes) {
			w.s.Paused = map[string]bool{c.Metadata.Name: true}
		}, "", "associate vnet/gw - gw-rt"},
		"one replaces another table": {replaces, hub, "associate vnet/gw hub-rt gw-rt"},
	} {
		for _, first := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := egress(t)
				w.configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
					{SubnetID: string(gatewayIn), RouteTableID: string(gateway)}}
				w.cluster(clusterB, "10.245.0.0/16", nodesB).subnet(nodesB, "10.240.1.0/24", "")
				w.table(tableB, "b0____102450024 10.245.0.0/24 10.240.1.4")
				other := w.config("other", clusterB)
				other.Spec.RouteTableID = string(tableB)
				w.subnet(nodesB, "10.240.1.0/24", tableB)
				other.Spec.Guard.Subnets = w.configs[0].Spec.Guard.Subnets
				other.Spec.Egress = w.configs[0].Spec.Egress
				tt.differs(w, other)
				if first {
					slices.Reverse(w.configs)
				}
				w.subnet(gatewayIn, "10.240.9.0/24", tt.has)
				p := w.expect(egressMade+"\n"+tt.change, "")
				for _, c := range p.Changes {
					if c.Cluster != "shop" && tt.has == "" {
						t.Errorf("for %s: %+v", c.Cluster, c)
					}
				}
			})
		}
	}
}
