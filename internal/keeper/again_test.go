package keeper

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestTargetMadeAgain: a person deletes a target together with its guarded association, and creates
// it again with other routes. The next check fills and associates it. Until then findings report
// it.
func TestTargetMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(2 * time.Minute)
		w.strip(w.demo.GatewaySubnet)
		w.remove(w.demo.GatewayTable)
		since := w.mark()
		results := k.since(30 * time.Second)
		last := results[len(results)-1]
		if of(last, finding.TargetMissing) == nil || of(last, finding.TableMissing) == nil {
			t.Errorf("findings %v", codes(last))
		}
		w.expectNoWrites("while the table is gone", since())
		w.putTable(w.demo.GatewayTable, "theirs 10.61.0.0/16 10.42.3.4")
		k.since(12*time.Second + 2*operation)
		w.expectRoutes(w.demo.GatewayTable, append(threePods, "10.61.0.0/16>10.42.3.4")...)
		if !w.tableOf(w.demo.GatewaySubnet).Equal(w.demo.GatewayTable) {
			t.Error("the gateway subnet is not repaired")
		}
	})
}

// TestClusterTableMadeAgain: a person deletes the cluster's table and creates an empty one with the
// same name. The target keeps its routes to the nodes. An empty table could belong to any cluster,
// so the node subnet gets it only after the cluster's cloud provider has written it.
func TestClusterTableMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.run(10*time.Second, w.demoConfig())
		k.since(2 * time.Minute)
		w.strip(w.demo.NodeSubnet)
		w.remove(w.demo.ClusterTable)
		since := w.mark()
		if r := k.since(15 * time.Second); of(r[len(r)-1], finding.TableMissing) == nil {
			t.Errorf("findings %v", codes(r[len(r)-1]))
		}
		w.expectNoWrites("while the table is gone", since())
		w.putTable(w.demo.ClusterTable, "egress 0.0.0.0/0 10.42.3.4")
		for len(w.routes(w.demo.ClusterTable)) == 1 {
			w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
			k.since(time.Second)
		}
		w.repaired("a table with routes", k, 12*time.Second+operation)
		k.since(5 * time.Minute)
		w.expectSynced()
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

// TestClusterMadeAgainElsewhere: a cluster is deleted and created again with the same name and
// table, in another subnet and with another pod CIDR. The target follows, the new subnet is
// guarded, and the old one belongs to no cluster. While the cluster does not exist, onRemoval
// decides about the copies of its routes. Afterwards they belong to the new cluster and are proven
// stale.
func TestClusterMadeAgainElsewhere(t *testing.T) {
	old, fresh := []string{"10.150.0.0/24>10.50.1.4", "10.150.1.0/24>10.50.1.5"},
		[]string{"10.151.0.0/24>10.50.3.4", "10.151.1.0/24>10.50.3.5"}
	for removal, left := range map[v1alpha1.OnRemoval][]string{
		v1alpha1.RemovalKeep: old, v1alpha1.RemovalPrune: nil,
	} {
		t.Run(string(removal), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				play := w.addCluster("play", "50")
				config := onRemoval(configure("play", play.cluster, play.target), removal)
				w.edit(play.subnet.Parent().Child("subnets", "other"), func(p object) {
					// so that a proof can be found
					p["routeTable"] = object{"id": string(play.target)}
				})
				k := w.run(10*time.Second, config)
				k.since(2 * time.Minute)
				w.expectRoutes(play.target, old...)
				w.remove(play.cluster)
				k.since(6 * time.Minute)
				w.expectRoutes(play.target, left...)
				w.putTable(play.table)
				nodes := play.subnet.Parent().Child("subnets", "green")
				w.put(nodes, object{"properties": object{"addressPrefix": "10.50.3.0/24",
					"routeTable": object{"id": string(play.table)}}})
				time.Sleep(10 * time.Second)
				w.put(play.cluster, object{"properties": object{
					"networkProfile": object{"networkPlugin": "kubenet",
						"podCidr": "10.151.0.0/16"},
					"agentPoolProfiles": []any{
						object{"name": "np", "count": 2, "vnetSubnetID": string(nodes)}}}})
				k.since(5 * time.Minute)
				w.expectRoutes(play.target, fresh...)
				w.strip(nodes, play.subnet)
				k.since(12*time.Second + operation)
				if !w.tableOf(nodes).Equal(play.table) {
					t.Error("the new node subnet is not repaired")
				}
				w.expectNotPutBack(play.subnet, 5*time.Minute)
			})
		})
	}
}

// TestClusterMadeAgainWhileDown: a cluster is created again with another pod CIDR while no keeper
// runs. Nothing remembers the old cluster, and a new node has the address of an old one. A finding
// reports each old copy while it exists. The copy to an address without a node is deleted at once,
// the other one once the new route to its next hop has existed long enough.
func TestClusterMadeAgainWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		play := w.addCluster("play", "50")
		w.edit(play.subnet.Parent().Child("subnets", "other"), func(p object) {
			p["routeTable"] = object{"id": string(play.target)}
		})
		config := configure("play", play.cluster, play.target)
		w.reconcile(w.keep(config))
		w.expectRoutes(play.target, "10.150.0.0/24>10.50.1.4", "10.150.1.0/24>10.50.1.5")
		w.remove(play.cluster)
		w.putTable(play.table)
		w.put(play.cluster, object{"properties": object{
			"networkProfile": object{"networkPlugin": "kubenet", "podCidr": "10.151.0.0/16"},
			"agentPoolProfiles": []any{
				object{"name": "np", "count": 1, "vnetSubnetID": string(play.subnet)}}}})
		time.Sleep(2 * time.Minute)
		k := w.run(10*time.Second, config)
		results := k.since(time.Minute)
		w.expectRoutes(play.target, "10.150.0.0/24>10.50.1.4", "10.151.0.0/24>10.50.1.4")
		for _, r := range results {
			if of(r, finding.RoutesOrphaned) == nil {
				t.Errorf("at %s findings %v", r.Started, codes(r))
			}
		}
		results = k.since(21 * time.Minute) // the activity log can be 20 minutes late
		w.expectRoutes(play.target, "10.151.0.0/24>10.50.1.4")
		if found := results[len(results)-1].Findings; len(found) > 0 {
			t.Errorf("%+v", found)
		}
	})
}

// TestFleetAtRest: 24 clusters of one subscription, each with its own network. At rest each check
// costs one list of networks and one of tables. When all clusters lose their tables at once, the
// next check repairs all of them.
func TestFleetAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		var all []another
		var configs []v1alpha1.ClusterRoutes
		for i := range 24 {
			name := fmt.Sprintf("c%d", i)
			c := w.addCluster(name, fmt.Sprint(40+i))
			all, configs = append(all, c), append(configs, configure(name, c.cluster, c.target))
		}
		k := w.run(10*time.Second, configs...)
		k.since(3 * time.Minute)
		since := w.mark()
		k.since(time.Minute)
		reads := map[string]int{}
		for _, c := range calls(since()) {
			reads[c]++
		}
		// Now and then it reads one cluster's interfaces: four calls.
		looks := reads["GET virtualMachineScaleSets"]
		if reads["GET virtualNetworks"] > 7 || reads["GET routeTables"] > 7 || looks > 4 ||
			len(since())-4*looks > 16 {
			t.Errorf("%d calls in a minute: %v", len(since()), reads)
		}
		for _, c := range all {
			w.strip(c.subnet)
		}
		k.since(12*time.Second + 2*operation)
		for _, c := range all {
			if !w.tableOf(c.subnet).Equal(c.table) {
				t.Errorf("%s is not repaired", c.subnet.Short())
			}
		}
	})
}

// TestThreeSubscriptions: a cluster, its network and its target are in three subscriptions.
// Whatever one of them refuses or fails, the node subnet is repaired while the network's
// subscription answers, and a finding reports the rest.
func TestThreeSubscriptions(t *testing.T) {
	const network, hub = "5ab00000-0000-4000-8000-00000000000b",
		"5ab00000-0000-4000-8000-00000000000c"
	silent := []finding.Code{finding.ReadFailed, finding.AzureUnreachable}
	for name, c := range map[string]struct {
		fault emulator.Fault
		says  []finding.Code
	}{
		"the cluster's refuses": {
			emulator.Fault{Path: "^/subscriptions/" + emulator.DefaultSubscription,
				Status: 403, Code: "AuthorizationFailed"}, []finding.Code{finding.ReadFailed}},
		"the target's fails": {emulator.Fault{Path: "^/subscriptions/" + hub,
			Status: 503, Code: "ServiceUnavailable"}, silent},
		"the target's hangs": {emulator.Fault{Path: "^/subscriptions/" + hub, Hold: "before"},
			silent},
		"the target's throttles": {emulator.Fault{Path: "^/subscriptions/" + hub, Status: 429,
			Code: "SubscriptionRequestsThrottled", RetryAfter: 60},
			[]finding.Code{finding.ReadFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := slow
				opts.Subscriptions = []string{emulator.DefaultSubscription, network, hub}
				w := emptyWorld(t, opts)
				cluster := arm.ResourceID(emulator.DefaultSubscription, "shop-rg", arm.TypeCluster,
					"shop")
				vnet := arm.ResourceID(network, "net-rg", arm.TypeVNet, "vnet")
				table := arm.ResourceID(network, "net-rg", arm.TypeRouteTable, "rt")
				target := arm.ResourceID(hub, "hub-rg", arm.TypeRouteTable, "hub-rt")
				nodes := vnet.Child("subnets", "nodes")
				for _, id := range []arm.ID{cluster, vnet, target} {
					w.put(id.Group(), object{})
				}
				w.putTable(table)
				w.putTable(target, "theirs 10.99.0.0/16 10.98.0.4")
				w.put(vnet, object{"properties": object{
					"addressSpace": object{"addressPrefixes": []any{"10.42.0.0/16"}},
					"subnets": []any{object{"name": "nodes",
						"properties": object{"addressPrefix": "10.42.1.0/24",
							"routeTable": object{"id": string(table)}}}}}})
				w.put(cluster, object{"properties": object{
					"networkProfile": object{"networkPlugin": "kubenet",
						"podCidr": "10.244.0.0/16"},
					"agentPoolProfiles": []any{
						object{"name": "np", "count": 3, "vnetSubnetID": string(nodes)}}}})
				time.Sleep(time.Minute)
				k := w.run(10*time.Second, configure("shop", cluster, target))
				k.since(2 * time.Minute)
				w.expectRoutes(target, append(threePods, "10.99.0.0/16>10.98.0.4")...)
				c.fault.Count = -1
				remove := w.inject(c.fault)
				k.since(5 * time.Minute) // until the cluster's document is old
				for i := range 2 {
					w.strip(nodes)
					k.since(12*time.Second + operation)
					if !w.tableOf(nodes).Equal(table) {
						t.Errorf("strip %d is not repaired", i)
					}
					results := k.since(time.Minute)
					if last := results[len(results)-1]; !says(last, c.says...) {
						t.Errorf("findings %+v", last.Findings)
					}
				}
				remove()
				if err := w.e.Scale(cluster, "np", 4); err != nil {
					t.Fatal(err)
				}
				k.since(4 * time.Minute)
				w.expectRoutes(target,
					append(threePods, "10.244.3.0/24>10.42.1.7", "10.99.0.0/16>10.98.0.4")...)
				if r := k.since(20 * time.Second); len(r[len(r)-1].Findings) > 0 {
					t.Errorf("afterwards: %+v", r[len(r)-1].Findings)
				}
			})
		})
	}
}

// says reports whether a check has a finding of one of the codes.
func says(r Result, any ...finding.Code) bool {
	for _, code := range any {
		if of(r, code) != nil {
			return true
		}
	}
	return false
}

// TestHangingIsTold: if something hangs for the only cluster of a config, a finding names it within
// half a minute, and does not blame Azure as a whole.
func TestHangingIsTold(t *testing.T) {
	for name, c := range map[string]struct{ path, names string }{
		"a target":            {"hub-rg", "hub-rt"},
		"the cluster":         {"managedClusters", "shop"},
		"the cluster's table": {"routeTables/shop-rt$|routeTables$", "shop-rt"},
		"its network":         {"shop-vnet|virtualNetworks$", "shop-vnet"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, _ := attacked(t, Options{ClusterInterval: 5 * time.Second})
				w.inject(emulator.Fault{Method: http.MethodGet, Path: c.path, Hold: "before",
					Count: -1})
				results := k.since(30 * time.Second)
				if len(results) == 0 {
					t.Fatal("no check has ended")
				}
				last := results[len(results)-1]
				f := of(last, finding.ReadFailed)
				if f == nil || !strings.Contains(f.Message, c.names) {
					t.Errorf("%+v", last.Findings)
				}
			})
		})
	}
}

// TestLogRefused: the association is lost before the keeper's first check, so only the activity log
// shows the cluster's table, and the keeper may not read it yet. It repairs the subnet within 90 s
// of the role's assignment.
func TestLogRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		time.Sleep(10 * time.Minute) // until the log shows the cluster's writes
		w.strip(w.demo.NodeSubnet)
		assigned := w.inject(emulator.Fault{Path: "eventtypes", Status: 403,
			Code: "AuthorizationFailed", Count: -1})
		k := w.run(30*time.Second, w.demoConfig())
		results := k.since(5 * time.Minute)
		if last := results[len(results)-1]; !says(last, finding.TableUnknown) {
			t.Errorf("findings %+v", last.Findings)
		}
		assigned()
		k.since(90 * time.Second)
		if got := w.tableOf(w.demo.NodeSubnet); !got.Equal(w.demo.ClusterTable) {
			t.Errorf("the node subnet has %q", got)
		}
	})
}
