package keeper

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestSharedIdentity: two clusters have one identity, which last wrote the table of the other
// cluster.
func TestSharedIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		group := arm.GroupID(emulator.DefaultSubscription, "rg")
		in := func(resourceType, name string) arm.ID {
			return arm.ResourceID(emulator.DefaultSubscription, "rg", resourceType, name)
		}
		w.put(group, object{})
		identity := in("Microsoft.ManagedIdentity/userAssignedIdentities", "aks")
		w.put(identity, object{})
		vnet := in(arm.TypeVNet, "vnet")
		var subnets []any
		for i, name := range []string{"a", "b"} {
			table := in(arm.TypeRouteTable, name+"-rt")
			w.putTable(table)
			subnets = append(subnets, object{"name": name, "properties": object{
				"addressPrefix": []string{"10.50.1.0/24", "10.50.2.0/24"}[i], "routeTable": object{
					"id": string(table)},
			}})
		}
		w.put(vnet, object{
			"properties": object{"addressSpace": object{"addressPrefixes": []any{"10.50.0.0/16"}},
				"subnets": subnets}})
		for i, name := range []string{"a", "b"} {
			w.put(in(arm.TypeCluster, name), object{
				"identity": object{"type": "UserAssigned", "userAssignedIdentities": object{
					string(identity): object{}}},
				"properties": object{
					"networkProfile": object{"networkPlugin": "kubenet",
						"podCidr": []string{"10.244.0.0/16", "10.245.0.0/16"}[i]},
					"agentPoolProfiles": []any{
						object{"name": "np", "count": 2,
							"vnetSubnetID": string(vnet.Child("subnets", name))}},
				},
			})
			time.Sleep(time.Minute)
		}
		a := vnet.Child("subnets", "a")
		w.strip(a)
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(w.keep(configure("a", in(arm.TypeCluster, "a")),
			configure("b", in(arm.TypeCluster, "b")))), "1 done associate vnet/a")
		if got := w.tableOf(a).Name(); got != "a-rt" {
			t.Errorf("the nodes of a have the table %s", got)
		}
	})
}

// TestSpelling: another case of an ID in the config changes nothing, and causes no false finding.
func TestSpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.strip(w.demo.GatewaySubnet)
		time.Sleep(10 * time.Second)
		c := w.demoConfig()
		c.Spec.Guard.Subnets[0].RouteTableID = strings.ToLower(string(w.demo.GatewayTable))
		w.expect(w.reconcile(w.keep(c)), "1 done associate shop-vnet/appgw\n3 done create appgw-rt")
	})
}

// TestPauseMeanwhile: a pause that begins during the writes of a check lets the current write
// finish, and prevents all others.
func TestPauseMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		var paused atomic.Bool
		k.opts.Paused = func() string {
			if paused.Load() {
				return "until tomorrow"
			}
			return ""
		}
		// of one network, so one is written after the other
		w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
		time.Sleep(10 * time.Second)
		time.AfterFunc(2*time.Second, func() { paused.Store(true) })
		r := w.reconcile(k)
		w.expect(r, "1 done associate shop-vnet/nodes\n1 planned associate shop-vnet/appgw")
		if w.tableOf(w.demo.GatewaySubnet) != "" || r.Writes != 1 {
			t.Errorf("%d writes, and the gateway has %q", r.Writes, w.tableOf(w.demo.GatewaySubnet))
		}
		paused.Store(false)
		w.expect(w.reconcile(k), "1 done associate shop-vnet/appgw")
	})
}

// TestGuardShared: two clusters guard one subnet. It is put back for one while the other is paused,
// or gone, which the keeper learns only as it writes.
func TestGuardShared(t *testing.T) {
	for name, ends := range map[string]func(*world, arm.ID){
		"paused": func(*world, arm.ID) {},
		"gone":   func(w *world, other arm.ID) { w.remove(other) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				shop, play := w.demoConfig(), w.addCluster("play", "50")
				other := configure("a", play.cluster, play.target)
				other.Spec.Guard.Subnets = shop.Spec.Guard.Subnets
				k := w.runWith(Options{ClusterPaused: func(cluster string) string {
					return map[bool]string{true: "for a test"}[name == "paused" && cluster == "a"]
				}}, 10*time.Second, other, shop)
				k.since(time.Minute)
				ends(w, play.cluster)
				w.strip(w.demo.GatewaySubnet)
				results := k.since(25 * time.Second)
				if w.tableOf(w.demo.GatewaySubnet) == "" {
					t.Errorf("not put back: %v", codes(results[len(results)-1]))
				}
			})
		})
	}
}
