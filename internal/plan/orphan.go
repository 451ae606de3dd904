package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: copies of pod routes can outlive their cluster. Then no config owns them. sync
// prune removes one only if all of this holds:
//
//   - It has a cloud provider's name and prefix. Or its addresses are those of a cluster with
//     another plugin, and not those of a route of a kubenet cluster.
//   - The table is not a cluster's route table, and cannot be one.
//   - No node can have the next hop. In every network that has the address and that the table's
//     subnets reach directly, one of two holds. The subnet is gone. Or every IP configuration in
//     the subnet belongs to a network interface that was read, all interfaces of the subscription
//     were read, and none has the address. A subnet also shows IP configurations from other
//     subscriptions, so the proof covers clusters there, too.
//
// Only routes that existed when the proof was read are removed. If the write is late, the proof is
// read again.

// orphan is a route that looks like a route to the pods of a node that is gone, and belongs to no
// managed cluster.
type orphan struct {
	route inventory.Route
	// the name of the cluster that left it, or its metadata.name; "" if unknown
	cluster string
	// proof says why no node can be behind the route; lacks names the missing proof. One of them is
	// empty.
	proof, lacks string
}

// NodeRoute reports whether a route has the name and the prefix that a cloud provider gives the
// route to a node's pods.
func NodeRoute(r inventory.Route) bool { return podRouteStyle(r) }

// podRouteStyle works like NodeRoute for a decoded route with a next hop address.
func podRouteStyle(r inventory.Route) bool {
	if !r.Hop.IsValid() || !nodeSized(r.Prefix) {
		return false
	}
	return linuxNode(r.Name) ||
		anyNode(inventory.RouteNode(r.Name)) &&
			strings.EqualFold(r.Name, inventory.PodRouteName(inventory.RouteNode(r.Name), r.Prefix))
}

// nodeSized reports whether a prefix has the length of a node's pod CIDR.
func nodeSized(p netip.Prefix) bool {
	return p.IsValid() && (p.Addr().Is4() && p.Bits() == 24 || p.Addr().Is6() && p.Bits() >= 64)
}

// orphansIn finds the routes of a table that look orphaned. It proves none in a table that is or
// may be a cluster's route table: routekeeper never writes those. It skips tables that AKS made,
// because their clusters may not have been read.
func (p *Planner) orphansIn(table *inventory.RouteTable) []orphan {
	if inventory.IsManagedTable(table.ID) {
		return nil
	}
	own := p.mayBeClusterTable(table)
	var out []orphan
	for _, r := range table.Routes() {
		owner, managed, blind := p.ownerOfRoute(table, r)
		if managed || owner == nil && !podRouteStyle(r) {
			continue
		}
		o := orphan{route: r}
		switch {
		case own != "":
			o.lacks = own
		case blind != "":
			o.lacks = blind
		case owner != nil && owner.Stopped:
			o.lacks = fmt.Sprintf("cluster %s is stopped: its nodes may return", owner.ID.Name())
		default:
			o.proof, o.lacks = p.s.noNodeAt(table, r, hopFacts{})
		}
		if owner != nil {
			o.cluster = owner.ID.Name()
			if o.lacks != "" {
				o.lacks += fmt.Sprintf("; the route leads to pods of %s, which has no route "+
					"table and may need it", owner.ID.Name())
			}
		}
		out = append(out, o)
	}
	return out
}

// mayOwn reports whether a route is or may be a cluster's. It may be if some of the cluster's node
// subnets were not read.
func (f Facts) mayOwn(cluster *inventory.Cluster, r inventory.Route) bool {
	return inPods(cluster, r) && (ownsRoute(f, cluster, r) ||
		slices.ContainsFunc(f.NodeSubnetIDs(cluster),
			func(id arm.ID) bool { return f.Subnet(id) == nil }))
}

func inPods(cluster *inventory.Cluster, r inventory.Route) bool {
	return r.Hop.IsValid() && slices.ContainsFunc(cluster.PodCIDRs, func(cidr netip.Prefix) bool {
		return r.Prefix.IsValid() && r.Prefix.Bits() == inventory.NodeMask(cidr) &&
			cidr.Contains(r.Prefix.Addr())
	})
}

func ownsRoute(s Facts, cluster *inventory.Cluster, r inventory.Route) bool {
	return inPods(cluster, r) && within(s.NodePrefixesEver(cluster), r.Hop)
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// hopFacts is what is known about a route before the search for its next hop.
type hopFacts struct {
	group arm.ID // a node resource group whose NICs are known not to have the next hop, or ""
	alone bool   // no NICs are read, so the next hop's subnet must not contain any
	gone  bool   // the cluster is gone: a table that it left proves nothing
}

// noNodeAt says why no node can have the next hop of a route, or names the missing proof. A node
// with the next hop can only be in a network of the table's subnets, or in one directly peered with
// them: packets cannot reach others.
func (f Facts) noNodeAt(table *inventory.RouteTable, r inventory.Route, known hopFacts) (proof,
	lacks string) {
	hop := r.Hop
	if len(table.Subnets) == 0 {
		return "", table.ID.Short() + " is not associated with any subnet, so the network of its " +
			"next hops is unknown"
	}
	for _, key := range slices.Sorted(maps.Keys(f.Unread)) {
		if u := f.Unread[key]; !u.Absent && (u.ID.Is(arm.TypeCluster) ||
			strings.HasSuffix(key, strings.ToLower("/providers/"+arm.TypeCluster))) {
			return "", "not all clusters could be read: " + u.Reason()
		}
	}
	for _, id := range table.Subnets {
		at := f.VNets[id.Parent().Key()]
		if at == nil {
			return "", "virtual network " + id.Parent().Name() + " was not read"
		}
		networks := holders(at, hop)
		if len(networks) == 0 && known.gone {
			proof = fmt.Sprintf("%s is in no network that %s reaches", hop, id.Short())
			continue
		}
		if len(networks) == 0 {
			return "", fmt.Sprintf("%s is in no network that %s reaches directly: its nodes may "+
				"be behind a peering that is gone", hop, id.Short())
		}
		for _, vnet := range networks {
			if proof, lacks = f.goneFrom(vnet, r, known); lacks != "" {
				return "", lacks
			}
		}
	}
	return proof, ""
}

// holders returns the networks that contain an address: the given one and those directly peered
// with it.
func holders(at *inventory.VNet, hop netip.Addr) (networks []arm.ID) {
	if within(at.Prefixes, hop) {
		networks = append(networks, at.ID)
	}
	for _, peering := range at.Peerings {
		if within(peering.Prefixes, hop) {
			networks = append(networks, peering.Remote)
		}
	}
	return networks
}

// goneFrom says why no node in a network can have the next hop. A subnet shows all its IP
// configurations, even those of other subscriptions, so it reveals when network interfaces of
// clusters there are missing.
func (f Facts) goneFrom(vnet arm.ID, r inventory.Route, known hopFacts) (proof, lacks string) {
	hop := r.Hop
	if known.gone && f.Unread[vnet.Key()].Absent {
		return fmt.Sprintf("virtual network %s, which had %s, does not exist", vnet.Name(), hop), ""
	}
	if f.VNets[vnet.Key()] == nil {
		return "", fmt.Sprintf("virtual network %s, which has %s, was not read", vnet.Name(), hop)
	}
	var subnet *inventory.Subnet
	for _, s := range f.Subnets {
		if s.ID.Parent().Equal(vnet) && within(s.Prefixes, hop) {
			subnet = s
		}
	}
	if subnet == nil {
		return fmt.Sprintf("no subnet of %s contains %s any more", vnet.Name(), hop), ""
	}
	if lacks := f.routedThere(subnet, r); lacks != "" && !known.gone {
		return "", lacks
	}
	for _, nic := range f.Interfaces {
		for _, c := range nic.Configs {
			if c.Address == hop && c.Subnet.Parent().Equal(vnet) {
				return "", fmt.Sprintf("%s belongs to %s", hop, nic.Holder())
			}
		}
	}
	for _, id := range subnet.Configurations() {
		nic := f.Interfaces[id.Parent().Key()]
		if known.group != "" && id.Group().Equal(known.group) {
			continue
		}
		if machine := id.Parent(); (machine.Is(arm.TypeInterface) ||
			machine.Is(arm.TypeScaleSetInterface)) && (nic == nil || nic.Unreadable) {
			return "", fmt.Sprintf("%s is in %s, and its addresses are unknown: it may have %s",
				inventory.HolderName(machine), subnet.ID.Short(), hop)
		}
	}
	whole := vnet.SubscriptionID()
	if known.group == "" && !known.alone && !slices.ContainsFunc(f.InterfacesOf, whole.Equal) {
		return "", fmt.Sprintf("not all network interfaces of subscription %s were read",
			vnet.Subscription())
	}
	return fmt.Sprintf("no network interface in %s has %s any more", subnet.ID.Short(), hop), ""
}

// routedThere says why the next hop's subnet suggests that the route is in use: the subnet's table
// has the same route. Then the subnet may belong to a stopped cluster that was not read: its
// machines will return.
func (f Facts) routedThere(subnet *inventory.Subnet, r inventory.Route) (lacks string) {
	if subnet.RouteTable == "" {
		return ""
	}
	table := f.Table(subnet.RouteTable)
	switch {
	case table == nil:
		return fmt.Sprintf("%s, the route table of %s, was not read: it may have the route too",
			subnet.RouteTable.Short(), subnet.ID.Short())
	case slices.ContainsFunc(table.Routes(), func(o inventory.Route) bool {
		return o.Prefix == r.Prefix && o.SameHop(r)
	}):
		return fmt.Sprintf("%s, the route table of the next hop's subnet %s, has the route too: "+
			"that subnet may belong to a stopped cluster that was not read; if the cluster is "+
			"gone, dissociate the table from the subnet first", table.ID.Short(), subnet.ID.Short())
	}
	return ""
}
