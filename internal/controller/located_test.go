package controller

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// TestLocate: while the nodes of the cluster that the controller runs in cannot be read, it tries
// again, and guards what it can meanwhile, without a promise.
func TestLocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := &way{fakeAPI: newFakeAPI()}, new(lines)
		node := func(spec map[string]any, verb string) {
			w.fakeAPI.mu.Lock()
			defer w.fakeAPI.mu.Unlock()
			w.put("/api/v1/nodes/n", map[string]any{"apiVersion": "v1", "kind": "Node",
				"metadata": map[string]any{"name": "n"}, "spec": spec}, verb)
		}
		node(map[string]any{}, "ADDED")
		var calls atomic.Int32
		w.received = func(*http.Request) error {
			if calls.Add(1) <= 10 {
				return errors.New("refused")
			}
			return nil
		}
		o := testOptions()
		o.Inside = true
		c := leading(t, w)
		c.o, c.set = o, newSet(o, func() {})
		c.nodes, c.log = w.client(t).Resource(nodes), slog.New(slog.NewTextHandler(log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.locate(ctx)
		time.Sleep(time.Second / 2)
		synctest.Wait()
		object := refusable("shop", "1", 1)
		configs, _ := c.set.build([]ClusterRoutes{object})
		if len(configs) != 1 || configs[0].Spec.Guard.Mode != v1alpha1.GuardEnforce {
			t.Fatalf("%+v", configs)
		}
		enforced := shown{conditions: []v1alpha1.Condition{{Type: v1alpha1.ConditionGuarded,
			Status: "True", Reason: reasonEnforced}}}
		got := promised(enforced, c.set.whyUnplaced()).conditions[0]
		if got.Status != "Unknown" || got.Reason != "PlaceUnknown" ||
			!strings.Contains(got.Message, "refused") {
			t.Errorf("%+v", got)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if c.set.own != "" || c.set.whyUnplaced() != "" ||
			!log.has("no node says which machine it is") {
			t.Errorf("with a new node, it runs in %q: %s", c.set.own, c.set.whyUnplaced())
		}
		node(map[string]any{"providerID": "azure://" + groupA +
			"/providers/Microsoft.Compute/virtualMachines/n"}, "MODIFIED")
		time.Sleep(time.Minute)
		synctest.Wait()
		last := calls.Load()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if calls.Load() != last || !log.has("refused") || c.set.own != arm.ID(groupA) ||
			promised(enforced, c.set.whyUnplaced()).conditions[0] != enforced.conditions[0] {
			t.Errorf("after %d calls it runs in %q: %s", calls.Load(), c.set.own,
				c.set.whyUnplaced())
		}
	})
}
