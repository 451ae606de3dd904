package keeper

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestListRefused: a refused list is replaced by GETs and not tried again. Tables and subnets stay
// readable.
func TestListRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.inject(emulator.Fault{Method: "GET", Path: "(routeTables|virtualNetworks)$", Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		w.inject(emulator.Fault{Method: "GET", Path: "virtualNetworks/shop-vnet$", Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		k := w.keep(w.demoConfig())
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		w.reconcile(k) // learns that the network's list is refused as well
		since := w.mark()
		w.expect(w.reconcile(k), "")
		got := calls(since())
		slices.Sort(got)
		if want := []string{"GET appgw", "GET appgw-rt", "GET nodes",
			"GET shop-rt"}; !slices.Equal(got, want) {
			t.Errorf("a check at rest: %v, want %v", got, want)
		}
	})
}

// TestListShowsLess: a list that silently omits a resource proves nothing; a GET does.
func TestListShowsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err != nil || !strings.HasSuffix(r.URL.Path, "/routeTables") {
					return response, err
				}
				body, err := io.ReadAll(response.Body)
				if err != nil {
					return nil, err
				}
				var list struct {
					Value []json.RawMessage `json:"value"`
				}
				if err := json.Unmarshal(body, &list); err != nil {
					return nil, err
				}
				list.Value = slices.DeleteFunc(list.Value, func(raw json.RawMessage) bool {
					return bytes.Contains(raw, []byte(`"name":"shop-rt"`))
				})
				if body, err = json.Marshal(list); err != nil {
					return nil, err
				}
				response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)),
					int64(len(body))
				return response, nil
			})
		}, w.demoConfig())
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		w.reconcile(k) // learns that the subscription's list shows no more
		since := w.mark()
		w.expect(w.reconcile(k), "")
		got := calls(since())
		slices.Sort(got)
		// The list would cost as much or more, so the next check uses GETs.
		if want := []string{"GET appgw-rt", "GET shop-rt", "GET shop-vnet"}; !slices.Equal(got,
			want) {
			t.Errorf("a check at rest: %v, want %v", got, want)
		}
	})
}

// TestClusterUnreadable: what was known of the cluster still counts, and the finding reports it.
func TestClusterUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		remove := w.inject(emulator.Fault{Path: "managedClusters/shop$", Count: -1, Status: 403,
			Code: "AuthorizationFailed", Message: "may not read the cluster"})
		w.strip(w.demo.NodeSubnet)
		time.Sleep(6 * time.Minute)
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes", finding.ReadFailed)
		remove()
		time.Sleep(time.Minute)
		w.expect(w.reconcile(k), "")
	})
}

// TestNoAnswerAtAll: no answer at all is an error of the whole check if nothing is known yet, and a
// finding later.
func TestNoAnswerAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		remove := w.inject(emulator.Fault{Count: -1, Cut: "before"})
		k := w.keep(w.demoConfig())
		if r, err := k.Reconcile(t.Context()); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, %+v", err, r)
		}
		remove()
		time.Sleep(2 * time.Minute)
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		w.inject(emulator.Fault{Count: -1, Cut: "before"})
		r := w.reconcile(k)
		if !slices.Equal(codes(r), []finding.Code{finding.AzureUnreachable}) || r.Complete {
			t.Errorf("%v, complete %v", codes(r), r.Complete)
		}
	})
}

// TestOutage: while nothing answers, a check does not wait for every call separately, and reports
// one finding.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		remove := w.inject(emulator.Fault{Count: -1, Cut: "before"})
		since, start := w.mark(), time.Now()
		r := w.reconcile(k)
		if took := time.Since(start); took > 20*time.Second || len(since()) > 8 {
			t.Errorf("the check took %s and %d calls", took, len(since()))
		}
		if got := codes(r); !slices.Equal(got, []finding.Code{finding.AzureUnreachable}) {
			t.Errorf("findings %v", got)
		}
		remove()
		w.expect(w.reconcile(k), "")
	})
}

// TestClustersSilent: only AKS gives no answer, which is not an outage of Azure. What is known of
// the cluster still counts.
func TestClustersSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.inject(emulator.Fault{Path: "managedClusters/shop$", Count: -1, Cut: "before"})
		w.strip(w.demo.NodeSubnet)
		time.Sleep(6 * time.Minute)
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes", finding.ReadFailed)
	})
}

// TestGarbledList: an answer that is not a list, for example from a proxy, is replaced by GETs. A
// list that links to itself ends.
func TestGarbledList(t *testing.T) {
	for name, body := range map[string]string{"a page of a proxy": "<html>", "no object": "[]",
		"leads to itself": `{"value":[],"nextLink":"SELF"}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if strings.HasSuffix(r.URL.Path, "/routeTables") {
							text := strings.Replace(body, "SELF", r.URL.String(), 1)
							return &http.Response{StatusCode: 200, Header: http.Header{},
								Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
						}
						return next.RoundTrip(r)
					})
				}, w.demoConfig())
				w.expect(w.reconcile(k), "3 done create appgw-rt")
				w.expect(w.reconcile(k), "")
			})
		})
	}
}

// TestOwnSubnetsAreNotForgotten: one search for the network that AKS created fails. Its subnet is
// still guarded.
func TestOwnSubnetsAreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		sub := emulator.DefaultSubscription
		cluster := arm.ResourceID(sub, "rg", arm.TypeCluster, "plain")
		w.put(cluster.Group(), object{})
		w.put(cluster, object{
			"properties": object{"networkProfile": object{"networkPlugin": "kubenet"},
				"agentPoolProfiles": []any{object{"name": "np", "count": 2}}}})
		time.Sleep(time.Minute)
		k := w.keep(configure("plain", cluster))
		w.reconcile(k)
		subnet := k.idle.mem.clusters[cluster.Key()].aksSubnets[0]
		time.Sleep(6 * time.Minute)
		remove := w.inject(emulator.Fault{Method: "GET",
			Path: "MC_rg_plain_westeurope/providers/Microsoft.Network/virtualNetworks$", Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		w.reconcile(k)
		w.strip(subnet)
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(k), "1 done associate "+subnet.Short())
		remove()
	})
}

// TestOwnSubnetsAfterThrottling: Azure throttles a keeper as soon as it has read the cluster, so it
// cannot list the network that AKS created. It finds and repairs the subnet as soon as Azure
// answers again.
func TestOwnSubnetsAfterThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		cluster := arm.ResourceID(emulator.DefaultSubscription, "rg", arm.TypeCluster, "plain")
		w.put(cluster.Group(), object{})
		w.put(cluster, object{
			"properties": object{"networkProfile": object{"networkPlugin": "kubenet"},
				"agentPoolProfiles": []any{object{"name": "np", "count": 2}}}})
		time.Sleep(time.Minute)
		list := w.get(arm.GroupID(emulator.DefaultSubscription, "MC_rg_plain_westeurope") +
			"/providers/Microsoft.Network/virtualNetworks")["value"].([]any)
		subnets := list[0].(object)["properties"].(object)["subnets"].([]any)
		subnet := arm.ID(subnets[0].(object)["id"].(string))
		w.strip(subnet)
		remove := w.inject(emulator.Fault{Path: "providers/Microsoft.Network", Count: -1,
			Status: 429, Code: "SubscriptionRequestsThrottled", RetryAfter: 17})
		k := w.run(10*time.Second, configure("plain", cluster))
		k.since(95 * time.Second)
		if w.tableOf(subnet) != "" {
			t.Fatal("Azure did not throttle the keeper")
		}
		remove()
		k.since(17*time.Second + k.interval + 6*time.Second)
		if w.tableOf(subnet) == "" {
			t.Error("the subnet is not repaired")
		}
	})
}

// TestReadsOnTime: while lists hang, checks of events end after the next tick has passed. Subnets
// are read at every interval all the same.
func TestReadsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(time.Minute)
		w.inject(emulator.Fault{Method: "GET", Path: "routeTables", Hold: "before", Count: -1})
		for range 20 {
			k.since(9*time.Second + 500*time.Millisecond)
			since := w.mark()
			k.Wake(Event{Caller: "another"}, w.demo.NodeSubnet)
			began := time.Now()
			k.since(2 * time.Minute)
			var reads []time.Time
			for _, r := range since() {
				if strings.HasSuffix(r.Path, "/virtualNetworks/shop-vnet") {
					reads = append(reads, r.Time)
				}
			}
			last := began
			for _, at := range append(reads, time.Now()) {
				if gap := at.Sub(last); gap > k.interval+500*time.Millisecond {
					t.Errorf("no subnet is read from %s to %s", last.Sub(began), at.Sub(began))
				}
				last = at
			}
		}
	})
}

// TestIdleReadsOfOthers: a cluster that is not kubenet costs nothing in a check with nothing to do,
// and a cluster with an unknown table does not read the activity log every time.
func TestIdleReadsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		sub := emulator.DefaultSubscription
		overlay := arm.ResourceID(sub, "shop-rg", arm.TypeCluster, "overlay")
		w.put(overlay, object{"properties": object{
			"networkProfile":    object{"networkPlugin": "azure", "networkPluginMode": "overlay"},
			"agentPoolProfiles": []any{object{"name": "np", "count": 2}},
		}})
		k := w.keep(configure("overlay", overlay))
		w.reconcile(k)
		if r := w.reconcile(k); r.Reads != 0 {
			t.Errorf("the overlay cluster costs %d reads", r.Reads)
		}
		// The subnet is stripped, its table is emptied, and restricted rights hide the table from
		// the log.
		w.strip(w.demo.NodeSubnet)
		w.inject(emulator.Fault{Path: "eventtypes", Count: -1, Status: 403,
			Code: "AuthorizationFailed"})
		time.Sleep(10 * time.Second)
		k = w.keep(configure("shop", w.demo.Cluster))
		w.expect(w.reconcile(k), "", finding.TableUnknown)
		since := w.mark()
		w.expect(w.reconcile(k), "", finding.TableUnknown)
		if got, want := calls(since()), []string{"GET shop-vnet"}; !slices.Equal(got, want) {
			t.Errorf("a check at rest reads %v, want %v", got, want)
		}
	})
}

// TestOneUndecodable: a subnet whose document cannot be decoded is left alone and named. The
// association of another subnet of the same network is restored, in both ways of reading subnets,
// and no route is deleted.
func TestOneUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.edit(w.demo.GatewaySubnet, func(p object) { p["strange"], p["Strange"] = 1, 2 })
		routes := w.routes(w.demo.GatewayTable)
		for range 2 {
			w.strip(w.demo.NodeSubnet)
			time.Sleep(6 * time.Minute)
			r := w.reconcile(k)
			w.expect(r, "1 done associate shop-vnet/nodes", finding.ReadFailed)
			for _, f := range r.Findings {
				if f.Code == finding.ReadFailed && (f.Resource != string(w.demo.GatewaySubnet) ||
					!strings.Contains(f.Message, "shop-vnet/appgw")) {
					t.Errorf("the finding does not name the subnet: %+v", f)
				}
			}
		}
		w.expectRoutes(w.demo.GatewayTable, routes...)
	})
}
