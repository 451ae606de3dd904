package keeper

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
)

// another is one more cluster, with its own network and table.
type another struct{ cluster, subnet, table, target arm.ID }

// addCluster creates a cluster in a resource group of its name, on 10.<net>.1.0/24.
func (w *world) addCluster(name, net string) another {
	return w.addClusterIn(emulator.DefaultSubscription, name, net)
}

func (w *world) addClusterIn(sub, name, net string) another {
	vnet := arm.ResourceID(sub, name+"-rg", arm.TypeVNet, name+"-vnet")
	a := another{
		arm.ResourceID(sub, name+"-rg", arm.TypeCluster, name), vnet.Child("subnets", "nodes"),
		arm.ResourceID(sub, name+"-rg", arm.TypeRouteTable, name+"-rt"), arm.ResourceID(sub, name+
			"-rg", arm.TypeRouteTable, name+"-target"),
	}
	w.put(a.cluster.Group(), object{})
	w.putTable(a.table)
	w.putTable(a.target)
	w.put(vnet, object{
		"properties": object{
			"addressSpace": object{"addressPrefixes": []any{"10." + net + ".0.0/16"}},
			"subnets": []any{
				object{"name": "nodes", "properties": object{"addressPrefix": "10." + net +
					".1.0/24",
					"routeTable": object{"id": string(a.table)}}},
				object{"name": "other",
					"properties": object{"addressPrefix": "10." + net + ".2.0/24"}},
			}}})
	w.put(a.cluster, object{"properties": object{
		"networkProfile": object{"networkPlugin": "kubenet", "podCidr": "10.1" + net + ".0.0/16"},
		"agentPoolProfiles": []any{
			object{"name": "np", "count": 2, "vnetSubnetID": string(a.subnet)}},
	}})
	time.Sleep(time.Minute)
	return a
}

// running is a keeper that runs until the test's function ends.
type running struct {
	*Keeper
	mu      sync.Mutex
	results []Result
	cancel  func()
	stop    func() // and wait
}

func (w *world) run(interval time.Duration, configs ...v1alpha1.ClusterRoutes) *running {
	return w.runWith(Options{}, interval, configs...)
}

func (w *world) runWith(o Options, interval time.Duration,
	configs ...v1alpha1.ClusterRoutes) *running {
	return w.runAs(emulatortest.Keeper, o, interval, configs...)
}

func (w *world) runAs(who emulator.Principal, o Options, interval time.Duration,
	configs ...v1alpha1.ClusterRoutes) *running {
	return w.runOver(emulatortest.Client(w.t, w.e, who), o, interval, configs...)
}

func (w *world) runOver(a Azure, o Options, interval time.Duration,
	configs ...v1alpha1.ClusterRoutes) *running {
	return w.runTold(a, o, interval, func(Result) {}, configs...)
}

func (w *world) runTold(a Azure, o Options, interval time.Duration, tell func(Result),
	configs ...v1alpha1.ClusterRoutes) *running {
	r := &running{Keeper: New(a, configs, o)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- r.Run(ctx, interval, func(result Result) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.results = append(r.results, result)
			tell(result)
		})
	}()
	r.cancel = cancel
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(r.stop)
	return r
}

// since waits, and returns the checks of that time; checks that were reported separately are
// combined.
func (r *running) since(d time.Duration) []Result {
	var whole []Result
	for _, result := range r.parts(d) {
		i := slices.IndexFunc(whole, func(o Result) bool { return o.Started.Equal(result.Started) })
		if i < 0 {
			whole = append(whole, result)
		} else {
			whole[i] = whole[i].combine(result)
		}
	}
	slices.SortStableFunc(whole, func(a, b Result) int { return a.Started.Compare(b.Started) })
	return whole
}

// parts waits, and returns the checks that were reported in that time.
func (r *running) parts(d time.Duration) []Result {
	time.Sleep(d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	results := r.results
	r.results = nil
	return results
}

// TestConcerned: which clusters a resource triggers.
func TestConcerned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		k := w.keep(w.demoConfig(),
			configure("play", play.cluster, play.target, w.demo.GatewayTable))
		w.reconcile(k)
		upper := func(id arm.ID) arm.ID { return arm.ID(strings.ToUpper(string(id))) }
		for _, c := range []struct {
			id   arm.ID
			want int
		}{
			{w.demo.Cluster, 1}, {upper(w.demo.Cluster), 1}, {
				w.demo.Cluster.Child("agentPools", "np"), 1},
			{w.demo.NodeSubnet, 1}, {upper(w.demo.NodeSubnet), 1}, {w.demo.NodeSubnet.Parent(),
				1}, {w.demo.GatewaySubnet, 1},
			{w.demo.ClusterTable, 1}, {w.demo.ClusterTable.Child("routes", "r"), 1}, {
				w.demo.ClusterTable + "/providers/Microsoft.Authorization/locks/l", 1},
			{w.demo.GatewayTable, 2}, {play.target, 1}, {play.table, 1},
			{arm.ResourceID(emulator.DefaultSubscription, "mc_play-rg_play_westeurope",
				arm.TypeScaleSet, "aks-np-vmss"), 1},
			{arm.GroupID(emulator.DefaultSubscription, "MC_play-rg_play_westeurope"), 1},
			{play.subnet.Parent().Child("subnets", "other"), 0}, {
				arm.ResourceID(emulator.DefaultSubscription, "play-rg", arm.TypeRouteTable,
					"stranger"), 0},
			{arm.GroupID(emulator.DefaultSubscription, "play-rg"), 0}, {
				arm.SubscriptionID(emulator.DefaultSubscription), 0}, {"", 0}, {"/", 0},
		} {
			if got := k.Wake(Event{}, c.id); got != c.want {
				t.Errorf("%q wakes %d clusters, want %d", c.id, got, c.want)
			}
		}
		if got := k.Wake(Event{}, w.demo.NodeSubnet, w.demo.ClusterTable, play.table); got != 2 {
			t.Errorf("three resources of two clusters wake %d", got)
		}
	})
}

// TestWoken: an event triggers a check of its cluster at once, without any call for another
// cluster.
func TestWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		config := configure("play", play.cluster, play.target)
		config.Spec.Guard.Mode = v1alpha1.GuardObserve
		k := w.run(time.Hour, w.demoConfig(), config)
		w.strip(play.subnet)
		if r := k.since(time.Minute); len(r) != 1 || r[0].Of != nil || !r[0].Asked.IsZero() ||
			!slices.Equal(codes(r[0]), []finding.Code{finding.AssociationLost}) {
			t.Fatalf("the first checks: %+v", r)
		}
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		if r := k.since(10 * time.Second); len(r) != 0 {
			t.Fatalf("it looked without an event: %+v", r)
		}
		since := w.mark()
		asked := time.Now()
		k.Wake(Event{}, w.demo.NodeSubnet)
		k.Wake(Event{},
			arm.ResourceID(emulator.DefaultSubscription, "rg", arm.TypeRouteTable, "stranger"))
		r := k.since(time.Minute)
		if len(r) != 1 || !slices.Equal(r[0].Of, []string{"shop"}) || !r[0].Asked.Equal(asked) ||
			r[0].Started.Sub(asked) > 10*time.Millisecond {
			t.Fatalf("the checks: %+v", r)
		}
		// the current findings of the other one stay
		w.expect(r[0], "1 done associate shop-vnet/nodes", finding.AssociationLost)
		for _, r := range since() {
			if strings.Contains(r.Path, "play") {
				t.Errorf("a call for the other cluster: %s %s", r.Method, r.Path)
			}
		}
		since = w.mark()
		k.Wake(Event{}, arm.ResourceID(emulator.DefaultSubscription, "rg", arm.TypeRouteTable,
			"stranger"))
		if r := k.since(time.Minute); len(r) > 0 || len(since()) > 0 {
			t.Errorf("a stranger's event led to %+v and %v", r, calls(since()))
		}
	})
}

// TestBurst: any number of events within a second lead to at most two checks of a cluster. An event
// during a check is not lost.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(time.Minute)
		for range 900 {
			k.Wake(Event{}, w.demo.NodeSubnet)
			k.Wake(Event{}, w.demo.ClusterTable, w.demo.GatewayTable)
			time.Sleep(time.Millisecond)
		}
		if r := k.since(time.Minute); len(r) != 2 || r[1].Started.Sub(r[0].Started) < time.Second {
			t.Errorf("1800 events within a second led to %d checks", len(r))
		}
		// The second strip comes while the first is repaired, after that subnet was read.
		w.strip(w.demo.GatewaySubnet)
		time.Sleep(10 * time.Second)
		k.Wake(Event{}, w.demo.GatewaySubnet)
		time.Sleep(500 * time.Millisecond) // the PUT takes four seconds
		w.edit(w.demo.ClusterTable, func(p object) {})
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) {
			p["routes"] = append(p["routes"].([]any), podRoute(9, "10.244.9.0/24", "10.42.1.9"))
		})
		k.Wake(Event{}, w.demo.ClusterTable)
		r := k.since(time.Minute)
		if len(r) != 2 || did(r[0]) != "1 done associate shop-vnet/appgw" ||
			did(r[1]) != "1 done create appgw-rt" {
			t.Errorf("an event during a check: %d checks, %+v", len(r), r)
		}
	})
}

// TestTogether: clusters that share a target are checked together.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play, apart := w.addCluster("play", "50"), w.addCluster("apart", "51")
		k := w.run(time.Hour, w.demoConfig(), configure("play", play.cluster, w.demo.GatewayTable),
			configure("apart", apart.cluster, apart.target))
		k.since(time.Minute)
		w.expectRoutes(w.demo.GatewayTable,
			append(threePods, ownRoute, "10.150.0.0/24>10.50.1.4", "10.150.1.0/24>10.50.1.5")...)
		if err := w.e.Scale(w.demo.Cluster, "nodepool1", 4); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		k.Wake(Event{}, w.demo.ClusterTable)
		r := k.since(time.Minute)
		if len(r) != 1 || !slices.Equal(r[0].Of, []string{"shop", "play"}) ||
			did(r[0]) != "1 done create appgw-rt" {
			t.Errorf("%+v", r)
		}
	})
}

// TestTableOfAnother: a cluster's node subnet gets the table of another cluster, of a group that
// the check does not cover. It is not replaced, as in a check of all clusters.
func TestTableOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play, apart := w.addCluster("play", "50"), w.addCluster("apart", "51")
		config := configure("shop", w.demo.Cluster)
		config.Spec.RouteTableID = string(w.demo.ClusterTable)
		config.Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
		k := w.run(time.Hour, config, configure("play", play.cluster),
			configure("apart", apart.cluster))
		k.since(time.Minute)
		w.edit(w.demo.NodeSubnet, func(p object) {
			p["routeTable"] = object{"id": string(play.table)}
		})
		time.Sleep(10 * time.Second)
		k.Wake(Event{}, w.demo.NodeSubnet)
		r := k.since(time.Minute)
		if len(r) != 1 || !slices.Equal(r[0].Of, []string{"shop", "play"}) {
			t.Fatalf("%+v", r)
		}
		w.expect(r[0], "", finding.AssociationOther)
		// A table that belongs to no cluster is replaced.
		w.edit(w.demo.NodeSubnet, func(p object) {
			p["routeTable"] = object{"id": string(play.target)}
		})
		time.Sleep(10 * time.Second)
		k.Wake(Event{}, w.demo.NodeSubnet)
		if r := k.since(time.Minute); len(r) != 1 ||
			did(r[0]) != "1 done associate shop-vnet/nodes" {
			t.Errorf("%+v", r)
		}
	})
}

// TestIll: a cluster whose calls are answered with errors, each retried with waits, is checked
// separately and less and less often. The other's strips are repaired as fast as usual. Once it
// recovers, it is checked with the others.
func TestIll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "5ab00000-0000-4000-8000-00000000000b"
		opts := slow
		opts.Subscriptions = []string{emulator.DefaultSubscription, other}
		w := newWorld(t, opts)
		play := w.addClusterIn(other, "play", "50")
		k := w.run(10*time.Second, w.demoConfig(), configure("play", play.cluster, play.target))
		k.since(time.Minute)
		fix := w.inject(emulator.Fault{Path: other, Count: -1, Status: 503,
			Code: "ServiceUnavailable", RetryAfter: 20})
		k.since(4 * time.Minute) // the first time it delays the others
		for i := range 5 {
			subnet := []arm.ID{w.demo.NodeSubnet, w.demo.GatewaySubnet}[i%2]
			w.strip(subnet)
			k.since(31 * time.Second)
			if w.tableOf(subnet) == "" {
				t.Error("a strip was not repaired within half a minute")
			}
		}
		alone := 0
		for _, r := range k.since(5 * time.Minute) {
			if slices.Equal(r.Of, []string{"play"}) {
				alone++
			}
			if !slices.ContainsFunc(r.Findings, func(f finding.Finding) bool {
				return f.Code == finding.AzureUnreachable && f.Cluster == "play"
			}) {
				t.Errorf("the finding is gone, or it is taken for an outage of Azure: %+v",
					r.Findings)
			}
		}
		if alone > 7 {
			t.Errorf("it was tried %d times in five minutes", alone)
		}
		fix()
		k.since(90 * time.Second)
		if r := k.since(30 * time.Second); len(r) != 3 || r[0].Of != nil || len(r[2].Findings) > 0 {
			t.Errorf("after it was repaired: %+v", r)
		}
	})
}

// TestReload: a running keeper uses other configs at once. It retains what it remembers of the
// clusters that stay, and reports nothing more of the others.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		lost := configure("lost",
			arm.ResourceID(emulator.DefaultSubscription, "rg", arm.TypeCluster, "lost"))
		k := w.run(time.Hour, w.demoConfig(), lost)
		k.since(time.Minute)
		w.strip(w.demo.NodeSubnet) // its table is remembered, so the log is not read
		time.Sleep(10 * time.Second)
		since := w.mark()
		known := configure("play", play.cluster, play.target)
		known.Spec.RouteTableID = string(play.table)
		k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig(), known})
		r := k.since(time.Minute)
		if len(r) != 1 || !slices.Equal(r[0].Managed, []string{"shop", "play"}) || r[0].Of != nil {
			t.Fatalf("%+v", r)
		}
		w.expect(r[0], "1 done associate shop-vnet/nodes\n2 done create play-target")
		if got := calls(since()); slices.Contains(got, "GET values") {
			t.Errorf("what was known is forgotten: %v", got)
		}
		if k.Wake(Event{}, arm.ID(lost.Spec.ClusterID)) != 0 || k.Wake(Event{}, play.table) != 1 {
			t.Error("events wake by the old config")
		}
		k.since(time.Minute)

		// The source is emptied while the config changes: the nodes exist, so no route is deleted.
		other := w.demoConfig()
		other.Spec.Targets[0].MaxRoutes = 100
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:2] })
		k.Reload([]v1alpha1.ClusterRoutes{other})
		if r := k.since(10 * time.Second); len(r) != 1 || did(r[0]) != "" ||
			!slices.Contains(codes(r[0]), finding.DeletesWithheld) {
			t.Errorf("%+v", r)
		}
	})
}

// TestEventDuringTheFirstCheck: it is not known yet what a cluster uses when an event about it
// arrives. The event is not lost.
func TestEventDuringTheFirstCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		running := make(chan *running, 1)
		// the subnets have been read
		way := before(http.MethodGet, "/"+w.demo.ClusterTable.Name(), func() {
			w.strip(w.demo.NodeSubnet)
			(<-running).Wake(Event{}, w.demo.NodeSubnet)
		})
		k := w.runOver(emulatortest.ClientOver(t, way(emulatortest.Transport(t, w.e)), w.e,
			emulatortest.Keeper), Options{}, time.Hour, configure("shop", w.demo.Cluster))
		running <- k
		k.since(time.Minute)
		if w.tableOf(w.demo.NodeSubnet) == "" {
			t.Error("the event is lost")
		}
	})
}

// TestEventsCoalesce: while a check reads slowly, events wait together for the next one. The last
// event reports a change of something that the slow check had already read; the change is still
// noticed.
func TestEventsCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		var slowly atomic.Bool
		way := roundTrip(func(r *http.Request) (*http.Response, error) {
			if slowly.Load() && strings.Contains(r.URL.Path, "virtualNetworks") {
				time.Sleep(500 * time.Millisecond)
			}
			return emulatortest.Transport(t, w.e).RoundTrip(r)
		})
		k := w.runOver(emulatortest.ClientOver(t, way, w.e, emulatortest.Keeper), Options{},
			time.Hour, w.demoConfig())
		k.since(time.Minute)
		slowly.Store(true)
		k.Wake(Event{}, w.demo.ClusterTable) // it reads subnets until 0.5 s, and then tables
		time.Sleep(100 * time.Millisecond)
		k.Wake(Event{}, w.demo.ClusterTable) // this one waits
		time.Sleep(600 * time.Millisecond)
		w.putTable(w.demo.GatewayTable)
		k.Wake(Event{}, w.demo.GatewayTable)
		k.since(20 * time.Second)
		if got := w.routes(w.demo.GatewayTable); len(got) != 3 {
			t.Errorf("what the last event is about is not seen: %v", got)
		}
	})
}
