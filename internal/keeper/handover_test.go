package keeper

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// watched is an Azure client that checks that each resource has one writer at a time.
type watched struct {
	Azure
	t       testing.TB
	mu      sync.Mutex
	writers map[string]bool // by ID.Key()
}

func (w *watched) Write(ctx context.Context, id arm.ID, edit azure.Edit,
	calls *azure.Calls) (azure.Written, error) {
	w.mu.Lock()
	if w.writers[id.Key()] {
		w.t.Errorf("%s has two writers at %s", id.Short(), time.Now())
	}
	w.writers[id.Key()] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writers[id.Key()] = false
	}()
	return w.Azure.Write(ctx, id, edit, calls)
}

// runWatched is run with a watched client.
func (w *world) runWatched(interval time.Duration, configs ...v1alpha1.ClusterRoutes) *running {
	return w.runOver(&watched{Azure: emulatortest.Client(w.t, w.e, emulatortest.Keeper), t: w.t,
		writers: map[string]bool{}}, Options{}, interval, configs...)
}

// TestReloadWhileWriting: a cluster is removed, or its config changed, while its write hangs.
// Clusters that share something with it wait until the write ends, and are then checked.
func TestReloadWhileWriting(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(w *world, play, third another) []v1alpha1.ClusterRoutes
	}{
		{"removed, one stays that shares",
			func(w *world, play, third another) []v1alpha1.ClusterRoutes {
				return []v1alpha1.ClusterRoutes{
					configure("play", play.cluster, w.demo.GatewayTable),
					configure("third", third.cluster, third.target)}
			}},
		{"removed, its target is another's now",
			func(w *world, play, third another) []v1alpha1.ClusterRoutes {
				return []v1alpha1.ClusterRoutes{
					configure("third", third.cluster, w.demo.GatewayTable)}
			}},
		{"its target is another's now",
			func(w *world, play, third another) []v1alpha1.ClusterRoutes {
				return []v1alpha1.ClusterRoutes{configure("shop", w.demo.Cluster),
					configure("third", third.cluster, w.demo.GatewayTable)}
			}},
		{"renamed", func(w *world, play, third another) []v1alpha1.ClusterRoutes {
			return []v1alpha1.ClusterRoutes{
				configure("renamed", w.demo.Cluster, w.demo.GatewayTable), configure("third",
					third.cluster, w.demo.GatewayTable)}
		}},
		{"all are removed", func(*world, another, another) []v1alpha1.ClusterRoutes {
			return []v1alpha1.ClusterRoutes{}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, play := apartWorld(t)
				third := w.addCluster("third", "51")
				fix := w.inject(emulator.Fault{Method: "PUT", Path: "appgw-rt", Hold: "before",
					Count: -1})
				k := w.runWatched(10*time.Second, w.demoConfig(),
					configure("play", play.cluster, w.demo.GatewayTable))
				k.since(5 * time.Second)
				configs := c.after(w, play, third)
				k.Reload(configs)
				results := k.parts(25 * time.Second)
				fix()
				for _, r := range append(results, k.parts(3*time.Minute)...) {
					if len(r.Managed) != len(configs) ||
						len(r.Of) > 0 && !slices.Contains(r.Managed, r.Of[0]) {
						t.Errorf("after the reload a check is reported for %v, and "+
							"that %v are managed", r.Of, r.Managed)
					}
				}
				w.strip(third.subnet, play.subnet)
				results = k.since(40 * time.Second)
				for _, r := range results {
					if len(r.Managed) != len(configs) || len(r.Findings) > 0 {
						t.Errorf("of %v, managed %v: %+v", r.Of, r.Managed, r.Findings)
					}
				}
				for _, c := range configs {
					id := arm.ID(c.Spec.ClusterID)
					if id.Equal(third.cluster) && w.tableOf(third.subnet) == "" ||
						id.Equal(play.cluster) && w.tableOf(play.subnet) == "" {
						t.Errorf("%s is not managed", c.Metadata.Name)
					}
				}
			})
		})
	}
}
