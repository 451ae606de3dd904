package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

func TestCopiesPodRoutesOnly(t *testing.T) {
	shop(t).expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`, "")
}

func TestRoutesThatAreThereStay(t *testing.T) {
	w := shop(t)
	// Another name style, case or order: by address they are the cluster's, and correct.
	w.table(gateway, "n2 10.244.2.0/24 10.240.0.6", "own 192.168.0.0/16 10.1.0.4",
		"N0____102440024 10.244.0.0/24 10.240.0.4", "n1____102441024 10.244.1.0/24 10.240.0.5")
	w.expect("", "")
}

func TestFollowsTheNextHop(t *testing.T) {
	w := shop(t)
	w.table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.99", "n2____102442024 10.244.2.0/24 10.240.0.6")
	w.expect("update gw-rt n1____102441024 10.244.1.0/24>10.240.0.99 10.244.1.0/24>10.240.0.5", "")
}

func TestDeletesRoutesOfGoneNodes(t *testing.T) {
	w := shop(t)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5",
		"n2 10.244.2.0/24 10.240.0.6", "n3 10.244.3.0/24 10.240.0.7")
	w.expect("delete gw-rt n3 10.244.3.0/24>10.240.0.7 -", "")
}

// TestUnmanagedRoutes is the core of safety: by address these routes belong to no known cluster, so
// they stay as they are.
func TestUnmanagedRoutes(t *testing.T) {
	w := shop(t)
	w.table(gateway,
		"n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6",
		"wide 10.244.0.0/16 10.1.0.4",
		"other-cluster 10.244.100.0/24 10.99.0.4",
		"not-an-appliance 10.244.101.0/24 None",
		"longer 10.244.7.0/25 10.240.0.4",
		"shorter 10.244.8.0/23 10.240.0.4",
		"outside 10.245.0.0/24 10.240.0.4",
		"tag Storage.WestEurope Internet",
		"default 0.0.0.0/0 10.1.0.4",
	)
	w.expect("", `
		unmanaged-shadow
		unmanaged-overlap
		unmanaged-overlap
		unmanaged-overlap
		unmanaged-overlap`)
}

// TestNameTaken: a pod route gets another name if an unmanaged route has its name.
func TestNameTaken(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1____102441024 10.244.1.0/24 10.240.0.5",
		"n2 10.244.2.0/24 10.240.0.6")
	taken := []string{"n0 172.16.0.0/16 10.1.0.4", "n1____102441024 172.17.0.0/16 10.1.0.4",
		"n2 172.18.0.0/16 10.1.0.4", "n2____102442024 172.19.0.0/16 10.1.0.4"}
	w.table(gateway, taken...)
	const added = `
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024-2 - 10.244.1.0/24>10.240.0.5
		create gw-rt n2____102442024-2 - 10.244.2.0/24>10.240.0.6`
	w.expect(added, "")
	// With these names they are the cluster's too.
	w.table(gateway, append(taken, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024-2 10.244.1.0/24 10.240.0.5",
		"n2____102442024-2 10.244.2.0/24 10.240.0.60")...)
	w.expect("update gw-rt n2____102442024-2 10.244.2.0/24>10.240.0.60 10.244.2.0/24>10.240.0.6",
		"")
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1____102441024 10.244.1.0/24 10.240.0.5")
	w.expect("delete gw-rt n2____102442024-2 10.244.2.0/24>10.240.0.60 -", "")
}

func TestPrefixTaken(t *testing.T) {
	w := shop(t)
	w.table(gateway, "theirs 10.244.1.0/24 10.99.0.4")
	p := w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`, "prefix-taken")
	for _, side := range []string{"theirs", "10.99.0.4", "n1____102441024", "10.240.0.5", "gw-rt"} {
		if !strings.Contains(short(p.Findings[0].Message), side) {
			t.Errorf("the finding does not name %s: %s", side, p.Findings[0].Message)
		}
	}
}

func TestNodeBackWithAnotherPodCIDR(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.7.0/24 10.240.0.5")
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5")
	w.expect("create gw-rt n1____102447024 - 10.244.7.0/24>10.240.0.5", "deletes-withheld warning")
	w.remembered(clusterA).Settled = map[netip.Prefix]Settled{
		mustPrefix("10.244.7.0/24"): {Hop: netip.MustParseAddr("10.240.0.5")}}
	w.lastWriter(tableA, w.s.Cluster(clusterA).Principals...)
	w.expect("update gw-rt n1 10.244.1.0/24>10.240.0.5 10.244.7.0/24>10.240.0.5", "")
}

func TestFullTable(t *testing.T) {
	w := shop(t)
	w.table(gateway, "own 192.168.0.0/16 10.1.0.4", "n0 10.244.0.0/24 10.240.0.99",
		"n9 10.244.9.0/24 10.240.0.9", "own2 172.16.0.0/12 10.1.0.4")
	w.configs[0].Spec.Targets[0].MaxRoutes = 5
	// Two have to be added, one goes: five, it fits.
	w.expect(`
		update gw-rt n0 10.244.0.0/24>10.240.0.99 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6
		delete gw-rt n9 10.244.9.0/24>10.240.0.9 -`, "")
	w.configs[0].Spec.Targets[0].MaxRoutes = 4
	p := w.expect(`
		update gw-rt n0 10.244.0.0/24>10.240.0.99 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		delete gw-rt n9 10.244.9.0/24>10.240.0.9 -`, "target-full")
	if want := "1 route for shop does not fit (limit 4, present 3, added 1)"; !strings.Contains(
		p.Findings[0].Message, want) {
		t.Errorf("%s, want %s", p.Findings[0].Message, want)
	}
	// A route that would only have taken the name of a deleted one: the delete remains, with its
	// reason.
	w.nics(clusterA, "10.240.0.4", "10.240.0.8", "10.240.0.5")
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n9 10.244.8.0/24 10.240.0.8",
		"n1 10.244.1.0/24 10.240.0.5")
	w.expect(`
		update gw-rt n0 10.244.0.0/24>10.240.0.99 10.244.0.0/24>10.240.0.4
		create gw-rt n1 - 10.244.1.0/24>10.240.0.5
		delete gw-rt n9 10.244.9.0/24>10.240.0.9 -`, "target-full")
	w.configs[0].Spec.Targets[0].MaxRoutes = 3
	w.expect(`
		update gw-rt n0 10.244.0.0/24>10.240.0.99 10.244.0.0/24>10.240.0.4
		delete gw-rt n9 10.244.9.0/24>10.240.0.9 -`, "target-full")
}

func TestPolicies(t *testing.T) {
	w := shop(t)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.99", "n1 10.244.1.0/24 10.240.0.5",
		"n9 10.244.9.0/24 10.240.0.9")
	target := &w.configs[0].Spec.Targets[0]
	target.Policy = v1alpha1.PolicyUpsertOnly
	w.expect(`
		update gw-rt n0 10.244.0.0/24>10.240.0.99 10.244.0.0/24>10.240.0.4
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`, "stale-routes-kept")
	target.Policy = v1alpha1.PolicyObserve
	p := w.expect("", "target-drift")
	if len(p.Findings[0].Evidence) != 3 {
		t.Errorf("evidence %q, want the update, the missing and the stale route",
			p.Findings[0].Evidence)
	}
	if fix := p.Findings[0].Fix; fix != "routekeeper promote shop" {
		t.Error(fix)
	}
}

func TestSeveralPoolsAndTargets(t *testing.T) {
	w := shop(t)
	second := vnet + "/subnets/shop-nodes2"
	w.cluster(clusterA, "10.244.0.0/16", nodesA, second).subnet(second, "10.240.1.0/24", tableA)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "m0 10.244.1.0/24 10.240.1.4")
	w.table(gateway).table(hub, "m9 10.244.9.0/24 10.240.1.9", "m0 10.244.1.0/24 10.240.1.4")
	w.nics(clusterA, "10.240.0.4", "10.240.1.4", "10.240.0.5", "10.240.1.5", "10.240.0.6",
		"10.240.1.6")
	w.config("unused", clusterA) // replaced below: one config with two targets
	w.configs = w.configs[:0]
	w.config("shop", clusterA, hub, gateway)
	w.expect(`
		create gw-rt n0 - 10.244.0.0/24>10.240.0.4
		create gw-rt m0 - 10.244.1.0/24>10.240.1.4
		create hub-rt n0 - 10.244.0.0/24>10.240.0.4
		delete hub-rt m9 10.244.9.0/24>10.240.1.9 -`, "")
}

func TestRememberedSubnet(t *testing.T) {
	w := shop(t)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5",
		"n2 10.244.2.0/24 10.240.0.6", "n9 10.244.9.0/24 10.240.5.4")
	w.expect("", "unmanaged-overlap") // no pool in 10.240.5.0/24: it may be another owner's
	w.remembered(clusterA).Subnets = append(w.remembered(clusterA).Subnets,
		mustPrefix("10.240.5.0/24"))
	w.expect("delete gw-rt n9 10.244.9.0/24>10.240.5.4 -", "")
}

func TestDualStack(t *testing.T) {
	w := shop(t)
	w.cluster(clusterA, "10.244.0.0/16,fd12:3456:789a::/64", nodesA)
	w.subnet(nodesA, "10.240.0.0/24", tableA)
	s, err := inventory.DecodeSubnet([]byte(`{"id":"` + string(nodesA) +
		`","properties":{"addressPrefixes":["10.240.0.0/24","fd00:1::/64"],"routeTable":{"id":"` +
		string(tableA) + `"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	w.s.Subnets[nodesA.Key()] = s
	w.table(tableA, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n0____fd123456789a80 fd12:3456:789a::/80 fd00:1::4", "n1____fd123456789a0180 "+
			"fd12:3456:789a:0:1::/80 fd00:1::5")
	w.table(gateway, "o6 fd12:3456:789a:0:9::/80 fd00:1::9", "own6 fd12:3456:789a::/48 fd00:9::1")
	w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n0____fd123456789a80 - fd12:3456:789a::/80>fd00:1::4
		create gw-rt n1____fd123456789a0180 - fd12:3456:789a:0:1::/80>fd00:1::5`,
		`deletes-withheld
		unmanaged-overlap`)
	w.nics(clusterA, "fd00:1::4", "fd00:1::5", "fd00:1::6")
	w.table(gateway, "o6 fd12:3456:789a:0:9::/80 fd00:1::9",
		"n0____102440024 10.244.0.0/24 10.240.0.4", "n0____fd123456789a80 fd12:3456:789a::/80 "+
			"fd00:1::4",
		"n1____fd123456789a0180 fd12:3456:789a:0:1::/80 fd00:1::5")
	w.expect("delete gw-rt o6 fd12:3456:789a:0:9::/80>fd00:1::9 -", "")

	// A row of the other family does not say which pod CIDR of this one its node has.
	w.table(tableA, "n0____fd123456789a80 fd12:3456:789a::/80 10.240.0.4")
	w.table(gateway, "n0____fd123456789a80 fd12:3456:789a::/80 10.240.0.4",
		"n0____102440024 10.244.0.0/24 10.240.0.4")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.lastWriter(tableA, w.s.Cluster(clusterA).Principals...)
	w.remembered(clusterA).Settled = map[netip.Prefix]Settled{
		mustPrefix("fd12:3456:789a::/80"): {Hop: netip.MustParseAddr("10.240.0.4")}}
	w.expect("", "deletes-withheld warning")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	// The cluster's route table shows another length of IPv6 node prefixes.
	w.cluster(clusterA, "fd12:3456:789a::/56", nodesA)
	w.table(tableA, "n0 fd12:3456:789a:1::/64 fd00:1::4", "n1 fd12:3456:789a:2::/64 fd00:1::5")
	w.table(gateway, "n0 fd12:3456:789a:1::/64 fd00:1::4")
	w.expect("create gw-rt n1 - fd12:3456:789a:2::/64>fd00:1::5", "")
}

// TestTwoClusters: each has its routes. For a prefix of both, the existing route stays.
func TestTwoClusters(t *testing.T) {
	two := func(cidrB string) *world {
		w := shop(t)
		w.cluster(clusterB, cidrB, nodesB).subnet(nodesB, "10.250.0.0/24", tableB)
		w.nics(clusterB, "10.250.0.5", "10.250.0.6", "10.250.0.7")
		w.config("play", clusterB, gateway)
		return w
	}
	w := two("10.245.0.0/16")
	w.table(tableB, "p0 10.245.0.0/24 10.250.0.4")
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5",
		"n2 10.244.2.0/24 10.240.0.6", "p9 10.245.9.0/24 10.250.0.9", "p0 10.245.0.0/24 10.250.0.4")
	w.expect("delete gw-rt p9 10.245.9.0/24>10.250.0.9 -", "")

	w = two("10.244.0.0/16")
	w.table(tableB, "p0 10.244.0.0/24 10.250.0.4", "p5 10.244.5.0/24 10.250.0.5")
	w.table(gateway, "p0 10.244.0.0/24 10.250.0.4", "n1 10.244.1.0/24 10.240.0.5")
	p := w.expect(`
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6
		create gw-rt p5 - 10.244.5.0/24>10.250.0.5`, "clusters-overlap error")
	for _, side := range []string{"shop", "play", "10.244.0.0/16"} {
		if !strings.Contains(p.Findings[0].Message, side) {
			t.Errorf("the finding does not name %s: %s", side, p.Findings[0].Message)
		}
	}
	// Once the existing route is gone, the other cluster gets the prefix.
	w.table(tableB, "p5 10.244.5.0/24 10.250.0.5")
	w.table(gateway, "p0 10.244.0.0/24 10.250.0.4", "p5 10.244.5.0/24 10.250.0.5",
		"n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6")
	w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		delete gw-rt p0 10.244.0.0/24>10.250.0.4 -`, "clusters-overlap")

	// The same short name in both clusters: the second gets the long one.
	w = two("10.245.0.0/16")
	w.table(tableA, "n1 10.244.1.0/24 10.240.0.5").table(tableB,
		"n1 10.245.1.0/24 10.250.0.5").table(gateway)
	w.expect(`
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create gw-rt n1 - 10.245.1.0/24>10.250.0.5`, "")
}

func TestTargetIsSomeClustersOwnTable(t *testing.T) {
	w := shop(t)
	w.configs[0].Spec.Targets[0].RouteTableID = string(tableA)
	// A target is not a candidate, so without more evidence the cluster's table is unknown; the
	// target is never written.
	w.s.Learn(clusterA).LogRead = true
	w.s.Learn(clusterA).ManagedRead = true
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "stale 10.244.9.0/24 10.240.0.9")
	w.expect("", "table-unknown\ntarget-is-source")
	w.subnet(nodesA, "10.240.0.0/24", "")
	w.s.Learn(clusterA).Written = []arm.ID{tableA}
	w.expect("", "table-unknown\ntarget-is-source")

	// The config confuses source and target: the table of the node subnets is not written, whatever
	// the config says.
	w = shop(t)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5")
	w.configs[0].Spec.RouteTableID, w.configs[0].Spec.Targets[0].RouteTableID = string(gateway),
		string(tableA)
	w.s.Learn(clusterA).LogRead = true // it shows nothing
	w.expect("", "association-other-table\ntarget-is-source")
	// A gateway's table on a node subnet of a cluster whose route table is known beyond doubt is
	// only the wrong table.
	w = shop(t)
	w.remembered(clusterA).LastTable, w.remembered(clusterA).LastProven = tableA, true
	w.subnet(nodesA, "10.240.0.0/24", gateway).table(gateway, "n0 10.244.0.0/24 10.240.0.4",
		"n1 10.244.1.0/24 10.240.0.5")
	w.expect("create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6", "association-other-table")

	// Another cluster's route table.
	w = shop(t)
	w.cluster(clusterB, "10.245.0.0/16", nodesB).subnet(nodesB, "10.250.0.0/24",
		tableB).table(tableB, "p0 10.245.0.0/24 10.250.0.4")
	w.config("play", clusterB)
	w.configs[1].Spec.RouteTableID = string(tableB)
	w.configs[0].Spec.Targets[0].RouteTableID = strings.ToUpper(string(tableB))
	w.expect("", "target-is-source")
}

func TestUnreadable(t *testing.T) {
	absent := func(id arm.ID) inventory.Unread {
		return inventory.Unread{ID: id, Absent: true, Status: 404, Code: "ResourceNotFound"}
	}
	refused := func(id arm.ID) inventory.Unread {
		return inventory.Unread{ID: id, Status: 403, Code: "AuthorizationFailed",
			Message: "no action over scope x"}
	}
	stale := []string{"n0 10.244.0.0/24 10.240.0.4", "n9 10.244.9.0/24 10.240.0.9"}
	tests := []struct {
		name   string
		gone   func(w *world)
		unread inventory.Unread
		want   string
	}{
		{"source absent", func(w *world) { delete(w.s.Tables, tableA.Key()) }, absent(tableA),
			"table-missing"},
		{"source refused", func(w *world) { delete(w.s.Tables, tableA.Key()) }, refused(tableA),
			"read-failed"},
		{"target absent", func(w *world) { delete(w.s.Tables, gateway.Key()) }, absent(gateway),
			"target-missing"},
		{"target refused", func(w *world) { delete(w.s.Tables, gateway.Key()) }, refused(gateway),
			"read-failed"},
		{"cluster absent", func(w *world) { delete(w.s.Clusters, clusterA.Key()) },
			absent(clusterA), "cluster-missing"},
		{"cluster refused", func(w *world) { delete(w.s.Clusters, clusterA.Key()) },
			refused(clusterA), "read-failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := shop(t)
			w.remembered(clusterA).LastTable = tableA
			w.table(gateway, stale...)
			tt.gone(w)
			w.s.Unread[tt.unread.ID.Key()] = tt.unread
			w.expect("", tt.want)
		})
	}
	t.Run("all other work continues", func(t *testing.T) {
		w := shop(t)
		w.config("play", clusterB, hub)
		w.s.Unread[clusterB.Key()] = refused(clusterB)
		w.table(gateway, "n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6").table(hub)
		w.expect("create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4", "read-failed")
	})
}

func TestNotKubenet(t *testing.T) {
	w := shop(t)
	w.s.Clusters[clusterA.Key()].Plugin = "azure"
	w.s.Clusters[clusterA.Key()].PluginMode = "overlay"
	w.configs[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(gatewayIn), RouteTableID: string(gateway)}}
	w.subnet(gatewayIn, "10.240.9.0/24", "")
	w.table(gateway, "n9 10.244.9.0/24 10.240.0.9")
	p := w.expect("associate vnet/gw - gw-rt", "cluster-not-kubenet")
	if f := p.Findings[0]; !strings.Contains(f.Message, "overlay") || len(f.Evidence) != 1 ||
		f.Evidence[0] != "gw-rt still has routes to its pods: 1" ||
		!strings.Contains(f.Advice, "set spec.onRemoval: Prune") {
		t.Errorf("%+v", f)
	}
}

func TestPodCIDRs(t *testing.T) {
	w := shop(t)
	w.configs[0].Spec.PodCIDRs = []string{"10.244.0.0/23"} // narrower than the cluster's
	w.table(gateway, "n2 10.244.2.0/24 10.240.0.66")
	w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5`, "pod-cidrs-exclude-nodes")
	w.configs[0].Spec.PodCIDRs = []string{"10.0.0.0/8"} // wider: the cluster's pod CIDR counts
	w.table(gateway, "n2 10.244.2.0/24 10.240.0.6", "x 10.245.2.0/24 10.240.0.66")
	w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5`, "")
	w.configs[0].Spec.PodCIDRs = []string{"10.99.0.0/16"}
	w.expect("", "cluster-pod-cidr\npod-cidrs-exclude-nodes")
	w.configs[0].Spec.PodCIDRs = nil
	w.s.Clusters[clusterA.Key()].PodCIDRs = append(w.s.Clusters[clusterA.Key()].PodCIDRs[:0],
		mustPrefix("0.0.0.0/0"))
	w.expect("", "cluster-pod-cidr")
}

func TestOutsideHop(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "odd 10.244.9.0/24 10.66.0.4").table(gateway)
	w.expect("create gw-rt n0 - 10.244.0.0/24>10.240.0.4", "source-hop-outside")
}

// TestLearnMasks: the length of IPv6 node prefixes is learned from a table that shows one length,
// not several.
func TestLearnMasks(t *testing.T) {
	cidr := netip.MustParsePrefix("fd12::/64")
	for routes, want := range map[string]int{
		"fd12:0:0:0:1::/80":                   80,
		"fd12:0:0:0:1::/72":                   72,
		"fd12:0:0:0:1::/72 fd12:0:0:0:2::/72": 72,
		"fd12:0:0:0:1::/72 fd12:0:0:0:2::/88": 80, // without routes the documented length stays
		"fd13::/72 fd12:0:0:0:1::/80":         80,
		// a route as wide as the pod CIDR is not a node's
		"fd12::/64 fd12::/48 fd12:0:0:0:1::/84": 84,
	} {
		v := &clusterState{cidrs: []netip.Prefix{cidr}, masks: []int{80}, anyHop: true}
		var of []inventory.Route
		for i, p := range strings.Fields(routes) {
			of = append(of, inventory.Route{Name: fmt.Sprint(i),
				Prefix: netip.MustParsePrefix(p), HopType: inventory.HopAppliance,
				Hop: netip.MustParseAddr("fd00::4")})
		}
		v.learnMasks((&inventory.RouteTable{}).WithRoutes(of))
		if v.masks[0] != want {
			t.Errorf("%s: /%d, want /%d", routes, v.masks[0], want)
		}
	}
}
