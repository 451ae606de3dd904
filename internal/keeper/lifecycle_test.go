package keeper

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// expectNoWrites checks that a keeper wrote nothing.
func (w *world) expectNoWrites(what string, requests []emulator.Request) {
	w.t.Helper()
	for _, r := range requests {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			w.t.Errorf("%s: %s %s", what, r.Method, r.Path)
		}
	}
}

// TestMigrationToOverlay: AKS migrates a cluster from kubenet to overlay while a keeper runs, and
// its owner removes the table from the node subnet then, or minutes later. The table is not put
// back, the copies stay for sync prune, and the finding names the new plugin.
func TestMigrationToOverlay(t *testing.T) {
	for name, later := range map[string]time.Duration{
		"at once": 0, "half a minute later": 30 * time.Second,
		"ten minutes later": 10 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.run(10*time.Second, w.demoConfig())
				k.since(2 * time.Minute)
				since := w.mark()
				w.edit(w.demo.Cluster, func(p object) {
					p["networkProfile"] = object{"networkPlugin": "azure",
						"networkPluginMode": "overlay",
						"podCidr":           "10.244.0.0/16"}
				})
				for len(w.routes(w.demo.ClusterTable)) > 1 { // egress stays
					time.Sleep(time.Second)
				}
				k.since(later)
				w.strip(w.demo.NodeSubnet)
				w.expectNotPutBack(w.demo.NodeSubnet, 15*time.Minute)
				w.expectNoWrites("after the migration", since())
				w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
				results := k.since(10 * time.Second)
				f := of(results[len(results)-1], finding.ClusterNotKubenet)
				if f == nil || !strings.Contains(f.Message, "overlay") {
					t.Errorf("%+v", results[len(results)-1].Findings)
				}
				// Guarded subnets in the config are still repaired.
				w.strip(w.demo.GatewaySubnet)
				k.since(12*time.Second + operation)
				if !w.tableOf(w.demo.GatewaySubnet).Equal(w.demo.GatewayTable) {
					t.Error("the gateway subnet is not repaired")
				}
			})
		})
	}
}

// TestStopAndStart: a cluster is stopped and started. A strip is repaired meanwhile, and at the end
// the target follows the new nodes.
func TestStopAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(2 * time.Minute)
		do := func(what string) {
			id := w.demo.Cluster + arm.ID("/"+what)
			if status, body := w.op.Do(http.MethodPost, id, aksAPI, nil); status >= 300 {
				t.Fatalf("%s: %d %s", what, status, body)
			}
			k.since(5 * time.Minute)
		}
		do("stop")
		w.strip(w.demo.NodeSubnet)
		w.repaired("a strip while it is stopped", k, 12*time.Second+operation)
		do("start")
		k.since(5 * time.Minute)
		var pods []string
		for _, r := range w.routes(w.demo.ClusterTable) {
			if strings.HasPrefix(r, "10.244.") {
				pods = append(pods, r)
			}
		}
		got := w.routes(w.demo.GatewayTable)
		for _, r := range pods {
			if !slices.Contains(got, r) {
				t.Errorf("the target lacks %s: %v", r, got)
			}
		}
		if len(pods) != 3 {
			t.Errorf("the cluster's table holds %v", pods)
		}
		k.since(10 * time.Minute) // until the prefixes have settled
		w.expectRoutes(w.demo.GatewayTable, append(pods, ownRoute)...)
	})
}
