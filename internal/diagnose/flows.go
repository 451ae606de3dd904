package diagnose

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// end is one end of a flow of packets: the address they have on the wire, where it meets network
// security groups.
type end struct {
	addr   netip.Addr
	subnet *inventory.Subnet
	nic    *inventory.Interface // nil where it was not read, or there is none
	host   netip.Addr           // of the node behind it, zero where there is none
}

// flow is traffic that a cluster needs. From and to are the prefixes of all of it, pairs what is
// tried: on the wire, packets between nodes.
type flow struct {
	what     string
	from, to []netip.Prefix
	pairs    [][2]end
	// explicit is set where Azure's default rules are not asked, because what the tag
	// VirtualNetwork holds is not documented.
	explicit bool
}

// flows are what a cluster's pods need of the network: pods reach pods on other nodes, nodes
// (hostNetwork pods, and what the API server sends through them) reach pods, gateways reach pods.
func (p *patient) flows() []flow {
	nodes, pods := p.nodeEnds(), []end(nil)
	var prefixes []netip.Prefix
	explicit := false
	switch {
	case p.cluster.Kubenet():
		pods, prefixes = p.routedPods(), p.cluster.PodCIDRs
	case p.cluster.Overlay():
		// "Pod-to-pod traffic isn't encapsulated, and subnet network security group rules are
		// applied" (concepts-network-azure-cni-overlay); the default rules let it pass, so the tag
		// VirtualNetwork seems to hold the pod CIDR.
		pods, prefixes, explicit = p.overlayPods(nodes), p.cluster.PodCIDRs, true
	case p.cluster.PodsInSubnets():
		// pods have addresses of the nodes' subnet, or of their own
		pods, prefixes = nodes, p.prefixes
		if own := p.podSubnetEnds(); len(own) > 0 {
			pods, prefixes = own, nil
			for _, e := range own {
				prefixes = inventory.SortPrefixes(append(prefixes, e.subnet.Prefixes...))
			}
		}
	}
	flows := []flow{
		{podToPod, prefixes, prefixes, across(pods, pods), explicit},
		{"node to pod", p.prefixes, prefixes, across(nodes, pods), explicit},
	}
	for _, g := range p.gatewaySubnets() {
		if !g.sends && !g.drives || len(g.Prefixes) == 0 || p.apart(g) {
			continue
		}
		from := end{addr: inventory.FirstUsable(g.Prefixes[0]), subnet: g.Subnet}
		f := flow{what: "gateway to pod", from: g.Prefixes, to: prefixes, explicit: explicit}
		for _, pod := range pods {
			if p.cluster.Kubenet() &&
				!slices.ContainsFunc(sortedRoutes(g.pods), func(r inventory.Route) bool {
					return r.Prefix.Contains(pod.addr)
				}) {
				continue // it is not routed there, which is found elsewhere
			}
			f.pairs = append(f.pairs, [2]end{from, pod})
		}
		flows = append(flows, f)
	}
	return flows
}

// apart reports whether a gateway's network and the nodes' are not connected, which is found
// elsewhere.
func (p *patient) apart(g *gatewaySubnet) bool {
	return slices.ContainsFunc(p.nodeNetworks(), func(vnet arm.ID) bool {
		return !vnet.Equal(g.ID.Parent()) &&
			slices.ContainsFunc(p.checkPeering(g, vnet), func(f finding.Finding) bool {
				return f.Code == finding.PeeringMissing
			})
	})
}

// across pairs every end with the next of the others that is elsewhere, so that each is met in both
// directions.
func across(from, to []end) [][2]end {
	var pairs [][2]end
	for i, a := range from {
		for j := range to {
			b := to[(i+1+j)%len(to)]
			if b.addr != a.addr && b.addr.Is4() == a.addr.Is4() && (b.host != a.host ||
				!b.host.IsValid()) {
				pairs = append(pairs, [2]end{a, b})
				break
			}
		}
	}
	return pairs
}

// nodeEnds are the nodes' network interfaces, in the order of their IDs.
func (p *patient) nodeEnds() []end {
	var ends []end
	for _, nic := range p.interfaces() {
		for _, c := range nic.Configs {
			if subnet := p.s.Subnet(c.Subnet); subnet != nil && c.Address.Is4() &&
				slices.Contains(p.subnets, subnet) {
				ends = append(ends, end{c.Address, subnet, nic, c.Address})
				break // the others are its pods'
			}
		}
	}
	return ends
}

// routedPods are pods of kubenet nodes, one each, behind the addresses that the cluster's own table
// leads to, where their subnet has that table: without it nothing arrives, which is found
// elsewhere.
func (p *patient) routedPods() []end {
	if p.table == nil || p.config == nil {
		return nil
	}
	nics := map[netip.Addr]*inventory.Interface{}
	for _, nic := range p.interfaces() {
		for _, c := range nic.Configs {
			nics[c.Address] = nic
		}
	}
	var ends []end
	for _, r := range sortedRoutes(p.ownRoutes()) {
		for _, subnet := range p.subnets {
			if contains(subnet.Prefixes, r.Hop) && subnet.RouteTable.Equal(p.table.ID) {
				ends = append(ends, end{inventory.FirstUsable(r.Prefix), subnet, nics[r.Hop],
					r.Hop})
			}
		}
	}
	return ends
}

// overlayPods are pods on the nodes: as Kubernetes knows them, or else one for each node by order,
// which is as good for rules.
func (p *patient) overlayPods(nodes []end) []end {
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
				ends = append(ends, end{inventory.FirstUsable(pods), node.subnet, node.nic,
					node.addr})
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

// podSubnetEnds are two pods in each subnet that pools keep for pods.
func (p *patient) podSubnetEnds() []end {
	var ids []arm.ID
	for _, pool := range p.cluster.Pools {
		if pool.PodSubnet != "" {
			ids = append(ids, pool.PodSubnet)
		}
	}
	var ends []end
	for _, id := range inventory.SortIDs(ids) {
		if subnet := p.s.Subnet(id); subnet != nil && len(subnet.Prefixes) > 0 {
			first := inventory.FirstUsable(subnet.Prefixes[0])
			ends = append(ends, end{addr: first, subnet: subnet},
				end{addr: first.Next(), subnet: subnet})
		}
	}
	return ends
}

func sortedRoutes(of map[netip.Prefix]inventory.Route) []inventory.Route {
	var routes []inventory.Route
	for _, r := range of {
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b inventory.Route) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), strings.Compare(a.Name, b.Name))
	})
	return routes
}
