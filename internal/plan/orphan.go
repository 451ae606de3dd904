package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// orphan is a route that looks like one to the pods of a node that is gone, and belongs to no
// cluster whose routes are kept.
type orphan struct {
	route inventory.Route
	// the metadata.name or name of the cluster that left it behind, "" where that is not known
	cluster string
	// proof says why nothing can be behind it, lacks what is missing to be sure: one of the two.
	proof, lacks string
}

// linuxNode and anyNode are the names that AKS gives nodes: of scale sets, single machines and
// availability sets, and, much shorter, of Windows pools, which are told from other names only by
// what the cloud provider appends. Of a bare Windows name the number tells it: six digits of base
// 36, which begin with zeros.
var (
	linuxNode = regexp.MustCompile(`(?i)^aks-[a-z0-9]{1,12}-\d{8}-(vmss[0-9a-z]{6}|vms\d+|\d+)$`)
	anyNode   = regexp.MustCompile(
		`(?i)^(aks-[a-z0-9]{1,12}-\d{8}-(vmss[0-9a-z]{6}|vms\d+|\d+)|aks[a-z0-9]{1,6}[0-9a-z]{6})$`)
	bareWindows = regexp.MustCompile(`(?i)^aks[a-z0-9]{1,6}00[0-9a-z]{4}$`)
)

// nodeNamed reports whether a route's name is one that a cloud provider, or a keeper, gives: that
// of a node, alone (clusters of one family, and older ones) or with the prefix behind it.
func nodeNamed(r inventory.Route) bool {
	node, _, long := strings.Cut(r.Name, "____")
	return linuxNode.MatchString(node) || bareWindows.MatchString(node) ||
		long && anyNode.MatchString(node)
}

// NodeRoute reports whether a route has the name and the prefix that a cluster's cloud provider
// gives the route to the pods of a node.
func NodeRoute(r inventory.Route) bool { return podRouteStyle(r) }

// podRouteStyle reports whether a route has the name and the prefix that a cloud provider gives
// one.
func podRouteStyle(r inventory.Route) bool {
	if !r.Hop.IsValid() || !nodeSized(r.Prefix) {
		return false
	}
	return linuxNode.MatchString(r.Name) ||
		anyNode.MatchString(inventory.RouteNode(r.Name)) &&
			strings.EqualFold(r.Name, inventory.PodRouteName(inventory.RouteNode(r.Name), r.Prefix))
}

// nodeSized reports whether a prefix has the length of a node's pod CIDR.
func nodeSized(p netip.Prefix) bool {
	return p.IsValid() && (p.Addr().Is4() && p.Bits() == 24 || p.Addr().Is6() && p.Bits() >= 64)
}

// orphansIn finds the routes of a table that look orphaned. In one that is or may be a cluster's
// own none is proven: it is never written. Of those that AKS made nothing is said, their clusters
// may not be seen.
func (p *Planner) orphansIn(table *inventory.RouteTable) []orphan {
	if inventory.IsManagedTable(table.ID) {
		return nil
	}
	own := p.mayBeOwn(table)
	var out []orphan
	for _, r := range table.Routes {
		owner, kept, blind := p.ownerOfRoute(table, r)
		if kept || owner == nil && !podRouteStyle(r) {
			continue
		}
		o := orphan{route: r}
		switch {
		case own != "":
			o.lacks = own
		case blind != "":
			o.lacks = blind
		case owner != nil && owner.Stopped:
			o.lacks = fmt.Sprintf("cluster %s is stopped, and may have its nodes again",
				owner.ID.Name())
		default:
			o.proof, o.lacks = p.hopGone(table, r, beforehand{})
		}
		if owner != nil {
			o.cluster = owner.ID.Name()
			if o.lacks != "" {
				o.lacks += fmt.Sprintf("; the route is to pods of %s, which has no route table "+
					"itself and may want it", owner.ID.Name())
			}
		}
		out = append(out, o)
	}
	return out
}

// mayBeOwn says why a table is or may be a cluster's own, also one that no config names; "" where
// it is none. A table on a node subnet counts whatever the plugin, and so does one that a cluster's
// identity wrote.
func (p *Planner) mayBeOwn(table *inventory.RouteTable) string {
	if own, known := p.ownTables[table.ID.Key()]; known {
		return fmt.Sprintf("%s may be the route table of the cluster of %s, which routekeeper "+
			"never writes: %s", table.ID.Short(), own.v.name, own.how)
	}
	for _, key := range slices.Sorted(maps.Keys(p.s.Clusters)) {
		cluster := p.s.Clusters[key]
		may := func(how string) string {
			return fmt.Sprintf("%s may be the route table of cluster %s, which routekeeper never "+
				"writes: %s", table.ID.Short(), cluster.ID.Name(), how)
		}
		if table.ID.Group().Equal(cluster.NodeGroup()) {
			return may("it is in its node resource group")
		}
		for _, id := range p.s.NodeSubnetIDs(cluster) {
			if subnet := p.s.Subnet(id); slices.ContainsFunc(table.Subnets, id.Equal) ||
				subnet != nil && subnet.RouteTable.Equal(table.ID) {
				return may("the node subnet " + id.Short() + " is associated with it")
			}
		}
		if slices.ContainsFunc(p.s.Known(cluster.ID).Written, table.ID.Equal) {
			return may("the cluster's identity wrote it")
		}
		if cluster.Kubenet() && !p.knowsSource(cluster.ID) &&
			slices.ContainsFunc(table.Routes, func(r inventory.Route) bool {
				return ownsRoute(p.s, cluster, r)
			}) {
			return may("it holds routes to its nodes, and which table is its own is not known")
		}
	}
	return p.ownOfSomebody(table)
}

// ownOfSomebody says why a table is, or was, the own one of a cluster that may be in no config and
// not be seen: it is on a subnet in which its own next hops are; or, where it has no pod route
// (yet), on one with the nodes of such a cluster. Subnets that were not read say nothing.
func (p *Planner) ownOfSomebody(table *inventory.RouteTable) string {
	for _, id := range table.Subnets {
		subnet := p.s.Subnet(id)
		if subnet == nil {
			continue
		}
		if slices.ContainsFunc(table.Routes, func(r inventory.Route) bool {
			return within(subnet.Prefixes, r.Hop) && podRouteStyle(r)
		}) {
			return fmt.Sprintf("%s is on %s, where its next hops are: it is or was the own table "+
				"of a cluster, perhaps of one that is not seen", table.ID.Short(), id.Short())
		}
		node := p.strangeNode(subnet)
		if node != "" && !slices.ContainsFunc(table.Routes, podRouteStyle) {
			return fmt.Sprintf("%s is on %s, where a node of another cluster is (%s): it may be "+
				"the own table of that cluster, still empty", table.ID.Short(), id.Short(), node)
		}
	}
	return ""
}

// needSubnets are the subnets that ownOfSomebody lacks for tables that are to be changed.
func (p *Planner) needSubnets(changes []Change) []arm.ID {
	var ids []arm.ID
	for _, c := range changes {
		table := p.s.Table(c.Resource)
		if table == nil {
			continue
		}
		for _, id := range table.Subnets {
			if _, tried := p.s.Unread[id.Key()]; !tried && p.s.Subnet(id) == nil {
				ids = append(ids, id)
			}
		}
	}
	return inventory.SortIDs(ids)
}

// knowsSource reports whether it is beyond doubt which table is a cluster's own.
func (p *Planner) knowsSource(cluster arm.ID) bool {
	return slices.ContainsFunc(p.views, func(v *view) bool {
		return v.source != "" && !v.doubtful && cluster.Equal(arm.ID(v.config.Spec.ClusterID))
	})
}

// ownerOfRoute finds the cluster to whose pods a route of a table leads, by addresses. Kept is set
// where it is one of kubenet: keeping decides of its routes. Blind says why it cannot be told.
func (p *Planner) ownerOfRoute(table *inventory.RouteTable,
	r inventory.Route) (owner *inventory.Cluster, kept bool, blind string) {
	for _, key := range slices.Sorted(maps.Keys(p.s.Clusters)) {
		cluster := p.s.Clusters[key]
		switch {
		case ownsRoute(p.s, cluster, r) && p.s.Elsewhere(table, cluster):
			blind = fmt.Sprintf("cluster %s has nodes of the same addresses in another network",
				cluster.ID.Name())
		case ownsRoute(p.s, cluster, r) && cluster.Kubenet():
			return cluster, true, ""
		case ownsRoute(p.s, cluster, r):
			owner = cluster
		case inPods(cluster, r) && slices.ContainsFunc(p.s.NodeSubnetIDs(cluster),
			func(id arm.ID) bool { return p.s.Subnet(id) == nil }):
			blind = fmt.Sprintf("not all node subnets of cluster %s were read: it may be its route",
				cluster.ID.Name())
		}
	}
	return owner, false, blind
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

// beforehand is what is known of a route before its next hop is looked for.
type beforehand struct {
	group arm.ID // a node resource group whose NICs are all known to have other addresses, or ""
	alone bool   // NICs are not read: none may be in the subnet of the next hop
	gone  bool   // its cluster is gone: the cluster's table, where it is left, proves nothing
}

// hopGone says why no node can have a next hop of a table, or what is missing to be sure. The
// address is one of the networks that the table's subnets are in, or that these are directly peered
// with: others it could not reach.
func (p *Planner) hopGone(table *inventory.RouteTable, r inventory.Route, known beforehand) (proof,
	lacks string) {
	hop := r.Hop
	if len(table.Subnets) == 0 {
		return "", table.ID.Short() + " is on no subnet: it cannot be told in which network its " +
			"next hops are"
	}
	for _, key := range slices.Sorted(maps.Keys(p.s.Unread)) {
		if u := p.s.Unread[key]; !u.Absent && (u.ID.Is(arm.TypeCluster) ||
			strings.HasSuffix(key, strings.ToLower("/providers/"+arm.TypeCluster))) {
			return "", "not all clusters could be read: " + u.Reason()
		}
	}
	for _, id := range table.Subnets {
		at := p.s.VNets[id.Parent().Key()]
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
			if proof, lacks = p.goneFrom(vnet, r, known); lacks != "" {
				return "", lacks
			}
		}
	}
	return proof, ""
}

// holders are the networks that have an address, of one and those it is directly peered with.
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

// goneFrom says why no node in a network can have an address. A subnet shows every IP configuration
// in it, whoever owns it, so the network interfaces of clusters in other subscriptions are missed
// as well.
func (p *Planner) goneFrom(vnet arm.ID, r inventory.Route, known beforehand) (proof, lacks string) {
	hop := r.Hop
	if known.gone && p.s.Unread[vnet.Key()].Absent {
		return fmt.Sprintf("virtual network %s, which had %s, does not exist", vnet.Name(), hop), ""
	}
	if p.s.VNets[vnet.Key()] == nil {
		return "", fmt.Sprintf("virtual network %s, which has %s, was not read", vnet.Name(), hop)
	}
	var subnet *inventory.Subnet
	for _, s := range p.s.Subnets {
		if s.ID.Parent().Equal(vnet) && within(s.Prefixes, hop) {
			subnet = s
		}
	}
	if subnet == nil {
		return fmt.Sprintf("no subnet of %s has %s any more", vnet.Name(), hop), ""
	}
	if lacks := p.routedThere(subnet, r); lacks != "" && !known.gone {
		return "", lacks
	}
	for _, nic := range p.s.Interfaces {
		for _, c := range nic.Configs {
			if c.Address == hop && c.Subnet.Parent().Equal(vnet) {
				return "", fmt.Sprintf("%s is held by %s", hop, nic.Holder())
			}
		}
	}
	for _, id := range subnet.Configurations {
		nic := p.s.Interfaces[id.Parent().Key()]
		if known.group != "" && id.Group().Equal(known.group) {
			continue
		}
		if machine := id.Parent(); (machine.Is(arm.TypeInterface) ||
			machine.Is(arm.TypeScaleSetInterface)) && (nic == nil || nic.Unreadable) {
			return "", fmt.Sprintf("%s is in %s, and its addresses are not known: it may hold %s",
				inventory.HolderName(machine), subnet.ID.Short(), hop)
		}
	}
	whole := arm.ID("/subscriptions/" + vnet.Subscription())
	if known.group == "" && !known.alone && !slices.ContainsFunc(p.s.InterfacesOf, whole.Equal) {
		return "", fmt.Sprintf("not all network interfaces of subscription %s were read",
			vnet.Subscription())
	}
	return fmt.Sprintf("no network interface in %s has %s any more", subnet.ID.Short(), hop), ""
}

// routedThere says why the subnet of a next hop speaks for the route: its own table has it too, so
// that the subnet may be that of a cluster that is not seen, and stopped: then it has no machines,
// and will have them again.
func (p *Planner) routedThere(subnet *inventory.Subnet, r inventory.Route) (lacks string) {
	if subnet.RouteTable == "" {
		return ""
	}
	table := p.s.Table(subnet.RouteTable)
	switch {
	case table == nil:
		return fmt.Sprintf("%s, the table of %s, was not read: it may have the route too",
			subnet.RouteTable.Short(), subnet.ID.Short())
	case slices.ContainsFunc(table.Routes, func(o inventory.Route) bool {
		return o.Prefix == r.Prefix && o.SameHop(r)
	}):
		return fmt.Sprintf("%s, the table of %s, where its next hop is, has the route too: a "+
			"cluster may be there that is not seen, and stopped; if it is gone, take the table "+
			"off the subnet first", table.ID.Short(), subnet.ID.Short())
	}
	return ""
}
