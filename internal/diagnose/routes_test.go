package diagnose

import (
	"fmt"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// lone is the healthy world without targets and migration blockers: only the cluster's route table
// counts.
func lone(t *testing.T) *world {
	w := healthy(t)
	w.aside = "migration-"
	w.c.Configs[0].Spec.Targets, w.c.Configs[0].Spec.Guard.Subnets = nil, nil
	w.routes(gwTable)
	return w
}

// with is lone with more routes in the cluster's route table.
func with(t *testing.T, routes ...any) *world {
	return lone(t).routes(shopTable,
		append(list{podRoute(0), podRoute(1), podRoute(2)}, routes...)...)
}

// leading is the pod route of a node with another next hop.
func leading(i int, hop string) object {
	r := podRoute(i)
	r["properties"].(object)["nextHopIpAddress"] = hop
	return r
}

// machine adds a network interface.
func (w *world) machine(id arm.ID, addresses ...string) *world {
	configs := list{}
	for i, a := range addresses {
		configs = append(configs, object{"name": fmt.Sprint("ipconfig", i+1),
			"properties": object{"privateIPAddress": a, "subnet": link(nodes)}})
	}
	return w.put(object{"id": string(id), "name": id.Name(),
		"properties": object{"enableIPForwarding": true, "ipConfigurations": configs}})
}

// node changes a node in Kubernetes.
func (w *world) node(i int, change func(*inventory.Node)) *world {
	change(&w.kube[shop.Key()].Nodes[i])
	return w
}

// blind removes the network interface of a node, so that not all interfaces are seen.
func (w *world) blind(i int) *world { return w.without(nicID(i)) }

// sized sets a field of the cluster's pool.
func (w *world) sized(name string, value any) *world {
	w.props(shop)["agentPoolProfiles"].(list)[0].(object)[name] = value
	return w
}

func TestRouteToGoneNode(t *testing.T) {
	gone := podRoute(7)
	f := with(t, gone).finds(finding.RouteToGoneNode)
	is(t, f, finding.Warning)
	says(t, f, "1 route leads", "10.244.7.0/24 to 10.42.1.11",
		"no network interface has the address", "az network route-table route delete --ids "+
			string(shopTable)+"/routes/"+gone["name"].(string))
	f = with(t, gone).kubernetes().finds(finding.RouteToGoneNode)
	says(t, f, "no node has this pod CIDR")
	// Its address now belongs to another node, which has its own route.
	passed := leading(7, nodeAddr(1))
	says(t, with(t, passed).finds(finding.RouteToGoneNode), "now belongs to "+nodeName(1))

	// Without all interfaces, the owner of the address is unknown.
	with(t, gone).sized("count", 4).finds()
	lone(t).blind(2).finds()
	// One of them could not be parsed.
	with(t, gone).machine(nicID(2), "?").finds()
	// None was read.
	lone(t).blind(0).blind(1).blind(2).sized("count", 0).finds()
	// Older clusters name a route after its node alone. A cloud provider wrote no other name.
	bare := podRoute(2)
	bare["name"] = nodeName(2)
	lone(t).routes(shopTable, podRoute(0), podRoute(1), bare).finds()
	bare["name"] = "some-node"
	says(t, lone(t).routes(shopTable, podRoute(0), podRoute(1), bare).finds(finding.RouteInPodCIDR),
		"is named after no node")
}

func TestWrongHop(t *testing.T) {
	wrong := func(hop string) *world {
		return lone(t).routes(shopTable, podRoute(0), podRoute(1), leading(2, hop))
	}
	for _, kube := range []bool{false, true} {
		asking := func(w *world) *world {
			if kube {
				return w.kubernetes()
			}
			return w
		}
		f := asking(wrong("10.42.1.99")).finds(finding.WrongHop)
		is(t, f, finding.Error)
		says(t, f, nodeName(2)+" (10.42.1.6)", "no network interface of the cluster has 10.42.1.99",
			"az network route-table route delete --ids "+string(shopTable)+
				"/routes/"+nodeName(2))
		says(t, asking(wrong(nodeAddr(0))).finds(finding.WrongHop), nodeAddr(0)+" belongs to "+
			nodeName(0))
		// Outside the node subnets package plan finds it too, but this finding says more.
		asking(wrong("10.99.0.4")).finds(finding.WrongHop)
		says(t, asking(wrong("10.42.1.99").machine(netGroup+
			"/providers/Microsoft.Network/networkInterfaces/jump", "10.42.1.99")).finds(
			finding.WrongHop), "belongs to jump")
		asking(wrong(nodeAddr(2))).finds()
		// Another route leads outside too, and is not a node's.
		w := asking(wrong("10.99.0.4"))
		w.routes(shopTable, append(w.props(shopTable)["routes"].([]any),
			leading(9, "10.99.0.5"))...).finds(finding.WrongHop, finding.SourceHop)
	}
	// The node's own address could not be read.
	lone(t).routes(shopTable, podRoute(0), podRoute(1), leading(2, "10.42.1.99")).machine(nicID(2)).
		finds()
	// Kubernetes may know a node by several addresses.
	wrong("10.42.1.99").kubernetes().machine(nicID(2), nodeAddr(2), "10.42.1.99").node(2,
		func(n *inventory.Node) { n.Addresses = append(n.Addresses, addr("10.42.1.99")) }).finds()
}

func TestHopNotNode(t *testing.T) {
	jump := netGroup + "/providers/Microsoft.Network/networkInterfaces/jump"
	f := with(t, route("old", "10.244.9.0/24", "VirtualAppliance", "10.42.1.99")).machine(jump,
		"10.42.1.99").finds(finding.HopNotNode)
	is(t, f, finding.Warning)
	says(t, f, "leads to jump")
	// Another machine somewhere else has the same address.
	elsewhere := with(t, route("old", "10.244.9.0/24", "VirtualAppliance", "10.42.1.99")).machine(
		jump, "10.42.1.99")
	elsewhere.props(jump)["ipConfigurations"].(list)[0].(object)["properties"].(object)["subnet"] =
		link(netGroup + "/providers/Microsoft.Network/virtualNetworks/far/subnets/nodes")
	elsewhere.finds(finding.RouteToGoneNode)
}

func TestRouteInPodCIDR(t *testing.T) {
	for _, r := range []object{
		route("to-firewall", "10.244.128.0/17", "VirtualAppliance", "10.42.9.4"),
		route("to-firewall", "10.244.0.0/16", "VirtualAppliance", "10.42.9.4"),
		route("to-firewall", "10.244.200.128/25", "Internet", ""),
		route("to-firewall", "10.244.200.0/24", "None", ""),
		route("same-way", "10.244.1.0/25", "VirtualAppliance", nodeAddr(1)),
	} {
		for _, w := range []*world{with(t, r), with(t, r).kubernetes()} {
			f := w.finds(finding.RouteInPodCIDR)
			is(t, f, finding.Warning)
			says(t, f, r["name"].(string), "inside the pod CIDR 10.244.0.0/16", "whatever its name")
		}
	}
	// It extends beyond the pod CIDR, but the cloud provider checks its first and its last address.
	says(t, with(t, route("wide", "10.244.0.0/15", "VirtualAppliance", "10.42.9.4")).finds(
		finding.RouteInPodCIDR), "overlaps the pod CIDR")
	with(t, route("wide", "10.246.0.0/15", "VirtualAppliance", "10.42.9.4")).addresses("podCidrs",
		"10.244.0.0/16", "10.247.0.0/16").finds(finding.RouteInPodCIDR)
	with(t, route("wide", "10.240.0.0/12", "VirtualAppliance", "10.42.9.4")).finds()
	// The cloud provider leaves routes next to the pod CIDR, or around it, alone.
	with(t, route("to-firewall", "10.245.0.0/24", "VirtualAppliance", "10.42.9.4"),
		route("all", "10.0.0.0/8", "VirtualAppliance", "10.42.9.4"),
		route("storage", "Storage", "Internet", "")).finds()
	// In another table the route is unmanaged.
	lone(t).routes(gwTable,
		route("to-firewall", "10.244.128.0/17", "VirtualAppliance", "10.42.9.4")).finds()
	// Package plan reports next hops outside the node subnets.
	with(t, route("to-firewall", "10.244.200.0/24", "VirtualAppliance", "10.42.9.4")).finds(
		finding.SourceHop)
}

func TestRouteShadows(t *testing.T) {
	for _, w := range []*world{with(t, route("half", "10.244.1.0/25", "None", "")),
		with(t, route("half", "10.244.1.0/25", "None", "")).kubernetes()} {
		f := w.finds(finding.RouteShadows)
		is(t, f, finding.Error)
		says(t, f, "half (10.244.1.0/25 to None)",
			"more specific than the pod route 10.244.1.0/24 of "+
				nodeName(1), nodeAddr(1))
	}
	f := with(t, route("half", "10.244.1.0/25", "VirtualAppliance", "10.42.9.4")).finds(
		finding.RouteShadows)
	is(t, f, finding.Warning)
	// It is not a node's prefix, so no pod route is shadowed.
	with(t, route("half", "10.244.77.0/25", "None", "")).finds(finding.RouteInPodCIDR)
}

func TestClaimedTwice(t *testing.T) {
	f := with(t, route("copy", "10.244.1.0/25", "VirtualAppliance", nodeAddr(2))).finds(
		finding.ClaimedTwice)
	is(t, f, finding.Error)
	says(t, f, "copy (10.244.1.0/25 to "+nodeAddr(2)+")", "10.244.1.0/24", nodeAddr(1))
	// No interface was read, but the address is in the node subnet, so it counts as a node's.
	with(t, route("copy", "10.244.1.0/25", "VirtualAppliance", nodeAddr(2))).blind(0).blind(1).
		blind(2).finds(finding.ClaimedTwice)
	// A saved file can have routes that Azure refuses.
	with(t, route("copy", "10.244.1.0/24", "VirtualAppliance", nodeAddr(2))).finds(
		finding.ClaimedTwice)
	with(t, route("copy", "10.244.1.0/24", "VirtualAppliance", nodeAddr(1))).finds()
	// The other prefix is not a node's pod CIDR any more.
	with(t, podRoute(7), route("copy", "10.244.7.0/25", "VirtualAppliance", nodeAddr(2))).
		kubernetes().finds(finding.RouteToGoneNode, finding.RouteInPodCIDR)
}

func TestTableRoom(t *testing.T) {
	filled := func(n int) *world {
		var more []any
		for i := range n {
			more = append(more, route(fmt.Sprint("branch-", i), fmt.Sprintf("172.16.%d.0/24", i),
				"VirtualAppliance", "10.42.9.4"))
		}
		w := with(t, more...)
		w.c.RouteLimit = 10
		return w
	}
	f := filled(5).finds(finding.TableFilling)
	is(t, f, finding.Warning)
	says(t, f, "8 of 10 routes", "2 more nodes fit", "az network route-table route list")
	filled(4).finds()
	f = filled(4).sized("enableAutoScaling", true).sized("maxCount", 7).finds(finding.TableFilling)
	says(t, f, "3 more nodes fit", "the autoscaler can add 4 nodes")
	filled(4).sized("enableAutoScaling", true).sized("maxCount", 6).finds()
	filled(4).sized("enableAutoScaling", false).sized("maxCount", 100).finds()

	f = filled(7).finds(finding.TableFull)
	is(t, f, finding.Warning)
	says(t, f, "10 of 10 routes")
	// Azure Virtual Network Manager raised the limit.
	filled(8).finds()
	// It explains why a node has no route.
	w := filled(8).routes(shopTable, append(filled(8).props(shopTable)["routes"].([]any)[:2],
		filled(8).props(shopTable)["routes"].([]any)[3:]...)...).kubernetes()
	f = w.finds(finding.TableFull)
	is(t, f, finding.Error)
	says(t, f, nodeName(2))
}

func TestForwardingOff(t *testing.T) {
	f := lone(t).set(nicID(1), "enableIPForwarding", false).finds(finding.ForwardingOff)
	is(t, f, finding.Error)
	says(t, f, "aks-nodepool1-12345678-vmss instance 1", "az vmss update --ids "+string(scaleSet()))
	alone := nodeGroup +
		"/providers/Microsoft.Network/networkInterfaces/aks-nodepool1-12345678-nic-0"
	says(t, lone(t).machine(alone, "10.42.1.50").set(alone, "enableIPForwarding",
		false).sized("count", 4).also(func(s *inventory.Snapshot) { s.Taken = time.Time{} }).
		finds(finding.ForwardingOff, finding.NodeWithoutRoute), "az network nic update --ids "+
		string(alone))
	lone(t).set(nicID(1), "enableIPForwarding", false).set(shop, "powerState",
		object{"code": "Stopped"}).finds()
	// Not a node's: a private endpoint, or another user's machine.
	endpoint := nodeGroup + "/providers/Microsoft.Network/networkInterfaces/kube-apiserver.nic.1234"
	lone(t).machine(endpoint, "10.42.1.50").set(endpoint, "enableIPForwarding", false).finds()
	jump := netGroup + "/providers/Microsoft.Network/networkInterfaces/jump"
	lone(t).machine(jump, "10.42.1.50").set(jump, "enableIPForwarding", false).finds()
}
