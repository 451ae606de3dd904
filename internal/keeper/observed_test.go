package keeper

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestObserved: while a config says Observe, nothing is written, and each check reports what it
// would do, including a delete whose proof is not read again at every check. When the config
// enforces, all of it is done.
func TestObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.reconcile(w.keep(w.demoConfig()))
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		w.edit(w.demo.GatewayTable, func(p object) {
			p["routes"] = slices.DeleteFunc(p["routes"].([]any), func(r any) bool {
				return r.(object)["properties"].(object)["addressPrefix"] == "10.244.0.0/24"
			})
		})
		w.strip(w.demo.NodeSubnet)
		before := w.routes(w.demo.GatewayTable)
		k := w.keep(plan.Observing([]v1alpha1.ClusterRoutes{w.demoConfig()})...)
		want := "1 observed associate shop-vnet/nodes\n1 observed create appgw-rt\n1 observed " +
			"delete appgw-rt"
		const checks = 60
		since := w.mark()
		for i := range checks {
			r := w.reconcile(k)
			if got := did(Result{Changes: r.OnlyObserved}); got != want || len(r.Changes) > 0 ||
				r.Writes > 0 {
				t.Fatalf("check %d: observed\n%s\nwant\n%s\nand %+v", i, got, want, r.Changes)
			}
			time.Sleep(10 * time.Second)
		}
		lists := 0
		for _, r := range since() {
			if strings.HasSuffix(strings.ToLower(r.Path), "networkinterfaces") {
				lists++
			}
			if r.Method != "GET" {
				t.Errorf("%s %s", r.Method, r.Path)
			}
		}
		if lists == 0 || lists > 2*(checks/6+1) {
			t.Errorf("in ten minutes there were %d lists of NICs, want two a minute at most", lists)
		}
		w.expectRoutes(w.demo.GatewayTable, before...)
		if table := w.tableOf(w.demo.NodeSubnet); table != "" {
			t.Errorf("the node subnet has %s", table)
		}
		k = w.keep(w.demoConfig())
		r := w.reconcile(k)
		if got := did(r); got != strings.ReplaceAll(want, "observed", "done") ||
			len(r.OnlyObserved) > 0 {
			t.Errorf("enforced:\n%s\nobserved %+v", got, r.OnlyObserved)
		}
	})
}

// TestObservedUpdate: a node gets another address, and its row follows. A target with policy
// Observe gets no new next hop.
func TestObservedUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		config := w.demoConfig()
		w.reconcile(w.keep(config))
		config.Spec.Targets[0].Policy = v1alpha1.PolicyObserve
		k := w.keep(config)
		w.reconcile(k)
		if err := w.e.Readdress(w.demo.Cluster, demoNode(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		before := w.routes(w.demo.GatewayTable)
		r := w.reconcile(k)
		if got := did(Result{Changes: r.OnlyObserved}); got != "1 observed update appgw-rt" {
			t.Errorf("observed %s", got)
		}
		w.expectRoutes(w.demo.GatewayTable, before...)
	})
}
