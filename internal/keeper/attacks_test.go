package keeper

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// attacked is a keeper of one cluster, checked every 10 seconds, with a second target in a hub's
// subscription.
func attacked(t *testing.T, o Options) (*world, *running, arm.ID) {
	const hub = "5ab00000-0000-4000-8000-00000000000b"
	opts := slow
	opts.Subscriptions = []string{emulator.DefaultSubscription, hub}
	w := newWorld(t, opts)
	table := arm.ResourceID(hub, "hub-rg", arm.TypeRouteTable, "hub-rt")
	w.put(table.Group(), object{})
	w.putTable(table, "theirs 10.99.0.0/16 10.98.0.4")
	c := w.demoConfig()
	c.Spec.Targets = append(c.Spec.Targets, configure("", "", table).Spec.Targets...)
	k := w.runWith(o, 10*time.Second, c)
	k.since(2 * time.Minute)
	w.expectRoutes(table, append(threePods, "10.99.0.0/16>10.98.0.4")...)
	return w, k, table
}

// operation is how long a write takes, including the poll that shows its end.
const operation = 5 * time.Second

// repaired checks that the node subnet has its table after some time.
func (w *world) repaired(what string, k *running, within time.Duration) {
	w.t.Helper()
	k.since(within)
	if got := w.tableOf(w.demo.NodeSubnet); !got.Equal(w.demo.ClusterTable) {
		w.t.Errorf("%s: after %s the node subnet has the table %q", what, within, got)
	}
}

// TestHangingHoldsNothingUp: with one cluster in the config, whatever else hangs, is slow, refused
// or throttled, a lost association is repaired within an interval and two seconds, again and again.
func TestHangingHoldsNothingUp(t *testing.T) {
	get := func(path string) emulator.Fault {
		return emulator.Fault{Method: "GET", Path: path, Hold: "before", Count: -1}
	}
	refused := func(path string) emulator.Fault {
		return emulator.Fault{Method: "GET", Path: path, Status: 403, Code: "AuthorizationFailed",
			Count: -1}
	}
	for name, c := range map[string]struct {
		faults []emulator.Fault
		scale  int // 0: not
	}{
		"GET of a target hangs": {[]emulator.Fault{get("hub-rg")}, 4},
		"AKS hangs":             {[]emulator.Fault{get("managedClusters")}, 0},
		"NIC lists hang": {
			[]emulator.Fault{get("networkInterfaces|virtualMachineScaleSets")}, 1},
		"the activity log hangs": {[]emulator.Fault{get("eventtypes")}, 0},
		"GET of its table hangs": {[]emulator.Fault{get("routeTables/shop-rt$|routeTables$")}, 0},
		"GET of its table is denied": {[]emulator.Fault{refused("routeTables/shop-rt$"),
			refused("routeTables$")}, 0},
		"PUT of a target is slow": {
			[]emulator.Fault{{Method: "PUT", Path: "routeTables/", Slow: 400, Count: -1}}, 4},
		"PUT of a target hangs": {
			[]emulator.Fault{{Method: "PUT", Path: "routeTables/", Hold: "after", Count: -1}}, 4},
		"AKS throttles": {
			[]emulator.Fault{{Method: "GET", Path: "managedClusters", Status: 429,
				Code:       "TooManyRequests",
				RetryAfter: 60, Count: -1}}, 0},
		"lists hang": {[]emulator.Fault{get("(routeTables|virtualNetworks)$")}, 0},
		"GET of its network hangs": {
			[]emulator.Fault{get("virtualNetworks/shop-vnet$")}, 1},
		"GET of its network and lists hang": {
			[]emulator.Fault{get("virtualNetworks/shop-vnet$|(routeTables|virtualNetworks)$")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, _ := attacked(t, Options{ClusterInterval: 5 * time.Second})
				for _, f := range c.faults {
					w.inject(f)
				}
				if c.scale > 0 {
					if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, c.scale); err != nil {
						t.Fatal(err)
					}
					// the keeper reads, or writes, the resource that hangs
					k.since(40 * time.Second)
				}
				for i := range 2 {
					w.strip(w.demo.NodeSubnet)
					w.repaired(fmt.Sprintf("strip %d", i), k, 12*time.Second+operation)
					k.since(47 * time.Second)
				}
			})
		})
	}
}

// TestOtherSubnetHangs: the keeper writes another subnet of the same network, and Azure does not
// answer. A node subnet has its table back within an interval and two seconds.
func TestOtherSubnetHangs(t *testing.T) {
	for _, phase := range []time.Duration{0, 3, 6, 9} {
		synctest.Test(t, func(t *testing.T) {
			w, k, _ := attacked(t, Options{})
			w.inject(emulator.Fault{Method: "PUT", Path: "subnets/appgw$", Hold: "before",
				Count: -1})
			w.strip(w.demo.GatewaySubnet)
			k.since((11 + phase) * time.Second)
			w.strip(w.demo.NodeSubnet)
			w.repaired(fmt.Sprint("phase ", int(phase)), k, 12*time.Second)
			if got := w.tableOf(w.demo.GatewaySubnet); got != "" {
				t.Errorf("the other subnet does not hang, it has the table %q", got)
			}
		})
	}
}

// TestThrottledForADay: Azure throttles reads of the network with a Retry-After of a day. A probe
// finds out within half a minute that Azure answers again.
func TestThrottledForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, _ := attacked(t, Options{})
		w.inject(emulator.Fault{Method: "GET", Path: "virtualNetworks|routeTables", Status: 429,
			Code: "SubscriptionRequestsThrottled", RetryAfter: 86400})
		k.since(10 * time.Second)
		w.strip(w.demo.NodeSubnet)
		w.repaired("after one 429", k, 30*time.Second+12*time.Second+operation)
	})
}

// TestRefusalsEnd: the subnet's PUT is refused, or its operation fails, for some time. Once Azure
// accepts it again, the association is repaired: at most a minute after a refusal, and at the next
// check after a canceled operation.
func TestRefusalsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		f      emulator.Fault
		lasts  time.Duration
		within time.Duration
	}{
		"role": {emulator.Fault{Status: 403, Code: "AuthorizationFailed"}, 75 * time.Second,
			time.Minute},
		"lock": {emulator.Fault{Status: 409, Code: "ScopeLocked"}, 75 * time.Second, time.Minute},
		"an hour": {emulator.Fault{Status: 403, Code: "AuthorizationFailed"}, time.Hour,
			time.Minute},
		"canceled": {emulator.Fault{Fail: true, Code: "Canceled"}, 15 * time.Second,
			20 * time.Second},
		"preempted": {emulator.Fault{Fail: true, Code: "OperationPreempted"}, 15 * time.Second,
			20 * time.Second},
		"superseded": {emulator.Fault{Fail: true,
			Code: "CanceledAndSupersededDueToAnotherOperation"},
			15 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, _ := attacked(t, Options{})
				w.strip(w.demo.NodeSubnet)
				c.f.Method, c.f.Path, c.f.Count = http.MethodPut, "subnets/nodes$", -1
				fix := w.inject(c.f)
				k.since(c.lasts)
				fix()
				w.repaired("after the fault", k, c.within+12*time.Second+operation)
				if state := w.get(w.demo.NodeSubnet)["properties"].(object)["provisioningState"]; state != "Succeeded" {
					t.Errorf("the subnet is %v", state)
				}
			})
		})
	}
}

// TestTwoKeepers: two keepers with the same config, nodes that come and go, strips and other
// writers. Everything is in sync within a minute, no unmanaged route is lost, and at rest neither
// keeper writes.
func TestTwoKeepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, hub := attacked(t, Options{})
		c := w.demoConfig()
		c.Spec.Targets = append(c.Spec.Targets, configure("", "", hub).Spec.Targets...)
		w.run(10*time.Second, c)
		theirs := []string{"10.99.0.0/16>10.98.0.4"}
		for i := range 12 {
			if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 1+i*5%9); err != nil {
				t.Fatal(err)
			}
			if i%6 == 0 {
				w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
			}
			w.addRoutes(hub, fmt.Sprintf("u%d 172.16.%d.0/24 10.98.0.4", i, i))
			theirs = append(theirs, fmt.Sprintf("172.16.%d.0/24>10.98.0.4", i))
			k.since(time.Duration(10+i*7%30) * time.Second)
		}
		k.since(5 * time.Minute)
		pods := slices.DeleteFunc(w.routes(w.demo.ClusterTable), func(r string) bool {
			return r[:3] == "0.0"
		})
		if len(pods) != 1+11*5%9 {
			t.Fatalf("the cluster's table holds %v", pods)
		}
		w.expectRoutes(hub, append(theirs, pods...)...)
		w.expectRoutes(w.demo.GatewayTable, append([]string{ownRoute}, pods...)...)
		w.repaired("in the end", k, 0)
		since := w.mark()
		k.since(10 * time.Minute)
		if puts := slices.DeleteFunc(since(), func(r emulator.Request) bool {
			return r.Method == http.MethodGet
		}); len(puts) > 0 {
			t.Errorf("%d writes at rest: %v", len(puts), calls(puts))
		}
	})
}

// TestListsFail: with several clusters in a subscription, networks are read by lists. If these fail
// in any way, GETs replace them, and the next check repairs a strip.
func TestListsFail(t *testing.T) {
	for name, f := range map[string]emulator.Fault{
		"cut": {Cut: "before"}, "cut late": {Cut: "after"}, "hang": {Hold: "before"},
		"error": {Status: 503}, "busy": {Status: 429, Code: "RetryableError", RetryAfter: 20},
		"refused": {Status: 403, Code: "AuthorizationFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				configs := []v1alpha1.ClusterRoutes{w.demoConfig()}
				for i := range 4 {
					c := w.addCluster(fmt.Sprintf("c%d", i), fmt.Sprint(12+i))
					configs = append(configs, configure(fmt.Sprintf("c%d", i), c.cluster, c.target))
				}
				k := w.run(30*time.Second, configs...)
				k.since(2 * time.Minute)
				f.Method, f.Path, f.Count = http.MethodGet, "(routeTables|virtualNetworks)$", -1
				w.inject(f)
				for i := range 2 {
					w.strip(w.demo.NodeSubnet)
					w.repaired(fmt.Sprintf("strip %d", i), k, 32*time.Second+operation)
					k.since(67 * time.Second)
				}
			})
		})
	}
}

// slowed delays calls whose path has this suffix.
type slowed struct {
	http.RoundTripper
	ending string
	by     time.Duration
}

func (s slowed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, s.ending) {
		select {
		case <-time.After(s.by):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return s.RoundTripper.RoundTrip(r)
}

// TestSlowLists: a list of networks always takes four seconds, but does not hang. The keeper waits
// for it: no GETs replace it, nothing is reported, and a strip is repaired.
func TestSlowLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		configs := []v1alpha1.ClusterRoutes{w.demoConfig()}
		for i := range 4 {
			c := w.addCluster(fmt.Sprintf("c%d", i), fmt.Sprint(12+i))
			configs = append(configs, configure(fmt.Sprintf("c%d", i), c.cluster, c.target))
		}
		over := slowed{emulatortest.Transport(t, w.e), "/virtualNetworks", 4 * time.Second}
		k := w.runOver(emulatortest.ClientOver(t, over, w.e, emulatortest.Keeper), Options{},
			10*time.Second, configs...)
		k.since(2 * time.Minute)
		asked := w.mark()
		for _, r := range k.since(2 * time.Minute) {
			for _, f := range r.Findings {
				t.Errorf("%s: %s", f.Code, f.Message)
			}
		}
		for _, r := range asked() {
			if strings.Contains(r.Path, "/virtualNetworks/") {
				t.Errorf("%s %s", r.Method, r.Path)
			}
		}
		w.strip(w.demo.NodeSubnet)
		w.repaired("a list takes 4 s", k, 16*time.Second+operation)
	})
}
