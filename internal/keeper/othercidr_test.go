package keeper

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestReimagedNodes: all nodes come back with other pod CIDRs and the same addresses. The new
// routes are added at once. The old ones count as stale once the cluster's table has shown the new
// ones for five minutes, because an old version of the table would look the same, and if the
// cluster itself wrote them, because its cloud provider may be unable to write.
func TestReimagedNodes(t *testing.T) {
	reimaged := func(p object) {
		p["routes"] = append(p["routes"].([]any)[:1],
			podRoute(0, "10.244.10.0/24", "10.42.1.4"), podRoute(1, "10.244.11.0/24", "10.42.1.5"),
			podRoute(2, "10.244.12.0/24", "10.42.1.6"))
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, reimaged)
		w.expect(w.reconcile(k), "3 done create appgw-rt", finding.DeletesWithheld)
		for range 6 {
			time.Sleep(10 * time.Minute)
			r := w.reconcile(k)
			w.expect(r, "", finding.DeletesWithheld)
			if f := of(r, finding.DeletesWithheld); f.Severity != finding.Info ||
				!strings.Contains(f.Evidence[0], "was last written by ") {
				t.Errorf("%+v", f)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.e.PauseRoutes(w.demo.Cluster, true)
		time.Sleep(time.Minute)
		w.provide(reimaged)
		w.expect(w.reconcile(k), "3 done create appgw-rt", finding.DeletesWithheld)
		time.Sleep(4 * time.Minute)
		w.expect(w.reconcile(k), "", finding.DeletesWithheld)
		time.Sleep(time.Minute)
		w.expect(w.reconcile(k), "3 done delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, ownRoute, "10.244.10.0/24>10.42.1.4",
			"10.244.11.0/24>10.42.1.5", "10.244.12.0/24>10.42.1.6")
	})
}

// TestLogHangs: while the activity log, which must prove a delete, does not answer, a lost
// association is still repaired, and the copies stay.
func TestLogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.inject(emulator.Fault{Method: "GET", Path: "eventtypes", Hold: "before", Count: -1})
		w.provide(func(p object) {
			p["routes"] = append(p["routes"].([]any)[:1],
				podRoute(0, "10.244.10.0/24", "10.42.1.4"), podRoute(1, "10.244.11.0/24",
					"10.42.1.5"), podRoute(2, "10.244.12.0/24", "10.42.1.6"))
		})
		results := k.since(7 * time.Minute)
		f := of(results[len(results)-1], finding.DeletesWithheld)
		if f == nil || !strings.Contains(f.Evidence[0], "who changed it is unknown: ") {
			t.Errorf("%+v", results[len(results)-1].Findings)
		}
		for range 2 {
			w.strip(w.demo.NodeSubnet)
			w.repaired("the log hangs", k, 12*time.Second+operation)
			k.since(47 * time.Second)
		}
		if n := len(w.routes(w.demo.GatewayTable)); n != 7 {
			t.Errorf("%d routes", n)
		}
	})
}

// TestSettledAcrossRestart: a restart forgets which routes had settled. A stale route whose node
// has another pod CIDR goes once the activity log shows all writes until then, and the last of them
// is the cluster's.
func TestSettledAcrossRestart(t *testing.T) {
	for name, other := range map[string]bool{"the cluster wrote last": false,
		"another wrote last": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				store := newPaper()
				k := w.keepWith(store)
				w.reconcile(k)
				time.Sleep(5 * time.Minute) // its rows have settled
				w.reconcile(k)
				w.edit(w.demo.GatewayTable, func(p object) {
					p["routes"] = append(p["routes"].([]any),
						route("aks-old-12345678-vmss000000", "10.244.200.0/24", "10.42.1.4"))
				})
				if other {
					w.edit(w.demo.ClusterTable, func(object) {})
				}
				k = w.keepWith(store)
				stays := func() bool {
					w.reconcile(k)
					return slices.Contains(w.routes(w.demo.GatewayTable),
						"10.244.200.0/24>10.42.1.4")
				}
				for range 19 {
					if !stays() {
						t.Fatal("the activity log may be late")
					}
					time.Sleep(time.Minute)
				}
				if time.Sleep(2 * time.Minute); stays() != other {
					t.Errorf("the stale route stays: %t, want %t", !other, other)
				}
			})
		})
	}
}
