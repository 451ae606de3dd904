package keeper

import (
	"cmp"
	"slices"
	"strings"
	"sync"
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

// notes are the recorded answers.
type notes struct {
	noRecorder
	mu    sync.Mutex
	texts []string
}

func (n *notes) Note(changes []plan.Change, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range changes {
		n.texts = append(n.texts, c.Resource.Short()+": "+text)
	}
}

// take returns the answers since the last call.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	texts := n.texts
	n.texts = nil
	return texts
}

// fabricWorld has the demo's network, optionally with a Network Watcher, and a running keeper.
func fabricWorld(t *testing.T, watcher bool) (*world, *running, *notes) {
	w := newWorld(t, slow)
	if watcher {
		w.put(arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg",
			"Microsoft.Network/networkWatchers", "watcher"), object{})
	}
	said := &notes{}
	k := w.runWith(Options{Recorder: said}, 10*time.Second, w.demoConfig())
	k.since(2 * time.Minute)
	said.take()
	return w, k, said
}

func expectNote(t *testing.T, said *notes, parts ...string) {
	t.Helper()
	texts := said.take()
	if len(texts) != 1 {
		t.Fatalf("%d answers: %q", len(texts), texts)
	}
	for _, part := range parts {
		if !strings.Contains(texts[0], part) {
			t.Errorf("%q, want %q in it", texts[0], part)
		}
	}
}

func differs(results []Result) []finding.Finding {
	last := results[len(results)-1]
	return slices.DeleteFunc(slices.Clone(last.Findings), func(f finding.Finding) bool {
		return f.Code != finding.FabricDiffers
	})
}

// TestFabricFollows: after a repair the keeper asks for the next hop of a node: once if the fabric
// follows at once, repeatedly if it lags.
func TestFabricFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, said := fabricWorld(t, true)
		since := w.mark()
		w.strip(w.demo.NodeSubnet)
		k.since(followedFor + time.Second)
		expectNote(t, said, "shop-vnet/nodes: the fabric follows (next hop of aks-nodepool1-",
			": 10.244.", " -> 10.42.1.")
		if n := asks(since()); n != 1 {
			t.Errorf("asked %d times", n)
		}

		lag := w.inject(emulator.Fault{Method: "POST", Path: "/nextHop$", Stale: true, Count: 2})
		since = w.mark()
		w.strip(w.demo.NodeSubnet)
		if r := k.since(70 * time.Second); len(differs(r)) > 0 {
			t.Errorf("what lags is a finding: %v", differs(r))
		}
		expectNote(t, said, "the fabric follows")
		if n := asks(since()); n != 3 {
			t.Errorf("asked %d times", n)
		}
		lag()
	})
}

func asks(requests []emulator.Request) (n int) {
	for _, r := range requests {
		if r.Method == "POST" {
			n++
		}
	}
	return n
}

// TestFabricDiffers: an answer that differs for a minute is a finding until it agrees. If another
// writer changed the resource meanwhile, it is not.
func TestFabricDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, said := fabricWorld(t, true)
		fix := w.inject(emulator.Fault{Method: "POST", Path: "/nextHop$", Stale: true, Count: -1})
		w.strip(w.demo.NodeSubnet)
		found := differs(k.since(100 * time.Second))
		if len(found) != 1 || found[0].Cluster != "shop" ||
			!strings.Contains(found[0].Message, " leads to None, and by shop-rt to 10.42.1.") {
			t.Fatalf("%+v", found)
		}
		expectNote(t, said, "differs")
		if len(differs(k.since(10*time.Minute))) != 1 {
			t.Error("the finding went, and nothing has changed")
		}
		fix()
		if found := differs(k.since(6 * time.Minute)); len(found) > 0 {
			t.Errorf("the finding stays: %v", found)
		}

		fix = w.inject(emulator.Fault{Method: "POST", Path: "/nextHop$", Stale: true, Count: -1})
		w.strip(w.demo.NodeSubnet)
		k.since(40 * time.Second)
		w.inject(emulator.Fault{Method: "PUT", Path: "subnets/nodes", Status: 403, Count: -1})
		w.strip(w.demo.NodeSubnet)
		w.strip(w.demo.NodeSubnet) // so that the previous state has no table either
		if found := differs(k.since(100 * time.Second)); len(found) > 0 {
			t.Errorf("what was stripped again is blamed on the fabric: %v", found)
		}
		expectNote(t, said, "ARM only: it has changed again since")
		fix()
	})
}

// TestFabricARMOnly: without an answer, the reason is reported. Checks continue meanwhile. After a
// refusal the keeper does not ask again.
func TestFabricARMOnly(t *testing.T) {
	for name, c := range map[string]struct {
		watcher bool
		fault   emulator.Fault
		want    string
		asks    int // for two repairs
	}{
		"no watcher": {false, emulator.Fault{Path: "nothing", Status: 500},
			"ARM only: there is no Network Watcher in westeurope", 0},
		"no right": {true, emulator.Fault{Path: "/nextHop$", Status: 403,
			Code: "AuthorizationFailed"},
			"ARM only: AuthorizationFailed: ", 1},
		"refused": {true, emulator.Fault{Path: "/nextHop$", Status: 400, Code: "NotSupported"},
			"ARM only: NotSupported: ", 2},
		"no answer": {true, emulator.Fault{Path: "/nextHop$", Hold: "before"},
			"ARM only: no answer within 1m0s", 2},
		"slow": {true, emulator.Fault{Path: "/nextHop$", Slow: 600},
			"ARM only: no answer within 1m0s", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, said := fabricWorld(t, c.watcher)
				c.fault.Count = -1
				w.inject(c.fault)
				since := w.mark()
				for range 2 {
					w.strip(w.demo.NodeSubnet)
					results := k.since(90 * time.Second)
					if len(results) < 8 || w.tableOf(w.demo.NodeSubnet) == "" ||
						len(differs(results)) > 0 {
						t.Errorf("%d checks, %v", len(results), differs(results))
					}
					expectNote(t, said, c.want)
					k.since(10 * time.Minute)
				}
				if n := asks(since()); n != c.asks {
					t.Errorf("asked %d times, want %d", n, c.asks)
				}
			})
		})
	}
}

// TestFabricOfTarget: after routes were written to a target, the keeper asks about the effective
// routes of a machine in its subnet. It does not ask about a target without machines.
func TestFabricOfTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, said := fabricWorld(t, false)
		jump := w.demo.NodeSubnet.Parent().Child("subnets", "jump")
		w.put(jump, object{"properties": object{
			"addressPrefix": "10.42.9.0/24", "routeTable": object{
				"id": string(w.demo.GatewayTable)},
		}})
		nic := arm.ResourceID(jump.Subscription(), "net-rg", arm.TypeInterface, "jumphost-nic")
		w.put(nic, object{"properties": object{"ipConfigurations": []any{
			object{"name": "ip", "properties": object{"subnet": object{"id": string(jump)}}},
		}}})
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
			t.Fatal(err)
		}
		since := w.mark()
		k.since(3 * time.Minute)
		if texts := said.take(); len(texts) > 0 || asks(since()) > 0 {
			t.Errorf("an interface without a machine: %q", texts)
		}
		machine := arm.ResourceID(jump.Subscription(), "net-rg",
			"Microsoft.Compute/virtualMachines", "jumphost")
		if err := w.op.Put(machine, "2025-04-01",
			object{"location": "westeurope", "properties": object{
				"networkProfile": object{"networkInterfaces": []any{object{"id": string(nic)}}},
			}}); err != nil {
			t.Fatal(err)
		}
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 5); err != nil {
			t.Fatal(err)
		}
		k.since(3 * time.Minute)
		expectNote(t, said, "appgw-rt: the fabric follows (next hop of jumphost: 10.244.4.0/24 -> "+
			"10.42.1.8)")
	})
}

// TestFollowed: a command makes one check, which waits for nothing. Then it asks whether the fabric
// follows all changes, for at most half a minute.
func TestFollowed(t *testing.T) {
	const nodes = "shop-vnet/nodes: "
	for name, c := range map[string]struct {
		fault emulator.Fault
		want  string
		most  time.Duration
		asks  int
	}{
		"follows": {emulator.Fault{Path: "nothing", Status: 500},
			"follows: the fabric follows (next hop of aks-nodepool1-", 5 * time.Second, 1},
		"lags": {emulator.Fault{Path: "/nextHop$", Stale: true, Count: 1},
			"follows: the fabric follows (next hop of aks-nodepool1-", followedFor +
				time.Second, 2},
		"differs": {emulator.Fault{Path: "/nextHop$", Stale: true},
			"the next hop of aks-nodepool1-", followedFor + time.Second, 2},
		"no right": {emulator.Fault{Path: "/nextHop$", Status: 403, Code: "AuthorizationFailed"},
			"ARM only: AuthorizationFailed: ", 5 * time.Second, 1},
		"no answer": {emulator.Fault{Path: "/nextHop$", Hold: "before"},
			"ARM only: no answer within 30s", followedFor + time.Second, 1},
		"ARM hangs": {emulator.Fault{Path: "(virtualNetworks|routeTables)", Hold: "before"},
			"ARM only: ", followedFor + time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				w.put(arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg",
					"Microsoft.Network/networkWatchers", "watcher"), object{})
				w.strip(w.demo.NodeSubnet)
				time.Sleep(10 * time.Second)
				said := &notes{}
				k := New(emulatortest.Client(t, w.e, emulatortest.Keeper),
					[]v1alpha1.ClusterRoutes{w.demoConfig()}, Options{Recorder: said})
				c.fault.Count = cmp.Or(c.fault.Count, -1)
				remove := func() {}
				inject := func() { remove = w.inject(c.fault) }
				if c.fault.Stale {
					inject() // it shows the state before this moment
				}
				began := time.Now()
				r := w.reconcile(k)
				w.expect(r, "1 done associate shop-vnet/nodes\n3 done create appgw-rt")
				if took := time.Since(began); took > 12*time.Second {
					t.Errorf("the check took %s", took)
				}
				if !c.fault.Stale {
					inject()
				}
				since, began := w.mark(), time.Now()
				var got []string
				for _, f := range k.Followed(t.Context(), r) {
					follows := map[bool]string{true: "follows: "}[f.Follows]
					got = append(got, f.Resource.Short()+": "+follows+f.Answer)
				}
				if took := time.Since(began); took > c.most {
					t.Errorf("asking took %s", took)
				}
				slices.Sort(got)
				if len(got) != 2 || !strings.HasPrefix(got[1], nodes+c.want) ||
					!strings.HasPrefix(got[0], "appgw-rt: ARM only: ") {
					t.Errorf("%q, want %q", got, c.want)
				}
				time.Sleep(10 * time.Minute) // a question that hangs counts when it ends
				if n := asks(since()); n != c.asks {
					t.Errorf("asked %d times, want %d", n, c.asks)
				}
				if texts := said.take(); len(texts) != 4 { // one for each change
					t.Errorf("notes %q", texts)
				}
				remove()
				if again := k.Followed(t.Context(), w.reconcile(k)); len(again) > 0 {
					t.Errorf("%+v, and nothing was written", again)
				}
			})
		})
	}
}
