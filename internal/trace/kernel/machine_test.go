//go:build linux

package kernel

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// machine is what has an address of a subnet: a virtual machine, a node, a firewall, a gateway.
type machine struct {
	*space
	addresses []netip.Addr // of its interface, the first of each family is the primary
	nic       *inventory.Interface
	subnet    *inventory.Subnet
	vnet      *inventory.VNet
	link      netlink.Link // the fabric's end of its interface
	index     int
	node      *inventory.Node
	cluster   *inventory.Cluster // of node
	firewall  bool
	pods      []end
}

// end is where packets start and end.
type end struct {
	space   *space
	addr    netip.Addr
	machine *machine // nil for the internet
	pod     bool
}

// network is a network of Azure in namespaces.
type network struct {
	s        *inventory.Snapshot
	fabric   *space
	internet *space
	void     *space
	machines []*machine
	ends     []end
	sinks    map[string]netlink.Link // the fabric's links to where packets end
	defined  []*netlink.Route        // the user-defined routes
	exits    []string                // by the number of the exit
	nodes    map[*inventory.Cluster][]*machine
}

func (n *network) close() {
	for _, s := range []*space{n.fabric, n.internet, n.void} {
		s.close()
	}
	for _, m := range n.machines {
		m.close()
		for _, p := range m.pods {
			p.space.close()
		}
	}
}

func fresh() *space {
	s, err := newSpace()
	must(err)
	return s
}

// build makes the namespaces of a snapshot that shows everything: all interfaces, and each
// cluster's nodes and pods.
func build(s *inventory.Snapshot) *network {
	n := &network{s: s, fabric: fresh(), internet: fresh(), void: fresh(),
		sinks: map[string]netlink.Link{}, nodes: map[*inventory.Cluster][]*machine{}}
	n.fabric.forwards()
	for _, key := range slices.Sorted(maps.Keys(s.Interfaces)) {
		nic := s.Interfaces[key]
		m := &machine{nic: nic, subnet: s.Subnet(nic.Configs[0].Subnet)}
		for _, c := range nic.Configs {
			m.addresses = append(m.addresses, c.Address)
		}
		n.add(m)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Firewalls)) {
		a := s.Firewalls[key].Addresses[0]
		for _, subnet := range s.Subnets {
			if subnet.ID.Name() == "AzureFirewallSubnet" && subnet.Prefixes[0].Contains(a) {
				n.add(&machine{addresses: []netip.Addr{a}, subnet: subnet, firewall: true})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Subnets)) {
		if subnet := s.Subnets[key]; len(subnet.Gateways) > 0 {
			m := &machine{subnet: subnet}
			for _, p := range subnet.Prefixes {
				m.addresses = append(m.addresses, inventory.FirstUsable(p))
			}
			n.add(m)
		}
	}
	n.wireFabric()
	n.fabric.settle()
	for _, m := range n.machines {
		m.settle()
		for _, p := range m.pods {
			p.space.settle()
		}
	}
	return n
}

// primary is the machine's first address of a family.
func (m *machine) primary(like netip.Addr) netip.Addr {
	for _, a := range m.addresses {
		if a.Is4() == like.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// add makes the machine's namespace, and those of its pods.
func (n *network) add(m *machine) {
	m.space, m.index = fresh(), len(n.machines)
	n.machines = append(n.machines, m)
	m.vnet = n.s.VNets[m.subnet.ID.Parent().Key()]
	var eth0 netlink.Link
	m.link, eth0 = wire(n.fabric, fmt.Sprint("m", m.index), m.space, "eth0")
	for key, kube := range n.s.Kubernetes {
		for i := range kube.Nodes {
			if m.nic != nil && kube.Nodes[i].ProviderID == "azure://"+string(m.nic.Machine) {
				m.node, m.cluster = &kube.Nodes[i], n.s.Clusters[key]
				n.nodes[m.cluster] = append(n.nodes[m.cluster], m)
			}
		}
	}
	pods := map[netip.Addr]bool{}
	if m.node != nil {
		for _, p := range n.s.Kubernetes[m.cluster.ID.Key()].Pods {
			for _, a := range p.Addresses {
				pods[a] = p.Node == m.node.Name
			}
		}
	}
	for _, a := range m.addresses {
		if !pods[a] {
			m.address(eth0, a, a.BitLen())
			n.ends = append(n.ends, end{space: m.space, addr: a, machine: m})
		}
	}
	for _, p := range everything {
		m.route(mainTable, p, eth0, 0)
	}
	switch {
	case m.firewall: // it hides private addresses from the internet (azure-firewall, snat)
		m.forwards()
		m.masquerade(private)
	case m.node != nil && (m.cluster.Kubenet() || m.cluster.Overlay()):
		m.forwards()
		m.masquerade(m.cluster.PodCIDRs)
	case m.node != nil:
		m.forwards()
		m.masquerade(m.vnet.Prefixes)
	}
	m.guard(n.s)
	bridge := netlink.Link(nil)
	for _, a := range slices.SortedFunc(maps.Keys(pods), netip.Addr.Compare) {
		if pods[a] {
			bridge = m.addPod(n, a, bridge)
		}
	}
}

const mainTable = 254

var private = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd00::/8")}

// addPod makes a pod: kubenet's on a bridge, all others behind a link of their own.
func (m *machine) addPod(n *network, a netip.Addr, bridge netlink.Link) netlink.Link {
	pod := fresh()
	e := end{space: pod, addr: a, machine: m, pod: true}
	m.pods, n.ends = append(m.pods, e), append(n.ends, e)
	name := fmt.Sprint("pod", len(m.pods))
	here, eth0 := wire(m.space, name, pod, "eth0")
	at := slices.IndexFunc(m.node.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
	if !m.cluster.Kubenet() || at < 0 {
		pod.address(eth0, a, a.BitLen())
		m.route(mainTable, whole(a), here, 0)
		for _, p := range everything {
			pod.route(mainTable, p, eth0, 0)
		}
		return bridge
	}
	if bridge == nil {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "cbr0"
		snooping := false
		must(m.space.link.LinkAdd(&netlink.Bridge{LinkAttrs: attributes,
			MulticastSnooping: &snooping}))
		bridge = m.up("cbr0", false)
		m.waits = append(m.waits, bridge.Attrs().Index)
		m.address(bridge, netip.MustParseAddr("fe80::1"), 64) // by it the node asks for neighbours
		for _, p := range m.node.PodCIDRs {
			m.address(bridge, p.Masked().Addr().Next(), p.Bits())
			m.route(mainTable, p, bridge, 0)
		}
	}
	for s, link := range map[*space]netlink.Link{m.space: here, pod: eth0} {
		must(s.link.LinkSetARPOn(link))
	}
	// On a bridge each has its own hardware address.
	must(pod.link.LinkSetHardwareAddr(eth0, []byte{2, 0, 0, 1, byte(m.index), byte(len(m.pods))}))
	must(m.space.link.LinkSetMaster(here, bridge))
	pod.address(eth0, a, a.BitLen())
	pod.route(mainTable, m.node.PodCIDRs[at], eth0, 0)
	must(pod.link.RouteAdd(&netlink.Route{Dst: ipNet(everything[b2i(!a.Is4())]),
		LinkIndex: eth0.Attrs().Index, Gw: m.node.PodCIDRs[at].Masked().Addr().Next().AsSlice()}))
	return bridge
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// masquerade gives packets that leave by the interface its address, except to some prefixes: what
// kubenet and azure-ip-masq-agent do (github.com/kubernetes-sigs/ip-masq-agent).
func (m *machine) masquerade(except []netip.Prefix) {
	c := m.nft()
	table := c.AddTable(&nftables.Table{Name: "nat", Family: nftables.TableFamilyINet})
	chain := c.AddChain(&nftables.Chain{Name: "post", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	add := func(exprs ...expr.Any) {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
	add(append(linkIs(expr.MetaKeyOIFNAME, "eth0", expr.CmpOpNeq), accept)...)
	for _, p := range except {
		add(append(address(p, false), accept)...)
	}
	add(&expr.Masq{})
	must(c.Flush())
}

// owner is the machine that has an address in one of some networks.
func (n *network) owner(a netip.Addr, networks ...arm.ID) *machine {
	for _, m := range n.machines {
		if slices.Contains(m.addresses, a) && slices.ContainsFunc(networks, m.vnet.ID.Equal) {
			return m
		}
	}
	return nil
}
