package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestUpgrade: an upgrade with surge nodes moves every pod CIDR to another node or drops it. At the
// end the target matches the cluster's table, and no route to a living node is missing for longer
// than a check.
func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		if status, body := w.op.Do(http.MethodPost, w.demo.Cluster.Child("agentPools", w.demo.Pool)+
			"/upgradeNodeImageVersion", aksAPI, nil); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, body)
		}
		before := strings.Join(w.routes(w.demo.ClusterTable), " ")
		moved := false
		for range 60 {
			time.Sleep(30 * time.Second)
			for _, f := range w.reconcile(k).Findings {
				switch f.Code {
				case finding.DeletesWithheld: // while an old node still exists
				// the cloud provider deletes a node's new route together with its old one, for one
				// batch
				case finding.SourceEmpty:
				default:
					t.Errorf("%s: %s", f.Code, f.Message)
				}
			}
			moved = moved || strings.Join(w.routes(w.demo.ClusterTable), " ") != before
		}
		if !moved {
			t.Fatal("the upgrade changed no route: this test shows nothing")
		}
		w.expect(w.reconcile(k), "")
		w.expectSynced()
	})
}

// expectSynced checks that the gateway's table holds its own route and the pod routes of the
// cluster's table, and nothing else.
func (w *world) expectSynced() {
	w.t.Helper()
	want := []string{ownRoute}
	for _, r := range w.routes(w.demo.ClusterTable) {
		if strings.HasPrefix(r, "10.244.") {
			want = append(want, r)
		}
	}
	w.expectRoutes(w.demo.GatewayTable, want...)
}

// TestStaleReads: for hours of scaling and stripping, some GETs show a resource as it was before
// its last write. No unmanaged route is lost, and once the stale reads end, everything is in sync.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if full() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.keep(w.demoConfig())
				w.reconcile(k)
				w.edit(w.demo.GatewayTable, func(p object) {
					p["routes"] = append(p["routes"].([]any),
						route("theirs", "10.244.200.0/24", "10.99.0.4"))
				})
				remove := w.inject(emulator.Fault{Method: http.MethodGet, Path: "Microsoft.Network",
					Stale: true, Count: -1, Rate: 0.3, Seed: seed})
				random := rand.New(rand.NewPCG(seed, 7))
				for range 60 {
					switch random.IntN(4) {
					case 0:
						if err := w.e.Scale(w.demo.Cluster, w.demo.Pool,
							2+random.IntN(8)); err != nil {
							t.Fatal(err)
						}
					case 1:
						w.strip(w.demo.NodeSubnet)
					case 2:
						w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
					}
					time.Sleep(time.Duration(random.IntN(120)) * time.Second)
					if _, err := k.Reconcile(context.Background()); err != nil {
						t.Fatal(err)
					}
					if !strings.Contains(strings.Join(w.routes(w.demo.GatewayTable), " "),
						"10.244.200.0/24>10.99.0.4") {
						t.Fatal("another owner's route is gone")
					}
				}
				remove()
				// the cloud provider has finished, and refused writes are sent again
				time.Sleep(20 * time.Minute)
				w.reconcile(k)
				time.Sleep(conflictMost) // this many strips count as a conflict
				w.reconcile(k)
				time.Sleep(conflictSpan)
				w.expect(w.reconcile(k), "", finding.UnmanagedOverlap) // unmanaged ones
				if got := w.tableOf(w.demo.NodeSubnet); !got.Equal(w.demo.ClusterTable) {
					t.Errorf("the node subnet has %q", got)
				}
				if got := w.tableOf(w.demo.GatewaySubnet); !got.Equal(w.demo.GatewayTable) {
					t.Errorf("the gateway subnet has %q", got)
				}
				w.edit(w.demo.GatewayTable, func(p object) {
					var rest []any
					for _, r := range p["routes"].([]any) {
						if r.(object)["name"] != "theirs" {
							rest = append(rest, r)
						}
					}
					p["routes"] = rest
				})
				w.expectSynced()
			})
		})
	}
}

// TestSubnetsRenamed: a PUT of the network with new names for its subnets deletes the old ones. A
// node subnet cannot be deleted while it is in use. A guarded one that is deleted is reported, and
// the rest is still managed.
func TestSubnetsRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		spare := w.demo.NodeSubnet.Parent().Child("subnets", "spare")
		w.put(spare, object{"properties": object{"addressPrefix": "10.42.9.0/24",
			"routeTable": object{"id": string(w.demo.GatewayTable)}}})
		config := w.demoConfig()
		config.Spec.Guard.Subnets[0].SubnetID = string(spare)
		k := w.keep(config)
		w.reconcile(k)
		w.edit(spare.Parent(), func(p object) {
			for _, s := range p["subnets"].([]any) {
				if subnet := s.(object); subnet["name"] == "spare" {
					subnet["name"] = "renamed"
					delete(subnet, "id")
					delete(subnet["properties"].(object), "routeTable")
				}
			}
		})
		w.strip(w.demo.NodeSubnet)
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes", finding.SubnetMissing)
		if got := w.tableOf(arm.ID(string(spare.Parent()) + "/subnets/renamed")); got != "" {
			t.Errorf("a subnet that is not in the config got %s", got)
		}
	})
}
