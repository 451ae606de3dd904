package keeper

import (
	"encoding/json"
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
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

var threePods = []string{"10.244.0.0/24>10.42.1.4", "10.244.1.0/24>10.42.1.5",
	"10.244.2.0/24>10.42.1.6"}

const ownRoute = "10.60.0.0/16>VirtualNetworkGateway"

// TestCalls counts calls. A change costs GET, PUT, the operation's polls and GET for its table,
// however many routes it has. A check with nothing to do takes two reads for this network. The
// cluster itself is read rarely.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.without(w.demo.ClusterTable, "egress") // TestAroundBudget counts what next hops cost
		k := w.keep(w.demoConfig())
		since := w.mark()
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		want := []string{"GET shop", "GET shop-vnet", "GET routeTables", // the existing resources
			"GET values", // which table the cluster's identity writes, once
			"GET appgw-rt", "PUT appgw-rt", "GET (operation)", "GET (operation)", "GET (operation)",
			"GET (operation)", "GET appgw-rt"}
		if got := calls(since()); !slices.Equal(got, want) {
			t.Errorf("the first check: %v\nwant %v", got, want)
		}
		since = w.mark()
		r := w.reconcile(k)
		w.expect(r, "")
		if got, want := calls(since()), []string{"GET shop-vnet",
			"GET routeTables"}; !slices.Equal(got, want) || r.Reads != 2 || r.Writes != 0 ||
			!r.Complete {
			t.Errorf("a check at rest: %v (%d reads counted), want %v", got, r.Reads, want)
		}
		since = w.mark()
		for range 65 { // more than ten minutes
			time.Sleep(10 * time.Second)
			w.reconcile(k)
		}
		clusters := 0
		for _, c := range calls(since()) {
			if c == "GET shop" {
				clusters++
			}
		}
		if clusters != 2 {
			t.Errorf("the cluster was read %d times in eleven minutes, want 2", clusters)
		}
	})
}

// TestSeen: an observer receives changes before they are made, with what was read, and later their
// outcomes.
func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		var planned []Result
		tables := func(r Result) [2]arm.ID {
			return [2]arm.ID{r.Seen.Subnet(w.demo.NodeSubnet).RouteTable,
				r.Seen.Subnet(w.demo.GatewaySubnet).RouteTable}
		}
		k.opts.Planned = func(r Result) {
			if tables(r) != ([2]arm.ID{}) || len(r.Changes) != 2 ||
				r.Changes[0].State != plan.Planned || !slices.Equal(r.Managed, []string{"shop"}) {
				t.Errorf("told of %+v on %v of %v", r.Changes, tables(r), r.Managed)
			}
			planned = append(planned, r)
		}
		w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
		r := w.reconcile(k)
		if got := tables(r); len(planned) != 1 || !got[0].Equal(w.demo.ClusterTable) ||
			!got[1].Equal(w.demo.GatewayTable) {
			t.Errorf("told %d times; afterwards %v", len(planned), got)
		}
		if w.reconcile(k); len(planned) != 1 {
			t.Error("told of changes where there were none")
		}
	})
}

// TestStrip: the keeper's PUT differs from what it read only in routeTable.
func TestStrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		before := map[arm.ID]object{w.demo.NodeSubnet: w.get(w.demo.NodeSubnet),
			w.demo.GatewaySubnet: w.get(w.demo.GatewaySubnet)}
		w.strip(w.demo.NodeSubnet, w.demo.GatewaySubnet)
		time.Sleep(10 * time.Second)
		since := w.mark()
		w.expect(w.reconcile(k), "1 done associate shop-vnet/appgw\n1 done associate "+
			"shop-vnet/nodes")
		for id, doc := range before {
			was, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			now, err := json.Marshal(w.get(id))
			if err != nil {
				t.Fatal(err)
			}
			if paths, err := arm.Differences(was, now); err != nil || len(paths) > 0 {
				t.Errorf("%s differs from before in %v, %v", id.Short(), paths, err)
			}
		}
		read := map[string]json.RawMessage{}
		puts := 0
		for _, r := range since() {
			switch r.Method {
			case http.MethodGet:
				read[r.Path] = r.Answer
			case http.MethodPut:
				puts++
				paths, err := arm.Differences(read[r.Path], r.Body)
				if err != nil || !slices.Equal(paths, []string{"properties.routeTable"}) {
					t.Errorf("the PUT of %s differs from what was read in %v, %v", r.Path, paths,
						err)
				}
				if r.IfMatch == "" {
					t.Errorf("the PUT of %s had no If-Match", r.Path)
				}
			}
		}
		if puts != 2 {
			t.Errorf("%d PUTs, want 2", puts)
		}
	})
}

// TestRestartAfterStrip: a keeper that starts when the association is lost finds the table in the
// activity log, and does not choose the unused managed table.
func TestRestartAfterStrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := slow
		opts.PageSize = 2
		w := newWorld(t, opts)
		unused := arm.ResourceID(w.demo.Cluster.Subscription(), "MC_shop-rg_shop_westeurope",
			arm.TypeRouteTable, "aks-agentpool-12345678-routetable")
		w.putTable(unused)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		k := w.keep(w.demoConfig())
		since := w.mark()
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes\n3 done create appgw-rt")
		if got := w.tableOf(w.demo.NodeSubnet); !got.Equal(w.demo.ClusterTable) {
			t.Errorf("the node subnet has %q", got)
		}
		// The log is read newest first, and only until the cluster's last write. The three
		// records of the strip and the three of the unused table are newer.
		if n := len(slices.DeleteFunc(calls(since()), func(c string) bool {
			return c != "GET values"
		})); n != 4 {
			t.Errorf("%d pages of the activity log were read, want 4", n)
		}
		// From then on it remembers the table.
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		since = w.mark()
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes")
		if got := calls(since()); slices.Contains(got, "GET values") {
			t.Errorf("the activity log was read again: %v", got)
		}
	})
}

// TestRestartWithoutTheLog: if the log is refused, the keeper must not take the unused managed
// table for the cluster's.
func TestRestartWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		unused := arm.ResourceID(w.demo.Cluster.Subscription(), "MC_shop-rg_shop_westeurope",
			arm.TypeRouteTable, "aks-agentpool-12345678-routetable")
		w.putTable(unused)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		w.inject(emulator.Fault{Path: "eventtypes", Count: -1, Status: 403,
			Code: "AuthorizationFailed", Message: "no action eventtypes/values/read"})
		r := w.reconcile(w.keep(w.demoConfig()))
		w.expect(r, "", finding.TableUnknown)
		if len(r.Findings) == 1 && (!strings.Contains(r.Findings[0].Message, unused.Name()) ||
			!strings.Contains(strings.Join(r.Findings[0].Evidence, " "),
				"eventtypes/values/read")) {
			t.Errorf("the finding names neither the candidate nor the refusal: %+v", r.Findings[0])
		}
		w.expectRoutes(w.demo.GatewayTable, ownRoute)
	})
}

func TestClusterTableGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.strip(w.demo.NodeSubnet)
		if status, body := w.op.Do(http.MethodDelete, w.demo.ClusterTable, networkAPI,
			nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		time.Sleep(10 * time.Second)
		since := w.mark()
		w.expect(w.reconcile(k), "1 obsolete associate shop-vnet/nodes", finding.TableMissing)
		for _, r := range since() {
			if r.Method != http.MethodGet {
				t.Errorf("%s %s for a table that does not exist", r.Method, r.Path)
			}
		}
		w.expect(w.reconcile(k), "", finding.TableMissing)
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

// TestManagedNetwork: a cluster without bring-your-own resources has its subnet and its table in
// the node resource group.
func TestManagedNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		sub := emulator.DefaultSubscription
		cluster := arm.ResourceID(sub, "rg", arm.TypeCluster, "plain")
		target := arm.ResourceID(sub, "rg", arm.TypeRouteTable, "hub-rt")
		w.put(cluster.Group(), object{})
		w.putTable(target)
		w.put(cluster, object{
			"properties": object{"networkProfile": object{"networkPlugin": "kubenet"},
				"agentPoolProfiles": []any{object{"name": "np", "count": 2}}}})
		time.Sleep(time.Minute)
		k := w.keep(configure("plain", cluster, target))
		w.expect(w.reconcile(k), "2 done create hub-rt")
		w.expectRoutes(target, "10.244.0.0/24>10.224.0.4", "10.244.1.0/24>10.224.0.5")

		var subnet, table arm.ID
		for _, r := range w.get(arm.GroupID(sub, "MC_rg_plain_westeurope") +
			"/providers/Microsoft.Network/virtualNetworks")["value"].([]any) {
			for _, s := range r.(object)["properties"].(object)["subnets"].([]any) {
				subnet = arm.ID(s.(object)["id"].(string))
			}
		}
		table = w.tableOf(subnet)
		if !inventory.IsManagedTable(table) {
			t.Fatalf("the subnet %s has the table %q", subnet, table)
		}
		w.strip(subnet)
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(k), "1 done associate "+subnet.Short())
		// A keeper that starts now, with the log refused, may use the managed table: there is no
		// bring-your-own subnet.
		w.strip(subnet)
		time.Sleep(10 * time.Second)
		w.inject(emulator.Fault{Path: "eventtypes", Count: -1, Status: 403,
			Code: "AuthorizationFailed"})
		w.expect(w.reconcile(w.keep(configure("plain", cluster, target))), "1 done associate "+
			subnet.Short())
	})
}

// TestNewPoolInANewSubnet: the table has routes to addresses that the old cluster document does not
// explain. So the cluster is read again at once, and the new subnet gets the table, which AKS does
// not do (AKS#1500).
func TestNewPoolInANewSubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		time.Sleep(90 * time.Second)
		second := w.demo.NodeSubnet.Parent().Child("subnets", "nodes2")
		w.put(second, object{"properties": object{"addressPrefix": "10.42.4.0/24"}})
		w.put(w.demo.Cluster.Child("agentPools", "pool2"),
			object{"properties": object{"count": 1, "vnetSubnetID": string(second)}})
		// within the five minutes for which the cluster's document is reused
		time.Sleep(31 * time.Second)
		w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes2\n1 done create appgw-rt")
		w.expectRoutes(w.demo.GatewayTable,
			append(threePods, ownRoute, "10.244.3.0/24>10.42.4.4")...)

		// The pool is deleted, and its subnet disappears from the cluster's document. Its route
		// still belongs to the cluster.
		if status, body := w.op.Do(http.MethodDelete, w.demo.Cluster.Child("agentPools", "pool2"),
			aksAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		time.Sleep(6 * time.Minute)
		w.expect(w.reconcile(k), "1 done delete appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

// TestTwoClustersAcrossSubscriptions: two clusters share a hub's table in another subscription, one
// of them dual-stack; IDs in the config are in capitals.
func TestTwoClustersAcrossSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "5ab00000-0000-4000-8000-00000000000b"
		opts := slow
		opts.Subscriptions = []string{emulator.DefaultSubscription, other}
		w := newWorld(t, opts)
		hub := arm.ResourceID(other, "hub-rg", arm.TypeRouteTable, "hub-rt")
		w.put(hub.Group(), object{})
		w.putTable(hub, "theirs 10.99.0.0/16 10.98.0.4", "odd 10.245.77.0/24 10.98.0.4")
		play := arm.ResourceID(other, "play-rg", arm.TypeCluster, "play")
		vnet := arm.ResourceID(other, "play-rg", arm.TypeVNet, "play-vnet")
		own := arm.ResourceID(other, "play-rg", arm.TypeRouteTable, "play-rt")
		w.put(play.Group(), object{})
		w.putTable(own)
		w.put(vnet, object{
			"properties": object{
				"addressSpace": object{"addressPrefixes": []any{"10.50.0.0/16", "fd00:50::/48"}},
				"subnets": []any{
					object{"name": "a", "properties": object{
						"addressPrefixes": []any{"10.50.1.0/24",
							"fd00:50:0:1::/64"}, "routeTable": object{"id": string(own)}}},
				}}})
		w.put(play, object{"properties": object{
			"networkProfile": object{"networkPlugin": "kubenet",
				"ipFamilies": []any{"IPv4", "IPv6"}, "podCidrs": []any{"10.245.0.0/16",
					"fd12:3456:789a::/64"}},
			"agentPoolProfiles": []any{
				object{"name": "np", "count": 2,
					"vnetSubnetID": string(vnet.Child("subnets", "a"))}},
		}})
		time.Sleep(time.Minute)
		upper := func(id arm.ID) arm.ID { return arm.ID(strings.ToUpper(string(id))) }
		k := w.keep(configure("shop", upper(w.demo.Cluster), w.demo.GatewayTable, upper(hub)),
			configure("play", play, hub))
		w.expect(w.reconcile(k), "3 done create appgw-rt\n7 done create hub-rt",
			finding.UnmanagedOverlap)
		w.expectRoutes(hub, append(threePods, "10.99.0.0/16>10.98.0.4", "10.245.77.0/24>10.98.0.4",
			"10.245.0.0/24>10.50.1.4", "10.245.1.0/24>10.50.1.5",
			"fd12:3456:789a::/80>fd00:50:0:1::4", "fd12:3456:789a:0:1::/80>fd00:50:0:1::5")...)
		if err := w.e.Scale(play, "np", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		w.expect(w.reconcile(k), "2 done delete hub-rt", finding.UnmanagedOverlap)
	})
}

// TestDryRun: a dry run writes nothing and reports what it would do.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.strip(w.demo.GatewaySubnet)
		time.Sleep(10 * time.Second)
		k := w.keep(w.demoConfig())
		k.opts.DryRun = true
		since := w.mark()
		w.expect(w.reconcile(k), "1 planned associate shop-vnet/appgw\n3 planned create appgw-rt")
		if slices.ContainsFunc(since(), func(r emulator.Request) bool {
			return r.Method != http.MethodGet
		}) {
			t.Errorf("it wrote: %v", calls(since()))
		}
	})
}

// TestOnly makes the changes that were confirmed. What became necessary since stays planned.
func TestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		k.opts.Only = func(c plan.Change) bool {
			return c.Verb == plan.Create && strings.Contains(c.Route, "vmss000001")
		}
		w.strip(w.demo.GatewaySubnet)
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(k), "1 done create appgw-rt\n1 planned associate shop-vnet/appgw\n"+
			"2 planned create appgw-rt")
		w.expectRoutes(w.demo.GatewayTable, "10.60.0.0/16>VirtualNetworkGateway",
			"10.244.1.0/24>10.42.1.5")
	})
}

func TestGuardObserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		c := w.demoConfig()
		c.Spec.Guard.Mode = v1alpha1.GuardObserve
		k := w.keep(c)
		w.reconcile(k)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		w.expect(w.reconcile(k), "", finding.AssociationLost)
	})
}

// TestOneSubnet: a single subnet is read with its network, too, whose tags can pause the guard, and
// by itself if the network may not be read.
func TestOneSubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.without(w.demo.ClusterTable, "egress")
		k := w.keep(configure("shop", w.demo.Cluster))
		since := w.mark()
		w.reconcile(k)
		if got, want := calls(since()), []string{"GET shop", "GET shop-vnet",
			"GET shop-rt", "GET values"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		w.inject(emulator.Fault{Method: "GET", Path: "virtualNetworks/shop-vnet$", Count: -1,
			Status: 403, Code: "AuthorizationFailed"})
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		if r := w.reconcile(k); !strings.Contains(did(r), "done associate shop-vnet/nodes") {
			t.Errorf("did %q, %+v", did(r), r.Findings)
		}
	})
}

// TestUnknownHopStays: routes that no node subnet explains make the keeper read the cluster again,
// but at most once a minute.
func TestUnknownHopStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.e.PauseRoutes(w.demo.Cluster, true)
		w.edit(w.demo.ClusterTable, func(p object) {
			p["routes"] = append(p["routes"].([]any), route("odd", "10.244.9.0/24", "10.66.0.4"))
		})
		time.Sleep(10 * time.Second)
		k := w.keep(w.demoConfig())
		since := w.mark()
		for range 24 { // four minutes
			if r := w.reconcile(k); !slices.Equal(codes(r), []finding.Code{finding.SourceHop}) {
				t.Errorf("findings %v", codes(r))
			}
			time.Sleep(10 * time.Second)
		}
		reads := len(slices.DeleteFunc(calls(since()), func(c string) bool {
			return c != "GET shop"
		}))
		if reads < 4 || reads > 5 {
			t.Errorf("the cluster was read %d times in four minutes", reads)
		}
	})
}

// TestWrongTableFromTheStart: the keeper first sees the cluster with a wrong table. The activity
// log shows the right one. If the log cannot be read, the keeper reports its doubt, and does not
// defend the wrong table when the right one comes back.
func TestWrongTableFromTheStart(t *testing.T) {
	for name, readable := range map[string]bool{"log readable": true, "log refused": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				wrong := arm.ResourceID(w.demo.Cluster.Subscription(), "net-rg", arm.TypeRouteTable,
					"wrong-rt")
				w.putTable(wrong)
				associate := func(table arm.ID) {
					w.edit(w.demo.NodeSubnet, func(p object) {
						p["routeTable"] = object{"id": string(table)}
					})
					time.Sleep(10 * time.Second)
				}
				associate(wrong)
				c := w.demoConfig()
				c.Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
				k := w.keep(c)
				if readable {
					w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes\n3 done create "+
						"appgw-rt")
					return
				}
				w.inject(emulator.Fault{Path: "eventtypes", Count: -1, Status: 403,
					Code: "AuthorizationFailed"})
				w.expect(w.reconcile(k), "", finding.SourceEmpty)
				associate(w.demo.ClusterTable)
				w.expect(w.reconcile(k), "3 done create appgw-rt")
				// From now on the keeper knows.
				associate(wrong)
				w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes")
			})
		})
	}
}
