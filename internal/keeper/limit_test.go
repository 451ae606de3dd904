package keeper

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestLimit: thirty clusters lose their associations and grow at the same time. The associations
// are repaired at once. The routes follow over some minutes, at most sixty in each. The finding
// appears and disappears with the waiting changes.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clusters, perMinute = 30, 60
		w := emptyWorld(t, slow)
		var all []another
		var configs []v1alpha1.ClusterRoutes
		for i := range clusters {
			name := fmt.Sprintf("c%02d", i)
			all = append(all, w.addCluster(name, fmt.Sprint(50+i)))
			configs = append(configs, configure(name, all[i].cluster, all[i].target))
		}
		routes := func(table func(another) arm.ID) (n int) {
			for _, a := range all {
				n += len(w.routes(table(a)))
			}
			return n
		}
		target := func(a another) arm.ID { return a.target }
		k := w.runWith(Options{ChangesPerMinute: perMinute}, 10*time.Second, configs...)
		k.since(2 * time.Minute)
		if n := routes(target); n != 2*clusters {
			t.Fatalf("%d routes at first", n)
		}
		for _, a := range all {
			w.strip(a.subnet)
			if err := w.e.Scale(a.cluster, "np", 7); err != nil {
				t.Fatal(err)
			}
		}
		k.since(15 * time.Second)
		for _, a := range all {
			if w.tableOf(a.subnet) == "" {
				t.Errorf("%s is not repaired after a poll", a.subnet.Short())
			}
		}
		waits := func(results []Result) bool {
			return slices.ContainsFunc(results[len(results)-1].Findings,
				func(f finding.Finding) bool {
					return f.Code == finding.ChangesLimited
				})
		}
		had, told := []int{routes(target)}, false
		for range 30 {
			told = waits(k.since(10*time.Second)) || told
			had = append(had, routes(target))
		}
		for i, n := range had {
			if i >= 6 && n-had[i-6] > perMinute {
				t.Errorf("%d routes in a minute: %v", n-had[i-6], had)
			}
		}
		source := routes(func(a another) arm.ID { return a.table })
		if n := had[len(had)-1]; n != source || source != 7*clusters {
			t.Errorf("the routes arrived as %v, and the clusters have %d", had, source)
		}
		if !told {
			t.Error("nothing was said of what waits")
		}
		if r := k.since(time.Minute); waits(r) {
			t.Errorf("nothing waits, and it is said: %v", r[len(r)-1].Findings)
		}
	})
}

// TestLimitOfRequests: a person's request is not limited.
func TestLimitOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		k := w.runWith(Options{ChangesPerMinute: 1}, 10*time.Second,
			w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(time.Second)
		if n, m := len(w.routes(w.demo.GatewayTable)), len(w.routes(play.target)); n+m != 4 &&
			n+m != 3 {
			t.Fatalf("%d and %d routes: not one table only was written", n, m)
		}
		asked, err := k.Ask(t.Context(), Request{Verbs: []plan.Verb{plan.Create}})
		if err != nil || len(asked.Changes) == 0 {
			t.Fatalf("%v, %+v", err, asked.Changes)
		}
		if n, m := len(w.routes(w.demo.GatewayTable)), len(w.routes(play.target)); n != 4 ||
			m != 2 {
			t.Errorf("%d and %d routes after a person asked", n, m)
		}
	})
}

// TestWithinLimit: while the limit is used up, associations are made. What Azure would refuse again
// is not counted, and a table that lacks routes comes before one that has too many.
func TestWithinLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		k := w.keep()
		c := k.wholeGroup().newCheck(Cause{}, time.Time{})
		change := func(verb plan.Verb, kind, name string) plan.Change {
			return plan.Change{Verb: verb, Resource: arm.ResourceID(emulator.DefaultSubscription,
				"rg", kind, name), New: &plan.Value{}}
		}
		lost := change(plan.Associate, arm.TypeSubnet, "nodes")
		stale, missing := change(plan.Delete, arm.TypeRouteTable, "a"), change(plan.Create,
			arm.TypeRouteTable, "b")
		refused := change(plan.Create, arm.TypeRouteTable, "c")
		c.mem.refused[refused.Resource.Key()] = &refusal{until: time.Now().Add(time.Hour),
			outcomes: []plan.Outcome{{Change: refused, State: plan.Failed}}}
		k.limit = newLimiter(2)
		k.limit.allow("another", 1, time.Now())
		may := c.withinLimit(inventory.NewSnapshot(), []plan.Change{refused, stale, lost, missing})
		if !slices.EqualFunc(may, []plan.Change{refused, lost, missing}, sameChange) {
			t.Errorf("%+v", may)
		}
	})
}

// TestLimiter: tables draw in order, and a table with more changes than the limit is written.
func TestLimiter(t *testing.T) {
	id := func(n string) arm.ID {
		return arm.ResourceID("s", "g", arm.TypeRouteTable, n)
	}
	l, now := newLimiter(10), time.Now()
	step := func(after time.Duration, table string, changes int, want bool) {
		t.Helper()
		now = now.Add(after)
		if got := l.allow(id(table), changes, now); got != want {
			t.Errorf("%d changes of %s: %v, want %v", changes, table, got, want)
		}
	}
	step(0, "a", 6, true)
	step(0, "b", 6, false)
	step(0, "c", 4, false) // would fit, but b waits for it
	step(time.Minute, "c", 4, true)
	step(0, "b", 6, true)
	step(0, "large", 25, false)
	step(30*time.Second, "small", 1, false)
	step(30*time.Second, "small", 1, false) // large is first
	step(0, "large", 25, true)
	step(time.Minute, "small", 1, false) // large counts for two minutes and a half
	step(90*time.Second, "small", 1, true)
	step(0, "gone", 100, false)
	step(time.Minute, "next", 1, false)
	step(2*time.Minute, "next", 1, true) // no check wants to write the one before it any more
}
