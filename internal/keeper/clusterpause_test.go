package keeper

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestClusterPaused: a pause of one cluster stops its writes, also those of Check now, and says
// what is not repaired. Another cluster is repaired meanwhile. A confirmed request is done; after
// the pause, everything is repaired.
func TestClusterPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		var paused atomic.Bool
		k := w.runWith(Options{ClusterPaused: func(cluster string) string {
			if cluster == "shop" && paused.Load() {
				return "for a test"
			}
			return ""
		}}, 10*time.Second, w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(time.Minute)
		paused.Store(true)
		w.drop(w.demo.GatewayTable, "10.244.1.0/24")
		w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet, play.subnet)
		parts := k.parts(time.Minute)
		if w.tableOf(play.subnet) == "" {
			t.Error("the other cluster is not repaired")
		}
		verbs := []plan.Verb{plan.Associate, plan.Create, plan.Update, plan.Delete}
		look := func(only []plan.Change) Result {
			t.Helper()
			r, err := k.Ask(context.Background(),
				Request{Cluster: "shop", Verbs: verbs, Only: only})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := look(nil)
		if w.tableOf(w.demo.NodeSubnet) != "" || w.tableOf(w.demo.GatewaySubnet) != "" ||
			len(w.routes(w.demo.GatewayTable)) != 3 {
			t.Error("the paused cluster is written")
		}
		lost := 0
		for _, f := range parts[len(parts)-1].Findings {
			if f.Code == finding.ChangesWithheld {
				t.Errorf("a pause is no withheld change: %s", f.Message)
			}
			if f.Code == finding.AssociationLost &&
				strings.Contains(f.Message, "it is not repaired while shop is paused") &&
				strings.HasPrefix(f.Fix, "routekeeper pause end shop") {
				lost++
			}
		}
		if lost != 2 {
			t.Errorf("%d lost associations are reported in the pause, want 2: %+v", lost,
				parts[len(parts)-1].Findings)
		}
		var repair []plan.Change
		for _, c := range r.Changes {
			if c.State != plan.Planned {
				t.Errorf("%s %s in a pause", c.State, c.Resource)
			}
			if c.Resource.Equal(w.demo.NodeSubnet) {
				repair = append(repair, c.Change)
			}
		}
		look(repair)
		if w.tableOf(w.demo.NodeSubnet) == "" || w.tableOf(w.demo.GatewaySubnet) != "" {
			t.Error("a confirmed request does not do what was confirmed, and nothing else")
		}
		paused.Store(false)
		k.since(time.Minute)
		if w.tableOf(w.demo.GatewaySubnet) == "" ||
			!slices.Contains(w.routes(w.demo.GatewayTable), threePods[1]) {
			t.Error("after the pause it is not repaired")
		}
	})
}

// writesWait makes a subnet and a table need a write, and all writes wait for another operation
// until end is called.
func (w *world) writesWait() (end func()) {
	end = w.inject(emulator.Fault{Method: "PUT", Status: 409, Count: -1,
		Code: "AnotherOperationInProgress"})
	w.strip(w.demo.GatewaySubnet)
	w.drop(w.demo.GatewayTable, "10.244.1.0/24")
	return end
}

// TestPauseWhileWaiting: a pause that begins while a write waits for another operation in Azure
// stops it. It ends as planned, and is made once the pause has ended.
func TestPauseWhileWaiting(t *testing.T) {
	pause := func(paused *atomic.Bool) func() string {
		return func() string {
			if paused.Load() {
				return "for a test"
			}
			return ""
		}
	}
	for name, opts := range map[string]func(*atomic.Bool) Options{
		"keeper": func(p *atomic.Bool) Options { return Options{Paused: pause(p)} },
		"cluster": func(p *atomic.Bool) Options {
			return Options{ClusterPaused: func(string) string { return pause(p)() }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				var paused atomic.Bool
				k := w.runWith(opts(&paused), 10*time.Second, w.demoConfig())
				k.since(time.Minute)
				end := w.writesWait()
				k.since(20 * time.Second)
				paused.Store(true)
				end()
				for _, r := range k.since(3 * time.Minute) {
					for _, o := range r.Changes {
						if o.State != plan.Planned {
							t.Errorf("%s: %+v", o.State, o.Change)
						}
					}
				}
				if w.tableOf(w.demo.GatewaySubnet) != "" ||
					len(w.routes(w.demo.GatewayTable)) != 3 {
					t.Error("written during the pause")
				}
				paused.Store(false)
				k.since(time.Minute)
				if w.tableOf(w.demo.GatewaySubnet) == "" ||
					len(w.routes(w.demo.GatewayTable)) != 4 {
					t.Error("not repaired after the pause")
				}
			})
		})
	}
}

// TestConfigWhileWaiting: a write waits for another operation in Azure, and the config is changed:
// it does not want the change any more, or no longer has the cluster, or swaps two names. The write
// makes nothing of it, and no state is another cluster's.
func TestConfigWhileWaiting(t *testing.T) {
	observe := func(shop, play *v1alpha1.ClusterRoutes) {
		shop.Spec.Guard.Mode = v1alpha1.GuardObserve
		shop.Spec.Targets = slices.Clone(shop.Spec.Targets)
		shop.Spec.Targets[0].Policy = v1alpha1.PolicyObserve
	}
	for name, change := range map[string]func(shop, play *v1alpha1.ClusterRoutes){
		"observed": observe,
		"gone":     func(shop, play *v1alpha1.ClusterRoutes) { *shop = *play },
		"swapped, and observed": func(shop, play *v1alpha1.ClusterRoutes) {
			observe(shop, play)
			shop.Metadata.Name, play.Metadata.Name = play.Metadata.Name, shop.Metadata.Name
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				other := w.addCluster("play", "50")
				shop, play := w.demoConfig(), configure("play", other.cluster, other.target)
				k := w.runWith(Options{}, 10*time.Second, shop, play)
				k.since(time.Minute)
				end := w.writesWait()
				k.since(20 * time.Second)
				now := []v1alpha1.ClusterRoutes{shop, play}
				if change(&now[0], &now[1]); now[0].Spec.ClusterID == now[1].Spec.ClusterID {
					now = now[1:]
				}
				k.Reload(now)
				end()
				for _, r := range k.parts(3 * time.Minute) {
					for _, v := range r.Verdicts {
						if of := keyNamed(now, v.Cluster); (v.State == verdict.Broken) !=
							(of == w.demo.Cluster.Key()) {
							t.Errorf("%s is %s: %s", v.Cluster, v.State, v.Sentence)
						}
					}
				}
				if w.tableOf(w.demo.GatewaySubnet) != "" ||
					len(w.routes(w.demo.GatewayTable)) != 3 {
					t.Error("written by the former config")
				}
				k.Reload([]v1alpha1.ClusterRoutes{shop, play})
				k.since(time.Minute)
				if w.tableOf(w.demo.GatewaySubnet) == "" ||
					len(w.routes(w.demo.GatewayTable)) != 4 {
					t.Error("not repaired by the next config")
				}
			})
		})
	}
}
