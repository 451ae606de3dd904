package plan

import (
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Home is a node that the cluster's route table names, with its pod CIDR and address.
type Home struct {
	Node string
	Pods netip.Prefix
	At   netip.Addr // zero if its row leads to no node, and nothing else shows the address
}

// Homes returns the nodes that a cluster's route table names. A node's address is where its row
// leads. If a check that doubts the rows has read the network interfaces, it is the interface's
// address. A row that leads to the internet, to nothing or out of the node subnets counts if
// another row that counts names its node, if an interface shows the node's address, or while other
// rows do not name all nodes. While rows do not name all nodes, a copy without a row counts if its
// node's interface has the next hop.
func Homes(s Facts, config *v1alpha1.ClusterRoutes, table *inventory.RouteTable) (homes []Home) {
	v := newClusterState(s, config, s.Cluster(arm.ID(config.Spec.ClusterID)))
	v.learnMasks(table)
	nics := s.Doubted(v.cluster.ID)
	led := map[string]bool{}
	var bent []Home
	add := func(r inventory.Route) {
		h := Home{Node: inventory.RouteNode(r.Name), Pods: r.Prefix}
		node := strings.ToLower(h.Node)
		at := nodeAt(nics, node, r.Prefix.Addr())
		switch {
		case v.owns(r):
			if h.At = r.Hop; at.IsValid() && nics.Nodes[r.Hop] != node {
				h.At = at
			}
			homes, led[node] = append(homes, h), true
		case v.isNodePrefix(r.Prefix) && nodeNamed(r) && providerNamed(r):
			h.At = at
			bent = append(bent, h)
		}
	}
	for _, i := range table.ByPrefix() {
		add(table.Routes()[i])
	}
	for _, h := range bent {
		if node := strings.ToLower(h.Node); led[node] || h.At.IsValid() ||
			len(led) < v.cluster.Nodes() {
			homes, led[node] = append(homes, h), true
		}
	}
	for _, target := range config.Spec.Targets {
		copies := s.Table(arm.ID(target.RouteTableID))
		for i := 0; copies != nil && i < len(copies.Routes()) && len(led) < v.cluster.Nodes(); i++ {
			r := copies.Routes()[i]
			node := strings.ToLower(inventory.RouteNode(r.Name))
			if v.owns(r) && nodeNamed(r) && !led[node] && nodeAt(nics, node, r.Hop) == r.Hop &&
				!slices.ContainsFunc(homes, func(h Home) bool {
					return h.Pods == r.Prefix || h.At == r.Hop
				}) {
				add(r)
			}
		}
	}
	return homes
}

// Doubted returns the network interfaces of a cluster's nodes if this check has read them, or if an
// earlier one found that rows contradict them. Otherwise it returns nil: interfaces can be older
// than a node.
func (f Facts) Doubted(cluster arm.ID) *inventory.NICs {
	nics, m := f.addresses(cluster), f.Memory.Of(cluster).Nodes
	doubts := nics.asked == nil || m.Crossed
	for _, lack := range m.Lacks {
		doubts = doubts || lack.Reported
	}
	if nics.NICs == nil || nics.Failed != "" || !doubts {
		return nil
	}
	return nics.NICs
}

// nodeAt returns a node's address in the family of another address.
func nodeAt(nics *inventory.NICs, node string, like netip.Addr) (at netip.Addr) {
	if nics == nil {
		return at
	}
	for address, of := range nics.Nodes {
		if of == node && address.Is4() == like.Is4() && (!at.IsValid() || address.Less(at)) {
			at = address
		}
	}
	return at
}
