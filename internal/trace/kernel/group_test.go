//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// logGroup is where drops are logged.
const logGroup = 7

var accept = &expr.Verdict{Kind: expr.VerdictAccept}

// drop logs why, and drops.
func drop(why string) []expr.Any {
	return []expr.Any{&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX,
		Group: logGroup, Data: []byte(why)}, &expr.Verdict{Kind: expr.VerdictDrop}}
}

func linkIs(key expr.MetaKey, name string, op expr.CmpOp) []expr.Any {
	padded := make([]byte, 16)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: op, Register: 1, Data: padded}}
}

func groupIs(key expr.MetaKey, group int) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1,
		Data: binaryutil.NativeEndian.PutUint32(uint32(group))}}
}

func family4or6(a netip.Addr) []expr.Any {
	family := byte(unix.NFPROTO_IPV6)
	if a.Is4() {
		family = unix.NFPROTO_IPV4
	}
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}}}
}

// address matches a prefix of the source or the destination.
func address(p netip.Prefix, source bool) []expr.Any {
	offset := map[[2]bool]uint32{{true, true}: 12, {true, false}: 16, {false, true}: 8,
		{false, false}: 24}[[2]bool{p.Addr().Is4(), source}]
	size := uint32(p.Addr().BitLen() / 8)
	out := family4or6(p.Addr())
	if p.Bits() == 0 {
		return out
	}
	return append(out, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader,
		Offset: offset, Len: size}, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size,
		Mask: ipNet(p).Mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()})
}

// guard puts what Azure does at an interface in front of the machine: it drops packets of others
// unless IP forwarding is on (virtual-networks-udr-overview, next hop types), and then its security
// groups decide, inbound first the subnet's, outbound first its own; answers of connections pass
// (network-security-group-how-it-works).
func (m *machine) guard(s *inventory.Snapshot) {
	c := m.nft()
	table := c.AddTable(&nftables.Table{Name: "azure", Family: nftables.TableFamilyINet})
	for _, inbound := range []bool{true, false} {
		// Outbound it is after the machine's own NAT, inbound before it.
		chain := &nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum:  nftables.ChainHookPostrouting,
			Priority: nftables.ChainPriorityRef(200)}
		link := expr.MetaKeyOIFNAME
		if inbound {
			chain.Name, chain.Hooknum = "in", nftables.ChainHookPrerouting
			chain.Priority, link = nftables.ChainPriorityMangle, expr.MetaKeyIIFNAME
		}
		c.AddChain(chain)
		to := c.AddChain(&nftables.Chain{Name: chain.Name + "-groups", Table: table})
		add := func(chain *nftables.Chain, exprs ...expr.Any) {
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
		}
		add(chain, append(linkIs(link, "eth0", expr.CmpOpNeq), accept)...)
		goOn := &expr.Verdict{Kind: expr.VerdictGoto, Chain: to.Name}
		if m.nic != nil && !m.nic.Forwarding {
			own := m.addresses
			if m.cluster != nil && m.cluster.Overlay() {
				own = append(slices.Clone(own), podAddresses(s, m)...)
			}
			for _, a := range own {
				add(chain, append(address(whole(a), !inbound), goOn)...)
			}
			add(chain, drop("IP forwarding is off")...)
		}
		add(chain, goOn)
		const established = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
		add(to, &expr.Ct{Key: expr.CtKeySTATE, Register: 1}, &expr.Bitwise{SourceRegister: 1,
			DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(established),
			Xor: make([]byte, 4)}, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1,
			Data: make([]byte, 4)}, accept)
		var groups []arm.ID
		for _, id := range []arm.ID{m.nicGroup(), m.subnet.SecurityGroup} {
			if id != "" {
				groups = append(groups, id)
			}
		}
		if inbound {
			slices.Reverse(groups)
		}
		// Each group's chain ends with a decision, because the default rules are in it: who passes
		// one goes on to the next.
		pass := expr.Any(accept)
		for i := len(groups) - 1; i >= 0; i-- {
			name := chain.Name + strconv.Itoa(i)
			m.judges(s, s.SecurityGroups[groups[i].Key()], inbound, table, name, pass)
			pass = &expr.Verdict{Kind: expr.VerdictGoto, Chain: name}
		}
		add(to, pass)
	}
	must(c.Flush())
}

// judges makes the chain of a security group. Each rule has three chains: one for the sources, one
// for the destinations, one for the ports. Where it does not match, the next rule follows.
func (m *machine) judges(s *inventory.Snapshot, g *inventory.SecurityGroup, inbound bool,
	table *nftables.Table, name string, pass expr.Any) {
	c := m.nft()
	chain := func(name string) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Table: table, Name: name})
	}
	add := func(chain *nftables.Chain, exprs ...expr.Any) {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
	main := chain(name)
	for i, r := range g.Rules {
		if r.Inbound != inbound {
			continue
		}
		act := []expr.Any{pass}
		if !r.Allow {
			act = drop(fmt.Sprintf("%s: %s, inbound %t", g.ID.Name(), r.Name, inbound))
		}
		part := func(what string) (*nftables.Chain, expr.Any) {
			chain := chain(fmt.Sprint(name, "-", i, what))
			return chain, &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain.Name}
		}
		ports, decide := part("ports")
		for _, port := range r.DestinationPorts {
			add(ports, append(protocolIs(r.Protocol, port), act...)...)
		}
		if len(r.DestinationPorts) == 0 {
			add(ports, append(protocolIs(r.Protocol, "*"), act...)...)
		}
		to, goOn := part("to")
		for _, match := range m.side(s, r.Destinations, r.DestinationGroups, false, decide) {
			add(to, match...)
		}
		from, _ := part("from")
		for _, match := range m.side(s, r.Sources, r.SourceGroups, true, goOn) {
			add(from, match...)
		}
		add(main, &expr.Verdict{Kind: expr.VerdictJump, Chain: from.Name})
	}
}

func (m *machine) nicGroup() arm.ID {
	if m.nic == nil {
		return ""
	}
	return m.nic.SecurityGroup
}

func podAddresses(s *inventory.Snapshot, m *machine) (all []netip.Addr) {
	for _, p := range s.Kubernetes[m.cluster.ID.Key()].Pods {
		if p.Node == m.node.Name {
			all = append(all, p.Addresses...)
		}
	}
	return all
}

// protocolIs matches a rule's protocol and port; only TCP and UDP have ports, at one place.
func protocolIs(protocol, port string) (exprs []expr.Any) {
	number := map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP,
		"icmp": unix.IPPROTO_ICMP}[strings.ToLower(protocol)]
	if number != 0 {
		exprs = append(exprs, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}})
	}
	if port != "*" {
		exprs = append(exprs, portIs(port)...)
	}
	return exprs
}

func portIs(text string) []expr.Any {
	from, to, many := strings.Cut(text, "-")
	if !many {
		to = from
	}
	first, last := must1(strconv.ParseUint(from, 10, 16)), must1(strconv.ParseUint(to, 10, 16))
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader,
		Offset: 2, Len: 2}, &expr.Range{Op: expr.CmpOpEq, Register: 1,
		FromData: binaryutil.BigEndian.PutUint16(uint16(first)),
		ToData:   binaryutil.BigEndian.PutUint16(uint16(last))}}
}

// side matches one side of a rule, and goes on to next. Internet is what is outside of the network
// and public (service-tags-overview).
func (m *machine) side(s *inventory.Snapshot, texts []string, groups []arm.ID, source bool,
	next expr.Any) (rules [][]expr.Any) {
	var prefixes []netip.Prefix
	last := [][]expr.Any(nil)
	for _, text := range texts {
		switch text {
		case "*":
			last = append(last, []expr.Any{next})
		case "VirtualNetwork":
			prefixes = append(prefixes, m.virtualNetwork(s)...)
		case "AzureLoadBalancer":
			prefixes = append(prefixes, host)
		case "Internet":
			inside := append(m.virtualNetwork(s), private...)
			for _, p := range dropped {
				inside = append(inside, netip.MustParsePrefix(p))
			}
			for _, p := range inside {
				last = append(last, append(address(p, source),
					&expr.Verdict{Kind: expr.VerdictReturn}))
			}
			last = append(last, []expr.Any{next})
		default:
			if a, err := netip.ParseAddr(text); err == nil {
				text = whole(a).String()
			}
			prefixes = append(prefixes, netip.MustParsePrefix(text))
		}
	}
	for _, nic := range s.Interfaces {
		for _, c := range nic.Configs {
			if slices.ContainsFunc(c.Groups, func(id arm.ID) bool {
				return slices.ContainsFunc(groups, id.Equal)
			}) && c.Subnet.Parent().Equal(m.vnet.ID) {
				prefixes = append(prefixes, whole(c.Address))
			}
		}
	}
	for _, p := range prefixes {
		rules = append(rules, append(address(p, source), next))
	}
	return append(rules, last...)
}

// host is the address that probes come from.
var host = netip.MustParsePrefix("168.63.129.16/32")

// virtualNetwork is the network's address space, those of connected peers, the host's address and
// the prefixes of user-defined routes (service-tags-overview).
func (m *machine) virtualNetwork(s *inventory.Snapshot) []netip.Prefix {
	out := append(slices.Clone(m.vnet.Prefixes), host)
	for _, p := range m.vnet.Peerings {
		if p.Connected && p.Access {
			out = append(out, p.Prefixes...)
		}
	}
	if table := s.Table(m.subnet.RouteTable); table != nil {
		for _, r := range table.Routes() {
			// It is not documented for routes to Internet and None; trace says so.
			if r.Prefix.IsValid() && r.HopType != "Internet" && r.HopType != "None" {
				out = append(out, r.Prefix)
			}
		}
	}
	// Overlay works with the default rules (aks/azure-cni-overlay, network security groups).
	for _, c := range s.Clusters {
		if c.Overlay() && slices.ContainsFunc(s.NodeSubnetIDs(c), m.subnet.ID.Equal) {
			out = append(out, c.PodCIDRs...)
		}
	}
	return out
}
