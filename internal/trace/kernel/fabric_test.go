//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// The fabric's tables. For the same prefix the lower metric wins: user-defined routes before BGP
// before system routes (virtual-networks-udr-overview, how Azure selects a route).
const (
	returns  = 99   // where answers from the internet go
	deliver  = 100  // + number of the network: the addresses of its machines, and of its peers'
	senders  = 1000 // + number of the machine: its effective routes
	podTable = 2000 // + number of the machine: those of its pods, in a subnet of their own
	overlays = 3000 // + number of the cluster

	userMetric, bgpMetric, systemMetric, lastMetric = 100, 200, 300, 1000
)

// Sinks are where packets end in the fabric.
const (
	none    = "none"    // a route to None
	nohost  = "nohost"  // nothing has the address
	noroute = "noroute" // no route
	noexit  = "noexit"  // no public address
	vgw     = "vgw"     // a virtual network gateway
)

// dropped are prefixes that Azure drops where neither the network nor a route has them: the first
// four by virtual-networks-udr-overview, the others as recorded (docs/azure.md).
var dropped = strings.Fields("10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 25.4.0.0/14 " +
	"25.33.0.0/16 25.41.0.0/20 25.48.0.0/12 20.35.252.0/22 23.103.0.0/18 40.108.0.0/17 " +
	"40.109.0.0/16 104.146.0.0/17 104.147.0.0/16 157.59.0.0/16 198.18.0.0/15")

// wireFabric connects the sinks and the internet, and routes.
func (n *network) wireFabric() {
	for _, name := range []string{none, nohost, noroute, noexit, vgw} {
		n.sinks[name], _ = wire(n.fabric, name, n.void, name)
	}
	for _, p := range everything {
		n.internet.route(anyAddress, p, must1(n.internet.link.LinkByName("lo")), 0)
	}
	n.fabric.rule(30000, lastTable, nil, netip.Prefix{}, netip.Prefix{})
	for _, p := range everything {
		n.fabric.route(lastTable, p, n.sinks[noroute], 0)
		n.fabric.route(returns, p, n.sinks[nohost], lastMetric)
	}
	networks := map[arm.ID]int{}
	for _, m := range n.machines {
		if _, known := networks[m.vnet.ID]; !known {
			networks[m.vnet.ID] = len(networks)
			n.delivers(deliver+networks[m.vnet.ID], m.vnet)
		}
		must(n.fabric.link.LinkSetGroup(m.link, 1+networks[m.vnet.ID]))
		for _, a := range m.wires() {
			n.fabric.route(returns, whole(a), m.link, systemMetric)
		}
	}
	for _, m := range n.machines {
		n.fabric.rule(1000, senders+m.index, m.link, netip.Prefix{}, netip.Prefix{})
		n.fabric.rule(2000, deliver+networks[m.vnet.ID], m.link, netip.Prefix{}, netip.Prefix{})
		n.effective(senders+m.index, m, m.subnet)
		for _, id := range podSubnets(m.cluster) {
			for _, p := range n.s.Subnet(id).Prefixes {
				n.fabric.rule(500, podTable+m.index, m.link, p, netip.Prefix{})
			}
			n.effective(podTable+m.index, m, n.s.Subnet(id))
		}
	}
	n.rewire()
	n.overlay()
	n.peer(networks)
	n.hide()
}

const (
	anyAddress = 97
	lastTable  = 98
)

func podSubnets(c *inventory.Cluster) []arm.ID {
	if c == nil {
		return nil
	}
	return c.PodSubnets()
}

// wires are the addresses that the network knows at the machine's interface: its own, and those of
// its pods that have addresses of a subnet.
func (m *machine) wires() []netip.Addr {
	all := slices.Clone(m.addresses)
	for _, p := range m.pods {
		if m.cluster.PodsInSubnets() && !slices.Contains(all, p.addr) {
			all = append(all, p.addr)
		}
	}
	return all
}

// delivers fills the table of a network with the addresses in it and in its peers.
func (n *network) delivers(table int, vnet *inventory.VNet) {
	for _, p := range everything {
		n.fabric.route(table, p, n.sinks[nohost], lastMetric)
	}
	for _, m := range n.machines {
		for _, a := range m.wires() {
			near := m.vnet == vnet
			for _, p := range vnet.Peerings {
				near = near || p.Connected && p.Remote.Equal(m.vnet.ID) && contains(p.Prefixes, a)
			}
			if near {
				n.fabric.route(table, whole(a), m.link, systemMetric)
			}
		}
	}
}

// effective fills a table with the system's routes of a subnet. A route into the network throws:
// then the network's own table decides.
func (n *network) effective(table int, m *machine, subnet *inventory.Subnet) {
	taken := map[string]bool{}
	add := func(p netip.Prefix, link netlink.Link, metric int) {
		// Linux refuses a second route with the same prefix and metric.
		if key := fmt.Sprint(p, metric); !taken[key] {
			taken[key] = true
			n.fabric.route(table, p, link, metric)
		}
	}
	for _, p := range m.vnet.Prefixes {
		add(p, nil, systemMetric)
	}
	for _, peering := range m.vnet.Peerings {
		if !peering.Connected {
			continue
		}
		for _, p := range peering.Prefixes {
			add(p, nil, systemMetric+1)
		}
	}
	add(everything[0], n.exit(m, subnet), systemMetric)
	if slices.ContainsFunc(m.vnet.Prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		add(everything[1], n.leads("IPv6"), systemMetric)
	}
	for _, p := range dropped {
		add(netip.MustParsePrefix(p), n.sinks[none], systemMetric+2)
	}
	for _, p := range everything {
		add(p, n.sinks[noroute], lastMetric)
	}
}

// define fills a table with the user-defined routes of a subnet.
func (n *network) define(table int, m *machine, subnet *inventory.Subnet) {
	if subnet.RouteTable == "" {
		return
	}
	reached := []arm.ID{m.vnet.ID}
	for _, peering := range m.vnet.Peerings {
		if peering.Connected {
			reached = append(reached, peering.Remote)
		}
	}
	taken := map[netip.Prefix]bool{}
	for _, r := range n.s.Table(subnet.RouteTable).Routes() {
		if !r.Prefix.IsValid() || taken[r.Prefix] {
			continue
		}
		taken[r.Prefix] = true
		link := n.sinks[nohost]
		switch strings.ToLower(r.HopType) {
		case "virtualappliance":
			if next := n.owner(r.Hop, reached...); next != nil {
				link = next.link
			}
		case "vnetlocal":
			link = nil
		case "none":
			link = n.sinks[none]
		case "virtualnetworkgateway":
			link = n.sinks[vgw]
		case "internet":
			link = n.exit(m, subnet)
			if r.Prefix.Addr().Is6() {
				link = n.leads("IPv6")
			}
		}
		n.defined = append(n.defined, n.fabric.route(table, r.Prefix, link, userMetric))
	}
}

// rewire replaces the user-defined routes after the tables of the snapshot have changed.
func (n *network) rewire() {
	for _, r := range n.defined {
		must(n.fabric.link.RouteDel(r))
	}
	n.defined = nil
	for _, m := range n.machines {
		n.define(senders+m.index, m, m.subnet)
		for _, id := range podSubnets(m.cluster) {
			n.define(podTable+m.index, m, n.s.Subnet(id))
		}
	}
}

// exit is what gives a machine's packets a public address: the NAT gateway, before its own, before
// the load balancer's outbound rules, before default outbound access (nat-gateway/nat-overview),
// which a private subnet does not have (ip-services/default-outbound-access).
func (n *network) exit(m *machine, subnet *inventory.Subnet) netlink.Link {
	switch {
	case subnet.NATGateway != "":
		return n.leads("NAT gateway " + subnet.NATGateway.Name())
	case m.cluster != nil && m.cluster.Pools[0].PublicIPs:
		return n.leads("the nodes' public IP addresses")
	case m.cluster != nil && m.cluster.Outbound == "loadBalancer":
		return n.leads(byBalancer)
	case subnet.Private:
		return n.sinks[noexit]
	}
	return n.leads("default outbound access")
}

const byBalancer = "the outbound rules of the cluster's load balancer"

// leads is the link of an exit to the internet.
func (n *network) leads(name string) netlink.Link {
	if n.sinks[name] != nil {
		return n.sinks[name]
	}
	short := fmt.Sprint("x", len(n.exits))
	here, there := wire(n.fabric, short, n.internet, short)
	if n.exits = append(n.exits, name); len(n.exits) == 1 {
		for _, p := range everything {
			n.internet.route(mainTable, p, there, 0)
		}
	}
	n.internet.rule(100, anyAddress, there, netip.Prefix{}, netip.Prefix{})
	n.fabric.rule(1000, returns, here, netip.Prefix{}, netip.Prefix{})
	n.sinks[name] = here
	return here
}

// public is the address that an exit gives.
func public(exit int, like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.AddrFrom4([4]byte{203, 0, 113, byte(1 + exit)})
	}
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(1 + exit)})
}

// hide replaces the sources of packets to the internet.
func (n *network) hide() {
	c := n.internet.nft()
	table := c.AddTable(&nftables.Table{Name: "nat", Family: nftables.TableFamilyINet})
	chain := c.AddChain(&nftables.Chain{Name: "in", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityNATSource})
	for i := range n.exits {
		for family, like := range everything {
			exprs := append(linkIs(expr.MetaKeyIIFNAME, fmt.Sprint("x", i), expr.CmpOpEq),
				family4or6(like.Addr())...)
			exprs = append(exprs, &expr.Immediate{Register: 1,
				Data: public(i, like.Addr()).AsSlice()}, &expr.NAT{Type: expr.NATTypeSourceNAT,
				Family: []uint32{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6}[family], RegAddrMin: 1})
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
		}
	}
	must(c.Flush())
}

// overlay carries packets between the nodes of an overlay, past every route table
// (aks/concepts-network-azure-cni-overlay); the ingress controller's gateway is part of it.
func (n *network) overlay() {
	at := overlays
	for cluster, nodes := range n.nodes {
		if !cluster.Overlay() {
			continue
		}
		at++
		members := slices.Clone(nodes)
		for _, m := range n.machines {
			if cluster.Ingress != "" && slices.ContainsFunc(m.subnet.Gateways,
				cluster.Ingress.Equal) {
				members = append(members, m)
			}
		}
		for _, p := range cluster.PodCIDRs {
			n.fabric.route(at, p, n.sinks[nohost], lastMetric)
			for _, m := range members { // what they forward for others is not documented
				sources := slices.Clone(cluster.PodCIDRs)
				for _, a := range m.addresses {
					sources = append(sources, whole(a))
				}
				for _, source := range sources {
					if source.Addr().Is4() == p.Addr().Is4() {
						n.fabric.rule(600, at, m.link, source, p)
					}
				}
			}
		}
		for _, m := range nodes {
			for _, p := range m.node.PodCIDRs {
				n.fabric.route(at, p, m.link, systemMetric)
			}
		}
	}
}

// peer drops what a peering does not accept: packets that do not come from the other network
// itself, unless it allows forwarded traffic (virtual-network-manage-peering). A NAT gateway drops
// what is neither TCP nor UDP (nat-gateway/nat-overview).
func (n *network) peer(networks map[arm.ID]int) {
	c := n.fabric.nft()
	table := c.AddTable(&nftables.Table{Name: "f", Family: nftables.TableFamilyINet})
	chain := c.AddChain(&nftables.Chain{Name: "forward", Table: table,
		Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
		Priority: nftables.ChainPriorityFilter})
	add := func(exprs ...expr.Any) {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
	for _, receiver := range n.s.VNets {
		for _, p := range receiver.Peerings {
			sender := n.s.VNets[p.Remote.Key()]
			if p.Forwarded || sender == nil {
				continue
			}
			pass := append(groupIs(expr.MetaKeyIIFGROUP, 1+networks[sender.ID]),
				groupIs(expr.MetaKeyOIFGROUP, 1+networks[receiver.ID])...)
			for _, prefix := range sender.Prefixes {
				add(append(append(slices.Clone(pass), address(prefix, true)...), accept)...)
			}
			add(append(pass, drop("peering")...)...)
		}
	}
	for i, name := range n.exits {
		if strings.HasPrefix(name, "NAT gateway ") {
			add(append(append(linkIs(expr.MetaKeyOIFNAME, fmt.Sprint("x", i), expr.CmpOpEq),
				&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpNeq,
					Register: 1, Data: []byte{unix.IPPROTO_TCP}}, &expr.Cmp{Op: expr.CmpOpNeq,
					Register: 1, Data: []byte{unix.IPPROTO_UDP}}), drop("no ping")...)...)
		}
	}
	must(c.Flush())
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func must1[T any](v T, err error) T {
	must(err)
	return v
}
