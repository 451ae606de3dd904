package keeper

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestSaidBetweenWrites: the list of networks shows a lost association, and each write of it fails,
// because its own GET does. A finding reports it without a gap: also in checks that the end of a
// write triggers, which do not read the subnet, and while the next write has just begun.
func TestSaidBetweenWrites(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"busy": {Status: 429, Code: "RetryableError", RetryAfter: 20},
		"held": {Hold: "before"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				play := w.addCluster("play", "50") // with two networks a list is read
				k := w.run(10*time.Second, w.demoConfig(),
					configure("play", play.cluster, play.target))
				k.since(time.Minute)
				fault.Method, fault.Path, fault.Count = "GET", "shop-vnet", -1
				defer w.inject(fault)()
				w.strip(w.demo.NodeSubnet)
				k.since(3 * time.Minute)
				for _, r := range k.parts(10 * time.Minute) {
					if len(r.Findings) == 0 {
						t.Fatalf("the check of %s says nothing", r.Started)
					}
				}
			})
		})
	}
}

// TestSaidInPause: a pause reports the lost association that it leaves as it is. After the pause,
// the association stays reported until it is repaired.
func TestSaidInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		var paused atomic.Bool
		k := w.runWith(Options{Paused: func() string {
			if paused.Load() {
				return "for a test"
			}
			return ""
		}}, 2*time.Minute, w.demoConfig())
		k.since(time.Minute)
		paused.Store(true)
		w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
		parts := k.parts(2 * time.Minute)
		if got := codes(parts[len(parts)-1]); !slices.Equal(got, []finding.Code{
			finding.AssociationLost, finding.AssociationLost, finding.Paused}) {
			t.Errorf("in the pause: %v", got)
		}
		paused.Store(false)
		// a person's check changes nothing, and still reports both
		r, err := k.Ask(t.Context(), Request{By: "a person"})
		if n := strings.Count(fmt.Sprint(codes(r)), string(finding.AssociationLost)); err != nil ||
			n != 2 {
			t.Errorf("%d reports of lost associations, %v: %v", n, err, codes(r))
		}
		k.Wake(Event{Caller: "a test"}, w.demo.NodeSubnet)
		k.since(time.Second)
		// this check ends while the repairs are under way
		k.Wake(Event{Caller: "a test"}, w.demo.NodeSubnet)
		for _, r := range k.parts(2 * time.Second) {
			if !slices.Contains(codes(r), finding.AssociationLost) {
				t.Errorf("at %s: %v", r.Started, codes(r))
			}
		}
		k.since(time.Minute)
		if w.tableOf(w.demo.NodeSubnet) == "" || w.tableOf(w.demo.GatewaySubnet) == "" {
			t.Error("after the pause the subnets are not repaired")
		}
	})
}

// TestSaidWhileRepairBegins: a network could not be read, or Azure did not answer, and two subnets
// in it have lost their tables. Afterwards one check begins the repairs, which wait for each other,
// and another check ends before them: it still reports what is broken.
func TestSaidWhileRepairBegins(t *testing.T) {
	for name, path := range map[string]string{"network": "shop-vnet", "Azure": "^/subscriptions"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.run(2*time.Minute, w.demoConfig())
				k.since(time.Minute)
				remove := w.inject(emulator.Fault{Method: "GET", Path: path, Cut: "before",
					Count: -1})
				w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
				k.Wake(Event{Caller: "a test"}, w.demo.NodeSubnet)
				k.since(5 * time.Second)
				remove()
				k.Wake(Event{Caller: "a test"}, w.demo.NodeSubnet) // this check begins the repairs
				k.since(2 * time.Second)
				k.Wake(Event{Caller: "a test"}, w.demo.NodeSubnet)
				during := k.parts(time.Second)
				if w.tableOf(w.demo.GatewaySubnet) != "" || len(during) != 1 {
					t.Fatalf("%d checks ended during the repair, want 1", len(during))
				}
				if !slices.ContainsFunc(during[0].Findings, func(f finding.Finding) bool {
					return f.Code == finding.AssociationLost &&
						f.Resource == string(w.demo.GatewaySubnet)
				}) {
					t.Errorf("findings during the repair: %+v", during[0].Findings)
				}
				for _, r := range k.parts(10 * time.Second) {
					if len(r.Findings) > 0 {
						t.Errorf("findings after the repair: %+v", r.Findings)
					}
				}
			})
		})
	}
}

// TestRepairAfterStart: since the start of the keeper, a call fails that shows a cluster's node
// subnets or table. Once it works again, the lost association is repaired within an interval,
// however long the call had failed.
func TestRepairAfterStart(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"cluster, 500": {Path: "managedClusters(/shop)?$", Status: 500},
		"cluster, 403": {Path: "managedClusters(/shop)?$", Status: 403,
			Code: "AuthorizationFailed"},
		"activity log":       {Path: "eventtypes", Status: 500},
		"table":              {Path: "routeTables(/shop-rt)?$", Status: 500},
		"table of the store": {Path: "routeTables(/shop-rt)?$", Status: 500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				play := w.addCluster("play", "50") // one check has to succeed
				store := newPaper()
				if name == "table of the store" {
					w.reconcile(w.keepWith(store))
					w.refuse("eventtypes")
				}
				const interval = 10 * time.Second
				fault.Method, fault.Count = "GET", -1
				remove := w.inject(fault)
				w.strip(w.demo.NodeSubnet)
				k := w.runWith(Options{Store: store}, interval, w.demoConfig(),
					configure("play", play.cluster, play.target))
				k.since(5*time.Minute + 3*time.Second)
				if w.tableOf(w.demo.NodeSubnet) != "" {
					t.Fatal("the table was put back before")
				}
				remove()
				const write = 4 * time.Second // of Azure's operation
				k.since(interval + 2*time.Second + write)
				if w.tableOf(w.demo.NodeSubnet) == "" {
					t.Error("the table was not put back within an interval")
				}
			})
		})
	}
}

// TestSaidWhyNotPutBack: AKS does not answer when the keeper starts, and nothing proves that the
// cluster exists. The guarded subnet is not associated, and a separate finding reports it.
func TestSaidWhyNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		defer w.inject(emulator.Fault{Method: "GET", Path: "managedClusters(/shop)?$", Status: 500,
			Count: -1})()
		w.strip(w.demo.GatewaySubnet)
		k := w.run(10*time.Second, w.demoConfig(), configure("play", play.cluster, play.target))
		r := k.since(time.Minute)
		if !slices.ContainsFunc(r[len(r)-1].Findings, func(f finding.Finding) bool {
			return f.Code == finding.AssociationLost && f.Resource == string(w.demo.GatewaySubnet)
		}) {
			t.Errorf("findings %+v", r[len(r)-1].Findings)
		}
	})
}

// TestSaidAfterFailedRead: a table could not be read, so that no check knew of the lost association
// of a subnet. A person's check that sees it, and leaves it as it is, reports it.
func TestSaidAfterFailedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		change := plan.Change{Cluster: "shop", Verb: plan.Associate, Resource: w.demo.GatewaySubnet,
			New: &plan.Value{RouteTable: w.demo.GatewayTable}}
		left := func() int {
			c := &check{observation: observation{k: k, configs: k.configs, began: time.Now()},
				request: &request{}}
			return len(leftLost(c, []plan.Change{change}, func(plan.Change) bool { return false }))
		}
		if left() != 0 {
			t.Error("reported, although the next check repairs it at once")
		}
		remove := w.inject(emulator.Fault{Method: "GET", Path: "appgw-rt$|routeTables$", Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		w.reconcile(k)
		remove()
		if left() != 1 {
			t.Error("not reported after a failed read")
		}
	})
}
