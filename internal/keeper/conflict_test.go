package keeper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// conflictsIn returns the findings of conflicts in a check.
func conflictsIn(r Result) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
		return f.Code != finding.Conflict
	})
}

// TestConflict: a pipeline removes the route table every three minutes. The keeper names the
// pipeline, puts the table back after growing waits, and does not stop. Once the pipeline stops,
// the finding disappears, and the next strip is repaired at once.
func TestConflict(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{10 * time.Second, time.Hour} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.run(interval, w.demoConfig())
				k.since(time.Minute)
				strip := func() {
					w.strip(w.demo.GatewaySubnet)
					time.Sleep(5 * time.Second)
					k.Wake(Event{}, w.demo.GatewaySubnet)
				}
				// from a strip until the table is back; 0: not before the next strip
				var waits []time.Duration
				var last Result
				for i := range 40 {
					strip()
					wait := time.Duration(0)
					for s := range 35 {
						if r := k.since(5 * time.Second); len(r) > 0 {
							last = r[len(r)-1]
						}
						if wait == 0 && w.tableOf(w.demo.GatewaySubnet) != "" {
							wait = time.Duration(s+1) * 5 * time.Second
						}
					}
					waits = append(waits, wait)
					found := conflictsIn(last)
					switch {
					case i < 3 && len(found) > 0:
						t.Errorf("after %d strips: %+v", i+1, found)
					case i < 3:
					case len(found) != 1:
						t.Errorf("after %d strips there is no finding", i+1)
					case i > 6 &&
						!strings.Contains(found[0].Message, emulatortest.Operator.ObjectID):
						t.Errorf("it does not say who it is: %s", found[0].Message)
					}
				}
				repairs := 0
				for i, wait := range waits {
					switch {
					case wait > 0:
						repairs++
						fallthrough
					case i < 4:
						if slow := wait > 15*time.Second; slow != (i > 3) {
							t.Errorf("strip %d was repaired after %s: %v", i, wait, waits)
						}
					}
				}
				if repairs < 15 || repairs > 30 {
					t.Errorf("%d repairs of %d strips: %v", repairs, len(waits), waits)
				}
				k.since(6 * time.Minute)
				if w.tableOf(w.demo.GatewaySubnet) == "" {
					t.Error("it has given up")
				}
				results := k.since(11 * time.Minute)
				if len(results) == 0 || len(results[len(results)-1].Findings) > 0 {
					t.Errorf("ten minutes after the last repair: %+v",
						results[len(results)-1].Findings)
				}
				strip()
				if k.since(10 * time.Second); w.tableOf(w.demo.GatewaySubnet) == "" {
					t.Error("after the conflict a strip is not repaired at once")
				}
			})
		})
	}
}

// TestNoConflict: an operator strips twice, and nodes come and go. That is not a conflict.
func TestNoConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		var results []Result
		for i := range 3 { // the third is the operator's second
			if i > 0 {
				w.strip(w.demo.NodeSubnet)
			}
			for _, n := range []int{5, 3, 5, 3} {
				if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, n); err != nil {
					t.Fatal(err)
				}
				results = append(results, k.since(time.Minute)...)
			}
		}
		for _, r := range results {
			if len(conflictsIn(r)) > 0 {
				t.Fatalf("%+v", r.Findings)
			}
		}
		w.expectSynced()
	})
}

// TestConflictOverRoute: another writer keeps deleting one route. The other routes of the table do
// not wait.
func TestConflictOverRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		var last Result
		for range 10 {
			w.edit(w.demo.GatewayTable, func(p object) {
				p["routes"] = slices.DeleteFunc(p["routes"].([]any), func(r any) bool {
					return r.(object)["properties"].(object)["addressPrefix"] == "10.244.1.0/24"
				})
			})
			results := k.since(time.Minute)
			last = results[len(results)-1]
		}
		f := conflictsIn(last)
		if len(f) != 1 || f[0].Resource != string(w.demo.GatewayTable) || len(f[0].Evidence) != 1 ||
			did(last) != "1 planned create appgw-rt" {
			t.Fatalf("%s: %+v", did(last), f)
		}
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
			t.Fatal(err)
		}
		k.since(55 * time.Second)
		got := w.routes(w.demo.GatewayTable)
		if !slices.Contains(got, "10.244.3.0/24>10.42.1.7") ||
			slices.Contains(got, "10.244.1.0/24>10.42.1.5") {
			t.Errorf("a new route during a conflict over another: %v", got)
		}
		asked, err := k.Ask(context.Background(),
			Request{Cluster: "shop", Verbs: []plan.Verb{plan.Create}})
		if err != nil || did(asked) != "1 done create appgw-rt" {
			t.Errorf("by name it is made at once: %s, %v", did(asked), err)
		}
	})
}

// TestConflictOfTwo: two keepers with different configs want different tables on a subnet. Both
// slow down, more and more, and each names the other.
func TestConflictOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		config := func(table arm.ID) v1alpha1.ClusterRoutes {
			c := w.demoConfig()
			c.Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
			c.Spec.Guard.Subnets[0].RouteTableID = string(table)
			return c
		}
		other := arm.ResourceID(w.demo.GatewayTable.Subscription(), "net-rg", arm.TypeRouteTable,
			"other-rt")
		first := w.run(10*time.Second, config(w.demo.GatewayTable))
		first.since(time.Minute)
		var same []string // with a table that lacks them, pods would lose their routes
		for i, r := range w.routes(w.demo.GatewayTable) {
			if strings.HasPrefix(r, "10.244.") {
				same = append(same, fmt.Sprintf("r%d %s", i, strings.Replace(r, ">", " ", 1)))
			}
		}
		w.putTable(other, same...)
		time.Sleep(5 * time.Second)
		second := w.runAs(emulatortest.Operator, Options{}, 10*time.Second, config(other))
		first.since(30 * time.Minute)
		second.since(0)
		since := w.e.LastRequest()
		a := first.since(time.Hour)
		b := second.since(0)
		writes := 0
		for _, r := range w.e.Requests(since) {
			if r.Method == "PUT" {
				writes++
			}
		}
		if writes > 6 || writes < 1 {
			t.Errorf("%d writes in an hour", writes)
		}
		for i, results := range [][]Result{a, b} {
			for _, r := range results {
				if len(conflictsIn(r)) != 1 {
					t.Fatalf("keeper %d, at %s: %+v", i, r.Started, r.Findings)
				}
			}
			them := []string{emulatortest.Operator.ObjectID, emulatortest.Keeper.ObjectID}[i]
			if f := conflictsIn(results[len(results)-1])[0]; !strings.Contains(f.Message, them) {
				t.Errorf("keeper %d does not name the other: %s", i, f.Message)
			}
		}
	})
}

// TestReloadDuringConflict: a cluster in conflict is renamed during a write. The conflict continues
// under the new name.
func TestReloadDuringConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		for range 5 {
			w.strip(w.demo.NodeSubnet)
			k.since(time.Minute)
		}
		w.strip(w.demo.GatewaySubnet)
		fix := w.inject(emulator.Fault{Method: "PUT", Path: "subnets/appgw", Hold: "before",
			Count: -1})
		k.since(20 * time.Second)
		renamed := w.demoConfig()
		renamed.Metadata.Name = "renamed"
		k.Reload([]v1alpha1.ClusterRoutes{renamed})
		k.since(10 * time.Second)
		fix()
		k.since(2 * time.Minute)
		w.strip(w.demo.NodeSubnet)
		results := k.since(20 * time.Second)
		if found := conflictsIn(results[len(results)-1]); len(found) != 1 ||
			found[0].Cluster != "renamed" {
			t.Errorf("%+v", results[len(results)-1].Findings)
		}
	})
}

// TestConflictGoesOn: occasional failed reads do not delay forever a repair that waits because of
// another writer.
func TestConflictGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		for range 8 {
			w.strip(w.demo.NodeSubnet)
			k.since(90 * time.Second)
		}
		w.strip(w.demo.NodeSubnet)
		for range 10 {
			fix := w.inject(emulator.Fault{Method: "GET", Path: "virtualNetworks", Status: 403,
				Code: "AuthorizationFailed", Count: -1})
			k.since(15 * time.Second)
			fix()
			k.since(45 * time.Second)
		}
		if w.tableOf(w.demo.NodeSubnet) == "" {
			t.Error("not repaired within ten minutes")
		}
	})
}

// TestNodeSubnetsWaitLittle: a node subnet that is stripped repeatedly is repaired within half a
// minute each time.
func TestNodeSubnetsWaitLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		for i := range 15 {
			w.strip(w.demo.NodeSubnet)
			stripped := time.Now()
			for w.tableOf(w.demo.NodeSubnet) == "" && time.Since(stripped) < 10*time.Minute {
				time.Sleep(time.Second)
			}
			// a tick, the wait, the operation
			if took := time.Since(stripped); took > 46*time.Second {
				t.Errorf("strip %d is repaired after %s", i, took)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// TestPolicyUndoes: Azure Policy undoes repairs. The finding names it, and its change is undone
// once every quarter of an hour.
func TestPolicyUndoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		policy := azure.LastWrite{Resource: w.demo.NodeSubnet,
			Operation: "Microsoft.Network/virtualNetworks/subnets/write", Caller: "p",
			Identity: arm.ID("/subscriptions/" + emulator.DefaultSubscription +
				"/providers/Microsoft.Authorization/policyAssignments/no-tables")}
		k := w.runOver(blamed{emulatortest.Client(t, w.e, emulatortest.Keeper), policy}, Options{},
			10*time.Second, w.demoConfig())
		k.since(time.Minute)
		repairs, named := 0, false
		for range 120 { // an hour
			w.strip(w.demo.NodeSubnet)
			for _, r := range k.since(30 * time.Second) {
				if strings.Contains(did(r), "done associate shop-vnet/nodes") {
					repairs++
				}
				for _, f := range conflictsIn(r) {
					named = named || strings.Contains(f.Message, "policy assignment no-tables")
				}
			}
		}
		if !named || repairs < 4 || repairs > 12 {
			t.Errorf("%d repairs in an hour, the policy is named: %t", repairs, named)
		}
	})
}

// blamed shows one writer for all changes that others made.
type blamed struct {
	Azure
	who azure.LastWrite
}

func (b blamed) OthersWrite(context.Context, time.Time, time.Time, ...arm.ID) (azure.LastWrite,
	bool, error) {
	return b.who, true, nil
}

// TestConflictEnds: two keepers have different configs for ever. They name different tables or NAT
// gateways for a node subnet, or different next hops for a default route. Soon neither writes more
// often than every 15 minutes, or every hour, and one of the two says why.
func TestConflictEnds(t *testing.T) {
	for name, differ := range map[string]func(*v1alpha1.Spec, *guarded){
		"table": func(s *v1alpha1.Spec, g *guarded) {
			s.Guard.Subnets[0].RouteTableID = string(g.table)
		},
		"NAT gateway": func(s *v1alpha1.Spec, g *guarded) {
			s.Guard.Subnets[0].NATGatewayID = string(g.nat)
		},
		"default route": func(s *v1alpha1.Spec, g *guarded) {
			s.Egress = v1alpha1.Egress{RouteTableID: s.Guard.Subnets[0].RouteTableID,
				Mode: v1alpha1.GuardEnforce, Routes: []v1alpha1.EgressRoute{{
					AddressPrefix: "0.0.0.0/0", NextHopIPAddress: "10.88.9." + g.table.Name()}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := emptyWorld(t, slow)
				g := w.addGuarded("overlay", "")
				var keepers []*running
				for i, n := range []string{"4", "5"} {
					other := g
					other.table = g.table.Group() + "/providers/Microsoft.Network/routeTables/" +
						arm.ID(n)
					other.nat += arm.ID(n)
					w.putTable(other.table, "egress 0.0.0.0/0 10.88.9.4")
					w.put(other.nat, object{"sku": object{"name": "Standard"}})
					c := g.config
					c.Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
					c.Spec.Guard.Subnets = slices.Clone(c.Spec.Guard.Subnets)
					differ(&c.Spec, &other)
					c.SetDefaults()
					keepers = append(keepers, w.runAs([]emulator.Principal{emulatortest.Keeper,
						emulatortest.Operator}[i], Options{}, time.Minute, c))
				}
				time.Sleep(4 * time.Hour) // the waits double from a minute to their longest in two
				for _, k := range keepers {
					k.parts(0)
				}
				time.Sleep(4 * time.Hour)
				writes, said := 0, 0
				for _, k := range keepers {
					results := k.parts(0)
					for _, r := range results {
						writes += r.Writes
					}
					said += len(conflictsIn(results[len(results)-1]))
				}
				// Each keeper writes every hour, so five times at most, and on a node subnet every
				// 15 minutes, so 17 times.
				if most := map[string]int{"default route": 10}[name]; writes > cmp.Or(most, 34) {
					t.Errorf("%d writes in four hours", writes)
				}
				if said == 0 {
					t.Error("neither says so")
				}
			})
		})
	}
}
