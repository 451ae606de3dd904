package trace

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/network"
)

// Verdict is how a packet's way ends.
type Verdict string

// A packet is delivered; or dropped; or it leaves what can be seen: to an appliance that decides for itself, to the internet,
// through a gateway; or something on its way was not read.
const (
	Delivered Verdict = "delivered"
	Dropped   Verdict = "dropped"
	Leaves    Verdict = "leaves"
	Unknown   Verdict = "unknown"
)

// Way is the way of a packet, in one direction.
type Way struct {
	From netip.Addr `json:"from"`
	To   netip.Addr `json:"to"`
	// Hops are what happens, in order, a sentence each.
	Hops    []Hop   `json:"hops"`
	Verdict Verdict `json:"verdict"`
	// Why says why it ends as it does.
	Why string `json:"why"`
	// Source is who the packet seems to come from when it arrives: the node's address where source NAT was done.
	Source netip.Addr `json:"source"`
}

// Hop is one step: at a place, something happens; Route is the one that was taken, "" where none was.
type Hop struct {
	At    string `json:"at"`
	What  string `json:"what"`
	Route string `json:"route,omitempty"`
}

// Node is a cluster's node, as route tables show it: by the route to its pods.
type Node struct {
	Cluster network.ID
	Addr    netip.Addr
	Pods    netip.Prefix
	Table   network.ID // where it was seen
}

// Nodes finds the nodes of kubenet clusters: routes to a part of the pod CIDR by way of a node subnet's address, in the tables
// of the node subnets. Where those show none, as when the association is lost, any table will do.
func Nodes(s *network.Snapshot) []Node {
	var all []Node
	for _, key := range slices.Sorted(maps.Keys(s.Clusters)) {
		cluster := s.Clusters[key]
		if !cluster.Kubenet() {
			continue
		}
		var own, others []*network.RouteTable
		for _, id := range s.NodeSubnetIDs(cluster) {
			if subnet := s.Subnet(id); subnet != nil && s.Table(subnet.RouteTable) != nil {
				own = append(own, s.Table(subnet.RouteTable))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
			others = append(others, s.Tables[key])
		}
		nodes := nodesIn(own, cluster, s.NodePrefixes(cluster))
		if len(nodes) == 0 {
			nodes = nodesIn(others, cluster, s.NodePrefixes(cluster))
		}
		all = append(all, nodes...)
	}
	return all
}

func nodesIn(tables []*network.RouteTable, cluster *network.Cluster, subnets []netip.Prefix) []Node {
	var nodes []Node
	seen := map[netip.Prefix]bool{}
	for _, table := range tables {
		for _, r := range table.Routes {
			if r.Hop.IsValid() && !seen[r.Prefix] && within(r.Prefix, cluster.PodCIDRs) && contains(subnets, r.Hop) {
				seen[r.Prefix] = true
				nodes = append(nodes, Node{Cluster: cluster.ID, Addr: r.Hop, Pods: r.Prefix, Table: table.ID})
			}
		}
	}
	return nodes
}

func within(p netip.Prefix, wide []netip.Prefix) bool {
	return slices.ContainsFunc(wide, func(w netip.Prefix) bool { return p.IsValid() && w.Bits() < p.Bits() && w.Contains(p.Addr()) })
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// tracer follows packets in one snapshot.
type tracer struct {
	s       *network.Snapshot
	nodes   []Node
	learned []Route
	routes  map[string]*Routes // by the subnet's key
}

// Ways follows a packet there, and the answer back: to the address that the packet seemed to come from.
func Ways(s *network.Snapshot, from, to netip.Addr, learned []Route) (there, back Way) {
	t := &tracer{s: s, nodes: Nodes(s), learned: learned, routes: map[string]*Routes{}}
	there = t.follow(from, to, false)
	back = t.follow(to, there.Source, true)
	return there, back
}

// nodesOf are the nodes that have a pod: several where clusters overlap.
func (t *tracer) nodesOf(pod netip.Addr) []Node {
	return slices.DeleteFunc(slices.Clone(t.nodes), func(n Node) bool { return !n.Pods.Contains(pod) })
}

// nodesAt are what a node at an address in a subnet routes for: one entry for each of its pod CIDRs.
func (t *tracer) nodesAt(a netip.Addr, subnet *network.Subnet) []Node {
	return slices.DeleteFunc(slices.Clone(t.nodes), func(n Node) bool { return n.Addr != a || t.subnetOfNode(n) != subnet })
}

// subnetOfNode is the subnet of a node: one of its cluster's, whatever other network has the same prefix.
func (t *tracer) subnetOfNode(n Node) *network.Subnet {
	cluster := t.s.Cluster(n.Cluster)
	for _, id := range t.s.NodeSubnetIDs(cluster) {
		if subnet := t.s.Subnet(id); subnet != nil && contains(subnet.Prefixes, n.Addr) {
			return subnet
		}
	}
	return nil
}

// subnetsOf are the subnets that an address lies in: several where networks overlap.
func (t *tracer) subnetsOf(a netip.Addr) []*network.Subnet {
	var out []*network.Subnet
	for _, key := range slices.Sorted(maps.Keys(t.s.Subnets)) {
		if contains(t.s.Subnets[key].Prefixes, a) {
			out = append(out, t.s.Subnets[key])
		}
	}
	return out
}

// reach is the subnet that an address has as seen from another one: in the same network, or in the one a peering leads to.
func (t *tracer) reach(from *network.Subnet, a netip.Addr, peered bool) *network.Subnet {
	vnet := t.s.VNets[from.ID.Parent().Key()]
	for _, subnet := range t.subnetsOf(a) {
		at := subnet.ID.Parent()
		if !peered && at.Equal(vnet.ID) {
			return subnet
		}
		if peered && slices.ContainsFunc(vnet.Peerings, func(p network.Peering) bool {
			return p.Remote.Equal(at) && p.Connected && p.Access && contains(p.Prefixes, a)
		}) {
			return subnet
		}
	}
	return nil
}

// podCIDRs are those of a cluster.
func (t *tracer) podCIDRs(cluster network.ID) []netip.Prefix {
	if c := t.s.Cluster(cluster); c != nil {
		return c.PodCIDRs
	}
	return nil
}

// maxHops is more than any way without a loop has.
const maxHops = 16

// follow follows one packet. An answer gets no source NAT: its connection is known.
func (t *tracer) follow(from, to netip.Addr, answer bool) Way {
	from, to = from.Unmap(), to.Unmap()
	w := Way{From: from, To: to, Source: from}
	step := func(at, route, format string, args ...any) {
		w.Hops = append(w.Hops, Hop{At: at, What: fmt.Sprintf(format, args...), Route: route})
	}
	end := func(v Verdict, format string, args ...any) Way {
		w.Verdict, w.Why = v, fmt.Sprintf(format, args...)
		return w
	}
	at, subnet := from, (*network.Subnet)(nil)
	nodes, subnets := t.nodesOf(from), t.subnetsOf(from)
	switch {
	case len(nodes) > 1:
		return end(Unknown, "%s is a pod's address in several clusters: of the nodes %s", from, nodeNames(nodes))
	case len(nodes) == 1:
		node := nodes[0]
		if subnet = t.subnetOfNode(node); subnet == nil {
			return end(Unknown, "the subnet of the node %s was not read", node.Addr)
		}
		step("pod "+from.String(), "", "leaves by its node %s of cluster %s", node.Addr, node.Cluster.Name())
		if node.Pods.Contains(to) {
			return end(Delivered, "both pods are on the node %s", node.Addr)
		}
		at = node.Addr
		if at == to {
			return end(Delivered, "it is the pod's own node")
		}
		// kubenet hides pods behind their node from all that is no pod of the cluster (concepts-network, kubenet).
		if !answer && !contains(t.podCIDRs(node.Cluster), to) {
			w.Source = node.Addr
			step("node "+at.String(), "", "source NAT: it goes on as %s", at)
		}
	case len(subnets) == 0:
		return end(Unknown, "%s is neither in a subnet that was read nor a pod with a route", from)
	case len(subnets) > 1:
		names := make([]string, len(subnets))
		for i, s := range subnets {
			names[i] = s.ID.Short()
		}
		return end(Unknown, "%s lies in several subnets that overlap: %s", from, strings.Join(names, ", "))
	default:
		subnet = subnets[0]
	}
	for range maxHops {
		for _, node := range t.nodesAt(at, subnet) {
			if node.Pods.Contains(to) {
				step("node "+at.String(), "", "hands it to the pod %s", to)
				return end(Delivered, "the pod is on this node")
			}
		}
		routes, err := t.routesOf(subnet.ID)
		if err != nil {
			return end(Unknown, "%v", err)
		}
		route, found := routes.Lookup(to)
		if !found {
			return end(Dropped, "no route of subnet %s leads to %s", subnet.ID.Short(), to)
		}
		place := at.String() + " in " + subnet.ID.Short()
		switch route.HopType {
		case HopNone:
			step(place, route.String(), "dropped")
			return end(Dropped, "subnet %s has no better route to %s than %s", subnet.ID.Short(), to, route)
		case HopInternet:
			step(place, route.String(), "goes out to the internet")
			return end(Leaves, "it goes out to the internet")
		case network.HopGateway:
			step(place, route.String(), "goes to the virtual network gateway")
			return end(Leaves, "the virtual network gateway decides")
		case HopLocal, HopPeering:
			target := t.reach(subnet, to, route.HopType == HopPeering)
			if target == nil {
				step(place, route.String(), "goes into the network")
				if route.HopType == HopPeering {
					return end(Unknown, "the peered network was not read")
				}
				return end(Dropped, "no subnet of the network has the address %s", to)
			}
			step(place, route.String(), "arrives at %s in %s", to, target.ID.Short())
			return end(Delivered, "%s is in subnet %s", to, target.ID.Short())
		}
		step(place, route.String(), "goes to %s", route.Hop)
		if route.Hop == at {
			return end(Dropped, "the next hop is where it comes from: %s does not have %s", at, to)
		}
		near, v := t.nextSubnet(subnet, route.Hop)
		if v != Delivered {
			return end(v, "the next hop %s is in no network that subnet %s reaches directly", route.Hop, subnet.ID.Short())
		}
		switch {
		case route.Hop == to:
			return end(Delivered, "the next hop is the destination")
		case near == nil || len(t.nodesAt(route.Hop, near)) == 0:
			return end(Leaves, "%s is no node of a cluster: what it does with the packet is its own", route.Hop)
		}
		at, subnet = route.Hop, near
	}
	return end(Dropped, "it goes round in circles")
}

// nextSubnet is the subnet of a next hop, which has to be reached by the network itself or a peering: an appliance behind
// another one is none. Unknown where the peered network was not read.
func (t *tracer) nextSubnet(from *network.Subnet, hop netip.Addr) (*network.Subnet, Verdict) {
	vnet := t.s.VNets[from.ID.Parent().Key()]
	if contains(vnet.Prefixes, hop) {
		return t.reach(from, hop, false), Delivered
	}
	for _, p := range vnet.Peerings {
		if p.Connected && p.Access && contains(p.Prefixes, hop) {
			if near := t.reach(from, hop, true); near != nil {
				return near, Delivered
			}
			return nil, Unknown
		}
	}
	return nil, Dropped
}

func nodeNames(nodes []Node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Addr.String()+" of "+n.Cluster.Name())
	}
	return strings.Join(names, ", ")
}

func (t *tracer) routesOf(subnet network.ID) (*Routes, error) {
	if r := t.routes[subnet.Key()]; r != nil {
		return r, nil
	}
	r, err := Effective(t.s, subnet, t.learned)
	if err == nil {
		t.routes[subnet.Key()] = r
	}
	return r, err
}
