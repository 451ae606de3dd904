package build

import (
	"net/netip"

	"routekeeper.dev/routekeeper/internal/capacity"
)

// What is taken where nothing else is said. The address space is clear of AKS's own pod CIDR
// (10.244.0.0/16) and service CIDR (10.0.0.0/16).
var (
	usualSpace    = netip.MustParsePrefix("10.224.0.0/16")
	usualPodCIDR  = netip.MustParsePrefix("10.244.0.0/16")
	usualServices = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("172.16.0.0/16"), netip.MustParsePrefix("192.168.0.0/16"),
	}
)

const (
	usualNodeBits    = 20 // of the node subnet, where no more is needed
	usualGatewayBits = 24 // of an Application Gateway v2 (configuration-infrastructure)
)

// lay lays out what is not given, and refuses what overlaps.
func (c *Cluster) lay() error {
	if len(c.Space) == 0 {
		c.Space = []netip.Prefix{usualSpace}
	}
	need := c.sizes()
	free := c.Space
	for _, given := range []netip.Prefix{c.Nodes, c.Pods, c.Gateway} {
		free = without(free, given)
	}
	for _, s := range []struct {
		prefix *netip.Prefix
		wanted bool
		bits   int
		field  Field
	}{
		{&c.Nodes, true, min(usualNodeBits, need.nodeBits), fieldNodes},
		{&c.Pods, c.HasPodSubnet(), need.podBits, fieldPods},
		{&c.Gateway, c.ApplicationGateway != nil, usualGatewayBits, fieldGateway},
	} {
		switch {
		case !s.wanted && s.prefix.IsValid():
			return wrong(s.field, "the blueprint %s has no such subnet", c.Blueprint)
		case !s.wanted:
		case !s.prefix.IsValid():
			p, found := first(free, s.bits)
			if !found {
				return wrong(fieldSpace, "%s has no /%d left for %s", list(c.Space), s.bits, s.field)
			}
			*s.prefix, free = p, without(free, p)
		case !within(c.Space, *s.prefix):
			return wrong(s.field, "%s is not in the address space %s", *s.prefix, list(c.Space))
		}
	}
	if err := c.layOutside(need); err != nil {
		return err
	}
	return c.overlaps()
}

// layOutside fills in the ranges that are not in the network.
func (c *Cluster) layOutside(need needs) error {
	switch {
	case c.hasPodCIDR() && !c.PodCIDR.IsValid():
		c.PodCIDR = netip.PrefixFrom(usualPodCIDR.Addr(), min(usualPodCIDR.Bits(), need.podCIDRBits)).Masked()
	case !c.hasPodCIDR() && c.PodCIDR.IsValid():
		return wrong(fieldPodCIDR, "pods of the blueprint %s have addresses of a subnet, expected none", c.Blueprint)
	}
	if c.Services.IsValid() {
		return nil
	}
	for _, p := range usualServices {
		if !p.Overlaps(c.PodCIDR) && !overlap(c.Space, p) {
			c.Services = p
			return nil
		}
	}
	return wrong(fieldServices, "%s overlap the address space or the pod CIDR, expected another", list(usualServices))
}

func (c *Cluster) overlaps() error {
	type named struct {
		field  Field
		prefix netip.Prefix
	}
	all := []named{{fieldNodes, c.Nodes}, {fieldPods, c.Pods}, {fieldGateway, c.Gateway},
		{fieldPodCIDR, c.PodCIDR}, {fieldServices, c.Services}}
	for i, a := range all {
		if !a.prefix.IsValid() {
			continue
		}
		if !a.prefix.Addr().Is4() || a.prefix != a.prefix.Masked() || a.prefix.Bits() < 8 {
			return wrong(a.field, "%s, expected an IPv4 prefix of /8 or longer, without bits behind its mask",
				a.prefix)
		}
		for _, b := range all[:i] {
			if b.prefix.IsValid() && b.prefix.Overlaps(a.prefix) {
				return wrong(a.field, "%s overlaps %s %s", a.prefix, b.field, b.prefix)
			}
		}
	}
	for _, outside := range all[3:] {
		if outside.prefix.IsValid() && overlap(c.Space, outside.prefix) {
			return wrong(outside.field, "%s overlaps the address space %s", outside.prefix, list(c.Space))
		}
		if c.Egress.IsValid() && outside.prefix.IsValid() && outside.prefix.Contains(c.Egress) {
			return wrong(fieldEgress, "a firewall cannot be at %s, which is in %s %s",
				c.Egress, outside.field, outside.prefix)
		}
	}
	if c.Egress.IsValid() && (!c.Egress.Is4() || c.Nodes.Contains(c.Egress)) {
		return wrong(fieldEgress, "a firewall cannot be at %s, expected an IPv4 address outside of the node subnet",
			c.Egress)
	}
	return nil
}

// needs are the sizes that the pools take together.
type needs struct {
	nodes, surge                   int
	nodeAddresses, podAddresses    int
	nodeBits, podBits, podCIDRBits int
	tooMuch                        string
}

// sizes adds up what the pools need at their largest, while each upgrades.
func (c *Cluster) sizes() needs {
	var n needs
	for _, p := range c.Pools {
		setup := capacity.Setup{
			Plugin: c.Blueprint, MaxPods: p.MaxPods, Surge: capacity.SurgeOf(""), RouteLimit: routeLimit,
		}
		s := setup.For(capacity.Need{Nodes: p.most()})
		n.nodes, n.surge = n.nodes+s.Nodes, n.surge+s.Surge
		n.nodeAddresses += s.SubnetAddresses
		n.podAddresses += s.PodSubnetAddresses
		if s.TooMuch != "" {
			n.tooMuch = s.TooMuch
		}
	}
	if c.Blueprint == capacity.PodSubnetStatic {
		n.podAddresses += 2 * 16 // the first and the last block, which hold reserved addresses
	}
	n.nodeBits, n.podBits = capacity.SubnetFor(n.nodeAddresses), capacity.SubnetFor(n.podAddresses)
	for n.podCIDRBits = 24; 1<<(24-n.podCIDRBits) < n.nodes+n.surge; n.podCIDRBits-- {
	}
	return n
}

// fits refuses sizes that cannot hold what the pools may grow to.
func (c *Cluster) fits() error {
	n := c.sizes()
	total := n.nodes + n.surge
	switch {
	case n.tooMuch != "":
		return wrong(c.mostNodes(), "%d nodes and %d more during an upgrade are too many for the %s",
			n.nodes, n.surge, n.tooMuch)
	case capacity.Usable(c.Nodes) < n.nodeAddresses:
		return wrong(fieldNodes,
			"%s has %d addresses; %d nodes and %d more during an upgrade take %d, expected /%d or wider",
			c.Nodes, capacity.Usable(c.Nodes), n.nodes, n.surge, n.nodeAddresses, n.nodeBits)
	case c.HasPodSubnet() && capacity.Usable(c.Pods) < n.podAddresses:
		return wrong(fieldPods, "%s has %d addresses; full nodes take %d, expected /%d or wider",
			c.Pods, capacity.Usable(c.Pods), n.podAddresses, n.podBits)
	case c.hasPodCIDR() && c.PodCIDR.Bits() > n.podCIDRBits:
		return wrong(fieldPodCIDR,
			"%s has %d ranges of /24, one for each node; %d nodes and %d more during an upgrade need /%d or wider",
			c.PodCIDR, 1<<max(0, 24-c.PodCIDR.Bits()), n.nodes, n.surge, n.podCIDRBits)
	case c.Blueprint == capacity.Kubenet && total+c.ownRoutes() > routeLimit:
		return wrong(c.mostNodes(), "%d nodes and %d more during an upgrade need a route each; a route table holds %d",
			n.nodes, n.surge, routeLimit)
	case c.ApplicationGateway != nil && capacity.Usable(c.Gateway) < c.ApplicationGateway.Most+1:
		return wrong(fieldGateway, "%s has %d addresses; %d instances and a private frontend take %d",
			c.Gateway, capacity.Usable(c.Gateway), c.ApplicationGateway.Most, c.ApplicationGateway.Most+1)
	}
	return nil
}

// mostNodes is the field that says how many nodes there can be.
func (c *Cluster) mostNodes() Field {
	switch {
	case len(c.Pools) > 1:
		return "pools"
	case c.Pools[0].Most > 0:
		return poolField(0, "maxCount")
	}
	return poolField(0, "count")
}

// routeLimit is how many routes a route table holds (azure-subscription-service-limits).
const routeLimit = 400

// ownRoutes are the routes of the node table that are no node's.
func (c *Cluster) ownRoutes() int {
	if c.Egress.IsValid() {
		return 1
	}
	return 0
}
