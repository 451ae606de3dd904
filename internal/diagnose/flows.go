package diagnose

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// end is one end of a flow: the address on the wire, and the place where network security groups
// check it.
type end struct {
	addr   netip.Addr
	subnet *inventory.Subnet
	nic    *inventory.Interface // nil if it was not read or does not exist
	host   netip.Addr           // of the node behind it, or zero
}

// flow is traffic that a cluster needs. from and to are all addresses of the flow. pairs are the
// samples to try, as packets between nodes on the wire. An end without a subnet is outside: no
// group checks packets there.
type flow struct {
	code     finding.Code
	what     string
	from, to scope
	pairs    [][2]end
	// packets are the ones to try between the ends of each pair.
	packets []trace.Packet
	// explicit is set if Azure's default rules do not count, because Azure does not document
	// whether the tag VirtualNetwork holds these addresses.
	explicit bool
}

// scope is an end of a flow in a rule's terms: prefixes, one service tag, or * for all.
type scope struct {
	prefixes []netip.Prefix
	tag      string
}

func among(prefixes []netip.Prefix) scope { return scope{prefixes: prefixes} }

// flows returns the traffic that a cluster needs. It is from pods to pods on other nodes, from
// nodes to pods (hostNetwork pods, and what the API server sends through them), from gateways to
// pods, and what nodes need (nodeFlows).
func (p *clusterCase) flows() []flow {
	nodes, pods := nodeEnds(p), []end(nil)
	var prefixes []netip.Prefix
	explicit := false
	switch {
	case p.cluster.Kubenet():
		pods, prefixes = routedPods(p), p.cluster.PodCIDRs
	case p.cluster.Overlay():
		// "Pod-to-pod traffic isn't encapsulated, and subnet network security group rules are
		// applied" (concepts-network-azure-cni-overlay). The default rules allow it, so the tag
		// VirtualNetwork seems to contain the pod CIDR.
		pods, prefixes, explicit = overlayPods(p, nodes), p.cluster.PodCIDRs, true
	case p.cluster.PodsInSubnets():
		// pods have addresses in the node subnet, or in pod subnets
		pods, prefixes = nodes, p.prefixes
		if own := podSubnetEnds(p); len(own) > 0 {
			pods, prefixes = own, nil
			for _, e := range own {
				prefixes = inventory.SortPrefixes(append(prefixes, e.subnet.Prefixes...))
			}
		}
	}
	every := []trace.Packet{{}, {Protocol: "tcp"}}
	dns := trace.Packet{Protocol: "udp", Port: 53} // between pods; all other traffic needs it
	flows := []flow{
		{finding.FilterBlocksPods, podToPod, among(prefixes), among(prefixes),
			across(pods, pods), append(slices.Clone(every), dns), explicit},
		{finding.FilterBlocksPods, "node to pod", among(p.prefixes), among(prefixes),
			across(nodes, pods), every, explicit},
	}
	for _, g := range p.gatewaySubnets() {
		if !g.sends && !g.drives || len(g.Prefixes) == 0 || unconnected(p, g) {
			continue
		}
		from := end{addr: inventory.FirstUsable(g.Prefixes[0]), subnet: g.Subnet}
		f := flow{code: finding.FilterBlocksPods, what: "gateway to pod", from: among(g.Prefixes),
			to: among(prefixes), packets: every, explicit: explicit}
		for _, pod := range pods {
			if p.cluster.Kubenet() &&
				!slices.ContainsFunc(sortedRoutes(g.pods), func(r inventory.Route) bool {
					return r.Prefix.Contains(pod.addr)
				}) {
				continue // no route leads there, which another check reports
			}
			f.pairs = append(f.pairs, [2]end{from, pod})
		}
		flows = append(flows, f)
	}
	return append(flows, nodeFlows(p, nodes, every, p.cluster.PodsInSubnets() &&
		len(p.cluster.PodSubnets()) == 0)...)
}

// unconnected reports whether the networks of a gateway and the nodes are not connected. Another
// check reports that.
func unconnected(p *clusterCase, g *gatewaySubnet) bool {
	return slices.ContainsFunc(p.nodeNetworks(), func(vnet arm.ID) bool {
		return !vnet.Equal(g.ID.Parent()) &&
			slices.ContainsFunc(checkPeering(p, g, vnet), func(f finding.Finding) bool {
				return f.Code == finding.PeeringMissing
			})
	})
}

// across pairs each end with the next one on another node, so that both directions are tried.
func across(from, to []end) [][2]end {
	var pairs [][2]end
	for i, a := range from {
		for j := range to {
			b := to[(i+1+j)%len(to)]
			if b.addr != a.addr && b.addr.Is4() == a.addr.Is4() &&
				(b.host != a.host || !b.host.IsValid()) {
				pairs = append(pairs, [2]end{a, b})
				break
			}
		}
	}
	return pairs
}

// nodeEnds returns the nodes' network interfaces, in the order of their IDs.
func nodeEnds(p *clusterCase) []end {
	var ends []end
	for _, nic := range p.nics {
		for _, c := range nic.Configs {
			if subnet := p.s.Subnet(c.Subnet); subnet != nil && c.Address.Is4() &&
				slices.Contains(p.subnets, subnet) {
				ends = append(ends, end{c.Address, subnet, nic, c.Address})
				break // the other configurations belong to its pods
			}
		}
	}
	return ends
}

// routedPods returns one pod for each kubenet node: behind each next hop of the cluster's route
// table, if the next hop's subnet has that table. Without the table no packet arrives, which
// another check reports.
func routedPods(p *clusterCase) []end {
	if p.table == nil || p.config == nil {
		return nil
	}
	nics := map[netip.Addr]*inventory.Interface{}
	for _, nic := range p.nics {
		for _, c := range nic.Configs {
			nics[c.Address] = nic
		}
	}
	var ends []end
	for _, r := range sortedRoutes(p.clusterRoutes()) {
		for _, subnet := range p.subnets {
			if inventory.Within(subnet.Prefixes, r.Hop) && subnet.RouteTable.Equal(p.table.ID) {
				ends = append(ends,
					end{inventory.FirstUsable(r.Prefix), subnet, nics[r.Hop], r.Hop})
			}
		}
	}
	return ends
}

// overlayPods returns one pod for each node. It takes the node's pod CIDR from Kubernetes, or else
// an invented one, which makes no difference to security rules.
func overlayPods(p *clusterCase, nodes []end) []end {
	var ends []end
	known := map[netip.Addr]netip.Prefix{}
	if p.kube != nil {
		for _, node := range p.kube.Nodes {
			if len(node.Addresses) > 0 && len(node.PodCIDRs) > 0 {
				known[node.Addresses[0]] = node.PodCIDRs[0]
			}
		}
	}
	for _, cidr := range p.cluster.PodCIDRs {
		if !cidr.Addr().Is4() || cidr.Bits() > 24 {
			continue
		}
		next := cidr.Addr()
		for _, node := range nodes {
			pods, isKnown := known[node.addr]
			if !isKnown {
				pods = netip.PrefixFrom(next, 24)
			}
			if cidr.Contains(pods.Addr()) {
				ends = append(ends,
					end{inventory.FirstUsable(pods), node.subnet, node.nic, node.addr})
			}
			b := next.As4()
			if b[2]++; b[2] == 0 {
				b[1]++
			}
			next = netip.AddrFrom4(b)
		}
	}
	return ends
}

// podSubnetEnds returns two pods in each pod subnet.
func podSubnetEnds(p *clusterCase) []end {
	var ends []end
	for _, id := range p.cluster.PodSubnets() {
		if subnet := p.s.Subnet(id); subnet != nil && len(subnet.Prefixes) > 0 {
			first := inventory.FirstUsable(subnet.Prefixes[0])
			ends = append(ends, end{addr: first, subnet: subnet},
				end{addr: first.Next(), subnet: subnet})
		}
	}
	return ends
}

func sortedRoutes(of map[netip.Prefix]inventory.Route) []inventory.Route {
	return slices.SortedFunc(maps.Values(of), func(a, b inventory.Route) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), strings.Compare(a.Name, b.Name))
	})
}
