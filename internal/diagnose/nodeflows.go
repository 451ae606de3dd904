package diagnose

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/egress"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// prober is the address that load balancers send probes from, the service tag AzureLoadBalancer
// (load-balancer-custom-probe-overview).
var prober = end{addr: netip.AddrFrom4([4]byte{168, 63, 129, 16})}

const proberTag = "AzureLoadBalancer"

// nodeFlows returns the flows that nodes need. Between nodes these are all ports and protocols
// (concepts-network-azure-cni-overlay; "blocking internal subnet traffic using network security
// groups isn't supported", outbound-rules-control-egress). If pods have addresses of the nodes'
// subnet, that is the flow of pods.
func nodeFlows(p *clusterCase, nodes []end, every []trace.Packet, podsAreNodes bool) []flow {
	var flows []flow
	if !podsAreNodes {
		flows = append(flows, flow{code: finding.FilterBlocksNodes, what: "node to node",
			from: among(p.prefixes), to: among(p.prefixes), pairs: across(nodes, nodes),
			packets: every})
	}
	nodes = eachGroup(nodes)
	flows = append(flows, serverFlows(p, nodes)...)
	// Which ports load balancers probe depends on their Services. This flow uses one of the node
	// ports, which are 30000 to 32767 by default
	// (kubernetes.io/docs/concepts/services-networking/service).
	const nodePort = 31000
	flows = append(flows, flow{code: finding.FilterBlocksProbes,
		what: "load balancer probe to node", from: scope{tag: proberTag}, to: among(p.prefixes),
		pairs:   pairsOf([]end{prober}, nodes),
		packets: append(slices.Clone(every), trace.Packet{Protocol: "tcp", Port: nodePort})})
	return append(flows, outFlows(p, nodes)...)
}

// eachGroup returns one node for each combination of subnet and security group of its interface:
// rules about destinations outside rarely distinguish nodes further.
func eachGroup(nodes []end) (some []end) {
	for _, n := range nodes {
		if !slices.ContainsFunc(some, func(e end) bool {
			return e.subnet == n.subnet && e.nic.SecurityGroup.Equal(n.nic.SecurityGroup)
		}) {
			some = append(some, n)
		}
	}
	return some
}

func pairsOf(from, to []end) (pairs [][2]end) {
	for _, a := range from {
		for _, b := range to {
			pairs = append(pairs, [2]end{a, b})
		}
	}
	return pairs
}

// serverFlows returns what the API server needs. With API server VNet integration that is TCP to
// 443 and 4443 of its subnet. It is also the load balancer's packets to port 9988, TCP on one page
// (api-server-vnet-integration) and UDP on another (outbound-rules-control-egress). A private
// cluster needs its private endpoint, all others the public name.
func serverFlows(p *clusterCase, nodes []end) (flows []flow) {
	const integrated, balanced, https = 4443, 9988, 443
	node := flow{code: finding.FilterBlocksAPI, what: "node to API server", from: among(p.prefixes)}
	one := func(ports ...int) (flows []flow) {
		for _, port := range ports {
			f := node
			f.packets = []trace.Packet{{Protocol: "tcp", Port: port}}
			f.what += " (port " + strconv.Itoa(port) + ")"
			flows = append(flows, f)
		}
		return flows
	}
	if public, addresses, ok := egress.APIServer(p.s.Snapshot, p.cluster); ok {
		return []flow{out(p, node, public, addresses, nodes)}
	}
	if subnet := p.s.Subnet(p.cluster.APISubnet); subnet != nil {
		server := end{addr: firstOf(subnet), subnet: subnet}
		for _, f := range one(https, integrated) {
			f.to, f.pairs = among(subnet.Prefixes), pairsOf(nodes, []end{server})
			flows = append(flows, f)
		}
		return append(flows, flow{code: finding.FilterBlocksAPI, from: scope{tag: proberTag},
			what: "load balancer to API server", to: among(subnet.Prefixes),
			pairs: [][2]end{{prober, server}}, packets: []trace.Packet{{Port: balanced}}})
	}
	for _, nic := range p.nics {
		if !strings.HasPrefix(nic.ID.Name(), "kube-apiserver.nic.") {
			continue
		}
		for _, c := range nic.Configs {
			// Whether the group of the endpoint's subnet filters packets to the endpoint depends on
			// the subnet's network policies for private endpoints, which are off by default
			// (disable-private-endpoint-network-policy).
			if !c.Address.Is4() {
				continue
			}
			for _, f := range one(https) {
				f.to = among([]netip.Prefix{netip.PrefixFrom(c.Address, c.Address.BitLen())})
				f.pairs = pairsOf(nodes, []end{{addr: c.Address}})
				flows = append(flows, f)
			}
		}
	}
	return flows
}

func firstOf(s *inventory.Subnet) netip.Addr {
	if len(s.Prefixes) == 0 {
		return netip.Addr{}
	}
	return inventory.FirstUsable(s.Prefixes[0])
}

// outFlows returns a flow for each destination outside that AKS requires.
func outFlows(p *clusterCase, nodes []end) (flows []flow) {
	for _, n := range egress.Needs(p.s.Snapshot, p.cluster) {
		flows = append(flows, out(p, flow{code: finding.FilterBlocksEgress,
			what: "node to " + n.Endpoint(), from: among(p.prefixes)}, n, nil, nodes))
	}
	return flows
}

// out returns the packets of a flow to a destination outside: to its addresses, or to its name.
func out(p *clusterCase, f flow, n egress.Name, addresses []netip.Addr, nodes []end) flow {
	port, _ := strconv.Atoi(n.Port)
	packet := trace.Packet{Protocol: "tcp", Port: port}
	if n.Protocol != "" {
		packet.Protocol = strings.ToLower(n.Protocol)
	}
	if address, err := netip.ParseAddr(n.Name); err == nil {
		addresses = []netip.Addr{address}
		f.to = among([]netip.Prefix{netip.PrefixFrom(address, address.BitLen())})
	} else {
		f.to.tag = "Internet"
		if tags := n.Tags(); n.Protocol != "" && len(tags) > 0 {
			f.to.tag = tags[len(tags)-1] // of the region
		}
		// Azure does not say whether the tag Internet includes what a default route leads
		// elsewhere.
		if slices.ContainsFunc(p.subnets, func(s *inventory.Subnet) bool {
			table := p.s.Table(s.RouteTable)
			return table != nil && len(table.Default()) > 0
		}) && f.to.tag == "Internet" {
			f.to.tag = "*"
		}
	}
	if len(addresses) == 0 {
		packet.Name, packet.Tags = n.Name, n.Tags()
		addresses = []netip.Addr{{}}
	}
	for _, a := range addresses {
		f.pairs = append(f.pairs, pairsOf(nodes, []end{{addr: a}})...)
	}
	f.packets = []trace.Packet{packet}
	return f
}
