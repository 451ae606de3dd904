package keeper

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
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
			r, err := k.Ask(context.Background(), Request{Cluster: "shop", Verbs: verbs,
				Only: only})
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
			if f.Code == finding.AssociationLost && strings.Contains(f.Message,
				"it is not repaired while shop is paused") &&
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
		if w.tableOf(w.demo.GatewaySubnet) == "" || !slices.Contains(w.routes(w.demo.GatewayTable),
			threePods[1]) {
			t.Error("after the pause it is not repaired")
		}
	})
}
