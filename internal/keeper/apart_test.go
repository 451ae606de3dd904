package keeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestApart: whatever of one cluster hangs or fails, another cluster's strips are repaired within
// seconds, every time, from the first moment on. The first cluster is repaired when Azure answers
// again. The second one's calls count for its own checks only.
func TestApart(t *testing.T) {
	t.Parallel()
	const second = "5ab00000-0000-4000-8000-00000000000b"
	for name, fault := range map[string]emulator.Fault{
		"cluster hangs":       {Method: "GET", Path: "managedClusters/play$", Hold: "before"},
		"network hangs":       {Method: "GET", Path: "play-vnet", Hold: "before"},
		"table hangs":         {Method: "GET", Path: "routeTables/play-", Hold: "before"},
		"all of it hangs":     {Path: "/play-", Hold: "before"},
		"network fails":       {Method: "GET", Path: "play-vnet", Status: 503},
		"network fails, long": {Method: "GET", Path: "play-vnet", Status: 503, RetryAfter: 50},
		"tables fail":         {Method: "GET", Path: "routeTables/play-", Status: 500},
		"no connection":       {Path: "/play-", Cut: "before"},
		"writes hang":         {Method: "PUT", Path: "/play-", Hold: "before"},
		"writes fail":         {Method: "PUT", Path: "/play-", Status: 503, RetryAfter: 20},
		"operations hang":     {Method: "GET", Path: "/operations/", Hold: "before", Count: 3},
	} {
		for _, where := range []string{emulator.DefaultSubscription, second} {
			if where == second && !full() && !strings.Contains(name, ", long") &&
				name != "all of it hangs" { // it hardly touches the other subscription
				continue
			}
			t.Run(fmt.Sprintf("%s %.1s", name, where[len(where)-1:]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opts := slow
					opts.Subscriptions = []string{emulator.DefaultSubscription, second}
					w := newWorld(t, opts)
					play := w.addClusterIn(where, "play", "50")
					w.strip(w.demo.NodeSubnet, play.subnet)
					time.Sleep(10 * time.Second)
					if fault.Count == 0 {
						fault.Count = -1
					}
					fix := w.inject(fault)
					k := w.run(10*time.Second, w.demoConfig(),
						configure("play", play.cluster, play.target))
					repaired := func(what string, within time.Duration) {
						t.Helper()
						k.since(within)
						if w.tableOf(w.demo.NodeSubnet) == "" ||
							w.tableOf(w.demo.GatewaySubnet) == "" {
							t.Errorf("%s was not repaired within %s", what, within)
						}
					}
					if fault.Count > 0 { // which operation hangs is random
						k.since(5 * time.Minute)
					}
					repaired("the first strip", 12*time.Second)
					for i := range 5 { // two subnets in alternation, so it is not a conflict
						subnet := []arm.ID{w.demo.GatewaySubnet, w.demo.NodeSubnet}[i%2]
						w.strip(subnet)
						if i < 3 {
							repaired(fmt.Sprintf("strip %d, seen by polling", i), 26*time.Second)
						} else {
							time.Sleep(5 * time.Second)
							k.Wake(Event{}, subnet)
							repaired(fmt.Sprintf("strip %d, with an event", i), 8*time.Second)
						}
						k.since(time.Duration(i) * 7 * time.Second)
					}
					fix()
					k.since(3 * time.Minute)
					if w.tableOf(play.subnet) == "" || len(w.routes(play.target)) != 2 {
						t.Errorf("the other cluster has %q and %v when all is well again",
							w.tableOf(play.subnet), w.routes(play.target))
					}
					if r := k.since(30 * time.Second); len(r) != 3 || r[2].Of != nil ||
						len(r[2].Findings) > 0 || r[2].Writes != 0 || r[2].Reads > 8 {
						last := r[len(r)-1]
						t.Errorf("%d checks when all is well again; the last: %d reads, %d "+
							"writes, of %v, %v", len(r), last.Reads, last.Writes, last.Of,
							last.Findings)
					}
				})
			})
		}
	}
}

// apartWorld has a second cluster in its own subscription, so that no list includes it.
func apartWorld(t *testing.T) (*world, another) {
	const second = "5ab00000-0000-4000-8000-00000000000b"
	opts := slow
	opts.Subscriptions = []string{emulator.DefaultSubscription, second}
	w := newWorld(t, opts)
	return w, w.addClusterIn(second, "play", "50")
}

// TestApartTells: a cluster that does not answer has its own finding, and no other cluster is
// blamed.
func TestApartTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := apartWorld(t)
		w.reconcile(w.keep(w.demoConfig()))
		w.inject(emulator.Fault{Method: "GET", Path: "play-vnet", Hold: "before", Count: -1})
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, play.target))
		first := k.parts(7 * time.Second)
		if len(first) != 2 || !slices.Equal(first[0].Of, []string{"shop"}) ||
			len(first[0].Findings) > 0 || !first[0].Complete || first[0].Elapsed > time.Second {
			t.Errorf("the other's check: %+v", first)
		}
		last := first[len(first)-1]
		if !slices.Equal(codes(last), []finding.Code{finding.ReadFailed}) ||
			last.Findings[0].Cluster != "play" ||
			!strings.Contains(last.Findings[0].Message, "no answer within 2s") {
			t.Errorf("%+v", last.Findings)
		}
		alone := len(k.since(10 * time.Minute))
		if alone > 14 || alone < 8 {
			t.Errorf("it was tried %d times in ten minutes", alone)
		}
	})
}

// TestApartShared: clusters that share a target with a cluster that does not answer are still
// repaired, a little later.
func TestApartShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := apartWorld(t)
		third := w.addCluster("third", "51")
		w.strip(w.demo.NodeSubnet, third.subnet)
		time.Sleep(10 * time.Second)
		fix := w.inject(emulator.Fault{Method: "GET", Path: "play-vnet", Hold: "before", Count: -1})
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, w.demo.GatewayTable),
			configure("third", third.cluster))
		k.since(11 * time.Second)
		if w.tableOf(third.subnet) == "" {
			t.Error("the cluster that shares nothing waits")
		}
		k.since(30 * time.Second)
		if w.tableOf(w.demo.NodeSubnet) == "" {
			t.Error("the cluster that shares a target is not repaired")
		}
		fix()
		k.since(2 * time.Minute)
		if got := len(w.routes(w.demo.GatewayTable)); got != 6 {
			t.Errorf("%d routes in the shared target when all is well again", got)
		}
	})
}

// TestApartJoins: two clusters have separate checks until one check finds that they share
// something. That check waits for the other one, and then one check covers both.
func TestApartJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := apartWorld(t)
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(time.Minute)
		fix := w.inject(emulator.Fault{Method: "GET", Path: "play-vnet", Hold: "before",
			Count: -1})
		k.Wake(Event{}, play.cluster)
		k.since(6 * time.Second) // it is checked by its own worker now
		w.edit(w.demo.NodeSubnet, func(p object) {
			p["routeTable"] = object{"id": string(play.table)}
		})
		k.Wake(Event{}, w.demo.NodeSubnet)
		results := k.parts(40 * time.Second)
		fix()
		results = append(results, k.parts(6*time.Minute)...)
		end := map[string]time.Time{}
		for _, r := range results {
			of := r.Of
			if of == nil {
				of = r.Managed
			}
			for _, cluster := range of {
				if r.Started.Before(end[cluster]) {
					t.Errorf("%s was in two checks at once: %s to %s, and until %s", cluster,
						r.Started, r.Started.Add(r.Elapsed), end[cluster])
				}
				end[cluster] = r.Started.Add(r.Elapsed)
			}
		}
		last := results[len(results)-1]
		if last.Of != nil || !slices.Equal(codes(last), []finding.Code{finding.AssociationOther}) {
			t.Errorf("of %v: %v", last.Of, last.Findings)
		}
	})
}

// TestReloadWhileOneHangs: new configs apply although a cluster does not answer.
func TestReloadWhileOneHangs(t *testing.T) {
	for _, method := range []string{"GET", "PUT"} {
		synctest.Test(t, func(t *testing.T) {
			w, play := apartWorld(t)
			w.inject(emulator.Fault{Method: method, Path: "/play-", Hold: "before", Count: -1})
			config := configure("play", play.cluster, play.target)
			k := w.run(10*time.Second, w.demoConfig(), config)
			k.since(7 * time.Second)
			third := w.addCluster("third", "51")
			k.since(0)
			k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig(),
				configure("third", third.cluster, third.target)})
			k.since(12 * time.Second)
			if len(w.routes(third.target)) != 2 {
				t.Error("the new cluster is not managed")
			}
			// without the removed cluster
			r := slices.DeleteFunc(k.since(20*time.Second), func(r Result) bool {
				return r.Of != nil && len(r.Of) == 0
			})
			if len(r) == 0 || r[0].Of != nil ||
				!slices.Equal(r[0].Managed, []string{"shop", "third"}) || len(r[0].Findings) > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestParted: clusters with nothing to write do not wait for the others. Each check reports its own
// clusters and its own cost.
func TestParted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(time.Minute)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		k.Wake(Event{Caller: "Ann Example"}, w.demo.NodeSubnet)
		k.Wake(Event{Caller: "a pipeline"}, play.target)
		r := k.parts(time.Minute)
		if len(r) != 2 || !slices.Equal(r[0].Of, []string{"play"}) ||
			!slices.Equal(r[1].Of, []string{"shop"}) {
			t.Fatalf("%+v", r)
		}
		if r[0].Elapsed > time.Second || r[0].Writes != 0 || len(r[0].Changes) > 0 ||
			len(r[0].Tables) != 2 || r[0].Asked.IsZero() || !r[0].Complete {
			t.Errorf("the part with nothing to write: %+v", r[0])
		}
		if r[1].Elapsed < 4*time.Second || r[1].Writes != 1 || r[1].Reads > 9 ||
			did(r[1]) != "1 done associate shop-vnet/nodes" || len(r[1].Tables) != 2 ||
			!r[1].Complete {
			t.Errorf("the part that writes: %+v", r[1])
		}
		// what both ask for at the same moment counts for one of them
		if r[0].Reads+r[1].Reads == 0 {
			t.Error("neither part has read anything")
		}
		if r[0].Woke.Caller != "a pipeline" || r[1].Woke.Caller != "Ann Example" {
			t.Errorf("woken by %+v and %+v", r[0].Woke, r[1].Woke)
		}
	})
}

// TestSilentCluster: a cluster that has never answered has a finding, too.
func TestSilentCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := apartWorld(t)
		fix := w.inject(emulator.Fault{Method: "GET", Path: "managedClusters/play$|" +
			play.cluster.Subscription() + ".*managedClusters", Cut: "before", Count: -1})
		k := w.run(10*time.Second, w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(time.Minute)
		for _, r := range k.parts(2 * time.Minute) {
			if !slices.Equal(codes(r), []finding.Code{finding.ReadFailed}) ||
				r.Findings[0].Cluster != "play" {
				t.Errorf("of %v: %+v", r.Of, r.Findings)
			}
		}
		fix()
		k.since(2 * time.Minute)
		if len(w.routes(play.target)) != 2 {
			t.Error("it is not managed when it answers")
		}
	})
}

// TestPartedFindings: clusters with writes are reported separately. A finding about a target stays
// with the clusters that have it, and a general finding appears in each report.
func TestPartedFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play, third := w.addCluster("play", "50"), w.addCluster("third", "51")
		double := w.addCluster("double", "50") // with the same pod CIDR as play
		o := Options{Paused: func() string { return "until tomorrow" }}
		k := w.runWith(o, time.Hour, w.demoConfig(), configure("play", play.cluster, play.target),
			configure("double", double.cluster, play.target),
			configure("third", third.cluster, third.target))
		k.since(time.Minute)
		w.strip(w.demo.NodeSubnet, third.subnet)
		k.since(10 * time.Second)
		if _, err := k.Ask(t.Context(),
			Request{Verbs: []plan.Verb{plan.Associate, plan.Create}}); err != nil {
			t.Fatal(err)
		}
		results := k.parts(0)
		if len(results) < 3 {
			t.Fatalf("%d parts", len(results))
		}
		for _, r := range results {
			if !slices.Contains(codes(r), finding.Paused) ||
				!slices.Contains(codes(r), finding.ClustersOverlap) {
				t.Errorf("of %v: %v", r.Of, codes(r))
			}
		}
	})
}

// TestPartedMeanwhile: while one check makes its last reads, another one finds that it shares
// something with it, and waits. It stays out of what the first one is split into.
func TestPartedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := apartWorld(t)
		third := w.addCluster("third", "51")
		running := make(chan *running, 1)
		way := before("GET", "/networkInterfaces", func() {
			w.edit(play.subnet, func(p object) {
				p["routeTable"] = object{"id": string(w.demo.ClusterTable)}
			})
			(<-running).Wake(Event{}, play.subnet)
			time.Sleep(3 * time.Second)
		})
		k := w.runOver(emulatortest.ClientOver(t, way(emulatortest.Transport(t, w.e)), w.e,
			emulatortest.Keeper), Options{}, time.Hour,
			w.demoConfig(), configure("play", play.cluster, play.target), configure("third",
				third.cluster, third.target))
		running <- k
		k.since(time.Minute)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:2] })
		w.strip(w.demo.GatewaySubnet)
		k.since(10 * time.Second)
		woken := time.Now()
		k.Wake(Event{}, w.demo.GatewaySubnet, third.subnet)
		results := k.parts(time.Minute)
		joined := false
		for _, r := range results {
			both := slices.Contains(r.Of, "shop") && slices.Contains(r.Of, "play")
			if both && r.Started.Equal(woken) {
				t.Errorf("a check of %v has not checked all of them", r.Of)
			}
			joined = joined || both
		}
		if !joined {
			t.Errorf("they are not checked together: %+v", results)
		}
	})
}

// TestLongRepair: a lost association whose write does not end is reported. One that is repaired
// soon is not.
func TestLongRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(time.Second, w.demoConfig())
		k.since(time.Minute)
		w.strip(w.demo.NodeSubnet)
		for _, r := range k.since(10 * time.Second) {
			if len(r.Findings) > 0 {
				t.Errorf("a repair of four seconds: %v", r.Findings)
			}
		}
		w.inject(emulator.Fault{Method: "PUT", Path: "subnets/nodes$", Hold: "before"})
		w.strip(w.demo.NodeSubnet)
		last := k.since(19 * time.Second)
		if got := codes(last[len(last)-1]); !slices.Equal(got,
			[]finding.Code{finding.AssociationLost}) {
			t.Errorf("19 seconds after the strip: %v", got)
		}
		last = k.since(3 * time.Minute)
		if r := last[len(last)-1]; len(r.Findings) > 0 || w.tableOf(w.demo.NodeSubnet) == "" {
			t.Errorf("in the end: %v", r.Findings)
		}
	})
}
