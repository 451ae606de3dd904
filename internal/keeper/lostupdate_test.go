package keeper

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// These tests are about writers that GET and PUT a whole subnet without If-Match, as the cloud
// provider, the Azure File driver and AGIC do (docs/azure.md), on an Azure that does not check the
// keeper's If-Match either.
var unchecked = emulator.Options{IgnoreSubnetETag: true}

// policy is the property that the cloud provider changes in a subnet.
const policy = "privateLinkServiceNetworkPolicies"

// disabled makes the other writer's change to a subnet that it has read.
func disabled(subnet object) object {
	subnet["properties"].(object)[policy] = "Disabled"
	return subnet
}

// expectBoth checks that the node subnet has its table, and the other writer's change.
func (w *world) expectBoth() {
	w.t.Helper()
	p := w.get(w.demo.NodeSubnet)["properties"].(object)
	if got := w.tableOf(w.demo.NodeSubnet); !got.Equal(w.demo.ClusterTable) {
		w.t.Errorf("the subnet has table %q", got)
	}
	if p[policy] != "Disabled" {
		w.t.Errorf("the other writer's change is lost: %v", p)
	}
}

// TestOldReadWritten: the other writer has read the subnet before the keeper's repair, and writes
// what it read afterwards: before the keeper reads its write back, or later.
func TestOldReadWritten(t *testing.T) {
	for name, late := range map[string]bool{"before the read-back": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, unchecked)
				w.strip(w.demo.NodeSubnet)
				old := disabled(w.get(w.demo.NodeSubnet))
				var written atomic.Bool
				k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						answer, err := next.RoundTrip(r)
						if !late && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path,
							"/nodes") && written.CompareAndSwap(false, true) {
							w.put(w.demo.NodeSubnet, old)
						}
						return answer, err
					})
				}, w.demoConfig())
				const first = "1 done associate shop-vnet/nodes"
				w.expect(w.reconcile(k), first+"\n3 done create appgw-rt")
				if late {
					w.put(w.demo.NodeSubnet, old)
					time.Sleep(time.Minute)
					w.expect(w.reconcile(k), first)
				}
				w.expectBoth()
			})
		})
	}
}

// TestWrittenWhileDeciding: the other writer changes the subnet after the keeper's GET, while the
// keeper still waits for the proof that the cluster exists.
func TestWrittenWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, unchecked)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			var read, written atomic.Bool
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				switch get := r.Method == http.MethodGet; {
				case get && strings.HasSuffix(r.URL.Path, "/nodes"):
					read.Store(true)
				case get && read.Load() && strings.Contains(r.URL.Path, "managedClusters") &&
					written.CompareAndSwap(false, true):
					w.put(w.demo.NodeSubnet, disabled(w.get(w.demo.NodeSubnet)))
					time.Sleep(time.Second / 2)
				}
				return answer, err
			})
		}, w.demoConfig())
		w.reconcile(k)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(time.Minute)
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes")
		w.expectBoth()
	})
}

// TestWrittenAtTheLastMoment: the other writer changes the subnet after the last GET. If Azure
// checks If-Match on subnets, nothing is lost. If it does not, the change is lost, and no document
// shows it: this is the limit of what the keeper can do.
func TestWrittenAtTheLastMoment(t *testing.T) {
	for name, opts := range map[string]emulator.Options{"checked": {}, "unchecked": unchecked} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, opts)
				w.strip(w.demo.NodeSubnet)
				k := w.keepOver(before(http.MethodPut, "/nodes", func() {
					w.put(w.demo.NodeSubnet, disabled(w.get(w.demo.NodeSubnet)))
				}), w.demoConfig())
				w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes\n3 done create appgw-rt")
				if !opts.IgnoreSubnetETag {
					w.expectBoth()
					return
				}
				p := w.get(w.demo.NodeSubnet)["properties"].(object)
				if p[policy] != "Enabled" {
					t.Error("nothing was lost: docs/azure.md says otherwise")
				}
			})
		})
	}
}
