package diagnose

import (
	"net/netip"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// lacking is a world in which node 2 has no route.
func lacking(t *testing.T) *world { return lone(t).routes(shopTable, podRoute(0), podRoute(1)) }

// unavailable makes Kubernetes report that a node has no route.
func marked(n *inventory.Node) {
	n.NetworkUnavailable = &inventory.Condition{True: true, Reason: "NoRouteCreated",
		Message: "RouteController failed to create a route"}
}

func TestNodeWithoutRoute(t *testing.T) {
	f := lacking(t).finds(finding.NodeWithoutRoute)
	is(t, f, finding.Error)
	says(t, f, "1 node of cluster shop has no route in its route table shop-rt", nodeName(2)+
		" (10.42.1.6): IPv4", "az monitor activity-log list --resource-id "+string(shopTable))
	f = lacking(t).kubernetes().node(2, marked).finds(finding.NodeWithoutRoute)
	is(t, f, finding.Error)
	says(t, f, "10.244.2.0/24", "NetworkUnavailable is true (NoRouteCreated)")
	lacking(t).kubernetes().node(2, func(n *inventory.Node) {
		n.NetworkUnavailable = nil
	}).finds(finding.NodeWithoutRoute)
	// A table without any route is the same, and this says more than that the table is empty.
	lone(t).routes(shopTable).names(shopTable).finds(finding.NodeWithoutRoute)

	// The targets are not reported either.
	healthy(t).routes(shopTable).names(shopTable).finds(finding.NodeWithoutRoute)

	// A surge node, or one that is being created: nothing shows its age.
	surge := nicID(3)
	f = lone(t).machine(surge, nodeAddr(3)).finds(finding.NodeWithoutRoute)
	is(t, f, finding.Warning)
	says(t, f, "their age is unknown")
	is(t, lacking(t).set(shop, "provisioningState", "Upgrading").finds(finding.NodeWithoutRoute),
		finding.Warning)
	// Kubernetes shows the age.
	lacking(t).kubernetes().node(2, marked).node(2, born(time.Minute)).finds()
	lacking(t).kubernetes().node(2, marked).node(2, born(time.Hour)).finds(finding.NodeWithoutRoute)
	lacking(t).kubernetes().node(2, marked).node(2,
		born(time.Minute)).also(func(s *inventory.Snapshot) {
		s.Taken = time.Time{}
	}).finds(finding.NodeWithoutRoute)
	// Not a node of the pools: a machine that a user put into the subnet.
	lone(t).machine(netGroup+"/providers/Microsoft.Network/networkInterfaces/jump",
		"10.42.1.99").finds()
	lone(t).machine(nodeGroup+"/providers/Microsoft.Network/networkInterfaces/bastion",
		"10.42.1.99").finds()
	// A virtual node has no machine, and no route.
	lone(t).kubernetes().also(func(s *inventory.Snapshot) {
		k := s.Kubernetes[shop.Key()]
		k.Nodes = append(k.Nodes, inventory.Node{Name: "virtual-node-aci-linux",
			ProviderID: "virtual://x", PodCIDRs: []netip.Prefix{
				netip.MustParsePrefix("10.244.8.0/24")},
			Addresses: []netip.Addr{addr("10.42.1.80")}})
	}).finds()
	// A stopped cluster has no nodes.
	lacking(t).set(shop, "powerState", object{"code": "Stopped"}).finds()
	// If the cluster's route table is uncertain, nothing is reported as missing from it.
	lone(t).routes(shopTable).also(func(s *inventory.Snapshot) {
		s.Learn(shop).LogRead = true
	}).finds(finding.SourceEmpty)
	// The lost table is another finding, and neither hides the other.
	lacking(t).unset(nodes, "routeTable").names(shopTable).finds(finding.AssociationLost,
		finding.NodeWithoutRoute)
	// Without the table, its routes are not reported.
	w := lacking(t).absent(shopTable).kubernetes().node(2,
		marked).also(func(s *inventory.Snapshot) { s.Learn(shop).LogRead = true })
	w.c.Configs[0].Spec.RouteTableID = string(shopTable)
	w.finds(finding.TableMissing)
}

// born gives a node an age at the time of the snapshot.
func born(age time.Duration) func(*inventory.Node) {
	return func(n *inventory.Node) {
		n.Created = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).Add(-age)
	}
}

// TestPoolNames: a Windows pool's name can be a prefix of another's.
func TestPoolNames(t *testing.T) {
	w := lone(t)
	for at, address := range map[arm.ID]string{"aksnp/virtualMachines/0": "10.42.1.20",
		"aksnp1/virtualMachines/0": "10.42.1.21", "aksnp1/virtualMachines/1": "10.42.1.22"} {
		w.machine(nodeGroup+"/providers/Microsoft.Compute/virtualMachineScaleSets/"+at+
			"/networkInterfaces/nic", address)
	}
	profiles := w.props(shop)["agentPoolProfiles"].(list)
	for i, name := range []string{"np1", "np"} {
		profiles = append(profiles, object{"name": name, "count": 2 - i,
			"vnetSubnetID": string(nodes), "osType": "Windows"})
	}
	w.set(shop, "agentPoolProfiles", profiles)
	is(t, w.finds(finding.NodeWithoutRoute), finding.Error)
}

func TestRouteUnnoticed(t *testing.T) {
	f := lacking(t).kubernetes().finds(finding.RouteUnnoticed)
	is(t, f, finding.Error)
	says(t, f, nodeName(2), "10.244.2.0/24", "NetworkUnavailable is false (RouteCreated)")
	lone(t).kubernetes().routes(shopTable).names(shopTable).finds(finding.RouteUnnoticed)
	lone(t).kubernetes().finds()

	// The node's age does not matter: Kubernetes reports the route, and the table was read after
	// that.
	said := func(before time.Duration) func(*inventory.Node) {
		return func(n *inventory.Node) {
			born(time.Minute)(n)
			n.NetworkUnavailable = &inventory.Condition{Reason: "RouteCreated",
				Since: n.Created.Add(time.Minute - before)}
		}
	}
	is(t, lacking(t).kubernetes().node(2, said(time.Second)).finds(finding.RouteUnnoticed),
		finding.Error)
	// The table may be older than the report.
	lacking(t).kubernetes().node(2, said(0)).finds()
	lacking(t).kubernetes().node(2, said(-time.Second)).finds()
	// The same for an old node whose condition just changed.
	lacking(t).kubernetes().node(2, said(0)).node(2, born(time.Hour)).finds()
	// Without a time, the report counts as older than the table.
	lacking(t).kubernetes().node(2, born(time.Minute)).node(2, func(n *inventory.Node) {
		n.NetworkUnavailable.Since = time.Time{}
	}).finds(finding.RouteUnnoticed)
}

// TestSurgeShort: the subnet has 251 addresses, and an upgrade first creates one node.
func TestSurgeShort(t *testing.T) {
	f := lone(t).use(nodes, 251).finds(finding.SurgeShort)
	is(t, f, finding.Warning)
	says(t, f, "shop-vnet/nodes has 0 free addresses", "pool nodepool1 needs 1",
		"routekeeper cluster capacity --cluster "+string(shop))
	lone(t).use(nodes, 250).finds()
}

// dual makes the cluster dual-stack.
func dual(t *testing.T) *world {
	w := lone(t)
	profile := w.props(shop)["networkProfile"].(object)
	profile["podCidrs"] = list{"10.244.0.0/16", "fd12:3456:789a::/64"}
	w.set(nodes, "addressPrefixes", list{"10.42.1.0/24", "fd42::/64"})
	var routes []any
	for i := range 3 {
		w.machine(nicID(i), nodeAddr(i), six(i))
		routes = append(routes, podRoute(i),
			route(nodeName(i)+"____six", sixPods(i), "VirtualAppliance", six(i)))
	}
	return w.routes(shopTable, routes...)
}

func six(i int) string     { return "fd42::" + string(rune('a'+i)) }
func sixPods(i int) string { return "fd12:3456:789a:0:" + string(rune('1'+i)) + "::/80" }

func TestRouteHalf(t *testing.T) {
	dual(t).finds()
	half := dual(t)
	half.routes(shopTable, half.props(shopTable)["routes"].([]any)[:5]...)
	f := half.finds(finding.RouteHalf)
	is(t, f, finding.Error)
	says(t, f, nodeName(2), "IPv6")
	// Both families are missing.
	none := dual(t)
	none.routes(shopTable, none.props(shopTable)["routes"].([]any)[:4]...).finds(
		finding.NodeWithoutRoute)
	// The node has no IPv6 address yet.
	dual(t).machine(nicID(2), nodeAddr(2)).routes(shopTable,
		half.props(shopTable)["routes"].([]any)...).finds()

	prefixes := func(w *world) *world {
		w.kubernetes()
		for i := range 3 {
			w.node(i, func(n *inventory.Node) {
				n.PodCIDRs, n.Addresses = append(n.PodCIDRs, netip.MustParsePrefix(sixPods(i))),
					append(n.Addresses, addr(six(i)))
			})
		}
		return w
	}
	prefixes(dual(t)).finds()
	says(t, prefixes(half).finds(finding.RouteHalf), sixPods(2))
	prefixes(half).node(2, func(n *inventory.Node) { n.Addresses = n.Addresses[:1] }).finds()

	// A node takes two routes: 6 of 10 routes leave room for two nodes.
	w := dual(t).sized("enableAutoScaling", true).sized("maxCount", 5)
	w.c.RouteLimit = 10
	w.finds()
	w.sized("maxCount", 6)
	says(t, w.finds(finding.TableFilling), "2 more nodes fit", "two routes")
	w.c.RouteLimit = 7
	w.finds(finding.TableFull)
}
