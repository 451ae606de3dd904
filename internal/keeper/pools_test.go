package keeper

import (
	"fmt"
	"net/netip"
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

// dualStackPools creates a dual-stack cluster with three pools in three subnets, and a gateway's
// subnet with its own table.
func dualStackPools(w *world) (cluster arm.ID, subnets []arm.ID, table, target arm.ID) {
	id := func(kind, name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, "dual-rg", kind, name)
	}
	cluster, table = id(arm.TypeCluster, "dual"), id(arm.TypeRouteTable, "dual-rt")
	target = id(arm.TypeRouteTable, "gw-rt")
	vnet := id(arm.TypeVNet, "dual-vnet")
	w.put(cluster.Group(), object{})
	w.putTable(table, "egress 0.0.0.0/0 10.60.3.4")
	w.putTable(target, "theirs 10.99.0.0/16 10.98.0.4", "theirs6 fd99::/64 fd00:9::4")
	var within, pools []any
	for i, name := range []string{"n1", "n2", "n3", "gateway"} {
		of := table
		if name == "gateway" {
			of = target
		}
		within = append(within, object{"name": name, "properties": object{
			"routeTable": object{"id": string(of)},
			"addressPrefixes": []any{fmt.Sprintf("10.60.%d.0/24", i),
				fmt.Sprintf("fd60:0:0:%d::/64", i)}}})
		subnets = append(subnets, vnet.Child("subnets", name))
		if name != "gateway" {
			pools = append(pools,
				object{"name": "pool" + name, "count": 2, "vnetSubnetID": string(subnets[i])})
		}
	}
	w.put(vnet, object{"properties": object{"subnets": within,
		"addressSpace": object{"addressPrefixes": []any{"10.60.0.0/16", "fd60::/48"}}}})
	w.put(cluster, object{"properties": object{"agentPoolProfiles": pools, "networkProfile": object{
		"networkPlugin": "kubenet", "ipFamilies": []any{"IPv4", "IPv6"},
		"podCidrs": []any{"10.160.0.0/16", "fd12:3456:789a::/64"}}}})
	time.Sleep(time.Minute)
	return cluster, subnets, table, target
}

// TestDualStackPools: a dual-stack cluster with three pools in separate subnets is scaled, and all
// its subnets lose their tables at once. IDs in the config are in capitals. The target has the
// routes of both families. Another spelling of a prefix is not a change.
func TestDualStackPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		cluster, subnets, table, target := dualStackPools(w)
		upper := func(id arm.ID) arm.ID { return arm.ID(strings.ToUpper(string(id))) }
		config := configure("dual", upper(cluster), upper(target))
		config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
			{SubnetID: string(upper(subnets[3])), RouteTableID: string(target)}}
		k := w.run(10*time.Second, config)
		expect := func(nodes int) {
			t.Helper()
			want := []string{"10.99.0.0/16>10.98.0.4", "fd99::/64>fd00:9::4"}
			for _, r := range w.routes(table) {
				if !strings.HasPrefix(r, "0.0.0.0/0") {
					want = append(want, r)
				}
			}
			if len(want) != 2+2*nodes {
				t.Fatalf("the cluster's table holds %v", want[2:])
			}
			w.expectRoutes(target, want...)
		}
		k.since(time.Minute)
		expect(6)
		for pool, count := range map[string]int{"pooln2": 5, "pooln3": 1} {
			if err := w.e.Scale(cluster, pool, count); err != nil {
				t.Fatal(err)
			}
			k.since(3 * time.Minute)
		}
		expect(8)

		w.strip(subnets...)
		k.since(12*time.Second + 4*operation) // Azure takes one write of a network at a time
		for i, id := range subnets {
			if want := []arm.ID{table, table, table, target}[i]; !w.tableOf(id).Equal(want) {
				t.Errorf("%s has the table %q", id.Short(), w.tableOf(id))
			}
		}

		w.edit(target, func(p object) {
			for _, r := range p["routes"].([]any) {
				q := r.(object)["properties"].(object)
				if prefix := netip.MustParsePrefix(q["addressPrefix"].(string)); prefix.Addr().
					Is6() {
					address := strings.ToUpper(prefix.Addr().StringExpanded())
					q["addressPrefix"] = fmt.Sprintf("%s/%d", address, prefix.Bits())
				}
			}
		})
		k.since(10 * time.Second)
		since := w.mark()
		results := k.since(5 * time.Minute)
		w.expectNoWrites("another spelling", since())
		if found := results[len(results)-1].Findings; len(found) > 0 {
			t.Errorf("%+v", found)
		}
	})
}

// TestSamePodCIDR: two clusters with the same pod CIDR have one target. Existing routes stay, an
// error reports it, nothing is written at rest, and no route to a living node is deleted when one
// cluster is scaled in.
func TestSamePodCIDR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		twin := w.addCluster("twin", "50")
		w.remove(twin.cluster)
		w.put(twin.cluster, object{"properties": object{
			"networkProfile": object{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/16"},
			"agentPoolProfiles": []any{object{"name": "np", "count": 3,
				"vnetSubnetID": string(twin.subnet)}}}})
		time.Sleep(3 * time.Minute)
		hub := arm.ID(strings.ToUpper(string(twin.target)))
		k := w.run(10*time.Second, configure("shop", w.demo.Cluster, twin.target),
			configure("twin", twin.cluster, hub))
		k.since(time.Minute)
		held := w.routes(twin.target)
		var prefixes []string
		for _, r := range held {
			prefix, hop, _ := strings.Cut(r, ">")
			prefixes = append(prefixes, prefix)
			if !strings.HasPrefix(hop, "10.42.1.") && !strings.HasPrefix(hop, "10.50.1.") {
				t.Errorf("%s leads to no node", r)
			}
		}
		want := []string{"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"}
		if !slices.Equal(prefixes, want) {
			t.Fatalf("the target holds %v", held)
		}
		since := w.mark()
		results := k.since(10 * time.Minute)
		w.expectNoWrites("at rest", since())
		f := of(results[len(results)-1], finding.ClustersOverlap)
		if f == nil || f.Severity != finding.Error || len(f.Evidence) != 3 {
			t.Errorf("%+v", results[len(results)-1].Findings)
		}
		w.expectRoutes(twin.target, held...)
		if err := w.e.Scale(w.demo.Cluster, w.demo.Pool, 1); err != nil {
			t.Fatal(err)
		}
		k.since(5 * time.Minute)
		for _, r := range w.routes(twin.target) {
			if r == threePods[1] || r == threePods[2] {
				t.Errorf("%s leads to a node that is gone", r)
			}
		}
		if got := w.routes(twin.target); len(got) != 3 {
			t.Errorf("a node of one of the two has no route: %v", got)
		}
	})
}
