package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// maxHops is larger than the number of hops on any path without a loop.
const maxHops = 16

// follow follows one packet. An answer gets no source NAT, because its connection is known.
func (j *journey) follow(from Endpoint) Way {
	at, subnet, done := j.leave(from)
	if done {
		return j.way
	}
	to := j.way.To
	if j.answer && to == host {
		return j.end(Delivered, "the host of the node takes the answer to its probe")
	}
	for _, node := range j.nodesAt(at, subnet) {
		if cluster := j.s.Cluster(node.Cluster); cluster != nil &&
			contains(cluster.ServiceCIDRs, to) && len(j.subnetsOf(to)) == 0 {
			return j.end(Unknown, "%s is in the service CIDR of cluster %s: the node sends it on "+
				"to one of the service's pods, so trace to their addresses", to, cluster.ID.Name())
		}
	}
	for hops := range maxHops {
		for _, node := range j.nodesAt(at, subnet) {
			if node.Pods.Contains(to) && (j.to.Cluster == "" || node.Cluster.Equal(j.to.Cluster)) {
				j.step(at, "node *", "delivers it to the pod %s", to)
				if hops > 0 && j.s.Cluster(node.Cluster).Overlay() {
					return j.end(Delivered, "the pod is on this node; by a route this is not "+
						"settled: Microsoft documents that overlay pods cannot be reached from "+
						"outside, and a user shows that they can (AKS#4871)")
				}
				return j.end(Delivered, "the pod is on this node")
			}
		}
		if hops > 0 {
			j.masquerade(at, subnet)
		}
		routes, err := j.routesOf(subnet.ID)
		if err != nil {
			return j.end(Unknown, "%v", err)
		}
		route, found := routes.Lookup(to)
		if !found {
			return j.end(Dropped, "no route of subnet %s leads to %s", subnet.ID.Short(),
				j.called(to))
		}
		var cluster *inventory.Cluster
		if route.HopType == HopInternet && j.to.Cluster == "" {
			cluster = j.nodesFrom(at, subnet)
		}
		if hops == 0 {
			j.bypassed = j.bypasses(subnet, cluster, route)
		}
		hop := j.step(at, "* in "+subnet.ID.Short(), "dropped")
		if !j.general {
			hop.Route, hop.Because = route.String(), routes.Because(to)
		}
		if tag, maybe := routes.tagged(to, route); maybe {
			j.doubt = cmp.Or(j.doubt, fmt.Sprintf("it is unknown whether %s takes it instead: "+
				"the prefixes of service tags are not read", tag))
		}
		if route.HopType == HopNone {
			return j.end(Dropped, "subnet %s has no better route to %s than %s", subnet.ID.Short(),
				j.called(to), route)
		}
		hop.What = "goes to " + route.Hop.String()
		if route.Hop == at {
			return j.end(Dropped, "the next hop is where it comes from: %s does not have %s", at,
				j.called(to))
		}
		denied := j.gate(at, subnet, false, hops == 0)
		hop.What = map[string]string{HopInternet: "goes out to the internet",
			inventory.HopGateway: "goes to the virtual network gateway",
			HopLocal:             "goes into the network",
			HopPeering:           "goes into the network"}[route.HopType]
		hop.What = cmp.Or(hop.What, "goes to "+route.Hop.String())
		switch {
		case denied != "":
			return j.end(Dropped, "%s", denied)
		case route.HopType == HopInternet && j.to.Cluster != "":
			return j.end(Dropped, "it goes out to the internet, and the pod is not there")
		case route.HopType == HopInternet:
			return j.toInternet(at, subnet, cluster)
		case route.HopType == inventory.HopGateway:
			return j.end(Leaves, "the virtual network gateway decides")
		case route.HopType == HopLocal || route.HopType == HopPeering:
			target := j.reach(subnet, to, route.HopType == HopPeering)
			switch {
			case target == nil && route.HopType == HopPeering:
				return j.end(Unknown, "the peered network was not read")
			case target == nil:
				return j.end(Dropped, "no subnet of the network has the address %s", j.called(to))
			}
			hop.What = fmt.Sprintf("arrives at %s in %s", to, target.ID.Short())
			return j.arrive(subnet, target)
		}
		near, v := j.nextSubnet(subnet, route.Hop)
		switch {
		case v == Unknown:
			return j.end(Unknown, "the peered network of the next hop %s was not read", route.Hop)
		case v != Delivered:
			return j.end(v, "%s is in no network that subnet %s reaches directly",
				j.calledHop(route.Hop), subnet.ID.Short())
		case near == nil:
			return j.end(Dropped, "no subnet of the network has the address of %s",
				j.calledHop(route.Hop))
		case j.together(route.Hop, to, near) && j.in(near):
			return j.arrive(subnet, near)
		case j.unused(route.Hop, near):
			return j.end(Dropped, "the address of %s is unused: nothing in subnet %s has it",
				j.calledHop(route.Hop), near.ID.Short())
		}
		if balancer, frontend := j.s.FrontendAt(route.Hop, near); frontend != nil &&
			j.nicAt(route.Hop, near) == nil {
			return j.balance(subnet, near, balancer, frontend)
		}
		if why := j.enter(subnet, near, route.Hop); why != "" {
			return j.end(Dropped, "%s", why)
		}
		if len(j.nodesAt(route.Hop, near)) == 0 {
			return j.end(Leaves,
				"%s is not a cluster node, so it is unknown where it forwards the packet",
				route.Hop)
		}
		at, subnet = route.Hop, near
	}
	return j.end(Dropped, "the packet loops")
}

// leave finds where a packet enters the network, and its address after source NAT. done is set if
// the path ends before that.
func (j *journey) leave(from Endpoint) (at netip.Addr, subnet *inventory.Subnet, done bool) {
	ended := func(Way) (netip.Addr, *inventory.Subnet, bool) { return netip.Addr{}, nil, true }
	a, to := from.Addr, j.way.To
	nodes := j.nodesOf(a, from.Cluster)
	switch {
	case from.Subnet != "":
		if subnet = j.s.Subnet(from.Subnet); subnet == nil {
			return ended(j.end(Unknown, "subnet %s was not read", from.Subnet.Short()))
		}
	case len(nodes) > 1:
		return ended(j.end(Unknown, "%s is a pod's address on several nodes: %s", a,
			nodeNames(nodes)))
	case len(nodes) == 1:
		return j.leavePod(nodes[0])
	default:
		subnets := j.subnetsOf(a)
		switch {
		case len(subnets) > 1:
			names := make([]string, len(subnets))
			for i, s := range subnets {
				names[i] = s.ID.Short()
			}
			return ended(j.end(Unknown, "%s lies in several subnets that overlap: %s", a,
				strings.Join(names, ", ")))
		case len(subnets) == 1:
			subnet = subnets[0]
		case a == host:
			return ended(j.probe())
		default:
			if c := j.clusterOfPod(a, from.Cluster, false); c != nil {
				return ended(j.end(Unknown, "%s is a pod's address of cluster %s, but it is "+
					"unknown which node has it", a, c.ID.Name()))
			}
			return ended(j.end(Unknown, "%s is neither in a subnet that was read nor the address "+
				"of a pod with a route", a))
		}
	}
	if a != to && j.together(a, to, subnet) && j.in(subnet) {
		// Azure CNI connects the pods of a node on the node (aks/faq, transparent and bridge mode),
		// so no network security group checks these packets.
		j.step(a, "* on "+j.nicAt(a, subnet).Holder(), "reaches %s inside the machine", to)
		return ended(j.end(Delivered, "both addresses are on one machine, %s",
			j.nicAt(a, subnet).Holder()))
	}
	if c := j.clusterOfPod(to, j.to.Cluster, true); c != nil &&
		!slices.ContainsFunc(j.nodesAt(a, subnet), func(n Node) bool {
			return n.Cluster == c.ID && n.Pods.Contains(to)
		}) {
		switch learns := j.learnsOverlay(a, subnet, c); {
		case learns == yes:
			return ended(j.throughOverlay(a, subnet, c))
		case learns == perhaps && !j.routed(subnet, to):
			return ended(j.end(Unknown, "an Application Gateway reaches the overlay pods of %s "+
				"by itself if an ingress controller drives it: it is unknown whether one does",
				c.ID.Name()))
		}
	}
	if !j.answer {
		if node := j.sourceNAT(a, subnet, to); node.IsValid() {
			j.way.Source = node
			j.step(a, "pod *", "source NAT on its node: it continues as %s", node)
			return node, subnet, false
		}
	}
	return a, subnet, false
}

// probe follows a load balancer's probe. The host of the machine sends it
// (what-is-ip-address-168-63-129-16), so it takes no route.
func (j *journey) probe() Way {
	to := j.way.To
	subnets := j.subnetsOf(to)
	if j.to.Subnet != "" {
		subnets = []*inventory.Subnet{j.s.Subnet(j.to.Subnet)}
	}
	if len(subnets) != 1 || subnets[0] == nil {
		return j.end(Unknown, "probes go to machines, and %s is not in exactly one subnet that "+
			"was read", to)
	}
	j.step(to, "* in "+subnets[0].ID.Short(), "gets a probe of a load balancer from its host")
	if denied := j.gate(to, subnets[0], true, true); denied != "" {
		return j.end(Dropped, "%s", denied)
	}
	return j.end(Delivered, "%s is in subnet %s", to, subnets[0].ID.Short())
}

// masquerade replaces the source of a packet that a node forwards to a destination outside. The
// rule of kubenet and of azure-ip-masq-agent applies to all packets that leave, not only those of
// pods (github.com/kubernetes-sigs/ip-masq-agent). A node that has not seen the connection treats
// an answer like a new packet, unless TCP shows that it is an answer.
func (j *journey) masquerade(at netip.Addr, subnet *inventory.Subnet) {
	nodes := j.nodesAt(at, subnet)
	if len(nodes) == 0 {
		return
	}
	n := nodes[0]
	c, inside := j.s.Cluster(n.Cluster), []netip.Prefix(nil)
	if vnet := j.s.VNets[subnet.ID.Parent().Key()]; c.PodsInSubnets() && vnet != nil {
		inside = vnet.Prefixes
	} else if c.Kubenet() || c.Overlay() {
		inside = c.PodCIDRs
	}
	switch {
	case inside == nil || contains(inside, j.way.To):
	case !j.answer:
		j.masked = append(j.masked, j.way.Source)
		j.way.Source = n.Addr
		j.step(at, "node *", "source NAT: it continues as %s", at)
	case j.o.Protocol != "tcp":
		j.veiled = true
		j.doubt = cmp.Or(j.doubt, fmt.Sprintf("the answer passes the node %s, which replaces "+
			"its source unless it is TCP", n))
	}
}

// leavePod follows a pod's packet to the interface of its node.
func (j *journey) leavePod(node Node) (at netip.Addr, subnet *inventory.Subnet, done bool) {
	a, to, cluster := j.way.From, j.way.To, j.s.Cluster(node.Cluster)
	ended := func(Way) (netip.Addr, *inventory.Subnet, bool) { return netip.Addr{}, nil, true }
	if node.subnet == nil {
		return ended(j.end(Unknown, "the node %s is in none of the node subnets that were read",
			node))
	}
	j.step(a, "pod *", "leaves by its node %s of cluster %s", node.Addr, node.Cluster.Name())
	switch {
	case node.Pods.Contains(to):
		return ended(j.end(Delivered, "both pods are on the node %s", node.Addr))
	case node.Addr == to:
		return ended(j.end(Delivered, "it is the pod's own node"))
	case cluster.Overlay() && contains(cluster.PodCIDRs, to):
		return ended(j.throughOverlay(node.Addr, node.subnet, cluster))
	case !j.answer && !contains(cluster.PodCIDRs, to):
		// With kubenet and overlay, every destination that is not a pod of the cluster sees the
		// node's address (concepts-network-legacy-cni, azure-cni-overlay).
		j.way.Source = node.Addr
		j.step(node.Addr, "node *", "source NAT: it continues as %s", node.Addr)
	}
	return node.Addr, node.subnet, false
}

// sourceNAT returns the node's address that replaces the pod's address a in packets to the
// destination, or no address. Azure CNI in the node subnet shows a pod's own address inside its
// virtual network, and the node's outside (configure-azure-cni, frequently asked questions). Pods
// in their own subnet always show their own address.
func (j *journey) sourceNAT(a netip.Addr, subnet *inventory.Subnet, to netip.Addr) netip.Addr {
	nic, vnet := j.nicAt(a, subnet), j.s.VNets[subnet.ID.Parent().Key()]
	if nic == nil || vnet == nil || nic.primary == a || contains(vnet.Prefixes, to) {
		return netip.Addr{}
	}
	for _, n := range j.nodesAt(nic.primary, subnet) {
		if j.s.Cluster(n.Cluster).PodsInSubnets() {
			return nic.primary
		}
	}
	return netip.Addr{}
}

// enter returns why a packet is dropped at an interface, of the destination or of a next hop. It
// returns "" if the packet may enter.
func (j *journey) enter(from, near *inventory.Subnet, at netip.Addr) string {
	if !j.forwarded(from, near, j.way.Source) {
		why := fmt.Sprintf("the peering of %s with %s does not allow forwarded traffic, and %s "+
			"is not in %s", near.ID.Parent().Name(), from.ID.Parent().Name(),
			j.called(j.way.Source), from.ID.Parent().Name())
		if !j.answer {
			return why
		}
		j.doubt = cmp.Or(j.doubt, why+": it is not documented whether this applies to an answer")
	}
	isEnd := at == j.way.To
	for _, n := range j.nodesAt(at, near) {
		isEnd = isEnd || n.Pods.Contains(j.way.To)
	}
	return j.gate(at, near, true, isEnd)
}

// in reports whether the destination may be in a subnet.
func (j *journey) in(subnet *inventory.Subnet) bool {
	return j.to.Subnet == "" && j.to.Cluster == "" || j.to.Subnet.Equal(subnet.ID)
}

// arrive returns how a packet ends at the destination.
func (j *journey) arrive(from, target *inventory.Subnet) Way {
	if j.to.Subnet != "" && !j.to.Subnet.Equal(target.ID) {
		return j.end(Dropped, "from subnet %s the address %s is in %s, and not in %s",
			from.ID.Short(), j.called(j.way.To), target.ID.Short(), j.to.Subnet.Short())
	}
	if why := j.enter(from, target, j.way.To); why != "" {
		return j.end(Dropped, "%s", why)
	}
	return j.end(Delivered, "%s is in subnet %s", j.way.To, target.ID.Short())
}

func nodeNames(nodes []Node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Addr.String()+" of "+n.Cluster.Name())
	}
	return strings.Join(names, ", ")
}
