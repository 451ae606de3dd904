package keeper

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

const vpn = "10.60.0.0/16>VirtualNetworkGateway"

var playPods = []string{"10.150.0.0/24>10.50.1.4", "10.150.1.0/24>10.50.1.5"}

// leaving is a world with the clusters shop and play, whose routes are in the gateway's table, next
// to unmanaged routes.
func leaving(t *testing.T) (*world, another) {
	w := newWorld(t, slow)
	play := w.addCluster("play", "50")
	net, far := w.demo.NodeSubnet.Parent(), play.subnet.Parent()
	for from, to := range map[arm.ID]arm.ID{net: far, far: net} {
		w.put(from.Child("virtualNetworkPeerings", "p"), object{"properties": object{
			"remoteVirtualNetwork": object{"id": string(to)}, "allowVirtualNetworkAccess": true,
			"allowForwardedTraffic": true}})
	}
	time.Sleep(10 * time.Second)
	w.addRoutes(w.demo.GatewayTable, "to-a-firewall 10.150.9.0/24 10.50.1.200",
		"short-cut 10.99.0.0/24 10.50.1.4")
	return w, play
}

func (w *world) expectGateway(pods ...[]string) {
	w.t.Helper()
	w.expectRoutes(w.demo.GatewayTable, append(slices.Concat(pods...), vpn,
		"10.150.9.0/24>10.50.1.200", "10.99.0.0/24>10.50.1.4")...)
}

func onRemoval(c v1alpha1.ClusterRoutes, what v1alpha1.OnRemoval) v1alpha1.ClusterRoutes {
	c.Spec.OnRemoval = what
	return c
}

// TestClusterGone: a cluster is deleted, and its config stays.
func TestClusterGone(t *testing.T) {
	appliance := func(w *world, play another) {
		w.put(arm.ResourceID(play.cluster.Subscription(), "play-rg", arm.TypeInterface,
			"appliance"), object{"properties": object{"ipConfigurations": []any{
			object{"name": "main", "properties": object{"subnet": object{"id": string(play.subnet)},
				"privateIPAllocationMethod": "Static", "privateIPAddress": "10.50.1.4"}},
		}}})
	}
	for _, c := range []struct {
		name    string
		removal v1alpha1.OnRemoval
		policy  v1alpha1.Policy
		after   func(w *world, play another) // the cluster is gone
		restart bool
		stays   bool
	}{
		{name: "kept", removal: v1alpha1.RemovalKeep, stays: true},
		{name: "pruned", removal: v1alpha1.RemovalPrune},
		{name: "another machine has the address", removal: v1alpha1.RemovalPrune, after: appliance,
			stays: true},
		{name: "never deletes", removal: v1alpha1.RemovalPrune, policy: v1alpha1.PolicyUpsertOnly,
			stays: true},
		{name: "its network is gone", removal: v1alpha1.RemovalPrune,
			after: func(w *world, play another) {
				w.remove(play.subnet.Parent())
			}},
		{name: "restart, its table is left", removal: v1alpha1.RemovalPrune, restart: true,
			stays: true},
		{name: "restart, its table is off the subnet", removal: v1alpha1.RemovalPrune,
			restart: true, after: func(w *world, play another) {
				w.strip(play.subnet)
			}},
		{name: "restart, kept", removal: v1alpha1.RemovalKeep, restart: true, stays: true,
			after: func(w *world, play another) {
				w.strip(play.subnet)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, play := leaving(t)
				config := onRemoval(configure("play", play.cluster, w.demo.GatewayTable), c.removal)
				if c.policy != "" {
					config.Spec.Targets[0].Policy = c.policy
				}
				k := w.run(10*time.Second, w.demoConfig(), config)
				k.since(2 * time.Minute)
				w.expectGateway(threePods, playPods)
				if c.restart {
					k.stop()
				}
				if status, body := w.op.Do(http.MethodDelete, play.cluster, aksAPI,
					nil); status >= 300 {
					t.Fatalf("%d %s", status, body)
				}
				time.Sleep(10 * time.Second)
				if c.after != nil {
					c.after(w, play)
				}
				if c.restart {
					time.Sleep(time.Minute)
					k = w.run(10*time.Second, w.demoConfig(), config)
				}
				results := k.since(8 * time.Minute)
				f := of(results[len(results)-1], finding.ClusterMissing)
				if f == nil {
					t.Fatalf("findings %v", codes(results[len(results)-1]))
				}
				if !c.stays {
					w.expectGateway(threePods)
					if strings.Contains(f.Message, "stay") {
						t.Errorf("%+v", f)
					}
					return
				}
				w.expectGateway(threePods, playPods)
				says := "routes to its pods remain"
				if c.restart { // nothing remembers whose they are
					says = "routes like those to its pods remain"
				}
				if !strings.HasSuffix(f.Message, "does not exist; "+says+": 2 in appgw-rt") ||
					len(f.Evidence) != 2 ||
					!strings.Contains(f.Fix, "routekeeper sync prune --subscription "+
						play.cluster.Subscription()+" --table ") {
					t.Errorf("%+v", f)
				}
			})
		})
	}
}

// TestClusterGoneLate: the deletes for a cluster that is gone wait for a minute, and meanwhile a
// machine gets the address of one of its nodes. The routes stay.
func TestClusterGoneLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := leaving(t)
		k := w.run(10*time.Second, w.demoConfig(),
			onRemoval(configure("play", play.cluster, w.demo.GatewayTable), v1alpha1.RemovalPrune))
		k.since(2 * time.Minute)
		w.busyOnce("/appgw-rt", func() {
			w.put(arm.ResourceID(play.cluster.Subscription(), "play-rg", arm.TypeInterface,
				"appliance"), object{"properties": object{"ipConfigurations": []any{object{
				"name": "a", "properties": object{"subnet": object{"id": string(play.subnet)},
					"privateIPAllocationMethod": "Static", "privateIPAddress": "10.50.1.4"}}}}})
		})
		w.remove(play.cluster)
		k.since(8 * time.Minute)
		w.expectGateway(threePods, playPods)
	})
}

// busyOnce lets the next PUT of a resource wait for a minute, in which something happens.
func (w *world) busyOnce(path string, meanwhile func()) {
	w.t.Helper()
	w.inject(emulator.Fault{Method: "PUT", Path: path + "$", Status: 429,
		Code: "RetryableErrorDueToAnotherOperation", RetryAfter: 60})
	since := w.mark()
	go func() {
		for !slices.ContainsFunc(since(), func(r emulator.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.Path, path)
		}) {
			time.Sleep(time.Second)
		}
		meanwhile()
	}()
}

// TestClusterNotGone: something answers 404 for an existing cluster, once or all the time.
func TestClusterNotGone(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"nodes are there": {Method: "GET", Path: "managedClusters(/play)?$", Status: 404,
			Code: "ResourceNotFound", Count: -1},
		"once, it is stopped": {Method: "GET", Path: "managedClusters(/play)?$", Status: 404,
			Code: "ResourceNotFound", Count: 2},
		"not by Azure": {Method: "GET", Path: "managedClusters(/play)?$", Status: 404,
			Code: "NotFound", Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, play := leaving(t)
				k := w.run(10*time.Second, w.demoConfig(),
					onRemoval(configure("play", play.cluster, w.demo.GatewayTable),
						v1alpha1.RemovalPrune))
				k.since(2 * time.Minute)
				if name != "nodes are there" {
					if status, body := w.op.Do(http.MethodPost, play.cluster+"/stop", aksAPI,
						nil); status >= 300 {
						t.Fatalf("%d %s", status, body)
					}
					time.Sleep(time.Minute)
				}
				w.inject(fault)
				k.since(10 * time.Minute)
				w.expectGateway(threePods, playPods)
			})
		})
	}
}

// TestConfigRemoved: a person removes the config of a working cluster from a running keeper.
func TestConfigRemoved(t *testing.T) {
	for _, c := range []struct {
		name    string
		removal v1alpha1.OnRemoval
		opts    Options
		then    func(w *world, k *running, play v1alpha1.ClusterRoutes)
		says    string
		stays   bool
	}{
		{name: "pruned", removal: v1alpha1.RemovalPrune, says: "its routes were deleted",
			then: func(w *world, k *running, _ v1alpha1.ClusterRoutes) {
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
			}},
		{name: "kept", removal: v1alpha1.RemovalKeep, says: "its routes stay", stays: true,
			then: func(w *world, k *running, _ v1alpha1.ClusterRoutes) {
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
			}},
		{name: "all at once", removal: v1alpha1.RemovalPrune, says: "looks like a mistake",
			stays: true, then: func(w *world, k *running, _ v1alpha1.ClusterRoutes) {
				k.Reload(nil)
			}},
		{name: "paused", removal: v1alpha1.RemovalPrune, says: "is paused", stays: true,
			then: func(w *world, k *running, _ v1alpha1.ClusterRoutes) {
				k.opts.Paused = func() string { return "until tomorrow" }
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
			}},
		{name: "renamed", removal: v1alpha1.RemovalPrune, stays: true,
			then: func(w *world, k *running, play v1alpha1.ClusterRoutes) {
				play.Metadata.Name = "theatre"
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig(), play})
			}},
		{name: "and configured again", removal: v1alpha1.RemovalPrune, stays: true,
			then: func(w *world, k *running, play v1alpha1.ClusterRoutes) {
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig(), play})
			}},
		{name: "and configured again within two minutes, twice", removal: v1alpha1.RemovalPrune,
			says: "configured again", stays: true,
			then: func(w *world, k *running, play v1alpha1.ClusterRoutes) {
				for range 2 { // a file that is copied slowly
					k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
					k.since(110 * time.Second)
					w.expectGateway(threePods, playPods)
					k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig(), play})
				}
			}},
		{name: "and the next config is refused", removal: v1alpha1.RemovalPrune, stays: true,
			then: func(w *world, k *running, _ v1alpha1.ClusterRoutes) {
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
				k.since(time.Minute)
				k.HoldRemovals(true)
			}},
		{name: "and then all others are gone", removal: v1alpha1.RemovalPrune, stays: true,
			then: func(w *world, k *running, _ v1alpha1.ClusterRoutes) {
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
				k.since(time.Minute)
				k.Reload(nil)
			}},
		{name: "after the cluster was deleted", removal: v1alpha1.RemovalPrune,
			says: "its routes were deleted",
			then: func(w *world, k *running, play v1alpha1.ClusterRoutes) {
				w.remove(arm.ID(play.Spec.ClusterID))
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
				k.since(5 * time.Second)
				w.expectGateway(threePods)
			}},
		{name: "while a write of the target continues",
			removal: v1alpha1.RemovalPrune, says: "its routes were deleted",
			then: func(w *world, k *running, _ v1alpha1.ClusterRoutes) {
				w.e.Scale(w.demo.Cluster, w.demo.Pool, 3)
				w.drop(w.demo.GatewayTable, "10.244.0.0/24")
				k.Wake(Event{}, w.demo.GatewayTable)
				time.Sleep(time.Second)
				k.Reload([]v1alpha1.ClusterRoutes{w.demoConfig()})
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, play := leaving(t)
				config := onRemoval(configure("play", play.cluster, w.demo.GatewayTable), c.removal)
				var log bytes.Buffer
				o := c.opts
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
				k := w.runWith(o, 10*time.Second, w.demoConfig(), config)
				k.since(2 * time.Minute)
				w.expectGateway(threePods, playPods)
				c.then(w, k, config)
				k.since(4 * time.Minute)
				if c.stays {
					w.expectGateway(threePods, playPods)
				} else {
					w.expectGateway(threePods)
				}
				w.expectRoutes(play.table, playPods...)
				k.stop()
				if !strings.Contains(log.String(), c.says) {
					t.Errorf("the log lacks %q:\n%s", c.says, log.String())
				}
			})
		})
	}
}
