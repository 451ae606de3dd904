package verdict

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// How it works: a keeper reads the node subnets, the guarded subnets and the tables. It rarely
// reads networks, and only to know which next hops are lost (Lost). It does not read security
// groups or the subnets of targets. It counts the routes of the table on each subnet as in place,
// because it defends them. It assumes that what was not read works: networks of the subnets that
// were read, peered with each other; security groups that allow everything; and for each target a
// subnet that uses it. It assumes nothing about a table. Nodes have the addresses to which the
// cluster's own table leads. A diagnosis reads everything, so it assumes nothing.

// tracing traces packets in a snapshot with assumed networks.
type tracing struct {
	s *inventory.Snapshot
	t *trace.Tracer
	// lost reports that a next hop certainly drops the packets of a subnet.
	lost func(plan.Hop) (more string, lost bool)
}

// assumedPrefixes returns the prefixes of an assumed subnet: reserved and documentation addresses,
// which no network has.
func assumedPrefixes(number int) []netip.Prefix {
	high, low := byte(number>>8), byte(number)
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{240, high, low, 0}), 24),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 4: high,
			5: low}), 64)}
}

// assume returns the tracing of one cluster in its part of the snapshot. It assumes that what was
// not read works.
func assume(read plan.Facts, config *v1alpha1.ClusterRoutes, own plan.Discovery) *tracing {
	s := partOf(read.Snapshot, config, own.Table)
	placeNodes(s, read, config, own)
	assumeSubnets(s, config)
	assumed := map[string]*inventory.VNet{}
	for key, subnet := range s.Subnets {
		group := subnet.SecurityGroup
		if _, failed := s.Unread[group.Key()]; group != "" && !failed &&
			s.SecurityGroups[group.Key()] == nil {
			open := *subnet
			open.SecurityGroup = ""
			s.Subnets[key] = &open
		}
		id := subnet.ID.Parent()
		if s.VNets[id.Key()] == nil {
			at := &inventory.VNet{Document: arm.Document{ID: id}}
			s.VNets[id.Key()], assumed[id.Key()] = at, at
		}
		if at := assumed[id.Key()]; at != nil {
			at.Prefixes = append(at.Prefixes, subnet.Prefixes...)
		}
	}
	for _, at := range assumed {
		for _, other := range s.VNets {
			if other != at {
				at.Peerings = append(at.Peerings, inventory.Peering{Name: "assumed",
					Remote: other.ID, Prefixes: other.Prefixes, Connected: true, Access: true,
					Forwarded: true})
			}
		}
	}
	return &tracing{s: s, t: trace.New(s, trace.Options{})}
}

// partOf returns the part of a snapshot that decides about packets to the pods of one cluster. So
// the time for a fleet grows with the number of clusters, and not with its square.
func partOf(s *inventory.Snapshot, config *v1alpha1.ClusterRoutes, own arm.ID) *inventory.Snapshot {
	id := arm.ID(config.Spec.ClusterID)
	part := inventory.NewSnapshot()
	part.Unread, part.Firewalls, part.Balancers = s.Unread, s.Firewalls, s.Balancers
	cluster := s.Cluster(id)
	if cluster == nil {
		return part
	}
	part.Clusters[id.Key()] = cluster
	*part.Learn(id) = s.Known(id)
	part.Kubernetes = map[string]*inventory.Kubernetes{}
	if kube := s.Kubernetes[id.Key()]; kube != nil {
		part.Kubernetes[id.Key()] = kube
	}
	table := func(id arm.ID) {
		if t := s.Table(id); t != nil {
			part.Tables[t.ID.Key()] = t
		}
	}
	subnet := func(id arm.ID) {
		if known := s.Subnet(id); known != nil {
			part.Subnets[known.ID.Key()] = known
			table(known.RouteTable)
		}
		if vnet := s.VNets[id.Parent().Key()]; vnet != nil {
			part.VNets[id.Parent().Key()] = vnet
		}
	}
	table(own)
	for _, id := range slices.Concat(s.NodeSubnetIDs(cluster), cluster.PodSubnets()) {
		subnet(id)
	}
	for _, g := range config.Spec.Guard.Subnets {
		subnet(arm.ID(g.SubnetID))
		table(arm.ID(g.RouteTableID))
	}
	for _, target := range config.Spec.Targets {
		table(arm.ID(target.RouteTableID))
		if t := s.Table(arm.ID(target.RouteTableID)); t != nil {
			for _, id := range t.Subnets {
				subnet(id)
			}
		}
	}
	return part
}

// assumeSubnets adds a subnet for each subnet of a target that was not read.
func assumeSubnets(s *inventory.Snapshot, config *v1alpha1.ClusterRoutes) {
	for _, target := range config.Spec.Targets {
		table := s.Table(arm.ID(target.RouteTableID))
		if table == nil {
			continue
		}
		for _, id := range table.Subnets {
			if _, failed := s.Unread[id.Key()]; s.Subnet(id) == nil && !failed &&
				s.VNets[id.Parent().Key()] == nil {
				s.Subnets[id.Key()] = &inventory.Subnet{Document: arm.Document{ID: id},
					Prefixes: assumedPrefixes(len(s.Subnets)), RouteTable: table.ID}
			}
		}
	}
}

// placeNodes decides where the nodes of a cluster are, unless Kubernetes shows it: where the
// cluster's route table leads, even if its subnets have another table. If a node's row leads to no
// node, the node is where a copy of the row leads, or anywhere in the node subnets: the effect of
// the row decides.
func placeNodes(s *inventory.Snapshot, read plan.Facts, config *v1alpha1.ClusterRoutes,
	own plan.Discovery) {
	cluster := s.Cluster(arm.ID(config.Spec.ClusterID))
	table := s.Table(own.Table)
	if cluster == nil || table == nil || own.Doubtful || !cluster.Kubenet() ||
		s.Kubernetes[cluster.ID.Key()] != nil {
		return
	}
	var nodes []inventory.Node
	at := map[string]int{} // by name
	homes := plan.Homes(read, config, table)
	for _, h := range homes {
		i, known := at[h.Node]
		if !known {
			i = len(nodes)
			at[h.Node], nodes = i, append(nodes, inventory.Node{Name: h.Node})
		}
		if !h.At.IsValid() {
			h.At = assumedAddress(s, cluster, homes, h)
		}
		nodes[i].Addresses = append(nodes[i].Addresses, h.At)
		nodes[i].PodCIDRs = append(nodes[i].PodCIDRs, h.Pods)
	}
	if len(nodes) > 0 {
		s.Kubernetes[cluster.ID.Key()] = &inventory.Kubernetes{Nodes: nodes}
	}
}

// assumedAddress returns an address for a node that has none in the cluster's route table.
func assumedAddress(s *inventory.Snapshot, cluster *inventory.Cluster, homes []plan.Home,
	h plan.Home) netip.Addr {
	taken := func(a netip.Addr) bool {
		return slices.ContainsFunc(homes, func(o plan.Home) bool { return o.At == a })
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		for _, r := range s.Tables[key].Routes() {
			if r.Prefix == h.Pods && r.Hop.IsValid() && inventory.RouteNode(r.Name) == h.Node &&
				!taken(r.Hop) {
				return r.Hop
			}
		}
	}
	for _, prefix := range prefixesOf(s, s.NodeSubnetIDs(cluster)...) {
		for a := inventory.FirstUsable(prefix); prefix.Contains(a) &&
			a.Is4() == h.Pods.Addr().Is4(); a = a.Next() {
			if !taken(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// packets traces the packets to the pods of a cluster: from its nodes and pods, and from the
// subnets that its config names.
func (t *tracing) packets(c picture.Cluster) trace.Matrix {
	var also []arm.ID
	for _, s := range c.Subnets {
		if wanted := t.s.Table(s.Wanted); t.servesPods(c, s) || s.Role == picture.RoleGuarded &&
			wanted != nil && leadsToPods(c, wanted) {
			also = append(also, s.ID)
		}
	}
	return t.t.To(c.ID, also...)
}

// servesPods reports whether a subnet has an Application Gateway and, according to the config, a
// table that leads to the cluster's pods: a target, or one that is gone.
func (t *tracing) servesPods(c picture.Cluster, s picture.Subnet) bool {
	subnet := t.s.Subnet(s.ID)
	return subnet != nil && len(subnet.Gateways) > 0 && (s.Role == picture.RoleTarget ||
		s.Wanted != "" && t.s.Table(s.Wanted) == nil ||
		slices.ContainsFunc(c.Tables, func(table picture.Table) bool {
			return table.Role == picture.RoleTarget && table.ID.Equal(s.Wanted)
		}))
}

// leadsToPods reports whether a table has a route to pods of a cluster.
func leadsToPods(c picture.Cluster, table *inventory.RouteTable) bool {
	for _, r := range table.Routes() {
		for _, pods := range c.PodCIDRs {
			if r.Prefix.IsValid() && r.Hop.IsValid() && pods.Contains(r.Prefix.Addr()) &&
				r.Prefix.Bits() >= pods.Bits() {
				return true
			}
		}
	}
	return false
}

// Declared returns what the configs require of subnets, for package trace.
func Declared(s plan.Facts, configs []v1alpha1.ClusterRoutes) map[string]trace.Declared {
	all := map[string]trace.Declared{}
	taken := plan.TakenBy(configs)
	t := &tracing{s: s.Snapshot}
	for i := range configs {
		must := configs[i].Spec.Egress
		for _, subnet := range picture.Of(s, &configs[i], configs, taken).Subnets {
			d := all[subnet.ID.Key()]
			if cluster := t.s.Cluster(arm.ID(configs[i].Spec.ClusterID)); cluster != nil &&
				t.egressFrom(subnet, cluster, must) {
				for _, r := range plan.DeclaredEgress(&configs[i]) {
					d.Egress = append(d.Egress, trace.Route{Prefix: r.Prefix, Source: trace.User,
						HopType: r.HopType, Hop: r.Hop, Name: r.Name,
						Table: arm.ID(must.RouteTableID)})
				}
				d.Hops = append(d.Hops, t.appliance(must)...)
			}
			d.Table = cmp.Or(subnet.Wanted, d.Table)
			for _, p := range subnet.Properties {
				if p.Property == inventory.PropertyNAT {
					d.NATGateway = p.Wanted
				}
			}
			all[subnet.ID.Key()] = d
		}
	}
	return all
}

// AstrayEgress returns the egress of a cluster that does not take the declared way. It needs a
// snapshot with networks, as a diagnosis reads it.
func AstrayEgress(s plan.Facts, config *v1alpha1.ClusterRoutes, all []v1alpha1.ClusterRoutes,
	taken plan.Taken) []Egress {
	t := &tracing{s: s.Snapshot}
	t.lost = func(h plan.Hop) (string, bool) {
		// a tracer of a whole fleet is slow to make, and most clusters have no such hop
		if t.t == nil {
			t.t = trace.New(s.Snapshot, trace.Options{})
		}
		return lostBy(t.t)(h)
	}
	return t.egress(picture.Of(s, config, all, taken), config)
}

// egress compares the ways of packets to other networks. It covers subnets that lack what they must
// have, or whose table must have the routes of spec.egress, with one way for each subnet and next
// hop.
func (t *tracing) egress(c picture.Cluster, config *v1alpha1.ClusterRoutes) (out []Egress) {
	cluster := t.s.Cluster(c.ID)
	if cluster == nil {
		return nil
	}
	for _, s := range c.Subnets {
		out = append(out, t.pastGateway(s, cluster)...)
		declared := slices.Concat(t.declared(s, cluster, config), t.lostHops(s, cluster))
		if len(declared) == 0 {
			continue
		}
		routes, err := trace.Effective(t.s, s.ID, nil)
		if err != nil {
			continue
		}
		for _, r := range declared {
			to, all := outside[r.Prefix]
			general := r.Prefix.Bits() <= 1 // a default route, or one of its halves
			if !r.Prefix.IsValid() || overlaps(c.PodCIDRs, r.Prefix) && !general ||
				slices.ContainsFunc(out, func(e Egress) bool {
					return e.Subnet.Equal(s.ID) && (e.Declared == r.NextHop() || e.To == r.Prefix)
				}) {
				continue
			}
			if !all {
				to = inventory.FirstUsable(r.Prefix)
			}
			if !r.Prefix.Contains(to) { // a route for a single address, for example
				to = r.Prefix.Addr()
			}
			takes, found := routes.Lookup(to)
			more, lost := t.hopLost(s.ID, takes.Hop)
			lost = lost && found
			drops := !found || lost || takes.HopType == trace.HopNone
			same := takes.Hop == r.Hop && strings.EqualFold(takes.HopType, r.HopType) ||
				r.Hop.IsValid() && slices.Contains(t.appliance(config.Spec.Egress), takes.Hop)
			if found && !lost && same || r.HopType == inventory.HopNone && drops {
				continue
			}
			e := Egress{Subnet: s.ID, To: r.Prefix, Declared: r.NextHop(), Takes: "none",
				Dropped: true}
			switch {
			case !found:
			case lost:
				e.Takes, e.Unreachable, e.Instead = takes.String(), takes.Hop, more
			case all && takes.HopType == trace.HopInternet && exitKnown(s, cluster):
				by := t.exit(s, cluster)
				e.Takes, e.Dropped = by, by == ""
			default:
				e.Takes, e.Dropped = takes.String(), takes.HopType == trace.HopNone
			}
			out = append(out, e)
		}
	}
	return out
}

// lostBy returns a function that says whether next hops drop packets, given the networks as they
// are.
func lostBy(t *trace.Tracer) func(plan.Hop) (string, bool) {
	return func(h plan.Hop) (more string, lost bool) {
		v, _ := t.NextHop(h.Subnet, h.Addr)
		if lost = v == trace.Dropped; lost {
			more, _ = t.Lost(h.Subnet, h.Addr)
		}
		return more, lost
	}
}

// hopLost reports whether it is certain that a next hop drops packets, with further details.
func (t *tracing) hopLost(from arm.ID, hop netip.Addr) (more string, lost bool) {
	if t.lost == nil || !hop.IsValid() {
		return "", false
	}
	return t.lost(plan.Hop{Subnet: from, Addr: hop})
}

// lostHops returns the default routes whose next hop drops packets, whether declared or not. It
// covers node subnets, and each subnet of a document without a cluster.
func (t *tracing) lostHops(s picture.Subnet,
	cluster *inventory.Cluster) (routes []inventory.Route) {
	table := t.s.Table(s.Table)
	if table == nil || !exitKnown(s, cluster) {
		return nil
	}
	for _, r := range table.Default() {
		if _, lost := t.hopLost(s.ID, r.Hop); lost {
			routes = append(routes, r)
		}
	}
	return routes
}

// egressFrom reports whether spec.egress covers packets from a subnet: the subnet has or must have
// the table, or is a node subnet without any table although the nodes need one.
func (t *tracing) egressFrom(s picture.Subnet, cluster *inventory.Cluster,
	must v1alpha1.Egress) bool {
	table := arm.ID(must.RouteTableID)
	return table != "" && (table.Equal(s.Table) || table.Equal(s.Wanted) || s.Table == "" &&
		s.Wanted == "" && s.Unread == "" && nodesAre(s) &&
		strings.EqualFold(cluster.Outbound, "userDefinedRouting"))
}

// declared returns the routes that must decide about packets from a subnet: those of the table that
// it lost, and those of spec.egress.
func (t *tracing) declared(s picture.Subnet, cluster *inventory.Cluster,
	config *v1alpha1.ClusterRoutes) (routes []inventory.Route) {
	if t.egressFrom(s, cluster, config.Spec.Egress) {
		// packets cannot bypass a route to the internet: another finding says that it is lost
		routes = slices.DeleteFunc(plan.DeclaredEgress(config), func(r inventory.Route) bool {
			return r.HopType == inventory.HopInternet
		})
	}
	if wanted := t.s.Table(s.Wanted); wanted != nil &&
		(s.State == picture.Lost || s.State == picture.Other) {
		for _, r := range wanted.Routes() {
			if r.Hop.IsValid() {
				routes = append(routes, r)
			}
		}
	}
	return routes
}

// appliance returns the present addresses of the firewall or load balancer in spec.egress, if it
// was read.
func (t *tracing) appliance(must v1alpha1.Egress) []netip.Addr {
	if a := t.s.Appliance(arm.ID(must.FirewallID)); a != nil {
		return a.Hops
	}
	return nil
}

// nodesAre reports whether a subnet has nodes of the cluster.
func nodesAre(s picture.Subnet) bool { return s.Role == picture.RoleNodes }

// exitKnown reports whether it is known what gives packets from a subnet a public address. It is
// known for subnets of nodes and of documents without a cluster. In other subnets, a gateway may
// have one.
func exitKnown(s picture.Subnet, cluster *inventory.Cluster) bool {
	return nodesAre(s) || cluster.Plugin == inventory.NoCluster
}

// exit names what gives packets from a subnet a public address, or returns "".
func (t *tracing) exit(s picture.Subnet, cluster *inventory.Cluster) string {
	if nodesAre(s) {
		return trace.Exit(t.s.Subnet(s.ID), cluster)
	}
	return trace.ExitOf(t.s, t.s.Subnet(s.ID))
}

// pastGateway returns the egress of a subnet that lacks its NAT gateway, unless a route leads its
// packets elsewhere: routes win over NAT gateways.
func (t *tracing) pastGateway(s picture.Subnet, cluster *inventory.Cluster) []Egress {
	i := slices.IndexFunc(s.Properties, func(p picture.Property) bool {
		return p.Property == inventory.PropertyNAT
	})
	if i < 0 || !exitKnown(s, cluster) || s.Properties[i].State != picture.Lost &&
		s.Properties[i].State != picture.Other {
		return nil
	}
	table := t.s.Table(s.Wanted)
	routes, err := trace.Effective(t.s, s.ID, nil)
	if err != nil || table != nil && len(table.Default()) > 0 {
		return nil
	}
	for prefix, to := range outside {
		if takes, found := routes.Lookup(to); prefix.Addr().Is4() && found &&
			takes.HopType == trace.HopInternet {
			by := t.exit(s, cluster)
			return []Egress{{Subnet: s.ID, To: prefix, Takes: by, Dropped: by == "",
				Declared: gatewayWord + s.Properties[i].Wanted.Name()}}
		}
	}
	return nil
}

func overlaps(all []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(all, p.Overlaps)
}
