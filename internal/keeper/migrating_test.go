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
	"routekeeper.dev/routekeeper/internal/inventory"
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
		w.migrate(w.demo.Cluster, 600)
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

// TestMigratingRestart: the keeper is killed while nodes move, and another one starts that knows
// nothing of the cluster. It keeps the routes of all nodes: a route that the gateway's table loses
// is put back, and nothing is removed. When the routes are gone from the cluster's table, it says
// so and changes nothing more.
func TestMigratingRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(2 * time.Minute)
		before := pods(w.routes(w.demo.GatewayTable))
		w.migrate(w.demo.Cluster, 600)
		k.since(4 * time.Minute)
		k.stop()
		second := func(r any) bool {
			prefix := r.(object)["properties"].(object)["addressPrefix"].(string)
			return strings.HasPrefix(prefix, "10.244.1.")
		}
		w.edit(w.demo.GatewayTable, func(p object) {
			p["routes"] = slices.DeleteFunc(p["routes"].([]any), second)
		})
		k = w.run(10*time.Second, w.demoConfig())
		rounds := k.since(time.Minute)
		last := rounds[len(rounds)-1]
		if of(last, finding.ClusterMigrating) == nil || of(last, finding.ClusterNotKubenet) != nil {
			t.Errorf("after the restart: %v", codes(last))
		}
		own, copied := pods(w.routes(w.demo.ClusterTable)), pods(w.routes(w.demo.GatewayTable))
		if !slices.Equal(own, copied) || len(own) != len(before)+1 {
			t.Errorf("after the restart the gateway's table has\n%v\nof\n%v", copied, own)
		}
		for len(pods(w.routes(w.demo.ClusterTable))) > 0 {
			k.since(time.Second)
		}
		since := w.mark()
		rounds = k.since(time.Minute)
		last = rounds[len(rounds)-1]
		if of(last, finding.ClusterNotKubenet) == nil || of(last, finding.ClusterMigrating) != nil {
			t.Errorf("afterwards: %v", codes(last))
		}
		w.expectNoWrites("after the migration", since())
		for _, r := range before {
			if !slices.Contains(w.routes(w.demo.GatewayTable), r) {
				t.Errorf("afterwards %s is lost", r)
			}
		}
	})
}

// TestMigratingStripped: while nodes are known that have not moved, the table is put back, because
// they need it. Once all have moved, AKS may have taken it off.
func TestMigratingStripped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		played := &playedNodes{nodes: []inventory.Node{made(1), made(2), made(3)}}
		k := w.runWith(Options{Nodes: played}, 10*time.Second, w.demoConfig())
		k.since(time.Minute)
		w.migrate(w.demo.Cluster, 600)
		k.since(time.Minute)
		w.strip(w.demo.NodeSubnet)
		w.repaired("a strip while no node has moved", k, 12*time.Second+operation)
		played.play(func(nodes []inventory.Node) []inventory.Node {
			for i := range nodes {
				nodes[i].Overlay = true
			}
			return nodes
		})
		k.since(20 * time.Second)
		w.strip(w.demo.NodeSubnet)
		w.expectNotPutBack(w.demo.NodeSubnet, time.Minute)
	})
}

// TestOverlayUpdating: an overlay cluster is being updated when a keeper starts. It has no routes
// in a table, and is not taken for one that migrates.
func TestOverlayUpdating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster, _, config := overlayWorld(t, slow)
		config.Spec.Source = ""
		time.Sleep(time.Minute)
		if _, err := w.e.Inject(emulator.Fault{Method: http.MethodPut, Path: "/managedClusters/",
			Slow: 600}); err != nil {
			t.Fatal(err)
		}
		w.edit(cluster, func(p object) { p["kubernetesVersion"] = "1.34.2" })
		k := w.run(10*time.Second, config)
		rounds := k.since(30 * time.Second)
		if got := codes(rounds[len(rounds)-1]); !slices.Contains(got, finding.ClusterNotKubenet) ||
			slices.Contains(got, finding.ClusterMigrating) {
			t.Errorf("findings %v", got)
		}
	})
}

// TestMigratingCount: a keeper that reads the cluster's nodes counts which have moved, and reports
// each number once. It stops to follow them when the migration has ended.
func TestMigratingCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		played := &playedNodes{nodes: []inventory.Node{made(1), made(2), made(3)}}
		k := w.runWith(Options{Nodes: played}, 10*time.Second, w.demoConfig())
		k.since(time.Minute)
		w.migrate(w.demo.Cluster, 600)
		k.since(5 * time.Minute)
		var said []string
		for i := range 3 {
			played.play(func(nodes []inventory.Node) []inventory.Node {
				nodes[i].Overlay = true
				return nodes
			})
			rounds := k.since(20 * time.Second)
			if f := of(rounds[len(rounds)-1], finding.ClusterMigrating); f != nil {
				said = append(said, f.Subject)
			}
		}
		want := []string{"1 of 3 nodes have moved", "2 of 3 nodes have moved",
			"3 of 3 nodes have moved"}
		if !slices.Equal(said, want) {
			t.Errorf("said %q", said)
		}
		k.since(20 * time.Minute)
		if played.kept == nil || played.kept[w.demo.Cluster.Key()] {
			t.Errorf("still followed: %v", played.kept)
		}
	})
}
