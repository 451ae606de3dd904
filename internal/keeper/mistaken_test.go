package keeper

import (
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

// copyOf makes a table with copies of the cluster's pod routes.
func (w *world) copyOf(name string) arm.ID {
	id := arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable, name)
	w.put(id, object{"location": "westeurope", "properties": object{"routes": []any{
		route("n0", "10.244.0.0/24", "10.42.1.4"), route("n1", "10.244.1.0/24",
			"10.42.1.5"), route("n2", "10.244.2.0/24", "10.42.1.6"),
	}}})
	return id
}

func (w *world) associate(subnet, table arm.ID) {
	w.edit(subnet, func(p object) { p["routeTable"] = object{"id": string(table)} })
	time.Sleep(10 * time.Second)
}

// TestConfigMixedUp: the config names a copy as the cluster's table and the cluster's table as a
// target. The keeper never writes the cluster's table or puts the copy on its nodes, even when the
// association is lost.
func TestConfigMixedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		time.Sleep(time.Minute)
		w.reconcile(w.keep(w.demoConfig())) // the copy is a full one
		c := w.demoConfig()
		c.Spec.RouteTableID = string(w.demo.GatewayTable)
		c.Spec.Guard.Subnets = nil
		c.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(w.demo.ClusterTable)}}
		c.SetDefaults()
		k := w.keep(c)
		since := w.mark()
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		for range 3 {
			r := w.reconcile(k)
			if len(r.Changes) > 0 || !finding.Blocking(r.Findings) {
				t.Errorf("did %s, findings %+v", did(r), r.Findings)
			}
			if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Minute)
		}
		for _, r := range since() {
			if r.Method == "PUT" {
				t.Errorf("wrote %s", r.Path)
			}
		}
	})
}

// TestCopyIsNotDefended: the keeper first sees the nodes with a copy. When the owner puts the right
// table back, it stays.
func TestCopyIsNotDefended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		time.Sleep(time.Minute)
		w.associate(w.demo.NodeSubnet, w.copyOf("hub-rt"))
		c := w.demoConfig()
		c.Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
		k := w.keep(c)
		w.reconcile(k)
		w.associate(w.demo.NodeSubnet, w.demo.ClusterTable)
		w.reconcile(k)
		if table := w.tableOf(w.demo.NodeSubnet); !table.Equal(w.demo.ClusterTable) {
			t.Errorf("the nodes have %s", table)
		}
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		w.expect(w.reconcile(k), "1 done create appgw-rt")
		// A table that the log has proven is defended against the copy.
		w.associate(w.demo.NodeSubnet,
			arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable, "hub-rt"))
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes")
	})
}

// TestCopyLacksANode: the keeper first sees the nodes with a copy, and cannot read the activity
// log. The cluster's table gets a new node's route, the copy does not: the log, read again, shows
// which of them is the cluster's.
func TestCopyLacksANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		time.Sleep(time.Minute)
		backup := arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable,
			"hub-rt")
		w.put(backup, w.get(w.demo.ClusterTable))
		w.associate(w.demo.NodeSubnet, backup)
		c := w.demoConfig()
		c.Spec.Guard.Subnets, c.Spec.Guard.OnOtherTable = nil, v1alpha1.OtherTableReplace
		k := w.keep(c)
		w.inject(emulator.Fault{Method: "GET", Path: "eventtypes/management", Count: 1, Status: 403,
			Code: "AuthorizationFailed"})
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 4); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		w.reconcile(k)
		time.Sleep(10 * time.Minute) // a node that is just joining has no route either
		w.expect(w.reconcile(k), "", finding.NodeWithoutRoute)
		log := emulator.Fault{Method: "GET", Path: "eventtypes/management", Count: -1, Status: 403,
			Code: "AuthorizationFailed"}
		heal, since := w.inject(log), w.mark()
		for range 60 { // the log, which the keeper may not read, is not asked at every check
			time.Sleep(5 * time.Second)
			w.reconcile(k)
		}
		asked := 0
		for _, r := range since() {
			if strings.Contains(r.Path, "eventtypes/management") {
				asked++
			}
		}
		if asked == 0 || asked > 6 {
			t.Errorf("asked the log %d times in 5 minutes", asked)
		}
		heal()
		var all []string
		for range 2 {
			time.Sleep(2 * time.Minute)
			all = append(all, did(w.reconcile(k)))
		}
		if table := w.tableOf(w.demo.NodeSubnet); !table.Equal(w.demo.ClusterTable) {
			t.Errorf("the nodes have %s; did %q", table, all)
		}
		if have := strings.Join(w.routes(w.demo.GatewayTable), "\n"); !strings.Contains(have,
			"10.42.1.7") {
			t.Errorf("the target lacks the new node:\n%s", have)
		}
	})
}

// TestMadeAgain: a cluster is deleted and created again with the same name, in another network with
// another table. Nothing of the old cluster is put on the new nodes.
func TestMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		c := w.demoConfig()
		c.Spec.Guard.Subnets, c.Spec.Guard.OnOtherTable = nil, v1alpha1.OtherTableReplace
		k := w.keep(c)
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		doc := w.get(w.demo.Cluster)
		if status, body := w.op.Do("DELETE", w.demo.Cluster, "2025-10-01", nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		time.Sleep(6 * time.Minute)
		in := func(kind, name string) arm.ID {
			return arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", kind, name)
		}
		table, vnet := in(arm.TypeRouteTable, "new-rt"), in(arm.TypeVNet, "new-vnet")
		w.put(table, object{"location": "westeurope",
			"properties": object{"routes": []any{route("egress", "0.0.0.0/0", "10.42.3.4")}}})
		w.put(vnet, object{"location": "westeurope",
			"properties": object{"addressSpace": object{"addressPrefixes": []any{"10.43.0.0/16"}},
				"subnets": []any{object{"name": "nodes",
					"properties": object{"addressPrefix": "10.43.1.0/24",
						"routeTable": object{"id": string(table)}}}}}})
		time.Sleep(time.Minute)
		properties := doc["properties"].(object)
		fresh := object{"location": "westeurope",
			"properties": object{"networkProfile": properties["networkProfile"],
				"agentPoolProfiles": []any{object{"name": "np", "mode": "System", "count": 2,
					"vnetSubnetID": string(vnet.Child("subnets", "nodes"))}}}}
		w.put(w.demo.Cluster, fresh)
		for range 4 {
			time.Sleep(3 * time.Minute)
			w.reconcile(k)
		}
		if now := w.tableOf(vnet.Child("subnets", "nodes")); !now.Equal(table) {
			t.Errorf("the new nodes have %s", now)
		}
		have := strings.Join(w.routes(w.demo.GatewayTable), "\n")
		if !strings.Contains(have, "10.43.1.") {
			t.Errorf("the target leads to no new node:\n%s", have)
		}
	})
}

// TestUnreadableOwner: what another config says about a subnet counts even if its cluster cannot be
// read.
func TestUnreadableOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		shop := w.demoConfig()
		shop.Spec.RouteTableID = string(w.demo.ClusterTable)
		shop.Spec.Guard.Subnets = nil
		other := w.demoConfig()
		other.Metadata.Name = "other"
		other.Spec.ClusterID += "2"
		other.Spec.Targets = nil
		other.Spec.Guard = v1alpha1.Guard{Mode: v1alpha1.GuardEnforce,
			OnOtherTable: v1alpha1.OtherTableReplace,
			Subnets: []v1alpha1.GuardedSubnet{
				{SubnetID: string(w.demo.NodeSubnet), RouteTableID: string(w.demo.GatewayTable)}}}
		w.inject(emulator.Fault{Method: "GET", Path: "managedClusters/shop$|managedClusters$",
			Count: -1, Status: 403, Code: "AuthorizationFailed"})
		r := w.reconcile(w.keep(shop, other))
		if table := w.tableOf(w.demo.NodeSubnet); !table.Equal(w.demo.ClusterTable) ||
			len(r.Changes) > 0 {
			t.Errorf("the nodes have %s; did %s", table, did(r))
		}
	})
}

// TestSourceGoneWhileWaiting: the cluster's table can no longer be read when the target is finally
// written. That does not mean that no routes are needed.
func TestSourceGoneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.inject(emulator.Fault{Method: "PUT", Path: "appgw-rt$", Count: 1, Status: 429,
			Code: "RetryableError", RetryAfter: 40})
		w.inject(emulator.Fault{Method: "GET", Path: "shop-rt$|routeTables$", Skip: 1, Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		r := w.reconcile(k)
		if did(r) != "3 failed create appgw-rt" || !finding.Blocking(r.Findings) {
			t.Errorf("did %s, findings %+v", did(r), r.Findings)
		}
	})
}

// TestTwin: a config names as a target the route table of a cluster that no config knows, in
// another network with the same addresses. By their addresses its routes belong to the configured
// cluster, and some would be deleted. The next hops in the table's own subnet show what it is.
func TestTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		table := arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable,
			"dev-rt")
		vnet := arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeVNet, "dev-vnet")
		w.putTable(table, "aks-nodepool1-11111111-vmss000000____102440024 10.244.0.0/24 10.42.1.4",
			"aks-nodepool1-11111111-vmss000003____102443024 10.244.3.0/24 10.42.1.7")
		w.put(vnet, object{
			"properties": object{"addressSpace": object{"addressPrefixes": []any{"10.42.0.0/16"}},
				"subnets": []any{object{"name": "nodes",
					"properties": object{"addressPrefix": "10.42.1.0/24",
						"routeTable": object{"id": string(table)}}}}}})
		before := w.routes(table)
		k := w.keep(configure("shop", w.demo.Cluster, table))
		since := w.mark()
		for range 3 {
			w.expect(w.reconcile(k), "", finding.TargetIsSource)
			time.Sleep(10 * time.Minute)
		}
		w.expectRoutes(table, before...)
		for _, r := range since() {
			if r.Method == http.MethodPut {
				t.Errorf("wrote %s", r.Path)
			}
		}
	})
}
