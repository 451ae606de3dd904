package keeper

import (
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestWithheld: a withheld change is not made and is reported, and all others are made.
func TestWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		why := "it may not"
		k.opts.Withhold = func(i Intent) string {
			if i.Of == nil || i.Verb != plan.Associate && !i.Source.Equal(w.demo.ClusterTable) {
				t.Errorf("asked about %+v", i)
			}
			if i.Verb == plan.Associate {
				return ""
			}
			return why
		}
		w.strip(w.demo.NodeSubnet)
		w.drop(w.demo.GatewayTable, "10.244.0.0/24")
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes\n"+
			"1 planned create appgw-rt", finding.ChangesWithheld)
		why = ""
		w.expect(w.reconcile(k), "1 done create appgw-rt")
	})
}

// TestOrderedRemoval: where removals are ordered, a config that is gone means nothing by itself.
func TestOrderedRemoval(t *testing.T) {
	for name, ordered := range map[string]bool{"ordered": true, "not ordered": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, play := leaving(t)
				config := onRemoval(configure("play", play.cluster, w.demo.GatewayTable),
					v1alpha1.RemovalPrune)
				k := w.runWith(Options{}, 10*time.Second, w.demoConfig(), config)
				k.since(2 * time.Minute)
				w.expectGateway(threePods, playPods)
				var orders []Removal
				ended := make(chan error, 1)
				if ordered {
					orders = append(orders, Removal{config, func(err error) { ended <- err }})
				}
				k.Replace(nil, orders...)
				k.since(2 * time.Minute)
				if !ordered {
					w.expectGateway(threePods, playPods)
				} else if err := <-ended; err != nil {
					t.Error(err)
				} else {
					w.expectGateway(threePods)
				}
				k.stop()
			})
		})
	}
}
