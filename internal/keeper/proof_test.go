package keeper

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// oldVersion replaces the cluster's table by an old version of it: it leads to four deleted nodes,
// and to no existing one.
func (w *world) oldVersion() {
	w.e.PauseRoutes(w.demo.Cluster, true)
	w.edit(w.demo.ClusterTable, func(p object) {
		p["routes"] = append(p["routes"].([]any)[:1], podRoute(5, "10.244.50.0/24", "10.42.1.50"),
			podRoute(6, "10.244.51.0/24", "10.42.1.51"),
			podRoute(7, "10.244.52.0/24", "10.42.1.52"), podRoute(8, "10.244.53.0/24",
				"10.42.1.53"))
	})
}

// livingStay checks that the gateway's table has the routes to the three nodes.
func (w *world) livingStay() {
	w.t.Helper()
	for _, r := range threePods {
		if !slices.Contains(w.routes(w.demo.GatewayTable), r) {
			w.t.Errorf("%s is gone, and its node lives", r)
		}
	}
}

// TestProofOverTheWire: the NICs are read only when they are needed, and are evidence for each
// route separately.
func TestProofOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		since := w.mark()
		w.reconcile(k)
		if slices.ContainsFunc(calls(since()), func(c string) bool {
			return strings.Contains(c, "networkInterfaces")
		}) {
			t.Error("NICs are read although nothing is stale")
		}
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:1] })
		w.expect(w.reconcile(k), "", finding.DeletesWithheld, finding.SourceEmpty)
		since = w.mark()
		w.reconcile(k)
		if slices.ContainsFunc(calls(since()), func(c string) bool {
			return strings.Contains(c, "networkInterfaces")
		}) {
			t.Error("NICs that withhold deletes are read again at once")
		}

		time.Sleep(time.Minute) // for so long the evidence that withholds them is reused
		remove := w.inject(emulator.Fault{Path: "networkInterfaces", Count: -1, Status: 403,
			Code: "AuthorizationFailed", Message: "may not read NICs"})
		r := w.reconcile(k)
		w.expect(r, "", finding.DeletesWithheld, finding.SourceEmpty)
		if evidence := strings.Join(r.Findings[0].Evidence, " "); strings.Count(evidence,
			"may not read NICs") != 3 {
			t.Error(evidence)
		}
		remove()
		// Now all nodes but one are deleted. Its route stays and the others are deleted, while the
		// cluster's table is still empty.
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.expect(w.reconcile(k), "2 done delete appgw-rt", finding.DeletesWithheld,
			finding.SourceEmpty)
		w.expectRoutes(w.demo.GatewayTable, ownRoute, threePods[0])
		w.edit(w.demo.ClusterTable, func(p object) {
			p["routes"] = append(p["routes"].([]any), podRoute(0, "10.244.0.0/24", "10.42.1.4"))
		})
		w.expect(w.reconcile(k), "")
	})
}

// TestPartOfTheTable: the cluster's table loses routes to existing nodes, first one, then more. No
// check deletes any of them from the gateway's table, however few they are.
func TestPartOfTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		k := w.keep(w.demoConfig())
		w.expect(w.reconcile(k), "10 done create appgw-rt")
		before := w.routes(w.demo.GatewayTable)
		w.e.PauseRoutes(w.demo.Cluster, true)
		for _, lost := range []int{1, 3, 2, 2, 1} {
			w.edit(w.demo.ClusterTable, func(p object) {
				routes := p["routes"].([]any)
				p["routes"] = routes[:len(routes)-lost]
			})
			for range 8 {
				time.Sleep(time.Minute)
				r := w.reconcile(k)
				if did(r) != "" || !slices.Contains(codes(r), finding.DeletesWithheld) {
					t.Errorf("%s, and %v", did(r), codes(r))
				}
			}
			w.expect(w.reconcile(k), "", finding.NodeWithoutRoute, finding.DeletesWithheld)
		}
		w.expectRoutes(w.demo.GatewayTable, before...)
	})
}

// TestOneContradiction: the copy of one route leads to a living node, but the cluster's table has
// no such route. It does not keep the routes of deleted nodes.
func TestOneContradiction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.edit(w.demo.ClusterTable, func(p object) {
			p["routes"] = append(p["routes"].([]any), podRoute(0, "10.244.200.0/24", "10.42.1.4"))
		})
		w.expect(w.reconcile(k), "4 done create appgw-rt")
		time.Sleep(3 * time.Minute) // its cloud provider removes routes without a node
		w.expect(w.reconcile(k), "", finding.DeletesWithheld)
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		w.expect(w.reconcile(k), "2 done delete appgw-rt", finding.DeletesWithheld)
		w.expectRoutes(w.demo.GatewayTable, ownRoute, threePods[0], "10.244.200.0/24>10.42.1.4")
		// for long enough, the table has had only that node's own pod CIDR
		time.Sleep(4 * time.Minute)
		w.expect(w.reconcile(k), "1 done delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, ownRoute, threePods[0])
	})
}

// TestBentSource: another writer changes next hops in the cluster's table: to a firewall, to None,
// and to an address in the node subnet that no node has. The copies do not change.
func TestBentSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.e.PauseRoutes(w.demo.Cluster, true)
		bend := func(i int, properties object) {
			w.edit(w.demo.ClusterTable, func(p object) {
				r := p["routes"].([]any)[i+1].(object)
				properties["addressPrefix"] = r["properties"].(object)["addressPrefix"]
				r["properties"] = properties
			})
		}
		bend(0, object{"nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.42.3.4"})
		bend(1, object{"nextHopType": "None"})
		bend(2, object{"nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.42.1.250"})
		w.reconcile(k)
		time.Sleep(time.Minute)
		// the table's ETag has changed again at the end of the operation; only a stable table is
		// judged
		w.reconcile(k)
		for range 8 {
			time.Sleep(time.Minute)
			w.expect(w.reconcile(k), "", finding.NodeWithoutRoute, finding.UpdatesWithheld,
				finding.DeletesWithheld, finding.SourceHop)
		}
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

// TestBentTarget: another writer changes a pod route of the target to None. The keeper has seen it
// correct, and repairs it.
func TestBentTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.reconcile(k)
		w.edit(w.demo.GatewayTable, func(p object) {
			for _, r := range p["routes"].([]any) {
				if q := r.(object)["properties"].(object); q["addressPrefix"] == "10.244.1.0/24" {
					delete(q, "nextHopIpAddress")
					q["nextHopType"] = "None"
				}
			}
		})
		r := w.reconcile(k)
		w.expect(r, "1 done update appgw-rt")
		if len(r.Changes) != 1 || !r.Changes[0].Repair {
			t.Errorf("%+v", r.Changes)
		}
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

// TestRouteOfAPerson: a person adds a route to a target. It leads to an appliance in the node
// subnet, with a prefix that a node could have. It stays byte for byte.
func TestRouteOfAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.edit(w.demo.GatewayTable, func(p object) {
			p["routes"] = append(p["routes"].([]any),
				route("vip-in-node-subnet", "10.244.200.0/24", "10.42.1.77"))
		})
		w.expect(w.reconcile(k), "3 done create appgw-rt", finding.UnmanagedOverlap)
		for range 8 {
			time.Sleep(time.Minute)
			w.expect(w.reconcile(k), "", finding.UnmanagedOverlap)
		}
		w.expectRoutes(w.demo.GatewayTable,
			append(threePods, ownRoute, "10.244.200.0/24>10.42.1.77")...)
	})
}

// TestOldVersion: an old version replaces the cluster's table. Its routes are added, and the routes
// to living nodes stay, over checks with failing reads and over a restart, even if the NICs cannot
// be read after it.
func TestOldVersion(t *testing.T) {
	for name, path := range map[string]string{"source unreadable": "shop-rt$|/routeTables$",
		"target unreadable": "appgw-rt$|/routeTables$", "restart": "",
		"restart without NICs": "networkInterfaces"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.keep(w.demoConfig())
				w.reconcile(k)
				w.oldVersion()
				w.expect(w.reconcile(k), "4 done create appgw-rt", finding.DeletesWithheld)
				switch {
				case path == "networkInterfaces":
					w.refuse(path)
					k = w.keep(w.demoConfig())
				case path != "":
					remove := w.inject(emulator.Fault{Method: "GET", Path: path, Count: -1,
						Status: 403, Code: "AuthorizationFailed"})
					if r := w.reconcile(k); !slices.Contains(codes(r), finding.ReadFailed) {
						t.Errorf("findings %v", codes(r))
					}
					remove()
				default:
					k = w.keep(w.demoConfig())
				}
				for range 8 {
					time.Sleep(time.Minute)
					w.expect(w.reconcile(k), "", finding.DeletesWithheld)
				}
				w.livingStay()
			})
		})
	}
}

// TestScaleInAtOnce: the number of nodes is read when it matters, not reused from minutes ago.
func TestScaleInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 6); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		k := w.keep(w.demoConfig())
		w.expect(w.reconcile(k), "6 done create appgw-rt")
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		w.expect(w.reconcile(k), "4 done delete appgw-rt")
	})
}

// TestHiddenNodes: lists show only what the identity may see. If it cannot see the network
// interfaces of a pool, the lists do not prove that its nodes are gone.
func TestHiddenNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.put(w.demo.Cluster.Child("agentPools", "hidden"),
			object{"properties": object{"count": 5, "mode": "User",
				"vnetSubnetID": string(w.demo.NodeSubnet)}})
		time.Sleep(3 * time.Minute)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil &&
					strings.Contains(r.URL.Path, "/virtualMachineScaleSets/aks-hidden-") {
					body := `{"value":[]}`
					response.Body, response.ContentLength = io.NopCloser(strings.NewReader(body)),
						int64(len(body))
				}
				return response, err
			})
		}, w.demoConfig())
		w.expect(w.reconcile(k), "8 done create appgw-rt")
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:4] })
		r := w.reconcile(k)
		w.expect(r, "", finding.DeletesWithheld)
		if evidence := strings.Join(r.Findings[0].Evidence, " "); !strings.Contains(evidence,
			"pool hidden has 5 nodes, but IPv4 addresses of only 0 were seen") {
			t.Error(evidence)
		}
	})
}

// TestPoolReplacedWhileDown: a pool in its own subnet is deleted while no keeper runs, and a new
// pool in another subnet gets the same pod CIDRs. In one check, its routes replace the leftover
// ones, and other leftovers are deleted. If another owner's machine is in the old subnet, nothing
// is proven, and the routes stay.
func TestPoolReplacedWhileDown(t *testing.T) {
	for name, c := range map[string]struct {
		between bool // there is a check between the two
		theirs  bool // another owner has a machine in the old subnet
		gone    bool // the old subnet is deleted
		did     string
	}{
		"replaced":            {did: "3 done create appgw-rt\n3 done delete appgw-rt"},
		"a check between":     {between: true, did: "3 done create appgw-rt"},
		"the subnet is gone":  {gone: true, did: "3 done create appgw-rt\n3 done delete appgw-rt"},
		"another owner's NIC": {theirs: true, did: ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				subnet := func(name, prefix string, table arm.ID) arm.ID {
					id := w.demo.NodeSubnet.Parent().Child("subnets", name)
					w.put(id, object{"properties": object{"addressPrefix": prefix,
						"routeTable": object{"id": string(table)}}})
					return id
				}
				blue, green := subnet("blue", "10.42.20.0/24", w.demo.ClusterTable), subnet("green",
					"10.42.21.0/24", w.demo.ClusterTable)
				pool := func(name string, in arm.ID, count int) arm.ID {
					id := w.demo.Cluster.Child("agentPools", name)
					w.put(id, object{"properties": object{"count": count, "mode": "User",
						"vnetSubnetID": string(in)}})
					time.Sleep(3 * time.Minute)
					return id
				}
				old := pool("blue", blue, 3)
				w.expect(w.reconcile(w.keep(w.demoConfig())), "6 done create appgw-rt")
				if status, body := w.op.Do(http.MethodDelete, old, aksAPI, nil); status >= 300 {
					t.Fatalf("%d %s", status, body)
				}
				time.Sleep(5 * time.Minute)
				if c.theirs {
					w.put(arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeInterface,
						"theirs"), object{"properties": object{
						"ipConfigurations": []any{
							object{"name": "ip",
								"properties": object{"subnet": object{"id": string(blue)}}}}}})
				}
				if c.gone {
					if status, body := w.op.Do(http.MethodDelete, blue, networkAPI,
						nil); status >= 300 {
						t.Fatalf("%d %s", status, body)
					}
					time.Sleep(time.Minute)
				}
				if c.between {
					w.expect(w.reconcile(w.keep(w.demoConfig())), "3 done delete appgw-rt")
				}
				pool("green", green, 3)
				// the emulator would reuse the pod CIDRs much later
				w.e.PauseRoutes(w.demo.Cluster, true)
				w.edit(w.demo.ClusterTable, func(p object) {
					for _, r := range p["routes"].([]any) {
						r, q := r.(object), r.(object)["properties"].(object)
						for i, prefix := range []string{"10.244.6.0/24", "10.244.7.0/24",
							"10.244.8.0/24"} {
							if q["addressPrefix"] == prefix {
								q["addressPrefix"] = []string{"10.244.3.0/24", "10.244.4.0/24",
									"10.244.5.0/24"}[i]
								r["name"] = inventory.PodRouteName(inventory.RouteNode(
									r["name"].(string)),
									netip.MustParsePrefix(q["addressPrefix"].(string)))
							}
						}
					}
				})
				k := w.keep(w.demoConfig())
				r := w.reconcile(k)
				if got := did(r); got != c.did {
					t.Errorf("did %q, want %q: %+v", got, c.did, r.Findings)
				}
				if c.theirs {
					if !slices.Contains(codes(r), finding.PrefixTaken) {
						t.Errorf("findings %v", codes(r))
					}
					since := w.mark()
					w.reconcile(k)
					if got := calls(since()); slices.ContainsFunc(got, func(c string) bool {
						return strings.Contains(c, "networkInterfaces")
					}) {
						t.Errorf("what was not proven a moment ago is asked again: %v", got)
					}
					return
				}
				if len(r.Findings) > 0 {
					t.Errorf("%+v", r.Findings)
				}
				w.expectSynced()
			})
		})
	}
}

// TestCountUnread: the current number of nodes cannot be read. The lists show as many as there once
// were, and hide the others. Nothing is proven.
func TestCountUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		scale := func(n int) {
			if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, n); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
		}
		hide := func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err != nil || !strings.HasSuffix(r.URL.Path, "-vmss/networkInterfaces") {
					return response, err
				}
				var list struct{ Value []json.RawMessage }
				if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
					return nil, err
				}
				body := `{"value":[` + string(list.Value[0]) + `]}`
				response.Body, response.ContentLength = io.NopCloser(strings.NewReader(body)),
					int64(len(body))
				return response, nil
			})
		}
		scale(1)
		k := w.keepOver(hide, w.demoConfig())
		w.expect(w.reconcile(k), "1 done create appgw-rt")
		scale(3)
		w.expect(w.reconcile(k), "2 done create appgw-rt")
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:2] })
		before := w.routes(w.demo.GatewayTable)
		w.inject(emulator.Fault{Method: "GET", Path: "managedClusters", Count: -1, Status: 403,
			Code: "AuthorizationFailed"})
		w.expect(w.reconcile(k), "", finding.DeletesWithheld)
		w.expectRoutes(w.demo.GatewayTable, before...)
	})
}
