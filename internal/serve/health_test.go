package serve

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// patient is a keeper of the demo's cluster with a Health, in a synctest bubble.
type patient struct {
	t      *testing.T
	e      *emulator.Emulator
	demo   emulator.Demo
	health *Health
	told   func(keeper.Result) // may be nil
}

func newPatient(t *testing.T, o emulator.Options) *patient {
	e := emulatortest.New(t, o)
	d, err := emulator.BuildDemo(e, emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	return &patient{t: t, e: e, demo: d, health: NewHealth(10 * time.Second)}
}

// keep runs the keeper until the test ends.
func (p *patient) keep() {
	config := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: "shop"}}
	config.Spec.ClusterID = string(p.demo.Cluster)
	config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(p.demo.GatewayTable)}}
	config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(p.demo.GatewaySubnet), RouteTableID: string(p.demo.GatewayTable)}}
	config.SetDefaults()
	k := keeper.New(emulatortest.Client(p.t, p.e, emulatortest.Keeper),
		[]v1alpha1.ClusterRoutes{config}, keeper.Options{
			Progress: p.health.Progress,
		})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- k.Run(ctx, 10*time.Second, func(r keeper.Result) {
			p.health.Record(r)
			if p.told != nil {
				p.told(r)
			}
		})
	}()
	p.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	})
}

// stays checks once a second that the keeper counts as live, or as stuck.
func (p *patient) stays(live bool, d time.Duration, when string) {
	p.t.Helper()
	for passed := time.Duration(0); passed < d; passed += time.Second {
		if err := p.health.Live(); (err == nil) != live {
			p.t.Fatalf("%s, after %s: live is %v: %v", when, passed, err == nil, err)
		}
		time.Sleep(time.Second)
	}
}

// strip removes the route tables from subnets.
func (p *patient) strip(subnets ...arm.ID) {
	p.t.Helper()
	op, err := p.e.Client(emulatortest.Operator)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, subnet := range subnets {
		doc, err := op.Get(subnet, "2025-05-01")
		if err == nil {
			delete(doc["properties"].(map[string]any), "routeTable")
			err = op.Put(subnet, "2025-05-01", doc)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// TestHealthOutage: a check that ends with an error is progress, so an outage of hours restarts
// nothing. But the keeper is not ready until the next check succeeds.
func TestHealthOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t, emulator.Options{OperationTime: time.Second})
		if p.health.Ready() == nil {
			t.Error("ready before a check has succeeded")
		}
		p.keep()
		p.stays(true, time.Minute, "all is well")
		if err := p.health.Ready(); err != nil {
			t.Error(err)
		}
		if _, err := p.e.Inject(emulator.Fault{Count: -1, Cut: "before"}); err != nil {
			t.Fatal(err)
		}
		p.stays(true, 3*time.Minute, "nothing is answered")
		if err := p.health.Ready(); err == nil {
			t.Error("ready while Azure answers nothing")
		}
		p.stays(true, 3*time.Hour, "nothing is answered for hours")
		p.e.ClearFaults()
		time.Sleep(2 * time.Minute)
		if err := p.health.Ready(); err != nil {
			t.Errorf("Azure is back: %v", err)
		}
	})
}

// TestHealthStuck: a keeper whose check does not end counts as stuck after a minute.
func TestHealthStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t, emulator.Options{OperationTime: time.Second})
		stuck := make(chan struct{})
		var blocks atomic.Bool
		p.told = func(keeper.Result) {
			if blocks.Load() {
				<-stuck
			}
		}
		p.keep()
		time.Sleep(time.Minute)
		blocks.Store(true)
		p.stays(true, 50*time.Second, "for less than a minute")
		time.Sleep(30 * time.Second)
		if err := p.health.Live(); err == nil ||
			!strings.HasPrefix(err.Error(), "no check has ended for 1m") {
			t.Errorf("stuck: %v", err)
		}
		close(stuck)
		time.Sleep(time.Second)
		p.stays(true, time.Minute, "afterwards")
	})
}

// TestHealthWrite: slow writes, one after the other, do not cause a restart.
func TestHealthWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t, emulator.Options{OperationTime: time.Second})
		p.keep()
		time.Sleep(time.Minute)
		p.strip(p.demo.NodeSubnet, p.demo.GatewaySubnet)
		slow := emulator.Fault{Method: http.MethodPut, Path: "subnets", Count: 2, Slow: 400,
			Principal: emulatortest.Keeper.Name}
		if _, err := p.e.Inject(slow); err != nil {
			t.Fatal(err)
		}
		p.stays(true, 20*time.Minute, "slow writes")
		if fired := p.e.Faults()[0].Fired; fired == 0 {
			t.Errorf("%d slow writes, want one or more", fired)
		}
	})
}

// TestHealthInterval: a keeper that checks rarely has more time.
func TestHealthInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(5 * time.Minute)
		h.Progress(time.Now())
		h.Record(keeper.Result{Managed: []string{"shop"}})
		time.Sleep(15 * time.Minute)
		if h.Live() != nil || h.Ready() != nil {
			t.Error(h.Live(), h.Ready())
		}
		time.Sleep(time.Second)
		if h.Live() == nil || h.Ready() == nil {
			t.Error("three intervals are over")
		}
	})
}
