package keeper

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// paper is a store of one file. Clusters of different groups use it at the same time.
type paper struct {
	mu sync.Mutex
	of map[string]string
}

func newPaper() *paper { return &paper{of: map[string]string{}} }

func (p *paper) Recall() map[string]Lasting {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]Lasting{}
	for cluster, text := range p.of {
		var l Lasting
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			panic(err)
		}
		all[cluster] = l
	}
	return all
}

func (p *paper) Keep(clusters map[string]Lasting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for cluster, l := range clusters {
		raw, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		p.of[cluster] = string(raw)
	}
}

func (w *world) keepWith(store Store) *Keeper {
	return New(emulatortest.Client(w.t, w.e, emulatortest.Keeper),
		[]v1alpha1.ClusterRoutes{w.demoConfig()}, Options{Store: store})
}

func (w *world) refuse(path string) {
	w.inject(emulator.Fault{Method: "GET", Path: path, Count: -1, Status: 403,
		Code: "AuthorizationFailed"})
}

// TestTableAcrossRestart: no keeper ran when the association was lost, and the activity log shows
// nothing. The keeper uses the table that it remembers, unless that table is gone, has no routes,
// or belonged to another cluster with this name. If another table with routes to the nodes is
// associated now, nothing tells the two apart.
func TestTableAcrossRestart(t *testing.T) {
	cases := map[string]struct {
		before func(w *world, l *Lasting)
		did    string
		codes  []finding.Code
	}{
		"as it was": {func(*world, *Lasting) {}, "1 done associate shop-vnet/nodes", nil},
		"another cluster": {func(_ *world, l *Lasting) { l.NodeGroup += "-other" }, "",
			[]finding.Code{finding.TableUnknown}},
		"other subnets": {func(_ *world, l *Lasting) {
			l.Subnets = []arm.ID{l.Subnets[0] + "-other"}
		}, "", []finding.Code{finding.TableUnknown}},
		"carries nothing": {func(w *world, l *Lasting) {
			l.Table = arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable,
				"empty")
			w.putTable(l.Table)
		}, "", []finding.Code{finding.TableUnknown}},
		"gone": {func(_ *world, l *Lasting) { l.Table += "-gone" }, "",
			[]finding.Code{finding.TableUnknown}},
		"another is there now": {func(w *world, l *Lasting) {
			l.Table = arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable,
				"old")
			w.putTable(l.Table, demoNode(0)+" 10.244.0.0/24 10.42.1.4")
			w.edit(w.demo.NodeSubnet, func(p object) {
				p["routeTable"] = object{"id": string(w.demo.ClusterTable)}
			})
		}, "", []finding.Code{finding.TableUnknown}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				store := newPaper()
				w.reconcile(w.keepWith(store))
				w.strip(w.demo.NodeSubnet)
				known := store.Recall()[w.demo.Cluster.Key()]
				c.before(w, &known)
				store.Keep(map[string]Lasting{w.demo.Cluster.Key(): known})
				time.Sleep(10 * time.Second)
				w.refuse("eventtypes")
				w.expect(w.reconcile(w.keepWith(store)), c.did, c.codes...)
				w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
			})
		})
	}
}

// TestCopyAcrossRestart: a copy of the table is put on the node subnet. The next keeper knows from
// the store, or from the activity log, that it is not the cluster's. It reports the copy as the
// keeper before it did, and does not defend it.
func TestCopyAcrossRestart(t *testing.T) {
	for name, c := range map[string]struct {
		stored, log bool
		code        finding.Code
	}{
		"the store and the log": {true, true, finding.AssociationOther},
		"the log":               {false, true, finding.AssociationOther},
		"the store":             {true, false, finding.TableUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				store := newPaper()
				k := w.keepWith(store)
				w.reconcile(k)
				w.associate(w.demo.NodeSubnet, w.copyOf("hub-rt"))
				w.expect(w.reconcile(k), "", finding.AssociationOther)
				if !c.stored {
					store = newPaper()
				}
				if !c.log {
					w.refuse("eventtypes")
				}
				k = w.keepWith(store)
				for range 2 {
					w.expect(w.reconcile(k), "", c.code)
					time.Sleep(time.Minute)
				}
				w.strip(w.demo.NodeSubnet)
				time.Sleep(10 * time.Second)
				r := w.reconcile(k)
				if table := w.tableOf(w.demo.NodeSubnet); table.Equal(w.copyOf("hub-rt")) ||
					c.log && !table.Equal(w.demo.ClusterTable) {
					t.Errorf("the nodes have %q: %+v", table, r.Findings)
				}
			})
		})
	}
}

// TestAgeAcrossRestart: a node lacks its route for so long that it is an error. A restart does not
// make it a warning again, and a node that only joined before it stays one.
func TestAgeAcrossRestart(t *testing.T) {
	for name, c := range map[string]struct {
		waits time.Duration
		want  finding.Severity
		empty bool // the table has no route to any node
	}{
		"an error":                  {6 * time.Minute, finding.Error, false},
		"an error, the table empty": {6 * time.Minute, finding.Error, true},
		"a warning":                 {2 * time.Minute, finding.Warning, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				store := newPaper()
				w.reconcile(w.keepWith(store))
				w.e.PauseRoutes(w.demo.Cluster, true)
				if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if c.empty {
					w.emptied(w.demo.ClusterTable)
				}
				w.reconcile(w.keepWith(store))
				time.Sleep(c.waits)
				r := w.reconcile(w.keepWith(store))
				i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool {
					return f.Code == finding.NodeWithoutRoute
				})
				if i < 0 || r.Findings[i].Severity != c.want {
					t.Errorf("%+v", r.Findings)
				}
			})
		})
	}
}

// TestOldTableDeletesNothing: the stored table is an old one that lacks a living node, and the
// nodes' interfaces cannot be read. No check deletes anything because of it without proof.
func TestOldTableDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		store := newPaper()
		w.reconcile(w.keepWith(store))
		w.strip(w.demo.NodeSubnet)
		known := store.Recall()[w.demo.Cluster.Key()]
		known.Table = arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable,
			"old")
		old := []string{demoNode(0) + " 10.244.0.0/24 10.42.1.4",
			demoNode(1) + " 10.244.1.0/24 10.42.1.5", demoNode(2) + " 10.244.2.0/24 10.42.1.6"}
		w.putTable(known.Table, old...)
		store.Keep(map[string]Lasting{w.demo.Cluster.Key(): known})
		time.Sleep(10 * time.Second)
		w.refuse("eventtypes")
		w.refuse("networkInterfaces")
		k := w.keepWith(store)
		w.reconcile(k) // nothing is stale in it
		w.putTable(known.Table, old[:2]...)
		for range 3 {
			time.Sleep(10 * time.Second)
			w.expect(w.reconcile(k), "", finding.DeletesWithheld)
		}
	})
}

// TestHadAcrossRestart: what the subnets had last stays stored while they lack it, and what
// replaces it counts from then on.
func TestHadAcrossRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		store := newPaper()
		config := w.demoConfig()
		config.Spec.Guard.Mode = v1alpha1.GuardObserve
		check := func(node, gateway arm.ID) {
			t.Helper()
			w.reconcile(New(emulatortest.Client(w.t, w.e, emulatortest.Keeper),
				[]v1alpha1.ClusterRoutes{config}, Options{Store: store}))
			known := store.Recall()[w.demo.Cluster.Key()].Had
			for subnet, want := range map[arm.ID]arm.ID{w.demo.NodeSubnet: node,
				w.demo.GatewaySubnet: gateway} {
				if got := known[subnet.Key()][inventory.PropertyTable]; !got.Equal(want) {
					t.Errorf("%s had %q, want %q", subnet.Short(), got, want)
				}
			}
			if len(known) != 2 {
				t.Errorf("%d subnets are known", len(known))
			}
		}
		check(w.demo.ClusterTable, w.demo.GatewayTable)
		w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
		check(w.demo.ClusterTable, w.demo.GatewayTable)
		w.associate(w.demo.NodeSubnet, w.copyOf("hub-rt"))
		check(w.copyOf("hub-rt"), w.demo.GatewayTable)
	})
}
