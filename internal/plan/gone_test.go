package plan

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

var sixRoutes = []string{
	"own 192.168.0.0/16 10.1.0.4",
	"n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6",
	"n3 10.244.3.0/24 10.240.0.7", "n4 10.244.4.0/24 10.240.0.8", "n5 10.244.5.0/24 10.240.0.9",
}

// withheld returns the evidence of the finding for withheld deletes, shortened.
func withheld(t *testing.T, p Plan) string {
	t.Helper()
	var lines []string
	for _, f := range p.Findings {
		if f.Code == "deletes-withheld" || f.Code == "updates-withheld" {
			lines = append(lines, f.Evidence...)
		}
	}
	return short(strings.Join(lines, "\n"))
}

// TestEachDeleteIsProvenAlone: the cluster's table lacks some routes. A route is deleted if no NIC
// has its next hop, and the others stay, whatever their shares.
func TestEachDeleteIsProvenAlone(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5").table(gateway,
		sixRoutes...)
	const two = `
		delete gw-rt n3 10.244.3.0/24>10.240.0.7 -
		delete gw-rt n5 10.244.5.0/24>10.240.0.9 -`

	w.s.Learn(clusterA).NICs = nil
	p := w.expect("", "deletes-withheld")
	if len(p.Need.NICs) != 1 || !p.Need.NICs[0].Equal(clusterA) {
		t.Errorf("needs the NICs of %v, want the cluster's", p.Need.NICs)
	}
	if got := strings.Count(withheld(t, p), "were not read"); got != 4 {
		t.Errorf("%d routes are reported, want 4: %s", got, withheld(t, p))
	}
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.8")
	p = w.expect(two, "deletes-withheld warning")
	want := "10.244.2.0/24 to 10.240.0.6 (n2): 10.240.0.6 belongs to aks-pool0-1-vmss instance " +
		"10.240.0.6\n10.244.4.0/24 to 10.240.0.8 (n4): 10.240.0.8 belongs to aks-pool0-1-vmss " +
		"instance 10.240.0.8"
	if got := withheld(t, p); got != want {
		t.Errorf("withheld:\n%s\nwant:\n%s", got, want)
	}
	if !p.Need.Empty() {
		t.Errorf("needs %+v, and all was read", p.Need)
	}
	for _, c := range p.Changes {
		if !strings.Contains(c.Why, "no network interface of the cluster's nodes has "+
			c.Old.NextHopIPAddress) {
			t.Errorf("%s: %s", c.Route, c.Why)
		}
	}
	w.table(gateway, "own 192.168.0.0/16 10.1.0.4", "n0 10.244.0.0/24 10.240.0.4",
		"n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6", "n4 10.244.4.0/24 10.240.0.8")
	w.expect("", "deletes-withheld warning") // the nodes that are gone, and the living ones
}

// TestOneMissingRoute: a single route needs a proof too.
func TestOneMissingRoute(t *testing.T) {
	w := shop(t)
	w.table(tableA, sixRoutes[1:6]...).table(gateway, sixRoutes...)
	w.s.Learn(clusterA).NICs = nil
	w.expect("", "deletes-withheld")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.7", "10.240.0.8",
		"10.240.0.9")
	w.expect("", "deletes-withheld warning")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.7", "10.240.0.8")
	w.expect("delete gw-rt n5 10.244.5.0/24>10.240.0.9 -", "")
}

// TestEmptySourceProvesNothing: none of these proves that a node is gone: an empty table, lists
// without any NIC, lists without those of a pool, unread lists.
func TestEmptySourceProvesNothing(t *testing.T) {
	w := shop(t)
	w.remembered(clusterA).LastTable = tableA // as seen before
	w.table(tableA, "egress 0.0.0.0/0 10.1.0.4").table(gateway, sixRoutes...)
	w.s.Learn(clusterA).NICs = nil
	w.expect("", "deletes-withheld\nsource-empty")
	w.nics(clusterA)
	w.expect("", "deletes-withheld\nsource-empty")
	w.nics(clusterA, "10.240.0.200", "10.240.0.201") // of three
	if p := w.expect("", "deletes-withheld\nsource-empty"); !strings.Contains(withheld(t, p),
		"pool pool0 has 3 nodes, but IPv4 addresses of only 2 were seen") {
		t.Error(withheld(t, p))
	}
	w.s.Learn(clusterA).NICs = &inventory.NICs{Failed: "AuthorizationFailed"}
	if p := w.expect("", "deletes-withheld\nsource-empty"); !strings.Contains(withheld(t, p),
		"could not be read: AuthorizationFailed") {
		t.Error(withheld(t, p))
	}
	all := `
		delete gw-rt n0 10.244.0.0/24>10.240.0.4 -
		delete gw-rt n1 10.244.1.0/24>10.240.0.5 -
		delete gw-rt n2 10.244.2.0/24>10.240.0.6 -
		delete gw-rt n3 10.244.3.0/24>10.240.0.7 -
		delete gw-rt n4 10.244.4.0/24>10.240.0.8 -
		delete gw-rt n5 10.244.5.0/24>10.240.0.9 -`
	w.nics(clusterA, "10.240.0.200", "10.240.0.201", "10.240.0.202")
	w.expect(all, "source-empty")
	w.nics(clusterA)
	w.s.Clusters[clusterA.Key()].Pools[0].Count = 0
	w.expect(all, "")
}

// TestRememberedNICsProveNothing: NICs of an earlier check can withhold a delete. To make one, the
// NICs are read.
func TestRememberedNICsProveNothing(t *testing.T) {
	w := shop(t)
	w.table(gateway, sixRoutes[:5]...)
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.7")
	asked := func(addresses ...string) {
		asked := map[netip.Addr]bool{}
		for _, a := range addresses {
			asked[netip.MustParseAddr(a)] = true
		}
		w.remembersNICs(asked)
	}
	asked("10.240.0.7")
	if p := w.expect("", "deletes-withheld warning"); len(p.Need.NICs) != 0 {
		t.Error("NICs are to be read although the remembered ones withhold the only delete")
	}
	asked("10.240.0.8") // it is stale now
	if p := w.expect("", "deletes-withheld"); len(p.Need.NICs) != 1 {
		t.Error("NICs are not to be read although another address is in question now")
	}
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	asked("10.240.0.7")
	if p := w.expect("", "deletes-withheld"); len(p.Need.NICs) != 1 {
		t.Error("NICs are not to be read although the remembered ones would let a delete go")
	}
	asked("10.240.0.5")
	w.table(gateway, "n1 10.244.1.0/24 10.240.0.99", "n0 10.244.0.0/24 10.240.0.4",
		"n2 10.244.2.0/24 10.240.0.6")
	if p := w.expect("", "updates-withheld"); len(p.Need.NICs) != 1 {
		t.Error("NICs are not to be read although the remembered ones would let an update go")
	}
}

// TestSettledRowChanged: a settled row that leads elsewhere by now says nothing of its old address.
func TestSettledRowChanged(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.7.0/24 10.240.0.6")
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "m1 10.244.1.0/24 10.240.0.5")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.settle("10.244.7.0/24", "10.240.0.5")
	w.expect("create gw-rt n1 - 10.244.7.0/24>10.240.0.6", "deletes-withheld warning")
}

// TestNodeWithAnotherPodCIDR: if the cluster's table reliably leads to an address with another
// prefix, the node there now has that pod CIDR.
func TestNodeWithAnotherPodCIDR(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.7.0/24 10.240.0.5",
		"n2 10.244.8.0/24 10.240.0.6")
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "m1 10.244.1.0/24 10.240.0.5",
		"m2 10.244.2.0/24 10.240.0.6")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	const add = `
		create gw-rt n1 - 10.244.7.0/24>10.240.0.5
		create gw-rt n2 - 10.244.8.0/24>10.240.0.6`
	w.expect(add, "deletes-withheld warning")
	settle := func(routes ...string) {
		settled := map[netip.Prefix]Settled{}
		for _, r := range routes {
			f := strings.Fields(r)
			settled[mustPrefix(f[0])] = Settled{Hop: netip.MustParseAddr(f[1])}
		}
		w.remembered(clusterA).Settled = settled
		w.lastWriter(tableA, w.s.Cluster(clusterA).Principals...)
	}
	settle("10.244.7.0/24 10.240.0.5")
	p := w.expect("delete gw-rt m1 10.244.1.0/24>10.240.0.5 -"+add, "deletes-withheld warning")
	if why := p.Changes[0].Why; why != "its node at 10.240.0.5 now has the pod CIDR 10.244.7.0/24" {
		t.Error(why)
	}
	// The network interfaces show whose address it is.
	settle("10.244.7.0/24 10.240.0.5", "10.244.8.0/24 10.240.0.6")
	w.nics(clusterA, "10.240.0.4", "m1@10.240.0.5", "10.240.0.6")
	w.expect("delete gw-rt m2 10.244.2.0/24>10.240.0.6 -\ncreate gw-rt n2 - "+
		"10.244.8.0/24>10.240.0.6", "wrong-next-hop\ndeletes-withheld warning")
	w.s.Learn(clusterA).NICs = nil
	if p := w.expect(add, "deletes-withheld"); len(p.Need.NICs) != 1 {
		t.Errorf("needs %+v", p.Need)
	}
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1____102441024 10.244.1.0/24 10.240.0.5",
		"n2____102442024 10.244.2.0/24 10.240.0.6")
	if p := w.expect(add, "deletes-withheld"); len(p.Need.NICs) != 1 {
		t.Errorf("needs %+v", p.Need)
	}
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.expect("delete gw-rt n1____102441024 10.244.1.0/24>10.240.0.5 -\n"+
		"delete gw-rt n2____102442024 10.244.2.0/24>10.240.0.6 -"+add, "")
	// The cluster did not write its table since: its cloud provider may be unable to.
	const kept = "deletes-withheld info"
	w.lastWriter(tableA, "ann@example.com")
	p = w.expect(add, kept)
	if line := p.Findings[0].Evidence[0]; !strings.HasSuffix(line, "that the cluster was the "+
		"last to write 10.244.7.0/24 in the route table of cluster shop: last written by "+
		"ann@example.com") {
		t.Error(line)
	}
	w.lastWriter(tableA, w.s.Cluster(clusterA).Principals...)
	for prefix, row := range w.remembered(clusterA).Settled {
		row.After = time.Now().Add(time.Hour)
		w.remembered(clusterA).Settled[prefix] = row
	}
	w.expect(add, kept)
	w.s.Writers[tableA.Key()] = inventory.Writer{Line: "who changed it is unknown: 403",
		Failed: true}
	w.expect(add, kept)
	delete(w.s.Writers, tableA.Key())
	if p := w.expect(add, kept); len(p.Need.Writers) != 1 {
		t.Errorf("needs %+v", p.Need)
	}
	// the settled route is not in the table any more
	settle("10.244.9.0/24 10.240.0.5")
	w.expect(add, "deletes-withheld warning")
}

// TestUpdateNeedsANIC: the cluster's table has another next hop. It overwrites a good copy only if
// a node has it.
func TestUpdateNeedsANIC(t *testing.T) {
	w := shop(t)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.99",
		"n2 10.244.2.0/24 10.240.0.6")
	w.s.Learn(clusterA).NICs = nil
	if p := w.expect("", "updates-withheld"); len(p.Need.NICs) != 1 {
		t.Error("the NICs are not asked for")
	}
	w.nics(clusterA, "10.240.0.4", "10.240.0.99", "10.240.0.6")
	if p := w.expect("", "updates-withheld"); withheld(t, p) != "10.244.1.0/24 to 10.240.0.99 "+
		"(n1), to 10.240.0.5: no network interface that was seen has 10.240.0.5" {
		t.Error(withheld(t, p))
	}
	w.s.Learn(clusterA).NICs = &inventory.NICs{Failed: "AuthorizationFailed"}
	w.expect("", "updates-withheld")
	w.nics(clusterA, "10.240.0.5") // its existence is proof enough
	w.expect("update gw-rt n1 10.244.1.0/24>10.240.0.99 10.244.1.0/24>10.240.0.5", "")
}

// TestProofPerTarget: a target that is far behind does not affect another.
func TestProofPerTarget(t *testing.T) {
	w := shop(t)
	w.configs = nil
	w.config("shop", clusterA, gateway, hub)
	w.table(gateway, sixRoutes[1:5]...)
	w.table(hub, sixRoutes[4:]...)
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.8")
	w.expect(`
		delete gw-rt n3 10.244.3.0/24>10.240.0.7 -
		create hub-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create hub-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create hub-rt n2____102442024 - 10.244.2.0/24>10.240.0.6
		delete hub-rt n3 10.244.3.0/24>10.240.0.7 -
		delete hub-rt n5 10.244.5.0/24>10.240.0.9 -`, "deletes-withheld warning")
}

// TestProofOfAllOwners: two clusters have the same node addresses and pod CIDRs. A route is deleted
// only if no node of either has its next hop.
func TestProofOfAllOwners(t *testing.T) {
	w := shop(t)
	w.cluster(clusterB, "10.244.0.0/16", nodesB).subnet(nodesB, "10.240.0.0/24",
		tableB).table(tableB)
	w.s.Learn(clusterB).LogRead, w.s.Learn(clusterB).ManagedRead = true, true
	w.config("play", clusterB, gateway)
	w.configs[1].Spec.RouteTableID = string(tableB)
	w.table(gateway, sixRoutes[1:5]...)
	w.s.Table(gateway).Subnets = []arm.ID{gatewayIn}
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.nics(clusterB, "10.240.0.7", "10.240.0.8", "10.240.0.9")
	w.expect("", "clusters-overlap\ndeletes-withheld warning\nsource-empty")
	w.nics(clusterB, "10.240.0.17", "10.240.0.8", "10.240.0.9")
	w.expect("delete gw-rt n3 10.244.3.0/24>10.240.0.7 -", "clusters-overlap\nsource-empty")
}

// TestOwnershipByName: by its addresses a route may be a user's. It is the cluster's only with a
// cloud provider's name, or if the cluster's table has, or had, this route.
func TestOwnershipByName(t *testing.T) {
	for name, owned := range map[string]bool{
		"aks-nodepool1-12345678-vmss00000a":                true,
		"AKS-nodepool1-12345678-vmss00000A":                true,
		"aks-nodepool1-12345678-vmss00000a____10244200024": true,
		"aks-nodepool1-12345678-3":                         true, // an availability set
		"aks-nodepool1-12345678-vms3":                      true, // a pool of single machines
		"aksnpwin000001":                                   true, // Windows
		"aksnpwin00000z____10244200024":                    true,
		"vip-in-node-subnet":                               false,
		"aks":                                              false,
		"aks-firewall":                                     false,
		"aksappgateway":                                    false,
		"n0____10244200024":                                false,
	} {
		w := shop(t)
		w.table(gateway, sixRoutes[:4]...)
		w.rawTable(strings.Replace(string(w.s.Table(gateway).Raw), `"routes":[`,
			`"routes":[{"name":"`+name+
				`","properties":{"addressPrefix":"10.244.200.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.240.0.77"}},`, 1))
		w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
		if owned {
			w.expect("delete gw-rt "+name+" 10.244.200.0/24>10.240.0.77 -", "")
			continue
		}
		if p := w.expect("", "unmanaged-overlap"); len(p.Findings) == 1 &&
			!strings.Contains(p.Findings[0].Message, "the unmanaged route "+name) {
			t.Error(p.Findings[0].Message)
		}
		w.remembered(clusterA).Had = map[Pair]bool{
			{Prefix: mustPrefix("10.244.200.0/24"), Hop: netip.MustParseAddr("10.240.0.77")}: true}
		w.expect("delete gw-rt "+name+" 10.244.200.0/24>10.240.0.77 -", "")
		w.remembered(clusterA).Had = map[Pair]bool{
			{Prefix: mustPrefix("10.244.200.0/24"), Hop: netip.MustParseAddr("10.240.0.78")}: true}
		w.expect("", "unmanaged-overlap")
	}
}

// TestBentInTheTarget: a pod route that the keeper knows as correct now has a wrong next hop. Its
// name is the keeper's, so it is repaired. Without that memory, or with another name, it is
// unmanaged.
func TestBentInTheTarget(t *testing.T) {
	w := shop(t)
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 None",
		"n2 10.244.2.0/24 10.240.0.6")
	w.expect("", "prefix-taken")
	w.remembered(clusterA).InSync = map[string]map[netip.Prefix]netip.Addr{
		gateway.Key(): {mustPrefix("10.244.1.0/24"): netip.MustParseAddr("10.240.0.5")}}
	p := w.expect("update gw-rt n1 10.244.1.0/24> 10.244.1.0/24>10.240.0.5", "")
	if !p.Changes[0].Repair {
		t.Error("it is not a repair")
	}
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "blackhole 10.244.1.0/24 None",
		"n2 10.244.2.0/24 10.240.0.6")
	w.expect("", "prefix-taken")
	w.remembered(clusterA).InSync = map[string]map[netip.Prefix]netip.Addr{
		gateway.Key(): {mustPrefix("10.244.1.0/24"): netip.MustParseAddr("10.240.0.50")}}
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 None",
		"n2 10.244.2.0/24 10.240.0.6")
	w.expect("", "prefix-taken") // the cluster's table has changed since
}
