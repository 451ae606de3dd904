package verdict

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// How it works: a keeper reads the node subnets, the guarded subnets and the tables, and neither
// networks, nor security groups, nor the subnets of targets. What the keeper defends is there: the
// routes of the table on each subnet. What was not read is assumed to work: networks of the subnets
// that were read, peered with each other, security groups that let everything pass, and for each
// target a subnet that uses it. What was read counts as it is, as for the doctor, which reads all.
// Nothing is assumed about a table. Nodes are where the cluster's own table leads.

// tracing traces packets in a snapshot with assumed networks.
type tracing struct {
	s *inventory.Snapshot
	t *trace.Tracer
}

// room returns the prefixes of an assumed subnet: reserved and documentation addresses, which no
// network has.
func room(number int) []netip.Prefix {
	high, low := byte(number>>8), byte(number)
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{240, high, low, 0}), 24),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 4: high,
			5: low}), 64)}
}

func newTracing(read plan.Facts, configs []v1alpha1.ClusterRoutes, taken plan.Taken) *tracing {
	s := read.Snapshot.Fork()
	if len(s.Interfaces) == 0 {
		for i := range configs {
			placeNodes(s, read, &configs[i], taken)
		}
	}
	vnets := map[string]*inventory.VNet{}
	for key, vnet := range s.VNets {
		vnets[key] = vnet
	}
	number := 0
	for _, config := range configs {
		for _, target := range config.Spec.Targets {
			table := s.Table(arm.ID(target.RouteTableID))
			if table == nil {
				continue
			}
			for _, id := range table.Subnets {
				if _, failed := s.Unread[id.Key()]; s.Subnet(id) == nil && !failed &&
					vnets[id.Parent().Key()] == nil {
					s.Subnets[id.Key()] = &inventory.Subnet{Document: arm.Document{ID: id},
						Prefixes: room(number), RouteTable: table.ID}
					number++
				}
			}
		}
	}
	for key, subnet := range s.Subnets {
		group := subnet.SecurityGroup
		if _, failed := s.Unread[group.Key()]; group != "" && !failed &&
			s.SecurityGroups[group.Key()] == nil {
			open := *subnet
			open.SecurityGroup = ""
			s.Subnets[key] = &open
		}
	}
	assumed := map[string]*inventory.VNet{}
	for _, subnet := range s.Subnets {
		id := subnet.ID.Parent()
		at := vnets[id.Key()]
		if at == nil {
			at = &inventory.VNet{Document: arm.Document{ID: id}}
			vnets[id.Key()], assumed[id.Key()] = at, at
		}
		if assumed[id.Key()] != nil {
			at.Prefixes = append(at.Prefixes, subnet.Prefixes...)
		}
	}
	for _, config := range configs {
		near := networks(s, &config)
		for _, at := range near {
			for _, other := range near {
				if assumed[at.Key()] != nil && vnets[other.Key()] != nil && !at.Equal(other) {
					peer(assumed[at.Key()], vnets[other.Key()])
				}
			}
		}
	}
	s.VNets = vnets
	return &tracing{s: s, t: trace.New(s, trace.Options{})}
}

// placeNodes says where the nodes of a cluster are, if neither interfaces nor Kubernetes were read:
// where the cluster's route table leads, whichever table its subnets have.
func placeNodes(s *inventory.Snapshot, read plan.Facts, config *v1alpha1.ClusterRoutes,
	taken plan.Taken) {
	cluster := s.Cluster(arm.ID(config.Spec.ClusterID))
	own := plan.Discover(read, config, taken)
	table := s.Table(own.Table)
	if cluster == nil || table == nil || own.Doubtful || !cluster.Kubenet() ||
		s.Kubernetes[cluster.ID.Key()] != nil {
		return
	}
	var nodes []inventory.Node
	at := map[string]int{} // by name
	routes := plan.PodRoutes(read, config, table)
	for _, prefix := range slices.SortedFunc(maps.Keys(routes), netip.Prefix.Compare) {
		name := inventory.RouteNode(routes[prefix].Name)
		i, known := at[name]
		if !known {
			i = len(nodes)
			at[name], nodes = i, append(nodes, inventory.Node{Name: name})
		}
		nodes[i].Addresses = append(nodes[i].Addresses, routes[prefix].Hop)
		nodes[i].PodCIDRs = append(nodes[i].PodCIDRs, prefix)
	}
	if len(nodes) > 0 {
		if s.Kubernetes == nil {
			s.Kubernetes = map[string]*inventory.Kubernetes{}
		}
		s.Kubernetes[cluster.ID.Key()] = &inventory.Kubernetes{Nodes: nodes}
	}
}

// networks returns the networks of a cluster's nodes, and of the subnets that must reach its pods.
func networks(s *inventory.Snapshot, config *v1alpha1.ClusterRoutes) (ids []arm.ID) {
	var subnets []arm.ID
	if cluster := s.Cluster(arm.ID(config.Spec.ClusterID)); cluster != nil {
		subnets = s.NodeSubnetIDs(cluster)
	}
	for _, g := range config.Spec.Guard.Subnets {
		subnets = append(subnets, arm.ID(g.SubnetID))
	}
	for _, target := range config.Spec.Targets {
		if table := s.Table(arm.ID(target.RouteTableID)); table != nil {
			subnets = append(subnets, table.Subnets...)
		}
	}
	for _, id := range subnets {
		ids = append(ids, id.Parent())
	}
	return inventory.SortIDs(ids)
}

// peer adds the peering of an assumed network with another, once.
func peer(at, with *inventory.VNet) {
	if !slices.ContainsFunc(at.Peerings, func(p inventory.Peering) bool {
		return p.Remote.Equal(with.ID)
	}) {
		at.Peerings = append(at.Peerings, inventory.Peering{Name: "assumed", Remote: with.ID,
			Prefixes: with.Prefixes, Connected: true, Access: true, Forwarded: true})
	}
}

// packets traces the packets to the pods of a cluster: from its nodes and pods, and from the
// subnets that its config names.
func (t *tracing) packets(c picture.Cluster) trace.Matrix {
	var also []arm.ID
	for _, s := range c.Subnets {
		wanted := t.s.Table(s.Wanted)
		if s.Role == picture.RoleGuarded && wanted != nil && leads(c, wanted) {
			also = append(also, s.ID)
		}
	}
	return t.t.Sampled(c.ID, also...)
}

// leads reports whether a table has a route to pods of a cluster.
func leads(c picture.Cluster, table *inventory.RouteTable) bool {
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

// Egress is a subnet whose packets to other networks do not take the declared next hop: that of a
// route in the table that must be on the subnet.
type Egress struct {
	Subnet arm.ID `json:"subnet"`
	// To and Declared are the route's; Takes is the route that the packets take.
	To       netip.Prefix `json:"to"`
	Declared netip.Addr   `json:"declared"`
	Takes    string       `json:"takes"`
	Dropped  bool         `json:"dropped"`
}

// outside stands for the internet, by the prefix of a default route.
var outside = map[netip.Prefix]netip.Addr{
	netip.MustParsePrefix("0.0.0.0/0"): netip.MustParseAddr("203.0.113.1"),
	netip.MustParsePrefix("::/0"):      netip.MustParseAddr("2001:db8:ffff:ffff::1"),
}

// egress compares the ways of packets to other networks, in subnets that have another table than
// they must have: one way for each subnet and next hop.
func (t *tracing) egress(c picture.Cluster) (out []Egress) {
	for _, s := range c.Subnets {
		wanted := t.s.Table(s.Wanted)
		if wanted == nil || s.State != picture.Lost && s.State != picture.Other {
			continue
		}
		routes, err := trace.Effective(t.s, s.ID, nil)
		if err != nil {
			continue
		}
		for _, r := range wanted.Routes() {
			to, all := outside[r.Prefix]
			if !r.Prefix.IsValid() || !r.Hop.IsValid() || overlaps(c.PodCIDRs, r.Prefix) && !all ||
				slices.ContainsFunc(out, func(e Egress) bool {
					return e.Subnet.Equal(s.ID) && e.Declared == r.Hop
				}) {
				continue
			}
			if !all {
				to = inventory.FirstUsable(r.Prefix)
			}
			takes, found := routes.Lookup(to)
			if found && takes.Hop == r.Hop {
				continue
			}
			e := Egress{Subnet: s.ID, To: r.Prefix, Declared: r.Hop, Takes: "none", Dropped: true}
			if found {
				e.Takes, e.Dropped = takes.String(), takes.HopType == trace.HopNone
			}
			out = append(out, e)
		}
	}
	return out
}

func overlaps(all []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(all, p.Overlaps)
}

// String says which way the packets take.
func (e Egress) String() string {
	what := fmt.Sprintf("packets from subnet %s to %s", e.Subnet.Name(), e.To)
	if _, all := outside[e.To]; all {
		what = "egress of subnet " + e.Subnet.Name()
	}
	if e.Dropped {
		return fmt.Sprintf("%s: dropped, the declared next hop is %s", what, e.Declared)
	}
	return fmt.Sprintf("%s: bypasses %s by %s", what, e.Declared, e.Takes)
}
