package keeper

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// hour checks for an hour, expects one finding each time, and returns the number of PUTs.
func (w *world) hour(k *Keeper, code finding.Code, put string) (puts int) {
	w.t.Helper()
	since := w.mark()
	for range 6 * 60 {
		if got := codes(w.reconcile(k)); !slices.Equal(got, []finding.Code{code}) {
			w.t.Fatalf("findings %v", got)
		}
		time.Sleep(10 * time.Second)
	}
	for _, c := range calls(since()) {
		if c == put {
			puts++
		}
	}
	return puts
}

// TestRefusedAgain: a refused association is written again each minute, a refused table after a
// minute and then after growing waits.
func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	refuse := emulator.Fault{Method: "PUT", Count: -1, Status: 403, Code: "AuthorizationFailed"}
	t.Run("subnet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, slow)
			w.strip(w.demo.NodeSubnet)
			time.Sleep(10 * time.Second)
			refuse := refuse
			refuse.Path = "subnets/nodes"
			remove := w.inject(refuse)
			k := w.keep(w.demoConfig())
			if puts := w.hour(k, finding.WriteRefused, "PUT nodes"); puts < 50 || puts > 60 {
				t.Errorf("%d PUTs in an hour", puts)
			}
			remove()
			time.Sleep(time.Minute)
			w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes")
		})
	})
	t.Run("table", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, slow)
			refuse := refuse
			refuse.Path = "appgw-rt$"
			remove := w.inject(refuse)
			k := w.keep(w.demoConfig())
			// at 0, 1, 3, 7, 15, 30, 45 minutes
			if puts := w.hour(k, finding.WriteRefused, "PUT appgw-rt"); puts < 6 || puts > 8 {
				t.Errorf("%d PUTs in an hour", puts)
			}
			w.expect(w.reconcile(k), "3 failed create appgw-rt", finding.WriteRefused)
			remove()
			w.expect(w.reconcile(k), "3 failed create appgw-rt", finding.WriteRefused)
			// If the table has changed, the cause may be gone.
			w.edit(w.demo.GatewayTable, func(p object) { p["disableBgpRoutePropagation"] = true })
			time.Sleep(10 * time.Second)
			w.expect(w.reconcile(k), "3 done create appgw-rt")
		})
	})
}

// TestRefusalLifted: if other changes are planned, a refused table is written at once, and the
// waits start over.
func TestRefusalLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.inject(emulator.Fault{Method: "PUT", Path: "appgw-rt$", Count: -1, Status: 403,
			Code: "AuthorizationFailed"})
		k := w.keep(w.demoConfig())
		w.hour(k, finding.WriteRefused, "")
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:2] })
		time.Sleep(10 * time.Second)
		since := w.mark()
		for range 13 {
			w.reconcile(k)
			time.Sleep(10 * time.Second)
		}
		puts := 0
		for _, c := range calls(since()) {
			if c == "PUT appgw-rt" {
				puts++
			}
		}
		if puts != 2 { // at once, and after a minute
			t.Errorf("%d PUTs in two minutes after other changes were planned", puts)
		}
	})
}

// TestTargetDeletedInAWrite: a target is deleted during a write and created again. It is written
// again as soon as it exists.
func TestTargetDeletedInAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		target := arm.ResourceID(w.demo.GatewayTable.Subscription(), "net-rg", arm.TypeRouteTable,
			"extra")
		w.putTable(target)
		time.Sleep(10 * time.Second)
		k := w.keepOver(before(http.MethodPut, "/extra", func() {
			w.op.Do("DELETE", target, api(target), nil)
			time.Sleep(10 * time.Second)
		}), configure("shop", w.demo.Cluster, target))
		w.expect(w.reconcile(k), "3 failed create extra", finding.WriteFailed)
		w.putTable(target)
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(k), "3 done create extra")
	})
}

// TestLift: an event ends a refusal, and the waits start over.
func TestLift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := arm.ResourceID("s", "g", arm.TypeRouteTable, "t")
		seen := arm.Document{ID: table, ETag: "1"}
		planned := []plan.Change{{Verb: plan.Create, Resource: table, Route: "r"}}
		outcomes := []plan.Outcome{{Change: planned[0], State: plan.Failed}}
		findings := []finding.Finding{{Code: finding.WriteRefused}}
		refused := &azure.Error{Method: "PUT", ID: table, Status: http.StatusForbidden,
			Code: "AuthorizationFailed"}
		var r *refusal
		repeats := func(changes []plan.Change, etag string) bool {
			_, _, repeats := r.repeat(changes, etag)
			return repeats
		}
		again := func(after time.Duration) {
			t.Helper()
			r = r.next(refused, outcomes, findings, seen)
			time.Sleep(after - time.Second)
			if !repeats(planned, "1") {
				t.Errorf("is not refused for %s", after)
			}
			time.Sleep(time.Second)
			if repeats(planned, "1") {
				t.Errorf("still refused after %s", after)
			}
		}
		for _, after := range []time.Duration{1, 2, 4, 8, 15, 15} {
			again(after * time.Minute)
		}
		for name, ends := range map[string]func() bool{
			"an event":     func() bool { r.lift(); return !repeats(planned, "1") },
			"another ETag": func() bool { return !repeats(planned, "2") },
			"other changes": func() bool {
				other := plan.Change{Verb: plan.Delete, Resource: table, Route: "r"}
				return !repeats([]plan.Change{other}, "1")
			},
		} {
			r = r.next(refused, outcomes, findings, seen)
			if !repeats(planned, "1") || !ends() {
				t.Errorf("%s does not end it", name)
			}
			again(time.Minute)
		}
		for _, passes := range []*azure.Error{{Status: 429},
			{Status: 404, Code: "ResourceNotFound"}, {Status: 409, Code: "OperationPreempted"}} {
			if r.next(passes, outcomes, findings, seen) != nil {
				t.Errorf("%d %s is taken for a refusal", passes.Status, passes.Code)
			}
		}
	})
}

// TestEventLiftsRefusal: a role is assigned again, or a lock removed, and an event reports it. The
// association is written at once, without waiting for the minute of the refusal.
func TestEventLiftsRefusal(t *testing.T) {
	for name, what := range map[string]arm.ID{
		"role of the group":        "/providers/Microsoft.Authorization/roleAssignments/1",
		"lock of the subscription": "/providers/Microsoft.Authorization/locks/2",
		"role of another group":    "/providers/Microsoft.Authorization/roleAssignments/3",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.run(10*time.Second, w.demoConfig())
				k.since(time.Minute)
				remove := w.inject(emulator.Fault{Method: "PUT", Path: "subnets/nodes$",
					Status: 403, Code: "AuthorizationFailed", Count: -1})
				w.strip(w.demo.NodeSubnet)
				k.since(25 * time.Second)
				remove()
				scope := map[string]arm.ID{
					"role of the group": w.demo.NodeSubnet.Group(),
					"lock of the subscription": arm.ID("/subscriptions/" +
						w.demo.NodeSubnet.Subscription()),
					"role of another group": arm.GroupID(w.demo.NodeSubnet.Subscription(),
						"elsewhere"),
				}[name]
				k.Wake(Event{}, scope+what)
				k.since(7 * time.Second)
				repaired := w.tableOf(w.demo.NodeSubnet) != ""
				if repaired != (name != "role of another group") {
					t.Errorf("repaired: %t", repaired)
				}
			})
		})
	}
}

// TestChangedMeanwhileIsNotRefused: a write of a lost association is answered with 412 until it is
// given up, as if another writer wrote the network all the time. The next check writes it again.
func TestChangedMeanwhileIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		const interval = 10 * time.Second
		k := w.run(interval, w.demoConfig())
		k.since(time.Minute)
		w.inject(emulator.Fault{Method: "PUT", Path: "subnets/nodes$", Status: 412,
			Code: "PreconditionFailed", Count: 8}) // all attempts of one write
		w.strip(w.demo.NodeSubnet)
		givenUp := func(r Result) bool {
			return len(r.Changes) > 0 && r.Changes[0].State == plan.Failed
		}
		for begin := time.Now(); !slices.ContainsFunc(k.parts(time.Second), givenUp); {
			if time.Since(begin) > 5*time.Minute {
				t.Fatal("no write was given up")
			}
		}
		const write = 4 * time.Second // of Azure's operation
		k.since(interval + 2*time.Second + write)
		if w.tableOf(w.demo.NodeSubnet) == "" {
			t.Error("the table was not put back by the next check")
		}
	})
}
