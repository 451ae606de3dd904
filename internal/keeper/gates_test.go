package keeper

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
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

// TestGates: each gate of a check, closed alone, stops a change, and no other gate does. Then
// nothing is written.
func TestGates(t *testing.T) {
	closed := map[string]func(k *Keeper, c *check){
		"dry run": func(k *Keeper, _ *check) { k.opts.DryRun = true },
		"request": func(_ *Keeper, c *check) { c.request = &request{} },
		"pause":   func(k *Keeper, _ *check) { k.opts.Paused = func() string { return "a day" } },
		"only": func(k *Keeper, _ *check) {
			k.opts.Only = func(plan.Change) bool { return false }
		},
		"conflict": func(_ *Keeper, c *check) {
			for _, change := range c.changes {
				c.contest(change)
			}
		},
		"cluster pause": func(k *Keeper, _ *check) {
			k.opts.ClusterPaused = func(string) string { return "a day" }
		},
		"config": func(k *Keeper, _ *check) { k.configs = nil },
		"scope": func(k *Keeper, _ *check) {
			k.opts.Withhold = func(Intent) string { return "it may not" }
		},
	}
	gates := slices.Concat(choice, permission)
	if len(closed) != len(gates) {
		t.Errorf("%d gates, and %d ways to close one", len(gates), len(closed))
	}
	for _, g := range gates {
		t.Run(g.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.keep(w.demoConfig())
				w.drop(w.demo.GatewayTable, "10.244.0.0/24")
				c := k.wholeGroup().newCheck(Cause{}, time.Time{})
				c.changes = []plan.Change{{Verb: plan.Create, Cluster: "shop",
					Resource: w.demo.GatewayTable, New: &plan.Value{}}}
				c.s = plan.Facts{Snapshot: inventory.NewSnapshot()}
				before := w.routes(w.demo.GatewayTable)
				closed[g.name](k, c)
				by, why := stopped(c, gates, c.changes)(c.changes[0])
				for _, other := range gates {
					if by, _ := stopped(c, []gate{other}, c.changes)(c.changes[0]); by != "" &&
						by != g.name {
						t.Errorf("%s stops it, too", by)
					}
				}
				if by != g.name || why == "" {
					t.Errorf("stopped by %q: %q", by, why)
				}
				if g.name != "request" && g.name != "conflict" { // of one check only
					w.reconcile(k)
					w.expectRoutes(w.demo.GatewayTable, before...)
				}
			})
		})
	}
}

// TestGatesExcept: what a gate excepts passes it.
func TestGatesExcept(t *testing.T) {
	change := plan.Change{Verb: plan.Create, Cluster: "shop", Route: "a", New: &plan.Value{}}
	asked := &request{Request: Request{Verbs: []plan.Verb{plan.Create}}}
	confirmed := &request{Request: asked.Request}
	confirmed.Only = []plan.Change{change}
	for name, c := range map[string]struct {
		request *request
		only    bool // the caller chose the change
		closed  func(k *Keeper, c *check)
	}{
		"pause, a request": {asked, false, func(k *Keeper, _ *check) {
			k.opts.Paused = func() string { return "a day" }
		}},
		"only, a request": {asked, false, func(k *Keeper, _ *check) {
			k.opts.Only = func(plan.Change) bool { return false }
		}},
		"conflict, a request": {asked, false, func(_ *Keeper, c *check) { c.contest(change) }},
		"conflict, a choice":  {nil, true, func(_ *Keeper, c *check) { c.contest(change) }},
		"cluster pause, confirmed": {confirmed, false, func(k *Keeper, _ *check) {
			k.opts.ClusterPaused = func(string) string { return "a day" }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.keep(w.demoConfig())
				check := k.wholeGroup().newCheck(Cause{}, time.Time{})
				check.s, check.request = plan.Facts{Snapshot: inventory.NewSnapshot()}, c.request
				if c.closed(k, check); c.only {
					k.opts.Only = func(plan.Change) bool { return true }
				}
				stops := stopped(check, slices.Concat(choice, permission), []plan.Change{change})
				if by, why := stops(change); by != "" {
					t.Errorf("stopped by %s: %s", by, why)
				}
			})
		})
	}
}

// TestCheckNowInPause: Check now asks for no certain changes, so the pause of a cluster stops it.
func TestCheckNowInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		k.opts.ClusterPaused = func(string) string { return "a day" }
		c := k.wholeGroup().newCheck(Cause{}, time.Time{})
		c.request = &request{}
		change := plan.Change{Verb: plan.Create, Cluster: "shop"}
		if by, _ := stopped(c, permission, []plan.Change{change})(change); by != "cluster pause" {
			t.Errorf("stopped by %q", by)
		}
	})
}

// contest makes another writer undo a change.
func (c *check) contest(change plan.Change) {
	c.mem.conflicts[placeOf(change)] = &conflict{change: change, wait: time.Hour}
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
