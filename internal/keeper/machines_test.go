package keeper

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// blindTo answers the list of the network interfaces that belong to no scale set with an empty one,
// as Azure does for an identity that may not see them.
type blindTo struct {
	http.RoundTripper
	on bool
}

func (b *blindTo) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	list := strings.HasSuffix(r.URL.Path, "/providers/Microsoft.Network/networkInterfaces")
	if err == nil && b.on && list {
		answer.Body = io.NopCloser(strings.NewReader(`{"value":[]}`))
		answer.ContentLength = -1
		answer.Header.Del("Content-Length")
	}
	return answer, err
}

// TestSingleMachines: nodes that are separate virtual machines have routes, and are read from
// their own network interfaces. Routes to living nodes stay while these are not seen, although AKS
// does not say how many machines such a pool has where it says so of others.
func TestSingleMachines(t *testing.T) {
	for kind, name := range map[string]string{
		"VirtualMachines": `^aks-np-\d{8}-vms\d$`, "AvailabilitySet": `^aks-np-\d{8}-\d$`,
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := emptyWorld(t, slow)
				a := w.addClusterOf("single", "60", kind)
				table := w.get(a.table)["properties"].(object)["routes"].([]any)
				for _, r := range table {
					node, _, _ := strings.Cut(r.(object)["name"].(string), "____")
					if !regexp.MustCompile(name).MatchString(node) {
						t.Errorf("a route is named %s", node)
					}
				}
				if len(table) != 3 {
					t.Fatalf("%d routes", len(table))
				}
				blind := &blindTo{}
				k := w.keepOver(func(over http.RoundTripper) http.RoundTripper {
					blind.RoundTripper = over
					return blind
				}, configure("single", a.cluster, a.target))
				w.expect(w.reconcile(k), "3 done create single-target")
				want := w.routes(a.table)

				// The table loses its routes, and the machines are there.
				w.e.PauseRoutes(a.cluster, true)
				w.edit(a.table, func(p object) { p["routes"] = []any{} })
				for _, unseen := range []bool{true, false} {
					blind.on = unseen
					time.Sleep(2 * time.Minute)
					r := w.reconcile(k)
					if did(r) != "" || !slices.Contains(codes(r), finding.DeletesWithheld) {
						t.Errorf("interfaces unseen %t: %s, %v", unseen, did(r), codes(r))
					}
					w.expectRoutes(a.target, want...)
				}
				// One goes, with its interface.
				if err := w.e.Scale(a.cluster, "np", 2); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				if r := w.reconcile(k); did(r) != "1 done delete single-target" {
					t.Errorf("%s, %v", did(r), codes(r))
				}
				w.expectRoutes(a.target, want[:2]...)
				// A node comes back with another address: its route follows.
				w.e.PauseRoutes(a.cluster, false)
				time.Sleep(3 * time.Minute)
				node, _, _ := strings.Cut(w.get(a.table)["properties"].(object)["routes"].([]any)[0].(object)["name"].(string), "____")
				if err := w.e.Readdress(a.cluster, node); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				w.reconcile(k)
				w.expectRoutes(a.target, w.routes(a.table)...)
				if now := w.routes(a.table); slices.Equal(now, want[:2]) {
					t.Errorf("no route has changed: %q", now)
				}
			})
		})
	}
}

// addClusterOf is addCluster with three nodes of another kind.
func (w *world) addClusterOf(name, net, kind string) another {
	a := w.addCluster(name, net)
	w.remove(a.cluster)
	time.Sleep(time.Minute)
	w.putTable(a.table)
	pool := object{"name": "np", "type": kind, "count": 3, "vnetSubnetID": string(a.subnet)}
	if kind == "VirtualMachines" { // as az writes it
		delete(pool, "count")
		pool["virtualMachinesProfile"] = object{"scale": object{"manual": []any{
			object{"size": "Standard_D2s_v5", "count": 2},
			object{"size": "Standard_D4s_v5", "count": 1},
		}}}
	}
	w.put(a.cluster, object{"properties": object{
		"networkProfile":    object{"networkPlugin": "kubenet", "podCidr": "10.160.0.0/16"},
		"agentPoolProfiles": []any{pool},
	}})
	time.Sleep(2 * time.Minute)
	return a
}
