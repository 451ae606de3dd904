package keeper

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/observe"
	"routekeeper.dev/routekeeper/internal/plan"
)

// pruneAll removes all orphaned routes of the subscription.
func (w *world) pruneAll(k *Keeper, configs ...v1alpha1.ClusterRoutes) Result {
	w.t.Helper()
	client := k.azure.(*azure.Client)
	result, err := k.Prune(context.Background(), func(ctx context.Context) (*plan.Pruner, error) {
		s, err := client.Survey(ctx, w.demo.Cluster.SubscriptionID())
		if err != nil {
			return nil, err
		}
		var tables []arm.ID
		for _, t := range s.Tables {
			tables = append(tables, t.ID)
		}
		read := func(ctx context.Context, w inventory.Wanted) error {
			return client.Read(ctx, s, w, azure.ReadOptions{})
		}
		err = observe.Until(context.Background(), read, func() (want inventory.Wanted) {
			for i := range configs {
				want.Add(plan.Discover(plan.Facts{Snapshot: s}, &configs[i],
					plan.TakenBy(configs)).Want)
			}
			return want
		})
		if err != nil {
			return nil, err
		}
		return plan.New(plan.Facts{Snapshot: s}, configs).Prune(tables), client.Examine(ctx, s)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// addRoutes adds routes "name prefix hop" to a table.
func (w *world) addRoutes(id arm.ID, routes ...string) {
	w.t.Helper()
	w.edit(id, func(p object) {
		for _, text := range routes {
			f := strings.Fields(text)
			p["routes"] = append(p["routes"].([]any), route(f[0], f[1], f[2]))
		}
	})
}

// TestPruneClusterGone: a second cluster's routes were copied, then the cluster was deleted; its
// subnet stays.
func TestPruneClusterGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		subnet, table := w.demo.NodeSubnet.Parent().Child("subnets",
			"blog"), w.demo.ClusterTable.Parent()+"/providers/Microsoft.Network/routeTables/blog-rt"
		w.putTable(table)
		w.put(subnet, object{"properties": object{"addressPrefix": "10.42.7.0/24",
			"routeTable": object{"id": string(table)}}})
		blog := arm.ResourceID(subnet.Subscription(), "shop-rg", arm.TypeCluster, "blog")
		w.put(blog, object{"identity": w.get(w.demo.Cluster)["identity"], "properties": object{
			"networkProfile": object{"networkPlugin": "kubenet", "podCidr": "10.245.0.0/16"},
			"agentPoolProfiles": []any{object{"name": "pool1", "count": 2, "mode": "System",
				"vnetSubnetID": string(subnet)}},
		}})
		time.Sleep(5 * time.Minute)
		shop, both := w.demoConfig(), w.keep(w.demoConfig(),
			configure("blog", blog, w.demo.GatewayTable))
		w.expect(w.reconcile(both), "5 done create appgw-rt")
		all := append(threePods, "10.245.0.0/24>10.42.7.4", "10.245.1.0/24>10.42.7.5")
		w.expectRoutes(w.demo.GatewayTable, append(all, "10.60.0.0/16>VirtualNetworkGateway")...)

		if status, body := w.op.Do(http.MethodDelete, blog, aksAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		time.Sleep(5 * time.Minute)
		// The table of the deleted cluster, still on its subnet, has the same routes: it could
		// belong to a stopped cluster that is not visible.
		w.expect(w.pruneAll(w.keep(), shop), "", finding.RoutesOrphaned, finding.RoutesOrphaned)
		w.expectRoutes(w.demo.GatewayTable, append(all, "10.60.0.0/16>VirtualNetworkGateway")...)
		w.strip(subnet)
		// the former table of the cluster stays
		w.expect(w.pruneAll(w.keep(), shop), "2 done delete appgw-rt", finding.RoutesOrphaned)
		w.expectRoutes(w.demo.GatewayTable,
			append(threePods, "10.60.0.0/16>VirtualNetworkGateway")...)
	})
}

const (
	orphanA = "aks-old-87654321-vmss000000____102450024 10.245.0.0/24 10.42.9.4"
	orphanB = "aks-old-87654321-vmss000001____102451024 10.245.1.0/24 10.42.9.5"
	orphanC = "aks-old-87654321-vmss000002____102452024 10.245.2.0/24 10.42.9.6"
)

// TestPruneMeanwhile: between the GET and the PUT, one orphan gets another next hop and a third one
// appears. Only routes that existed when the proof was read are deleted.
func TestPruneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.addRoutes(w.demo.GatewayTable, orphanA, orphanB)
		k := w.keepOver(before(http.MethodPut, "/appgw-rt", func() {
			w.edit(w.demo.GatewayTable, func(p object) {
				for _, r := range p["routes"].([]any) {
					if strings.HasPrefix(r.(object)["name"].(string),
						"aks-old-87654321-vmss000001") {
						r.(object)["properties"].(object)["nextHopIpAddress"] = "10.42.9.77"
					}
				}
			})
			w.addRoutes(w.demo.GatewayTable, orphanC)
			time.Sleep(5 * time.Second)
		}))
		w.expect(w.pruneAll(k, w.demoConfig()),
			"1 done delete appgw-rt\n1 obsolete delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, "10.245.1.0/24>10.42.9.77", "10.245.2.0/24>10.42.9.6",
			"10.60.0.0/16>VirtualNetworkGateway")
	})
}

// TestPruneOwnMeanwhile: the table gets onto a node subnet before it is written. It is left alone.
func TestPruneOwnMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.addRoutes(w.demo.GatewayTable, orphanA)
		k := w.keepOver(before(http.MethodPut, "/appgw-rt", func() {
			w.edit(w.demo.NodeSubnet, func(p object) {
				p["routeTable"] = object{"id": string(w.demo.GatewayTable)}
			})
			w.edit(w.demo.GatewayTable, func(p object) {}) // so that the PUT is refused
			time.Sleep(5 * time.Second)
		}))
		w.expect(w.pruneAll(k, w.demoConfig()), "1 obsolete delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, "10.245.0.0/24>10.42.9.4",
			"10.60.0.0/16>VirtualNetworkGateway")
	})
}

// TestPruneLate: the write has to wait, and meanwhile a machine gets the address. The earlier proof
// no longer counts.
func TestPruneLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.addRoutes(w.demo.GatewayTable, "aks-old-87654321-vmss000000____102450024 10.245.0.0/24 "+
			"10.42.1.200", orphanB)
		w.inject(emulator.Fault{Method: "PUT", Path: "appgw-rt$", Status: 429,
			Code: "RetryableErrorDueToAnotherOperation", RetryAfter: 45})
		go func() {
			time.Sleep(20 * time.Second)
			w.put(arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeInterface,
				"late-nic"), object{"properties": object{"ipConfigurations": []any{
				object{"name": "main",
					"properties": object{"subnet": object{"id": string(w.demo.NodeSubnet)},
						"privateIPAllocationMethod": "Static", "privateIPAddress": "10.42.1.200"}},
			}}})
		}()
		w.expect(w.pruneAll(w.keep(), w.demoConfig()),
			"1 done delete appgw-rt\n1 obsolete delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, "10.245.0.0/24>10.42.1.200",
			"10.60.0.0/16>VirtualNetworkGateway")
	})
}
