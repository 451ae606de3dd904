package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// node is "name podCIDRs addresses", both separated by commas; it has been Ready for an hour.
func node(text string) inventory.Node {
	f := strings.Fields(text)
	n := inventory.Node{Name: full(f[0]), Ready: true, ReadySince: noon.Add(-time.Hour)}
	for _, cidr := range strings.Split(f[1], ",") {
		if cidr != "-" {
			n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix(cidr))
		}
	}
	for _, addr := range strings.Split(f[2], ",") {
		if addr != "-" {
			n.Addresses = append(n.Addresses, netip.MustParseAddr(addr))
		}
	}
	return n
}

// kubernetes sets what the Kubernetes API of clusterA shows.
func (w *world) kubernetes(nodes ...string) *world {
	k := &inventory.Kubernetes{Nodes: []inventory.Node{}}
	for _, text := range nodes {
		k.Nodes = append(k.Nodes, node(text))
	}
	for _, n := range k.Nodes {
		for _, r := range n.PodRoutes() {
			w.claim(r)
		}
	}
	slices.SortFunc(k.Nodes, inventory.Node.Compare)
	w.s.Kubernetes[clusterA.Key()] = k
	return w
}

var threeNodes = []string{"n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5",
	"n2 10.244.2.0/24 10.240.0.6"}

// overlay is a cluster with Azure CNI Overlay, three nodes and source Nodes, and a target with one
// unmanaged route.
func overlay(t testing.TB) *world {
	w := &world{t: t, s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
	w.s.Taken = noon
	w.cluster(clusterA, "10.244.0.0/16", nodesA).subnet(nodesA, "10.240.0.0/24", "").
		subnet(gatewayIn, "10.240.9.0/24", gateway).
		table(gateway, "own 192.168.0.0/16 10.1.0.4")
	c := w.s.Cluster(clusterA)
	c.Plugin, c.PluginMode = "azure", "overlay"
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.config("shop", clusterA, gateway).Spec.Source = v1alpha1.SourceNodes
	return w.kubernetes(threeNodes...)
}

const threeCreated = `
	create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
	create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
	create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`

// inSync is overlay with a target that is in sync.
func inSync(t testing.TB) *world {
	return overlay(t).table(gateway, "own 192.168.0.0/16 10.1.0.4",
		"n0____102440024 10.244.0.0/24 10.240.0.4", "n1____102441024 10.244.1.0/24 10.240.0.5",
		"n2____102442024 10.244.2.0/24 10.240.0.6")
}

func TestNodesAsSource(t *testing.T) {
	overlay(t).expect(threeCreated, "overlay-routes")
	inSync(t).expect("", "overlay-routes")

	// Without the API nothing is known: no route is added or deleted.
	w := inSync(t).table(gateway, "n7____102447024 10.244.7.0/24 10.240.0.9")
	w.s.Kubernetes[clusterA.Key()] = &inventory.Kubernetes{Failed: "no route to host", Since: noon}
	p := w.expect("", "nodes-unread\noverlay-routes")
	if f := p.Findings[0]; !strings.Contains(f.Message, "since 2026-11-22 12:00:00 UTC") {
		t.Errorf("it does not say since when: %s", f.Message)
	}
	w.s.Kubernetes[clusterA.Key()] = &inventory.Kubernetes{Failed: "no", NoLogin: true}
	w.expect("", "kubelogin-missing\noverlay-routes")
	delete(w.s.Kubernetes, clusterA.Key())
	w.expect("", "nodes-unread\noverlay-routes")

	// Without source Nodes the cluster has no routes.
	w = overlay(t)
	w.configs[0].Spec.Source = v1alpha1.SourceRouteTable
	w.expect("", "cluster-not-kubenet")
}

// TestNodeGone: a Node object that is gone proves nothing. Its route stays while a NIC has the
// address, and while the lists of NICs are not complete.
func TestNodeGone(t *testing.T) {
	w := inSync(t).kubernetes(threeNodes[:2]...)
	w.expect("", "deletes-withheld warning\noverlay-routes")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5")
	w.expect("", "deletes-withheld\noverlay-routes") // the pool counts three nodes
	w.s.Cluster(clusterA).Pools[0].Count = 2
	w.expect("delete gw-rt n2____102442024 10.244.2.0/24>10.240.0.6 -", "overlay-routes")

	// All nodes are gone, and their machines are not.
	w = inSync(t).kubernetes()
	w.expect("", "deletes-withheld warning\nsource-empty\noverlay-routes")
}

// TestNodeFlaps: a node that is not Ready keeps its route.
func TestNodeFlaps(t *testing.T) {
	w := inSync(t)
	w.s.Kubernetes[clusterA.Key()].Nodes[1].Ready = false
	w.expect("", "overlay-routes")
}

// TestNodeReaddressed: the route follows once a NIC has the new address.
func TestNodeReaddressed(t *testing.T) {
	w := inSync(t).kubernetes(threeNodes[0], threeNodes[1], "n2 10.244.2.0/24 10.240.0.9")
	w.expect("", "node-without-route\nupdates-withheld\noverlay-routes")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.9")
	w.expect("update gw-rt n2____102442024 10.244.2.0/24>10.240.0.6 10.244.2.0/24>10.240.0.9",
		"overlay-routes")
}

// TestNodesDualStack: each family has a route, with the node's first address of that family. The
// names are those of cloud-provider-azure, which takes colons and slashes out of IPv6, too.
func TestNodesDualStack(t *testing.T) {
	w := overlay(t)
	w.cluster(clusterA, "10.244.0.0/16,fd12:3456:789a::/64", nodesA)
	c := w.s.Cluster(clusterA)
	c.Plugin, c.PluginMode, c.Pools[0].Count = "azure", "overlay", 1
	raw := fmt.Sprintf(`{"id":%q,"properties":{"addressPrefixes":["10.240.0.0/24","fd00:1::/64"]}}`,
		nodesA)
	subnet, err := inventory.DecodeSubnet([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	w.s.Subnets[nodesA.Key()] = subnet
	w.nics(clusterA, "10.240.0.4", "n0@fd00:1::4").
		kubernetes("n0 10.244.0.0/24,fd12:3456:789a:0:1::/80 fd00:1::4,10.240.0.4,10.240.0.77")
	w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n0____fd123456789a0180 - fd12:3456:789a:0:1::/80>fd00:1::4`, "overlay-routes")
}

// TestNodesBeyondRoom: what is there stays, whatever its name is, and free places are filled by the
// names of the nodes, not by their prefixes.
func TestNodesBeyondRoom(t *testing.T) {
	w := overlay(t).kubernetes("n1 10.244.9.0/24 10.240.0.4", "n2 10.244.5.0/24 10.240.0.5",
		"n3 10.244.1.0/24 10.240.0.6")
	w.table(gateway, "own 192.168.0.0/16 10.1.0.4", "n3____102441024 10.244.1.0/24 10.240.0.6")
	w.configs[0].Spec.Targets[0].MaxRoutes = 3
	w.expect("create gw-rt n1____102449024 - 10.244.9.0/24>10.240.0.4",
		"node-without-route\ntarget-full\noverlay-routes")
}

// TestReadyWithoutRoute: a node that is Ready for a minute and lacks its route is an error if this
// check does not repair it, or if the route has been missing for a minute although checks wrote.
func TestReadyWithoutRoute(t *testing.T) {
	w := overlay(t).kubernetes(threeNodes[0], threeNodes[1], threeNodes[2],
		"n3 - 10.240.0.7", "n4 10.244.4.0/24 -")
	k := w.s.Kubernetes[clusterA.Key()]
	p := w.expect(threeCreated, "node-without-route\noverlay-routes")
	if n := len(p.Findings[0].Evidence); n != 2 {
		t.Errorf("%d nodes are reported, want the two without CIDR or address", n)
	}
	for i := range k.Nodes {
		k.Nodes[i].ReadySince = noon.Add(-59 * time.Second)
	}
	p = w.expect(threeCreated, "overlay-routes")

	// The next checks still find the routes missing: something prevents the writes.
	for i := range k.Nodes[:3] {
		k.Nodes[i].ReadySince = noon.Add(-time.Hour)
	}
	k.Nodes = k.Nodes[:3]
	w.remembered(clusterA).Nodes = p.Nodes[clusterA.Key()]
	w.s.Taken = noon.Add(59 * time.Second)
	w.expect(threeCreated, "overlay-routes")
	w.s.Taken = noon.Add(time.Minute)
	w.expect(threeCreated, "node-without-route\noverlay-routes")
}

// TestForwardingOff: the network interface of a node drops packets for its pods.
func TestForwardingOff(t *testing.T) {
	w := inSync(t)
	nics := w.s.Known(clusterA).NICs
	nics.Drops = map[netip.Addr]bool{netip.MustParseAddr("10.240.0.5"): true,
		netip.MustParseAddr("10.240.0.99"): true} // not a node's
	p := w.expect("", "ip-forwarding-off warning\noverlay-routes")
	if e := p.Findings[0].Evidence; len(e) != 1 || !strings.Contains(e[0], "10.240.0.5") {
		t.Errorf("evidence %q", e)
	}
	// It needs the interfaces again while one drops packets, and not once all are known.
	for _, drops := range []bool{true, false} {
		w.remembered(clusterA).Nodes = p.Nodes[clusterA.Key()]
		w.s.Learn(clusterA).NICs = nil
		p = Make(w.s, w.configs)
		if got := len(p.Need.NICs) == 1; got != drops {
			t.Errorf("needs the interfaces: %v, want %v", got, drops)
		}
		nics.Drops = nil
		w.s.Learn(clusterA).NICs = nics
		p = w.expect("", "overlay-routes")
	}
}

// TestSecondOpinion: the nodes of a kubenet cluster are the source, its table is still guarded, and
// what differs between them is reported.
func TestSecondOpinion(t *testing.T) {
	w := shop(t)
	w.s.Taken = noon
	w.configs[0].Spec.Source = v1alpha1.SourceNodes
	known := w.s.Learn(clusterA)
	known.LogRead, known.Written = true, []arm.ID{tableA}
	w.kubernetes(threeNodes...).subnet(nodesA, "10.240.0.0/24", "")
	w.expect(threeCreated+"\nassociate vnet/shop-nodes - shop-rt", "")

	w = shop(t)
	w.s.Taken = noon
	w.configs[0].Spec.Source = v1alpha1.SourceNodes
	w.kubernetes(threeNodes[0], "n1 10.244.1.0/24 10.240.0.6", "n3 10.244.3.0/24 10.240.0.5")
	w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.6
		create gw-rt n3____102443024 - 10.244.3.0/24>10.240.0.5`,
		"node-without-route\nwrong-next-hop\nroute-to-gone-node")
}

// TestSecondOpinionLasts: while a watch shows the nodes, a difference to the cluster's table must
// last for a minute: the API server may hang, and the nodes be old.
func TestSecondOpinionLasts(t *testing.T) {
	w := shop(t)
	w.s.Taken = noon
	w.configs[0].Spec.Source = v1alpha1.SourceNodes
	w.kubernetes(threeNodes[0], "n1 10.244.1.0/24 10.240.0.6", "n3 10.244.3.0/24 10.240.0.5")
	w.s.Kubernetes[clusterA.Key()].Followed = true
	const changes = `
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.6
		create gw-rt n3____102443024 - 10.244.3.0/24>10.240.0.5`
	p := w.expect(changes, "")
	for _, c := range []struct {
		after    time.Duration
		findings string
	}{{59 * time.Second, ""},
		{time.Minute, "node-without-route\nnode-without-route\nwrong-next-hop\nroute-to-gone-node"}} {
		w.remembered(clusterA).Nodes = p.Nodes[clusterA.Key()]
		w.s.Taken = noon.Add(c.after)
		p = w.expect(changes, c.findings)
	}
	k := w.s.Kubernetes[clusterA.Key()]
	k.Nodes, k.Followed = nil, false // all Node objects were deleted
	p = w.expect("", "nodes-unread")
	if m := p.Findings[0].Message; !strings.HasSuffix(m, ": its Kubernetes API shows no nodes") {
		t.Error(m)
	}
}

// TestNodesNeedNoTable: an overlay cluster's target is not taken for its route table, and the table
// on its node subnets is never written.
func TestNodesNeedNoTable(t *testing.T) {
	overlay(t).subnet(nodesA, "10.240.0.0/24", gateway).
		expect("", "target-is-source\noverlay-routes")
}

// TestNodesProperties: whatever the nodes are, unmanaged routes survive, a second plan has nothing
// to do, no route is deleted while its address has a NIC, and the target never exceeds its limit.
func TestNodesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := overlay(new(testing.T))
		w.s.Cluster(clusterA).Pools[0].Count = 0
		var nodes, nics, routes []string
		for i := range 9 {
			text := fmt.Sprintf("n%d 10.244.%d.0/24 10.240.0.%d", i, i, i+4)
			if rapid.Bool().Draw(t, "node") {
				nodes = append(nodes, text)
			}
			if rapid.Bool().Draw(t, "nic") {
				nics = append(nics, fmt.Sprintf("10.240.0.%d", i+4))
			}
			if rapid.Bool().Draw(t, "route") {
				hop := rapid.IntRange(4, 12).Draw(t, "hop")
				routes = append(routes, fmt.Sprintf("n%d 10.244.%d.0/24 10.240.0.%d", i, i, hop))
			}
		}
		w.kubernetes(nodes...).nics(clusterA, nics...)
		w.table(gateway, append(routes, "own 192.168.0.0/16 10.1.0.4")...)
		limit := rapid.IntRange(len(routes)+1, 12).Draw(t, "limit")
		w.configs[0].Spec.Targets[0].MaxRoutes = limit
		p := Make(w.s, w.configs)
		for _, c := range p.Changes {
			if c.Verb == Delete && slices.Contains(nics, c.Old.NextHopIPAddress) {
				t.Errorf("deletes %s, whose address has a NIC", c.Route)
			}
		}
		desired := p.Desired.Table(gateway)
		if len(desired.Routes) > limit {
			t.Errorf("%d routes, the limit is %d", len(desired.Routes), limit)
		}
		if !slices.ContainsFunc(desired.Routes, func(r inventory.Route) bool {
			return r.Name == "own"
		}) {
			t.Error("the unmanaged route is gone")
		}
		w.s.Tables[gateway.Key()] = w.s.Table(gateway).WithRoutes(desired.Routes)
		if p := Make(w.s, w.configs); len(p.Changes) != 0 && len(desired.Routes) < limit {
			t.Errorf("a second plan changes %s", changes(p))
		}
	})
}
