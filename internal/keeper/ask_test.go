package keeper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/plan"
)

func paused() string { return "until tomorrow" }

// TestAsk: a paused keeper makes the requested changes of the requested verbs, and no others.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		w.reconcile(w.keep(w.demoConfig()))
		k := w.runWith(Options{Paused: paused}, time.Hour, w.demoConfig(),
			configure("play", play.cluster, play.target))
		if r := k.since(time.Minute); len(r) != 1 || did(r[0]) != "2 planned create play-target" {
			t.Fatalf("%+v", r)
		}
		w.strip(w.demo.NodeSubnet)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.GatewayTable, func(p object) { p["routes"] = p["routes"].([]any)[2:] })
		// one pod route fewer
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:2] })

		ask := func(cluster string, verbs ...plan.Verb) Result {
			t.Helper()
			asked := time.Now()
			r, err := k.Ask(context.Background(),
				Request{Cluster: cluster, Verbs: verbs, By: "ann"})
			if err != nil || r.Woke != (Cause{By: ByPerson, Caller: "ann"}) ||
				r.Started.Sub(asked) > time.Second {
				t.Fatalf("%+v %v", r, err)
			}
			told := k.since(0)
			if len(told) != 1 || did(told[0]) != did(r) {
				t.Errorf("told %+v, answered %+v", told, r)
			}
			return r
		}
		before := w.routes(w.demo.GatewayTable)
		since := w.mark()
		r := ask("shop")
		if strings.Contains(did(r), "done") ||
			!strings.Contains(did(r), "1 planned associate shop-vnet/nodes") ||
			!slices.Equal(r.Of, []string{"shop"}) {
			t.Errorf("a check without verbs: %s of %v", did(r), r.Of)
		}
		for _, c := range since() {
			if c.Method != "GET" {
				t.Errorf("a check without verbs wrote: %s %s", c.Method, c.Path)
			}
		}
		r = ask("shop", plan.Associate)
		if !strings.Contains(did(r), "1 done associate shop-vnet/nodes") ||
			strings.Count(did(r), "done") != 1 {
			t.Errorf("to associate: %s", did(r))
		}
		if w.tableOf(w.demo.NodeSubnet) == "" ||
			!slices.Equal(w.routes(w.demo.GatewayTable), before) {
			t.Error("asked for associations: they were not made, or routes were changed")
		}
		r = ask("", plan.Create, plan.Update)
		if r.Of != nil || !strings.Contains(did(r), "2 done create play-target") {
			t.Errorf("of all: %v %s", r.Of, did(r))
		}
		if got := w.routes(w.demo.GatewayTable); !subset(before, got) {
			t.Errorf("asked to create, and a route is gone: %v, was %v", got, before)
		}
		if _, err := k.Ask(context.Background(), Request{Cluster: "missing"}); err == nil ||
			!strings.Contains(err.Error(), "missing") {
			t.Errorf("of a cluster that is not managed: %v", err)
		}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := k.Ask(gone, Request{}); !errors.Is(err, context.Canceled) {
			t.Errorf("asked by a caller who has left: %v", err)
		}
		k.stop()
		if _, err := k.Ask(context.Background(), Request{}); err == nil {
			t.Error("a keeper that has stopped answers")
		}
	})
}

func subset(part, of []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(of, s) })
}

// TestAskBeforeTheEnd: a request to a keeper that is stopping gets an answer.
func TestAskBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(time.Hour, w.demoConfig())
		k.since(time.Minute)
		answers := make(chan error)
		for range 3 {
			go func() {
				_, err := k.Ask(context.Background(), Request{Verbs: []plan.Verb{plan.Associate}})
				answers <- err
			}()
		}
		k.cancel()
		for range 3 {
			<-answers
		}
		k.stop()
	})
}

// TestRequestTakesNothingAway: a person requests a check while an event arrives or a poll is
// running. What these would have repaired is still repaired.
func TestRequestTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, play.target))
		look := func() {
			t.Helper()
			if r, err := k.Ask(context.Background(),
				Request{Cluster: "shop", By: "ann"}); err != nil ||
				strings.Contains(did(r), "done") {
				t.Errorf("%s %v", did(r), err)
			}
		}
		k.since(time.Minute)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		// both come at once
		go func() { _, _ = k.Ask(context.Background(), Request{Cluster: "shop"}) }()
		k.Wake(Event{}, w.demo.NodeSubnet)
		k.since(10 * time.Second)
		if w.tableOf(w.demo.NodeSubnet) == "" {
			t.Error("the event is lost")
		}
		// The poll is slow, and the request takes over the cluster.
		w.strip(w.demo.GatewaySubnet)
		time.Sleep(time.Hour - 75*time.Second)
		fix := w.inject(emulator.Fault{Method: "GET", Path: "play", Hold: "before", Count: -1})
		k.since(0)
		// a poll begins
		k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig(),
			configure("play", play.cluster, play.target)})
		time.Sleep(500 * time.Millisecond)
		look()
		fix()
		k.since(10 * time.Second)
		if w.tableOf(w.demo.GatewaySubnet) == "" {
			t.Error("the poll's look is lost")
		}
	})
}

// TestAskForAllWhileOneGoes: a person requests a check of all clusters, and one of them is removed
// before it is checked.
func TestAskForAllWhileOneGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := apartWorld(t)
		w.strip(play.subnet)
		fix := w.inject(emulator.Fault{Method: "PUT", Path: "play-vnet", Hold: "before", Count: -1})
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(10 * time.Second)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if r, err := k.Ask(context.Background(), Request{}); err != nil ||
				!slices.Equal(r.Of, []string{"shop"}) && r.Of != nil || r.Seen.Snapshot == nil {
				t.Errorf("of %v: %v", r.Of, err)
			}
		}()
		k.since(10 * time.Second)
		k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
		k.since(10 * time.Second)
		fix()
		<-answered
	})
}

// TestAskOnly: a request makes the changes that a person confirmed, and no others of their kind,
// even if those are needed at that moment too.
func TestAskOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.reconcile(w.keep(w.demoConfig()))
		k := w.runWith(Options{Paused: paused}, time.Hour, w.demoConfig())
		k.since(time.Minute)
		dropLast := func(p object) {
			routes := p["routes"].([]any)
			p["routes"] = routes[:len(routes)-1]
		}
		ask := func(verbs []plan.Verb, only []plan.Change) Result {
			t.Helper()
			r, err := k.Ask(context.Background(),
				Request{Cluster: "shop", Verbs: verbs, Only: only})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		w.edit(w.demo.GatewayTable, dropLast)
		var shown []plan.Change
		for _, c := range ask(nil, nil).Changes {
			shown = append(shown, c.Change)
		}
		if len(shown) != 1 {
			t.Fatalf("shown: %+v", shown)
		}
		w.edit(w.demo.GatewayTable, dropLast)
		r := ask([]plan.Verb{plan.Create, plan.Update, plan.Delete}, shown)
		if strings.Count(did(r), "done") != 1 || strings.Count(did(r), "planned") != 1 {
			t.Errorf("one change was confirmed: %s", did(r))
		}
		if r := ask([]plan.Verb{plan.Create}, []plan.Change{}); strings.Contains(did(r), "done") {
			t.Errorf("nothing was confirmed: %s", did(r))
		}
	})
}
