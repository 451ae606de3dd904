package plan

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const copiesOfThree = "n0____102440024 10.244.0.0/24 10.240.0.4|" +
	"n1____102441024 10.244.1.0/24 10.240.0.5|n2____102442024 10.244.2.0/24 10.240.0.6"

// copiedShop is the shop whose target has right copies, and whose interfaces say which node has
// which address, whatever the cluster's table says.
func copiedShop(t *testing.T, own ...string) *world {
	w := shop(t).table(gateway, strings.Split(copiesOfThree, "|")...)
	w.nics(clusterA, "n0@10.240.0.4", "n1@10.240.0.5", "n2@10.240.0.6")
	return w.table(tableA, own...)
}

// wrong returns the evidence of the only finding, which is wrong-next-hop.
func wrong(t *testing.T, p Plan) string {
	t.Helper()
	if len(p.Findings) != 1 || p.Findings[0].Code != finding.WrongHop {
		t.Fatalf("findings: %+v", p.Findings)
	}
	return short(strings.Join(p.Findings[0].Evidence, "\n"))
}

// TestExchangedHops: the next hops of two nodes are exchanged in the cluster's table, or rotated
// among all. No copy follows, and the finding names both nodes of each route.
func TestExchangedHops(t *testing.T) {
	w := copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.6", "n2____102442024 10.244.2.0/24 10.240.0.5")
	p := w.expect("", "wrong-next-hop")
	for _, want := range []string{
		"is named after node n1, but 10.240.0.6 belongs to node n2",
		"is named after node n2, but 10.240.0.5 belongs to node n1",
		"gw-rt: 10.244.1.0/24 to 10.240.0.5 (n1____102441024) stays",
	} {
		if got := wrong(t, p); !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}

	copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.5",
		"n1____102441024 10.244.1.0/24 10.240.0.6", "n2____102442024 10.244.2.0/24 10.240.0.4").
		expect("", "wrong-next-hop")

	// An empty target gets the route that is right, and no wrong one.
	w = copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.6", "n2____102442024 10.244.2.0/24 10.240.0.5")
	w.table(gateway)
	w.expect("create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4", "wrong-next-hop")

	// Copies that followed before heal with the table.
	w.table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.6", "n2____102442024 10.244.2.0/24 10.240.0.5")
	w.table(tableA, strings.Split(copiesOfThree, "|")...)
	w.expect(`
		update gw-rt n1____102441024 10.244.1.0/24>10.240.0.6 10.244.1.0/24>10.240.0.5
		update gw-rt n2____102442024 10.244.2.0/24>10.240.0.5 10.244.2.0/24>10.240.0.6`, "")
}

// TestOlderTable: an older version of the cluster's table is restored after addresses were used
// again. The copies stay, also once its routes are old enough to count as settled.
func TestOlderTable(t *testing.T) {
	w := copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.6")
	w.expect("", "wrong-next-hop\ndeletes-withheld warning")
	w.settle("10.244.0.0/24", "10.240.0.4")
	w.settle("10.244.1.0/24", "10.240.0.6")
	w.expect("", "wrong-next-hop\ndeletes-withheld warning")
}

// TestPodCIDRChangesNode: a pod CIDR goes to another node. Its copy is replaced once the former
// node is gone, or has a route to another pod CIDR.
func TestPodCIDRChangesNode(t *testing.T) {
	own := []string{"n0____102440024 10.244.0.0/24 10.240.0.4",
		"n3____102441024 10.244.1.0/24 10.240.0.7", "n2____102442024 10.244.2.0/24 10.240.0.6"}
	const replaced = `
		delete gw-rt n1____102441024 10.244.1.0/24>10.240.0.5 -
		create gw-rt n3____102441024 - 10.244.1.0/24>10.240.0.7`
	w := copiedShop(t, own...)
	w.s.Cluster(clusterA).Pools[0].Count = 4
	w.nics(clusterA, "n0@10.240.0.4", "n1@10.240.0.5", "n2@10.240.0.6", "n3@10.240.0.7")
	p := w.expect("", "updates-withheld")
	if got := withheld(t, p); !strings.Contains(got, "10.240.0.5 belongs to aks-pool0-1-vmss") {
		t.Error(got)
	}
	w.s.Cluster(clusterA).Pools[0].Count = 3
	w.nics(clusterA, "n0@10.240.0.4", "n2@10.240.0.6", "n3@10.240.0.7")
	w.expect(replaced, "")
	w.nics(clusterA, "n0@10.240.0.4", "n2@10.240.0.6", "n3@10.240.0.7", "n9@10.240.0.5")
	// another node has the former one's address: n1 may be its old name, until it has a row
	w.expect("", "updates-withheld")
	w.table(tableA, append(own, "n9____102449024 10.244.9.0/24 10.240.0.5")...)
	w.expect(replaced+"\ncreate gw-rt n9____102449024 - 10.244.9.0/24>10.240.0.5", "")
	w.table(tableA, own...)
	w.nics(clusterA, "n0@10.240.0.4", "n2@10.240.0.6", "n3@10.240.0.7")
	w.configs[0].Spec.Targets[0].Policy = "UpsertOnly"
	w.expect(replaced, "")
	w.configs[0].Spec.Targets[0].Policy = "Sync"
	w.s.Cluster(clusterA).Pools[0].Count = 4 // a node is hidden, and may be n1
	w.nics(clusterA, "n0@10.240.0.4", "n2@10.240.0.6", "n3@10.240.0.7")
	w.expect("", "updates-withheld")

	w = copiedShop(t, append(own, "n1____102445024 10.244.5.0/24 10.240.0.5")...)
	w.nics(clusterA, "n0@10.240.0.4", "n1@10.240.0.5", "n2@10.240.0.6", "n3@10.240.0.7")
	const add = "create gw-rt n1____102445024 - 10.244.5.0/24>10.240.0.5"
	w.expect(add, "updates-withheld")
	w.settle("10.244.5.0/24", "10.240.0.5")
	w.expect(replaced+"\n"+add, "")
	w.lastWriter(tableA, "ann@example.com")
	w.expect(add, "updates-withheld")
	delete(w.s.Writers, tableA.Key())
	if p := w.expect(add, "updates-withheld"); len(p.Need.Writers) != 1 {
		t.Errorf("needs %+v", p.Need)
	}
}

// TestHolderUnknown: an interface that does not say whose it is proves nothing, and contradicts
// nothing.
func TestHolderUnknown(t *testing.T) {
	w := copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.9", "n2____102442024 10.244.2.0/24 10.240.0.6")
	w.nics(clusterA, "n0@10.240.0.4", "unnamed@10.240.0.9", "n2@10.240.0.6")
	known := w.s.Known(clusterA).NICs
	for a, node := range known.Nodes {
		if node == "unnamed" {
			delete(known.Nodes, a)
		}
	}
	w.expect("", "updates-withheld")
	w.table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n2____102442024 10.244.2.0/24 10.240.0.6")
	w.s.Learn(clusterA).NICs = known
	w.expect("create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.9", "")
}

// TestOldInterfaces: interfaces that an earlier check read are read again before they contradict a
// route: another node can have the address by now.
func TestOldInterfaces(t *testing.T) {
	w := copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.6", "n2____102442024 10.244.2.0/24 10.240.0.5")
	w.remembersNICs(map[netip.Addr]bool{netip.MustParseAddr("10.240.0.5"): true, netip.MustParseAddr("10.240.0.6"): true})
	p := w.expect("", "updates-withheld")
	if len(p.Need.NICs) != 1 {
		t.Errorf("needs %+v", p.Need)
	}
}

// TestBentLate: a write begins late. What the check's interfaces contradict is still not created.
func TestBentLate(t *testing.T) {
	w := copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.6", "n2____102442024 10.244.2.0/24 10.240.0.6")
	w.table(gateway)
	w.nics(clusterA, "n0@10.240.0.4", "n1@10.240.0.5", "n2@10.240.0.6")
	const all = "create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4\n" +
		"create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6"
	w.expect(all, "wrong-next-hop")
	late := New(w.s.Aged(w.configs), w.configs).Again(w.s.Table(gateway))
	if got := changes(late); got != all {
		t.Errorf("late: %s", got)
	}
}

// TestStranger: a route in the cluster's table that its cloud provider would not have named is not
// copied, even if a node has its next hop. A copy of it is another writer's, too, unless it has a
// node's name.
func TestStranger(t *testing.T) {
	three := strings.Split(copiesOfThree, "|")
	for _, name := range []string{"stranger", "to-n1", "aks-n-00000000-vmss000001____102449025",
		"aks-n-00000000-vmss000001____10.244.9.0/24", "aks-n-0-vmss000001"} {
		stranger := name + " 10.244.9.0/24 10.240.0.5"
		w := copiedShop(t, append([]string{stranger}, three...)...)
		w.expect("", "route-in-pod-cidr")
		w.table(gateway, append([]string{stranger}, three...)...)
		if w.settle("10.244.1.0/24", "10.240.0.5"); strings.Contains(name, "____") {
			w.expect("delete gw-rt "+short(name)+" 10.244.9.0/24>10.240.0.5 -", "route-in-pod-cidr")
		} else {
			w.expect("", "route-in-pod-cidr\nunmanaged-overlap")
		}

		// The real route of a new node takes its place, in both tables.
		w.table(tableA, append([]string{"n3____102449024 10.244.9.0/24 10.240.0.7"}, three...)...)
		w.table(gateway, three...)
		w.nics(clusterA, "n0@10.240.0.4", "n1@10.240.0.5", "n2@10.240.0.6", "n3@10.240.0.7")
		w.expect("create gw-rt n3____102449024 - 10.244.9.0/24>10.240.0.7", "")
	}
}

// TestProviderNames: the names that a cloud provider gives a row.
func TestProviderNames(t *testing.T) {
	const v4, v6 = " 10.244.1.0/24 10.0.0.4", " fd12:3456:789a:0:1::/80 fd00::4"
	for _, name := range []string{
		"aks-np-12345678-vmss00000a", "AKS-np-12345678-VMSS00000a", "aks-np-12345678-vms17",
		"aks-np-12345678-0", "akswin00000b", "akswin00000b____102441024",
		"akswinzzz00b____102441024", "aks-np-12345678-vmss00000a____102441024",
	} {
		if !providerNamed(routeOf(t, name+v4)) {
			t.Errorf("%s is not a cloud provider's", name)
		}
	}
	for _, name := range []string{
		"akswinzzz00b", "aks-np-12345678-vmss00000a____102441025",
		"aks-np-12345678-vmss00000a____1024410240", "aks-np-12345678-vmss00000a____10244102",
		"aks-np-12345678-vmss00000a____", "aks-np-1234567-vmss00000a", "aks-np-12345678-vmss00000",
		"aks-np-12345678-", "aks-np-12345678-vms", "aks", "to-firewall",
	} {
		if providerNamed(routeOf(t, name+v4)) {
			t.Errorf("%s is a cloud provider's", name)
		}
	}
	for suffix, want := range map[string]bool{"fd123456789a0180": true,
		"fd123456789a00000180": true, "fd12:3456:789a:0:1::/80": false, "": false} {
		if providerNamed(routeOf(t, "aks-np-12345678-vmss00000a____"+suffix+v6)) != want {
			t.Errorf("IPv6: %q", suffix)
		}
	}
}

func routeOf(t *testing.T, text string) inventory.Route {
	return (&world{t: t, s: shop(t).s}).table(hub, text).s.Table(hub).Routes()[0]
}

// TestCorrectedCopy: the cluster's table gives a pod CIDR to another node than has it. Another
// writer corrects the copy. It stays, because its node exists and has no other route.
func TestCorrectedCopy(t *testing.T) {
	w := copiedShop(t, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n2____102441024 10.244.1.0/24 10.240.0.6")
	w.table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.5")
	w.remembered(clusterA).InSync = map[string]map[netip.Prefix]netip.Addr{gateway.Key(): {
		netip.MustParsePrefix("10.244.1.0/24"): netip.MustParseAddr("10.240.0.6")}}
	w.expect("", "updates-withheld")

	// The changed copy cannot lead to the node that it names: the row's route replaces it.
	w.table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.9")
	w.expect("delete gw-rt n1____102441024 10.244.1.0/24>10.240.0.9 -\n"+
		"create gw-rt n2____102441024 - 10.244.1.0/24>10.240.0.6", "")
}
