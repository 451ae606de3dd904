package build

import (
	"fmt"
	"net/netip"

	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Defaults. The address space does not overlap AKS's own pod CIDR (10.244.0.0/16) and service CIDR
// (10.0.0.0/16).
var (
	usualSpace    = netip.MustParsePrefix("10.224.0.0/16")
	usualPodCIDR  = netip.MustParsePrefix("10.244.0.0/16")
	usualServices = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("172.16.0.0/16"),
		netip.MustParsePrefix("192.168.0.0/16"),
	}
)

const (
	usualNodeBits    = 20 // of the node subnet, where no more is needed
	usualGatewayBits = 24 // of an Application Gateway v2 (configuration-infrastructure)
)

// choosePrefixes chooses missing prefixes, and refuses overlaps. taken has other owners' subnets in
// the network, and peers the address spaces of its peered networks.
func choosePrefixes(c *Cluster, taken, peers []netip.Prefix) error {
	if len(c.Space) == 0 {
		c.Space = []netip.Prefix{usualSpace}
	}
	for i, p := range c.Space {
		for _, q := range c.Space[:i] {
			if c.Existing == nil && p.Overlaps(q) {
				return wrong(Field(fmt.Sprintf("%s[%d]", fieldSpace, i)), "%s overlaps %s", p, q)
			}
		}
	}
	need := sizes(c)
	free := c.Space
	for _, other := range taken {
		free = without(free, other)
	}
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
		what, where := any(s.field), fieldSpace
		if c.Existing != nil {
			what, where = "the subnet", s.field
		}
		switch {
		case !s.wanted && s.prefix.IsValid():
			return wrong(s.field, "the blueprint %s has no such subnet", c.Blueprint)
		case !s.wanted:
		case !s.prefix.IsValid():
			p, found := firstFree(free, s.bits)
			if !found {
				return wrong(where, "%s has no /%d left for %s", inventory.List(c.Space), s.bits,
					what)
			}
			*s.prefix, free = p, without(free, p)
		case !within(c.Space, *s.prefix):
			return wrong(s.field, "%s is not in the address space %s", *s.prefix,
				inventory.List(c.Space))
		case overlap(taken, *s.prefix):
			return wrong(s.field, "%s overlaps another subnet of the network %s", *s.prefix,
				c.VNetID().Name())
		}
	}
	if err := chooseOutside(c, need, peers); err != nil {
		return err
	}
	return overlaps(c, peers)
}

// chooseOutside fills in the ranges outside of the network.
func chooseOutside(c *Cluster, need needs, peers []netip.Prefix) error {
	switch {
	case c.hasPodCIDR() && !c.PodCIDR.IsValid():
		c.PodCIDR = netip.PrefixFrom(usualPodCIDR.Addr(),
			min(usualPodCIDR.Bits(), need.podCIDRBits)).Masked()
	case !c.hasPodCIDR() && c.PodCIDR.IsValid():
		return wrong(fieldPodCIDR, "pods of the blueprint %s have addresses of a subnet, "+
			"expected none", c.Blueprint)
	}
	if c.Services.IsValid() {
		return nil
	}
	for _, p := range usualServices {
		if !p.Overlaps(c.PodCIDR) && !overlap(c.Space, p) && !overlap(peers, p) {
			c.Services = p
			return nil
		}
	}
	return wrong(fieldServices, "%s overlap the address space or the pod CIDR, expected another",
		inventory.List(usualServices))
}

func overlaps(c *Cluster, peers []netip.Prefix) error {
	type named struct {
		field  Field
		prefix netip.Prefix
	}
	all := []named{{fieldOf(c, fieldNodes), c.Nodes}, {fieldOf(c, fieldPods), c.Pods},
		{fieldOf(c, fieldGateway), c.Gateway},
		{fieldPodCIDR, c.PodCIDR}, {fieldServices, c.Services}}
	for i, a := range all {
		if !a.prefix.IsValid() {
			continue
		}
		if !a.prefix.Addr().Is4() || a.prefix != a.prefix.Masked() || a.prefix.Bits() < 8 {
			return wrong(a.field, "%s, expected an IPv4 prefix of /8 or longer, without bits "+
				"after its mask", a.prefix)
		}
		for _, b := range all[:i] {
			if b.prefix.IsValid() && b.prefix.Overlaps(a.prefix) {
				return wrong(a.field, "%s overlaps %s %s", a.prefix, b.field, b.prefix)
			}
		}
	}
	for _, outside := range all[3:] {
		if outside.prefix.IsValid() && overlap(c.Space, outside.prefix) {
			return wrong(outside.field, "%s overlaps the address space %s", outside.prefix,
				inventory.List(c.Space))
		}
		if outside.prefix.IsValid() && overlap(peers, outside.prefix) {
			return wrong(outside.field, "%s overlaps a peered network: %s", outside.prefix,
				inventory.List(peers))
		}
		if c.Egress.IsValid() && outside.prefix.IsValid() && outside.prefix.Contains(c.Egress) {
			return wrong(fieldEgress, "a firewall cannot be at %s, which is in %s %s",
				c.Egress, outside.field, outside.prefix)
		}
	}
	if c.Egress.IsValid() && (!c.Egress.Is4() || c.Nodes.Contains(c.Egress)) {
		return wrong(fieldEgress, "a firewall cannot be at %s, expected an IPv4 address outside "+
			"of the node subnet", c.Egress)
	}
	return nil
}

// needs has the total sizes that the pools need.
type needs struct {
	nodes, surge                   int
	nodeAddresses, podAddresses    int
	nodeBits, podBits, podCIDRBits int
	tooMuch                        string
}

// sizes adds up what the pools need at their maximum, while each is upgraded.
func sizes(c *Cluster) needs {
	var n needs
	for _, p := range c.Pools {
		setup := capacity.Setup{
			Plugin: c.Blueprint, MaxPods: p.MaxPods, Surge: capacity.SurgeOf(""),
			RouteLimit: inventory.DefaultRouteLimit,
		}
		s := setup.SizesFor(capacity.Need{Nodes: p.most()})
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

// fits refuses sizes that cannot hold the pools at their largest.
func fits(c *Cluster) error {
	n, e := sizes(c), c.existing()
	total := n.nodes + n.surge
	switch {
	case n.tooMuch != "":
		return wrong(mostNodesField(c), "%d nodes and %d more during an upgrade are too many "+
			"for the %s", n.nodes, n.surge, n.tooMuch)
	case capacity.Usable(c.Nodes)-e.nodesUsed < n.nodeAddresses:
		return wrong(fieldOf(c, fieldNodes), "%s has %d addresses%s; %d nodes and %d more during "+
			"an upgrade take %d, expected /%d or wider", c.Nodes, capacity.Usable(c.Nodes),
			usedByOthers(e.nodesUsed), n.nodes, n.surge, n.nodeAddresses,
			capacity.SubnetFor(n.nodeAddresses+e.nodesUsed))
	case c.HasPodSubnet() && capacity.Usable(c.Pods)-e.podsUsed < n.podAddresses:
		return wrong(fieldOf(c, fieldPods), "%s has %d addresses%s; full nodes take %d, expected "+
			"/%d or wider", c.Pods, capacity.Usable(c.Pods), usedByOthers(e.podsUsed),
			n.podAddresses, capacity.SubnetFor(n.podAddresses+e.podsUsed))
	case c.hasPodCIDR() && c.PodCIDR.Bits() > n.podCIDRBits:
		return wrong(fieldPodCIDR, "%s has %d ranges of /24, one for each node; %d nodes and %d "+
			"more during an upgrade need /%d or wider", c.PodCIDR,
			1<<max(0, 24-c.PodCIDR.Bits()), n.nodes, n.surge, n.podCIDRBits)
	case c.Blueprint == capacity.Kubenet && total+otherRoutes(c) > inventory.DefaultRouteLimit:
		return wrong(mostNodesField(c), "%d nodes and %d more during an upgrade need a route "+
			"each; a route table holds %d", n.nodes, n.surge, inventory.DefaultRouteLimit)
	case c.ApplicationGateway != nil &&
		capacity.Usable(c.Gateway)-e.gatewayUsed < c.ApplicationGateway.Most+1:
		return wrong(fieldOf(c, fieldGateway), "%s has %d addresses%s; %d instances and a "+
			"private frontend take %d, expected /%d or wider", c.Gateway,
			capacity.Usable(c.Gateway), usedByOthers(e.gatewayUsed), c.ApplicationGateway.Most,
			c.ApplicationGateway.Most+1,
			capacity.SubnetFor(c.ApplicationGateway.Most+1+e.gatewayUsed))
	}
	return nil
}

// fieldOf returns the field that a subnet's prefix comes from.
func fieldOf(c *Cluster, prefix Field) Field {
	switch e := c.existing(); {
	case prefix == fieldNodes && e.Nodes != "":
		return fieldVNetSubnet
	case prefix == fieldPods && e.Pods != "":
		return fieldPodSubnetID
	case prefix == fieldGateway && e.Gateway != "":
		return fieldGatewayID
	}
	return prefix
}

// usedByOthers says how many addresses of a subnet others use.
func usedByOthers(used int) string {
	if used == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them used by others", used)
}

// mostNodesField returns the field that says how many nodes there can be.
func mostNodesField(c *Cluster) Field {
	switch {
	case len(c.Pools) > 1:
		return "pools"
	case c.Pools[0].Most > 0:
		return poolField(0, "maxCount")
	}
	return poolField(0, "count")
}

// otherRoutes returns the number of routes in the node table that do not lead to nodes.
func otherRoutes(c *Cluster) int {
	switch e := c.existing(); {
	case e.NodeTable != "":
		return e.routes
	case c.Egress.IsValid():
		return 1
	}
	return 0
}
