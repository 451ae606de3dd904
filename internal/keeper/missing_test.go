package keeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// drop removes the routes to a prefix from a table, as another writer might.
func (w *world) drop(table arm.ID, prefix string) {
	w.t.Helper()
	w.edit(table, func(p object) {
		var rest []any
		for _, r := range p["routes"].([]any) {
			if r.(object)["properties"].(object)["addressPrefix"] != prefix {
				rest = append(rest, r)
			}
		}
		p["routes"] = rest
	})
}

// of is the finding with a code in a check, nil if there is none.
func of(r Result, code finding.Code) *finding.Finding {
	for i, f := range r.Findings {
		if f.Code == code {
			return &r.Findings[i]
		}
	}
	return nil
}

func (w *world) pauseRoutes(paused bool) {
	w.t.Helper()
	if !w.e.PauseRoutes(w.demo.Cluster, paused) {
		w.t.Fatal("no such cluster")
	}
}

// TestLostRoute: a route that another writer removes from the cluster's table is reported by the
// next check that reads the same, and stays reported until it is back.
func TestLostRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		check := func() *finding.Finding {
			time.Sleep(10 * time.Second)
			return of(w.reconcile(k), finding.NodeWithoutRoute)
		}
		check()
		w.pauseRoutes(true)
		w.drop(w.demo.ClusterTable, "10.244.2.0/24")
		time.Sleep(5 * time.Second) // the operation's time
		if f := check(); f != nil {
			t.Errorf("reported by the first check: %+v", f)
		}
		for i := range 30 {
			f := check()
			if f == nil || f.Severity != finding.Error || len(f.Evidence) != 1 ||
				f.Resource != string(w.demo.ClusterTable) ||
				!strings.Contains(f.Message, "1 node of cluster shop has no route") ||
				!strings.Contains(f.Message, "3 nodes, but pod routes to at most 2") ||
				!strings.Contains(f.Evidence[0], "instance 2 (10.42.1.6): IPv4") {
				t.Fatalf("check %d: %+v", i, f)
			}
		}
		// Another keeper cannot know how old the loss is, and reports it; so does sync.
		r := w.reconcile(w.keep(w.demoConfig()))
		if f := of(r, finding.NodeWithoutRoute); f == nil || f.Severity != finding.Warning ||
			!strings.Contains(strings.Join(f.Evidence, "\n"), "just joining") {
			t.Errorf("the first check of a keeper: %+v", f)
		}
		w.pauseRoutes(false)
		time.Sleep(3 * time.Minute)
		if f := check(); f != nil {
			t.Errorf("the route is back, and it says %+v", f)
		}
	})
}

// TestReaddressed: a node gets another address, and nothing else changes. The cloud provider leaves
// its route as it is, and no count and no table shows that it leads nowhere. The keeper's next read
// of the network interfaces does, and says so until the route is right.
func TestReaddressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(2 * time.Minute)
		w.pauseRoutes(true) // the real one would leave the route, the emulator's writes it again
		rows := w.get(w.demo.ClusterTable)["properties"].(object)["routes"].([]any)
		i := slices.IndexFunc(rows, func(row any) bool {
			return row.(object)["properties"].(object)["addressPrefix"] == "10.244.0.0/24"
		})
		node, _, _ := strings.Cut(rows[i].(object)["name"].(string), "____")
		if err := w.e.Readdress(w.demo.Cluster, node); err != nil {
			t.Fatal(err)
		}
		resolved := 0
		found := func(within time.Duration) (f *finding.Finding) {
			for _, r := range k.since(within) {
				if f = of(r, finding.NodeWithoutRoute); f == nil {
					resolved++
				}
			}
			return f
		}
		for i, within := range []time.Duration{16 * time.Minute, time.Minute, 5 * time.Minute,
			time.Hour} {
			if i == 2 { // Azure does not answer for a while, and then does
				w.inject(emulator.Fault{Method: "GET", Path: "networkInterfaces", Status: 500,
					Count: 20})
			}
			resolved = 0
			if f := found(within); f == nil || f.Severity != finding.Error ||
				!strings.Contains(strings.Join(f.Evidence, "\n"), "; its route leads to 10.42.1.4") {
				t.Errorf("%d: %+v", i, f)
			}
			if i > 0 && resolved > 0 {
				t.Errorf("%d: %d checks said that it is over", i, resolved)
			}
		}
		w.pauseRoutes(false)
		k.since(5 * time.Minute)
		if f := found(time.Minute); f != nil {
			t.Errorf("the route is right, and it says %+v", f)
		}
	})
}

// TestNoFalseAlarm: a healthy cluster is scaled out and in, with a check every ten seconds.
func TestNoFalseAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		for _, count := range []int{8, 5, 9, 3, 12, 11, 12, 4} {
			if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, count); err != nil {
				t.Fatal(err)
			}
			for range 11 {
				time.Sleep(10 * time.Second)
				r := w.reconcile(k)
				for _, code := range []finding.Code{finding.NodeWithoutRoute, finding.TableFull,
					finding.SurgeShort} {
					if f := of(r, code); f != nil {
						t.Errorf("%d nodes: %+v", count, f)
					}
				}
			}
		}
	})
}

// TestNeverRouted: a new node that never gets a route is reported once it has had time to join.
func TestNeverRouted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.pauseRoutes(true)
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for {
			time.Sleep(10 * time.Second)
			age := time.Since(began)
			f := of(w.reconcile(k), finding.NodeWithoutRoute)
			if f != nil && (age < 5*time.Minute || f.Severity != finding.Error ||
				!strings.Contains(f.Evidence[0], "instance 3")) {
				t.Errorf("after %s: %+v", age, f)
			}
			if f != nil {
				break
			}
			if age > 5*time.Minute+20*time.Second {
				t.Fatalf("not reported after %s", age)
			}
		}
		// The finding stays while the problem lasts, and costs few reads: the evidence is reused
		// for a minute.
		since := w.mark()
		for range 6 {
			time.Sleep(10 * time.Second)
			if f := of(w.reconcile(k), finding.NodeWithoutRoute); f == nil ||
				f.Severity != finding.Error {
				t.Errorf("%+v", f)
			}
		}
		sets := 0
		for _, c := range calls(since()) {
			if c == "GET virtualMachineScaleSets" {
				sets++
			}
		}
		if sets != 1 {
			t.Errorf("the network interfaces were read %d times in a minute, want once", sets)
		}
	})
}

// TestFullTable: the cluster's table has 400 routes, and there is one node more. Nothing else
// reports that: its cloud provider tells Kubernetes that the route exists.
func TestFullTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.edit(w.demo.ClusterTable, func(p object) {
			routes := p["routes"].([]any)
			for i := 0; len(routes) < 399; i++ {
				prefix := fmt.Sprintf("172.%d.%d.0/24", 16+i/256, i%256)
				routes = append(routes, route(fmt.Sprint("branch-", i), prefix, "10.99.0.4"))
			}
			p["routes"] = routes
		})
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(k), "") // one fits
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute) // the cloud provider's copy is too old by then
		r := w.reconcile(k)
		if f := of(r, finding.TableFull); f == nil || f.Severity != finding.Warning ||
			!strings.Contains(f.Message, "400 of 400") {
			t.Errorf("a full table with all routes: %+v", r.Findings)
		}
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 5); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(10 * time.Second)
			r = w.reconcile(k)
			f := of(r, finding.TableFull)
			if f == nil || f.Severity != finding.Error || of(r, finding.NodeWithoutRoute) != nil ||
				!strings.Contains(strings.Join(f.Evidence, "\n"), "instance 4 (10.42.1.8): IPv4") {
				t.Errorf("one node more than routes: %+v", r.Findings)
			}
		}
	})
}

// TestUncertainNodes: if the network interfaces cannot be read, only the pools' counts are
// evidence.
func TestUncertainNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.inject(emulator.Fault{Path: "virtualMachineScaleSets", Count: -1, Status: 403,
			Code: "AuthorizationFailed"})
		w.pauseRoutes(true)
		w.drop(w.demo.ClusterTable, "10.244.2.0/24")
		time.Sleep(5 * time.Second)
		r := w.reconcile(w.keep(w.demoConfig()))
		f := of(r, finding.NodeWithoutRoute)
		if f == nil || f.Severity != finding.Warning ||
			!strings.Contains(f.Message, "1 node of cluster shop has no route") ||
			!strings.Contains(strings.Join(f.Evidence, "\n"), "could not be read: ") {
			t.Errorf("%+v", r.Findings)
		}
	})
}

// TestMissingHoldsNoDeletes: network interfaces that were read because new nodes had no route yet
// do not withhold deletes for nodes that were removed later.
func TestMissingHoldsNoDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		since := w.mark()
		scale := func(count int) Result {
			if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, count); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			r := w.reconcile(k)
			time.Sleep(15 * time.Second)
			w.reconcile(k)
			return r
		}
		scale(8)
		if len(w.routes(w.demo.GatewayTable)) != 9 ||
			!strings.Contains(strings.Join(calls(since()), "\n"), "virtualMachineScaleSets") {
			t.Fatalf("this test shows nothing: %v", calls(since()))
		}
		w.expect(scale(2), "6 done delete appgw-rt")
	})
}
