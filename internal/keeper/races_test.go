package keeper

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// before runs do once, when the first matching request is about to be sent.
func before(method, suffix string, do func()) func(http.RoundTripper) http.RoundTripper {
	var done atomic.Bool
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) &&
				done.CompareAndSwap(false, true) {
				do()
			}
			return next.RoundTrip(r)
		})
	}
}

// TestChangedMeanwhile: between the keeper's GET and its PUT, another writer adds a route, removes
// one, and redeploys tags. The PUT gets a 412, and the next PUT contains all of these changes.
func TestChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keepOver(before(http.MethodPut, "/appgw-rt", func() {
			doc := w.get(w.demo.GatewayTable)
			doc["tags"] = object{"redeployed": "yes"}
			p := doc["properties"].(object)
			p["routes"] = []any{route("theirs", "10.77.0.0/16", "10.42.3.4"),
				route("early", "10.244.1.0/24", "10.42.1.5")}
			w.put(w.demo.GatewayTable, doc)
			time.Sleep(5 * time.Second)
		}), w.demoConfig())
		since := w.mark()
		// Another writer added one of the three meanwhile: it is found done.
		w.expect(w.reconcile(k), "1 obsolete create appgw-rt\n2 done create appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, append(threePods, "10.77.0.0/16>10.42.3.4")...)
		if got := w.get(w.demo.GatewayTable)["tags"]; got == nil {
			t.Error("the tags of the other write are lost")
		}
		if n := len(slices.DeleteFunc(since(), func(r emulator.Request) bool {
			return r.Status != http.StatusPreconditionFailed
		})); n != 1 {
			t.Errorf("%d answers 412, want 1", n)
		}
	})
}

// TestRepairedMeanwhile: another writer puts the association back first.
func TestRepairedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		k := w.keepOver(before(http.MethodGet, "/nodes", func() {
			w.edit(w.demo.NodeSubnet, func(p object) {
				p["routeTable"] = object{"id": string(w.demo.ClusterTable)}
			})
			time.Sleep(10 * time.Second)
		}), w.demoConfig())
		since := w.mark()
		w.expect(w.reconcile(k), "1 obsolete associate shop-vnet/nodes\n3 done create appgw-rt")
		for _, r := range since() {
			if r.Method == http.MethodPut && strings.HasSuffix(r.Path, "/nodes") {
				t.Error("the subnet was written all the same")
			}
		}
	})
}

// TestPlaceTaken: between the keeper's GET and its PUT, another writer takes the name or prefix of
// a route that it was about to create. The PUT is refused, and nothing is reported as done.
func TestPlaceTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		other := arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable,
			"other-rt")
		w.putTable(other)
		w.strip(w.demo.GatewaySubnet)
		w.edit(w.demo.GatewayTable, func(p object) {
			p["routes"] = append(p["routes"].([]any), route("a", "10.244.0.0/24", "10.42.1.4"),
				route("b", "10.244.1.0/24", "10.42.1.5"))
		})
		time.Sleep(10 * time.Second)
		takeRoute := before(http.MethodPut, "/appgw-rt", func() {
			w.edit(w.demo.GatewayTable, func(p object) {
				p["routes"] = append(p["routes"].([]any),
					route("theirs", "10.244.2.0/24", "10.42.3.4"))
			})
			time.Sleep(5 * time.Second)
		})
		takeSubnet := before(http.MethodPut, "/appgw", func() {
			w.edit(w.demo.GatewaySubnet, func(p object) {
				p["routeTable"] = object{"id": string(other)}
			})
			time.Sleep(10 * time.Second)
		})
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return takeRoute(takeSubnet(next))
		}, w.demoConfig())
		w.expect(w.reconcile(k), "1 obsolete associate shop-vnet/appgw\n1 obsolete create appgw-rt")
		w.expect(w.reconcile(k), "", finding.AssociationOther, finding.PrefixTaken)
	})
}

// TestMadeByAnother: between the keeper's GET and its PUT, another writer makes one of its changes.
// The PUT is refused. The next PUT, without that change, does not count as having made it.
func TestMadeByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		k = w.keepOver(before(http.MethodPut, "/appgw-rt", func() {
			w.edit(w.demo.GatewayTable, func(p object) { p["routes"] = p["routes"].([]any)[1:] })
			time.Sleep(5 * time.Second)
		}), w.demoConfig())
		w.edit(w.demo.GatewayTable, func(p object) {
			p["routes"] = append([]any{route("aks-nodepool1-92750320-vmss000009____102449024",
				"10.244.9.0/24", "10.42.1.99")}, p["routes"].([]any)[:3]...)
		})
		time.Sleep(5 * time.Second)
		w.expect(w.reconcile(k), "1 done create appgw-rt\n1 obsolete delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

// TestOldSourceIsReadAgain: a write waits for a minute, and meanwhile a node comes back. Its route
// is not deleted.
func TestOldSourceIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.e.PauseRoutes(w.demo.Cluster, true)
		full := w.get(w.demo.ClusterTable)
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 2); err != nil {
			t.Fatal(err)
		}
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:3] })
		time.Sleep(time.Minute)
		w.inject(emulator.Fault{Method: "PUT", Path: "appgw-rt$", Status: 429,
			Code: "RetryableErrorDueToAnotherOperation", RetryAfter: 60})
		time.AfterFunc(30*time.Second, func() { w.put(w.demo.ClusterTable, full) })
		w.expect(w.reconcile(k), "1 obsolete delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

// TestOldInterfacesProveNothing: a write waits for a minute, and meanwhile the node of a stale
// route comes back, with its address. Its route is not deleted, although the cluster's table does
// not have it yet.
func TestOldInterfacesProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		scale := func(count int) {
			if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, count); err != nil {
				t.Error(err)
			}
		}
		scale(2)
		time.Sleep(time.Minute)
		w.inject(emulator.Fault{Method: "PUT", Path: "appgw-rt$", Status: 429,
			Code: "RetryableErrorDueToAnotherOperation", RetryAfter: 60})
		time.AfterFunc(30*time.Second, func() {
			w.e.PauseRoutes(w.demo.Cluster, true)
			scale(3)
		})
		w.expect(w.reconcile(k), "1 obsolete delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
		if slices.Contains(w.routes(w.demo.ClusterTable), threePods[2]) {
			t.Error("the cluster's table has the route, too: this test shows nothing")
		}
	})
}

// TestLateTable: many tables are written late. Before that, their expected content is read again.
func TestLateTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		var targets []arm.ID
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			id := arm.ResourceID(w.demo.GatewayTable.Subscription(), "net-rg", arm.TypeRouteTable,
				name)
			w.putTable(id)
			targets = append(targets, id)
		}
		w.inject(emulator.Fault{Method: "PUT", Path: "routeTables/[abcde]$", Status: 429,
			Code: "RetryableError", RetryAfter: 70, Count: 5})
		k := w.run(time.Hour, configure("shop", w.demo.Cluster, targets...))
		k.since(10 * time.Second)
		w.e.PauseRoutes(w.demo.Cluster, true)
		// one pod route fewer
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:2] })
		k.since(3 * time.Minute)
		w.expectRoutes(targets[4], w.routes(targets[0])...)
	})
}

// TestLine: subnets of one network are written in the order in which they queued, whatever the
// order of their goroutines. Subnets of another network do not wait.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWrites()
		const network = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v"
		first, _, leftFirst := w.line(network+"/subnets/a", false)
		second, _, leftSecond := w.line(network+"/subnets/b", false)
		other, _, leftOther := w.line(network+"2/subnets/a", false)
		began := time.Now()
		done := make(chan time.Duration)
		go func() {
			second()
			done <- time.Since(began)
		}()
		time.Sleep(3 * time.Second)
		first()
		other()
		leftFirst()
		if waited := <-done; waited < 3*time.Second || waited > 3100*time.Millisecond {
			t.Errorf("the second waited %s", waited)
		}
		leftSecond()
		leftOther()
		if len(w.lines) != 0 {
			t.Errorf("%d lines are left", len(w.lines))
		}
	})
}

// TestUrgent: a node subnet waits for a write that Azure has accepted, and only shortly for one
// that is not answered.
func TestUrgent(t *testing.T) {
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWrites()
			const network = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/" +
				"virtualNetworks/v"
			_, accepted, left := w.line(network+"/subnets/a", false)
			wait, _, _ := w.line(network+"/subnets/b", true)
			want := nodesFor
			if answered {
				accepted()
				want = 4 * time.Second
				time.AfterFunc(want, left)
			}
			next, _, _ := w.line(network+"/subnets/c", true)
			began := time.Now()
			wait()
			if waited := time.Since(began); waited < want || waited > want+100*time.Millisecond {
				t.Errorf("answered %t: it waited %s", answered, waited)
			}
			// The next one does not go at the same moment.
			next()
			if waited := time.Since(began); !answered && waited < 2*nodesFor {
				t.Errorf("two node subnets go after %s", waited)
			}
		})
	}
}

// TestMissedClaimsNothing: a check asks whether a table is being written at the moment that the
// write ends. It never claims the table itself: the claim would never end, and the keeper would
// leave it as it is until a restart.
func TestMissedClaimsNothing(t *testing.T) {
	w := newWrites()
	var asking sync.WaitGroup
	over := make(chan struct{})
	asking.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				w.missedBy("table")
			}
		}
	})
	for range 50_000 {
		if w.begin("table") != nil {
			t.Error("a check that only asked has claimed the table")
			break
		}
		runtime.Gosched()
		w.end("table")
	}
	close(over)
	asking.Wait()
}
