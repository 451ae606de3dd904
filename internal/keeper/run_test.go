package keeper

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestNotInterrupted: the context ends during a write. The write is finished and read back, and no
// other one begins.
func TestNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel) // the first of the two operations takes four
		start := time.Now()
		r, err := k.Reconcile(ctx)
		if err == nil {
			t.Error("the check does not say that it was interrupted")
		}
		w.expect(r, "1 done associate shop-vnet/nodes\n1 skipped associate shop-vnet/appgw")
		if took := time.Since(start); took < 4*time.Second {
			t.Errorf("it left after %s, before the operation was over", took)
		}
		if w.tableOf(w.demo.NodeSubnet) == "" || w.tableOf(w.demo.GatewaySubnet) != "" {
			t.Errorf("gateway %q, nodes %q", w.tableOf(w.demo.GatewaySubnet),
				w.tableOf(w.demo.NodeSubnet))
		}
		w.expect(w.reconcile(k), "1 done associate shop-vnet/appgw")
	})
}

func TestRunUntilInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		ctx, cancel := context.WithTimeout(t.Context(), 95*time.Second)
		defer cancel()
		results, changes := 0, 0
		err := w.keep(w.demoConfig()).Run(ctx, 10*time.Second, func(r Result) {
			results++
			changes += len(r.Changes)
		})
		if err != nil || results != 10 || changes != 3 {
			t.Errorf("%v, %d checks, %d changes, want 10 and 3", err, results, changes)
		}
	})
}

// TestRunOutlivesTrouble: the login fails for a while after the first check. The keeper continues,
// and later repairs what changed meanwhile. If the login fails from the start, the setup is wrong,
// and the keeper ends.
func TestRunOutlivesTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		var loggedOut atomic.Bool
		loggedOut.Store(true)
		k := New(loginTrouble{w.keep().azure, &loggedOut}, []v1alpha1.ClusterRoutes{w.demoConfig()},
			Options{})
		if err := k.Run(t.Context(), 10*time.Second, func(Result) {}); err == nil {
			t.Error("a first check that fails must end it")
		}
		loggedOut.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		time.AfterFunc(15*time.Second, func() { loggedOut.Store(true) })
		time.AfterFunc(65*time.Second, func() {
			loggedOut.Store(false)
			w.strip(w.demo.NodeSubnet)
		})
		var changes []string
		err := k.Run(ctx, 10*time.Second, func(r Result) {
			if len(r.Changes) > 0 {
				changes = append(changes, did(r))
			}
		})
		if want := []string{"3 done create appgw-rt",
			"1 done associate shop-vnet/nodes"}; err != nil || !slices.Equal(changes, want) {
			t.Errorf("%v, %q, want %q", err, changes, want)
		}
	})
}

// TestRunOutlivesSilence: Azure does not answer the first checks. The keeper says so, continues,
// and repairs what is wrong once Azure answers. A single check fails.
func TestRunOutlivesSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.strip(w.demo.NodeSubnet)
		answer := w.inject(emulator.Fault{Cut: "before", Count: -1})
		k := New(w.keep().azure, []v1alpha1.ClusterRoutes{w.demoConfig()}, Options{})
		if r, err := k.Reconcile(t.Context()); err == nil {
			t.Errorf("a single check of a silent Azure: %+v", r)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		time.AfterFunc(time.Minute, answer)
		var said, changes []string
		err := k.Run(ctx, 10*time.Second, func(r Result) {
			for _, f := range r.Findings {
				said = append(said, string(f.Code))
			}
			if len(r.Changes) > 0 {
				changes = append(changes, did(r))
			}
		})
		if err != nil || !slices.Contains(said, string(finding.AzureUnreachable)) ||
			!slices.Contains(changes, "1 done associate shop-vnet/nodes\n3 done create appgw-rt") {
			t.Errorf("%v, %q, %q", err, said, changes)
		}
	})
}

// loginTrouble fails every read while there is no login.
type loginTrouble struct {
	Azure
	loggedOut *atomic.Bool
}

func (l loginTrouble) Read(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted,
	o azure.ReadOptions) error {
	if l.loggedOut.Load() {
		return errors.New("not logged in")
	}
	return l.Azure.Read(ctx, s, w, o)
}

// TestReloadAtRest: a keeper that does not run accepts other configs, too, and retains what it
// remembers.
func TestReloadAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		known := configure("play", play.cluster, play.target)
		known.Spec.RouteTableID = string(play.table)
		k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig(), known})
		since := w.mark()
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes\n2 done create play-target")
		if got := calls(since()); slices.Contains(got, "GET values") {
			t.Errorf("the table is forgotten: %v", got)
		}
	})
}
