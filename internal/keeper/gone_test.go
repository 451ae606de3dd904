package keeper

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// remove deletes a resource as Terraform does: it waits until a GET answers 404.
func (w *world) remove(id arm.ID) {
	w.t.Helper()
	if status, body := w.op.Do(http.MethodDelete, id, api(id), nil); status >= 300 {
		w.t.Fatalf("DELETE %s: %d %s", id.Short(), status, body)
	}
	for range 600 {
		if status, _ := w.op.Do(http.MethodGet, id, api(id), nil); status == http.StatusNotFound {
			return
		}
		time.Sleep(time.Second)
	}
	w.t.Fatalf("%s is still there", id.Short())
}

// expectNotPutBack watches a subnet for a while: it must not be associated.
func (w *world) expectNotPutBack(subnet arm.ID, during time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(time.Second) {
		if table := w.tableOf(subnet); table != "" {
			w.t.Fatalf("%s was put back on %s", table.Short(), subnet.Short())
		}
	}
}

// TestDestroy: terraform destroys a cluster and its network next to a running keeper, in each order
// that its graph allows. Everything can be deleted, and nothing is put back.
func TestDestroy(t *testing.T) {
	for name, clusterFirst := range map[string]bool{"cluster first": true,
		"association while it is deleted": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				play := w.addCluster("play", "50")
				config := configure("play", play.cluster, play.target)
				k := w.run(10*time.Second, w.demoConfig(), config)
				k.since(time.Minute)
				w.expectRoutes(play.target, "10.150.0.0/24>10.50.1.4", "10.150.1.0/24>10.50.1.5")
				if clusterFirst {
					w.remove(play.cluster)
				} else if status, body := w.op.Do(http.MethodDelete, play.cluster, aksAPI,
					nil); status != http.StatusAccepted {
					t.Fatalf("%d %s", status, body)
				}
				w.strip(play.subnet)
				w.expectNotPutBack(play.subnet, 3*time.Minute)
				w.remove(play.table)
				w.remove(play.subnet)
				if !clusterFirst {
					w.remove(play.cluster)
				}
				results := k.since(3 * time.Minute)
				if f := of(results[len(results)-1], finding.ClusterMissing); f == nil ||
					f.Cluster != "play" {
					t.Errorf("findings %v", codes(results[len(results)-1]))
				}
				// The other cluster is still repaired.
				w.strip(w.demo.NodeSubnet)
				k.since(16 * time.Second)
				if w.tableOf(w.demo.NodeSubnet) == "" {
					t.Error("the other cluster is not repaired")
				}
			})
		})
	}
}

// TestDeleting: the association is removed while the cluster is being deleted, and AKS still
// answers for it.
func TestDeleting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		if _, err := w.e.Inject(emulator.Fault{Method: "DELETE", Path: "managedClusters",
			Slow: 600}); err != nil {
			t.Fatal(err)
		}
		if status, body := w.op.Do(http.MethodDelete, w.demo.Cluster, aksAPI,
			nil); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, body)
		}
		if state := w.get(w.demo.Cluster)["properties"].(object)["provisioningState"]; state != "Deleting" {
			t.Fatalf("the cluster is %v", state)
		}
		w.strip(w.demo.NodeSubnet)
		w.expectNotPutBack(w.demo.NodeSubnet, 8*time.Minute)
		w.remove(w.demo.ClusterTable)
	})
}

// TestDeletedWhileRepairWaits: a repair waits for the operation that stripped the gateway's subnet,
// and the cluster is deleted meanwhile. The proof from before the wait is too old, so nothing is
// put back.
func TestDeletedWhileRepairWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(time.Minute, w.demoConfig())
		k.since(10 * time.Second)
		w.strip(w.demo.GatewaySubnet)
		k.Wake(Event{}, w.demo.GatewaySubnet)
		time.Sleep(time.Second)
		if status, body := w.op.Do(http.MethodDelete, w.demo.Cluster, aksAPI,
			nil); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, body)
		}
		w.expectNotPutBack(w.demo.GatewaySubnet, 3*time.Minute)
	})
}

// TestGoneBeforeItsNodes: AKS says that the cluster does not exist, while the subnet still shows IP
// configurations of its nodes. These prove nothing then, and nothing is put back.
func TestGoneBeforeItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		defer w.inject(emulator.Fault{Method: "GET", Path: "managedClusters/shop$", Status: 404,
			Code: "ResourceNotFound", Count: -1})()
		w.strip(w.demo.NodeSubnet)
		w.expectNotPutBack(w.demo.NodeSubnet, 3*time.Minute)
		r := k.since(10 * time.Second)
		if of(r[len(r)-1], finding.ClusterMissing) == nil {
			t.Errorf("findings %v", codes(r[len(r)-1]))
		}
	})
}

// TestAssociationUnderDoubt: AKS gives no answer, or refuses. The IP configurations in the node
// subnet prove that the cluster's nodes exist. Without any, nothing is put back.
func TestAssociationUnderDoubt(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"no answer": {Method: "GET", Path: "managedClusters", Hold: "before", Count: -1},
		"403": {Method: "GET", Path: "managedClusters", Status: 403,
			Code: "AuthorizationFailed", Count: -1},
		"500": {Method: "GET", Path: "managedClusters", Status: 500, Count: -1},
	} {
		for _, nodes := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", nodes", false: ", no nodes"}[nodes],
				func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, slow)
						const interval = 10 * time.Second
						k := w.run(interval, w.demoConfig())
						k.since(time.Minute)
						defer w.inject(fault)()
						if !nodes {
							w.remove(w.demo.Cluster)
						}
						w.strip(w.demo.NodeSubnet)
						if !nodes {
							w.expectNotPutBack(w.demo.NodeSubnet, 10*time.Minute)
							r := k.since(interval)
							found := codes(r[len(r)-1])
							if !slices.Contains(found, finding.ReadFailed) &&
								!slices.Contains(found, finding.AzureUnreachable) {
								t.Errorf("findings %v", found)
							}
							return
						}
						const write = 4 * time.Second // of Azure's operation
						k.since(interval + 2*time.Second + write)
						if w.tableOf(w.demo.NodeSubnet) == "" {
							t.Error("the table was not put back although the nodes are there")
						}
					})
				})
		}
	}
}
