package keeper

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestEmptyTableOfUnconfiguredCluster: a target is the route table of a cluster that no config
// names, and its cloud provider has not written a route yet. Only the nodes in its subnet show
// whose it is.
func TestEmptyTableOfUnconfiguredCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		w.e.PauseRoutes(play.cluster, true)
		w.edit(play.table, func(p object) { p["routes"] = []any{} })
		time.Sleep(time.Minute)
		k := w.keep(configure("shop", w.demo.Cluster, play.table, w.demo.GatewayTable))
		since := w.mark()
		for range 3 {
			r := w.reconcile(k)
			if f := of(r, finding.TargetIsSource); f == nil || f.Resource != string(play.table) {
				t.Errorf("findings %v", codes(r))
			}
			time.Sleep(time.Minute)
		}
		subnets := 0
		for _, c := range calls(since()) {
			if c == "PUT play-rt" {
				t.Error("the table of the other cluster was written")
			}
			if c == "GET nodes" {
				subnets++
			}
		}
		if subnets > 4 { // the cluster's subnet three times, the target's once
			t.Errorf("subnets were read %d times", subnets)
		}
		w.expectRoutes(play.table)
		// The other target, with an Application Gateway in its subnet, is in sync.
		w.expectRoutes(w.demo.GatewayTable,
			append(slices.Clone(threePods), "10.60.0.0/16>VirtualNetworkGateway")...)
		w.e.PauseRoutes(play.cluster, false)
		time.Sleep(5 * time.Minute)
		w.reconcile(k)
		w.expectRoutes(play.table, "10.150.0.0/24>10.50.1.4", "10.150.1.0/24>10.50.1.5")
	})
}

// TestTargetOnNodes: the nodes have a target's table in place of the cluster's. The association is
// wrong, and not the target: the advice names the cluster's table. A subnet that may not be read is
// one error, and not a second one about a table that cannot be identified.
func TestTargetOnNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		config := configure("shop", w.demo.Cluster, w.demo.GatewayTable)
		config.Spec.RouteTableID = string(w.demo.ClusterTable)
		config.Spec.Guard.Mode = v1alpha1.GuardObserve
		w.associate(w.demo.NodeSubnet, w.demo.GatewayTable)
		if f := of(w.reconcile(w.keep(config)), finding.TargetIsSource); f != nil {
			t.Errorf("the cluster's identity wrote its table, and yet %+v", f)
		}
		w.inject(emulator.Fault{Method: "GET", Path: "eventtypes/management", Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		f := of(w.reconcile(w.keep(config)), finding.TargetIsSource)
		if f == nil || !strings.HasPrefix(f.Advice, "if shop-rt is the route table of cluster "+
			"shop, associate it with shop-vnet/nodes; otherwise correct") {
			t.Errorf("%+v", f)
		}
		w.inject(emulator.Fault{Method: "GET", Path: "subnets|virtualNetworks", Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		config.Spec.RouteTableID = ""
		r := w.reconcile(w.keep(config))
		if of(r, finding.ReadFailed) == nil || of(r, finding.TableUnknown) != nil {
			t.Errorf("%v", codes(r))
		}
	})
}
