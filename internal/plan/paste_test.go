package plan

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestMain runs the tests. Then it pastes the commands of each finding that they made, made again
// with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// hostile plans again with hostile names.
func (w *world) hostile() {
	pastetest.Again(func(rename func(string) string) {
		type input struct {
			Facts   Facts
			Configs []v1alpha1.ClusterRoutes
		}
		again := pastetest.Rename(input{w.s, w.configs}, rename)
		Make(again.Facts, again.Configs)
		New(again.Facts, again.Configs).Orphans()
	})
}

// TestPastedSubnets makes the commands about subnets and tables that cannot be read, or whose last
// operation failed.
func TestPastedSubnets(t *testing.T) {
	w := shop(t)
	delete(w.s.Subnets, nodesA.Key())
	w.s.Unread[nodesA.Key()] = inventory.Unread{ID: nodesA, Absent: true}
	w.expect("", "subnet-missing")

	w = shop(t)
	w.cluster(clusterA, "10.244.0.0/16")
	group := w.s.Cluster(clusterA).NodeGroup()
	w.s.Unread[group.Key()] = inventory.Unread{ID: group, Absent: true}
	w.expect("", "subnet-missing")

	w = guarded(t) // what a subnet lacks
	w.subnet(nodesA, "10.240.0.0/24", "")
	w.configs[0].Spec.Guard.Mode = v1alpha1.GuardObserve
	w.expect("", "association-lost\nassociation-lost\nassociation-lost")

	w = shop(t)
	w.s.Table(gateway).Failed = true
	w.subnet(gatewayIn, "10.240.9.0/24", gateway)
	w.s.Subnet(gatewayIn).Failed = true
	w.configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(gatewayIn),
		RouteTableID: string(gateway)}}
	w.expect(threeCreated, "last-operation-failed\nlast-operation-failed")
}
