package keeper

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestMigratingNodes: a cluster migrates to overlay, node after node, over ten minutes. Meanwhile
// the gateway's table has the route of every node, moved or not, and of the surge nodes; no route
// is ever lost, and none shadows another. Afterwards the keeper leaves everything alone.
func TestMigratingNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(2 * time.Minute)
		before := w.routes(w.demo.GatewayTable)
		if _, err := w.e.Inject(emulator.Fault{Method: http.MethodPut,
			Path: "/managedClusters/shop$", Slow: 600}); err != nil {
			t.Fatal(err)
		}
		w.edit(w.demo.Cluster, func(p object) {
			p["networkProfile"] = object{"networkPlugin": "azure", "networkPluginMode": "overlay",
				"podCidr": "10.244.0.0/16"}
		})
		surged, said := false, false
		for start := time.Now(); time.Since(start) < 9*time.Minute; {
			rounds := k.since(15 * time.Second)
			own := pods(w.routes(w.demo.ClusterTable))
			copied := pods(w.routes(w.demo.GatewayTable))
			for _, r := range before {
				if !slices.Contains(w.routes(w.demo.GatewayTable), r) {
					t.Fatalf("%v: %s is lost: %v", time.Since(start), r, copied)
				}
			}
			if len(own) > len(threePods) && slices.Equal(own, copied) {
				surged = true
			}
			said = said || of(rounds[len(rounds)-1], finding.ClusterMigrating) != nil
			if f := of(rounds[len(rounds)-1], finding.ClusterNotKubenet); f != nil {
				t.Fatalf("%v: %s", time.Since(start), f.Message)
			}
		}
		if !surged || !said {
			t.Errorf("surge node's route copied: %t; migration reported: %t", surged, said)
		}
		for len(w.routes(w.demo.ClusterTable)) > 1 { // egress stays
			time.Sleep(time.Second)
		}
		k.since(2 * time.Minute)
		since := w.mark()
		rounds := k.since(time.Minute)
		if of(rounds[len(rounds)-1], finding.ClusterNotKubenet) == nil {
			t.Errorf("afterwards: %+v", rounds[len(rounds)-1].Findings)
		}
		w.expectNoWrites("after the migration", since())
		for _, r := range before {
			if !slices.Contains(w.routes(w.demo.GatewayTable), r) {
				t.Errorf("afterwards %s is lost", r)
			}
		}
	})
}

// pods are the routes to pods among a table's routes, sorted.
func pods(routes []string) (out []string) {
	for _, r := range routes {
		if strings.HasPrefix(r, "10.244.") {
			out = append(out, r)
		}
	}
	slices.Sort(out)
	return out
}
