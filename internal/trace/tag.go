package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gaissmai/bart"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Filters has what network security groups need to know in one subnet: the addresses of service
// tags, and the members of application security groups.
type Filters struct {
	s      *inventory.Snapshot
	subnet *inventory.Subnet // nil if it was not read
	vnet   *inventory.VNet   // nil if it was not read
	// near has the prefixes of VirtualNetwork, except default routes, which are in wide. vague has
	// prefixes for which no source says whether the tag includes them. tag is a service tag with a
	// route. unread names what else belongs to the tag and was not read.
	near, vague bart.Lite
	wide        map[bool]bool // by whether it is IPv6
	reachesOut  bool          // near has public prefixes
	tag, unread string
	groups      map[netip.Addr][]arm.ID // of the interfaces in the network
}

// host is the address that Azure's health probes and its other services send from
// (what-is-ip-address-168-63-129-16).
var host = netip.AddrFrom4([4]byte{168, 63, 129, 16})

// FiltersOf computes the filters of a subnet. learned has the routes that its gateway has learned,
// as for Effective.
//
// The service tag VirtualNetwork is "the virtual network address space, all connected on-premises
// address spaces, peered virtual networks, virtual networks connected to a virtual network gateway,
// the virtual IP address of the host, and address prefixes used on user-defined routes. This tag
// might also contain default routes" (service-tags-overview). A peering without
// allowVirtualNetworkAccess adds nothing (virtual-network-manage-peering). So kubenet's pod routes
// make pods part of the tag in the subnets with the table. If the table is lost, the default rules
// deny pods as well.
func FiltersOf(s *inventory.Snapshot, id arm.ID, learned []Route) *Filters {
	f := &Filters{s: s, subnet: s.Subnet(id), vnet: s.VNets[id.Parent().Key()],
		wide: map[bool]bool{}, groups: map[netip.Addr][]arm.ID{}}
	add := func(p netip.Prefix) {
		if p.IsValid() && p.Bits() == 0 {
			f.wide[p.Addr().Is6()] = true
		} else if p.IsValid() {
			f.near.Insert(p)
			f.reachesOut = f.reachesOut || !inside(p)
		}
	}
	add(netip.PrefixFrom(host, 32))
	for _, r := range learned {
		add(r.Prefix)
	}
	if f.vnet == nil {
		f.unread = "virtual network " + id.Parent().Name() + " was not read"
	} else {
		for _, p := range f.vnet.Prefixes {
			add(p)
		}
		for _, peering := range f.vnet.Peerings {
			if peering.Connected && peering.Access {
				for _, p := range peering.Prefixes {
					add(p)
				}
			}
		}
	}
	switch {
	case f.subnet == nil:
		f.unread = "subnet " + id.Short() + " was not read"
	case f.subnet.RouteTable != "" && s.Table(f.subnet.RouteTable) == nil:
		f.unread = "route table " + f.subnet.RouteTable.Name() + " was not read"
	case f.subnet.RouteTable != "":
		for _, r := range s.Table(f.subnet.RouteTable).Routes() {
			switch {
			case !r.Prefix.IsValid():
				f.tag = r.Tag
			case strings.EqualFold(r.HopType, inventory.HopInternet) ||
				strings.EqualFold(r.HopType, inventory.HopNone):
				f.vague.Insert(r.Prefix)
			default:
				add(r.Prefix)
			}
		}
	}
	// No source says this about overlay pods. But overlay clusters work with only the default
	// rules, and the documentation asks for extra rules only if others deny (azure-cni-overlay:
	// network security groups). So pods are part of the tag in the subnets of their nodes.
	for _, c := range s.Clusters {
		if c.Overlay() && slices.ContainsFunc(s.NodeSubnetIDs(c), id.Equal) {
			for _, p := range c.PodCIDRs {
				add(p)
			}
		}
	}
	for _, nic := range s.Interfaces {
		for _, c := range nic.Configs {
			if c.Address.IsValid() && c.Subnet.Parent().Equal(id.Parent()) {
				f.groups[c.Address] = append(f.groups[c.Address], c.Groups...)
			}
		}
	}
	return f
}

// inVirtualNetwork says whether the tag VirtualNetwork covers an address.
func (f *Filters) inVirtualNetwork(a netip.Addr) (answer, string) {
	switch {
	case f.near.Contains(a) || f.wide[a.Is6()]:
		return yes, ""
	case f.unread != "":
		return perhaps, fmt.Sprintf("it is unknown whether %s is in VirtualNetwork: %s", a,
			f.unread)
	case f.vague.Contains(a):
		return perhaps, fmt.Sprintf("it is not documented whether VirtualNetwork includes "+
			"prefixes that are routed to Internet or None, such as the one of %s", a)
	case f.tag != "" && public(a):
		return perhaps, fmt.Sprintf("VirtualNetwork includes the prefixes of %s, which has a "+
			"route, but its prefixes are unknown", f.tag)
	}
	return no, ""
}

// onInternet says whether the tag Internet covers an address. It covers what is "outside the
// virtual network and reachable by the public internet" (service-tags-overview), and none of the
// prefixes that Azure shows for it is private (diagnose-vm-network-traffic-filtering-problem).
func (f *Filters) onInternet(a netip.Addr) (answer, string) {
	switch {
	case !public(a) || f.near.Contains(a):
		return no, ""
	case f.unread != "":
		return perhaps, fmt.Sprintf("it is unknown whether %s is in VirtualNetwork or on the "+
			"Internet: %s", a, f.unread)
	case f.wide[a.Is6()] || f.vague.Contains(a) || f.tag != "":
		return perhaps, fmt.Sprintf("it is not documented whether Internet includes %s if a "+
			"route may have added it to VirtualNetwork", a)
	}
	return yes, ""
}

// inService says whether another service tag covers an address. The prefixes of Azure's services
// are public, or the host's. They are unknown here.
func (f *Filters) inService(a netip.Addr, tag string) (answer, string) {
	if a.IsPrivate() || contains(reserved, a) {
		return no, ""
	}
	return perhaps, fmt.Sprintf("the prefixes of the service tag %s are unknown", tag)
}

// public reports whether an address can be on the internet.
func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !contains(reserved, a) && a != host
}

// inGroup says whether the interface with an address is in an application security group. All
// interfaces of a group are in one network (application-security-groups). A pod behind a node's
// interface is not a member: the group includes only the interface's own addresses.
func (f *Filters) inGroup(a netip.Addr, id arm.ID) (answer, string) {
	groups, read := f.groups[a]
	switch {
	case read:
		return isTrue(slices.ContainsFunc(groups, id.Equal)), ""
	case f.vnet != nil && !contains(f.vnet.Prefixes, a):
		return no, ""
	}
	return perhaps, fmt.Sprintf("the network interface of %s was not read, so it is unknown "+
		"whether it is in application security group %s", a, id.Name())
}
