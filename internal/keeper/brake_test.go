package keeper

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestBrakeOverTheWire: the NICs are read when they are needed, and what they say counts.
func TestBrakeOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.round(k)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:1] })
		w.expect(w.round(k), "", finding.BrakeHeld, finding.SourceEmpty)

		time.Sleep(time.Minute) // for so long the evidence that held them back is believed
		remove := w.inject(emulator.Fault{Path: "networkInterfaces", Count: -1, Status: 403, Code: "AuthorizationFailed", Message: "may not read NICs"})
		r := w.round(k)
		w.expect(r, "", finding.BrakeHeld, finding.SourceEmpty)
		if !strings.Contains(r.Findings[0].Message, "may not read NICs") {
			t.Error(r.Findings[0].Message)
		}
		remove()
		// Now the nodes go, all but one.
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.expect(w.round(k), "", finding.BrakeHeld, finding.SourceEmpty) // one contradicts
		w.edit(w.demo.ClusterTable, func(p object) {
			p["routes"] = append(p["routes"].([]any), route("n0", "10.244.0.0/24", "10.42.1.4"))
		})
		time.Sleep(time.Minute)
		w.expect(w.round(k), "2 done delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, ownRoute, threePods[0])
	})
}

// TestBrakeIsNotWorn: an old version of the cluster's table is put back over the true one. The routes it brings are added,
// the living ones are held back, now and when they have become the smaller part.
func TestBrakeIsNotWorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.round(k)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) {
			p["routes"] = append(p["routes"].([]any)[:1], route("o0", "10.244.50.0/24", "10.42.1.50"), route("o1", "10.244.51.0/24", "10.42.1.51"),
				route("o2", "10.244.52.0/24", "10.42.1.52"), route("o3", "10.244.53.0/24", "10.42.1.53"))
		})
		w.expect(w.round(k), "4 done create appgw-rt", finding.BrakeHeld)
		for range 3 {
			time.Sleep(10 * time.Second)
			w.expect(w.round(k), "", finding.BrakeHeld)
		}
		for _, r := range threePods {
			if !slices.Contains(w.routes(w.demo.GatewayTable), r) {
				t.Errorf("%s is gone", r)
			}
		}
	})
}

// TestBrakeIsNotForgotten: between two rounds of the same trouble one cannot read, or the program starts anew. The living
// routes stay held back.
func TestBrakeIsNotForgotten(t *testing.T) {
	for name, path := range map[string]string{"source unreadable": "shop-rt$|/routeTables$", "target unreadable": "appgw-rt$|/routeTables$", "restart": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				k := w.keep(w.demoConfig())
				w.round(k)
				w.e.PauseRoutes(w.demo.Cluster, true)
				w.edit(w.demo.ClusterTable, func(p object) {
					p["routes"] = append(p["routes"].([]any)[:1], route("o0", "10.244.50.0/24", "10.42.1.50"), route("o1", "10.244.51.0/24", "10.42.1.51"),
						route("o2", "10.244.52.0/24", "10.42.1.52"), route("o3", "10.244.53.0/24", "10.42.1.53"))
				})
				w.expect(w.round(k), "4 done create appgw-rt", finding.BrakeHeld)
				if path != "" {
					remove := w.inject(emulator.Fault{Method: "GET", Path: path, Count: -1, Status: 403, Code: "AuthorizationFailed"})
					if r := w.round(k); !slices.Contains(codes(r), finding.ReadFailed) {
						t.Errorf("findings %v", codes(r))
					}
					remove()
				} else {
					k = w.keep(w.demoConfig())
				}
				w.expect(w.round(k), "", finding.BrakeHeld)
				for _, r := range threePods {
					if !slices.Contains(w.routes(w.demo.GatewayTable), r) {
						t.Errorf("%s is gone, and its node lives", r)
					}
				}
			})
		})
	}
}

// TestReimagedNodes: all nodes come back with other pod CIDRs at their old addresses. The new routes are added at once; the
// old ones are believed to be stale when the cluster's table has said so for five minutes, because an old version of the
// table would look the same.
func TestReimagedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.round(k)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) {
			p["routes"] = append(p["routes"].([]any)[:1], route("n0", "10.244.10.0/24", "10.42.1.4"), route("n1", "10.244.11.0/24", "10.42.1.5"), route("n2", "10.244.12.0/24", "10.42.1.6"))
		})
		w.expect(w.round(k), "3 done create appgw-rt", finding.BrakeHeld)
		time.Sleep(4 * time.Minute)
		w.expect(w.round(k), "", finding.BrakeHeld)
		time.Sleep(time.Minute)
		w.expect(w.round(k), "3 done delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, ownRoute, "10.244.10.0/24>10.42.1.4", "10.244.11.0/24>10.42.1.5", "10.244.12.0/24>10.42.1.6")
	})
}

// TestScaleInAtOnce: how many nodes there are is asked when it matters, and not taken from minutes ago.
func TestScaleInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 6); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		k := w.keep(w.demoConfig())
		w.expect(w.round(k), "6 done create appgw-rt")
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		w.expect(w.round(k), "4 done delete appgw-rt")
	})
}

// TestHiddenNodes: lists show what the identity may see. Where the network interfaces of a pool are not among it, they do
// not prove that its nodes are gone.
func TestHiddenNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.put(w.demo.Cluster.Child("agentPools", "hidden"), object{"properties": object{"count": 5, "mode": "User", "vnetSubnetID": string(w.demo.NodeSubnet)}})
		time.Sleep(3 * time.Minute)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && strings.Contains(r.URL.Path, "/virtualMachineScaleSets/aks-hidden-") {
					body := `{"value":[]}`
					response.Body, response.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
				}
				return response, err
			})
		}, w.demoConfig())
		w.expect(w.round(k), "8 done create appgw-rt")
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) { p["routes"] = p["routes"].([]any)[:4] })
		r := w.round(k)
		w.expect(r, "", finding.BrakeHeld)
		if !slices.Contains(r.Findings[0].Evidence, "pool hidden has 5 nodes, and network interfaces of 0 are seen") {
			t.Errorf("%q", r.Findings[0].Evidence)
		}
	})
}
