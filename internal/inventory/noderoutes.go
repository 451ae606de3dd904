package inventory

import (
	"net/netip"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// NodesTable returns the pod routes of nodes as a route table without an ETag. Each pod CIDR of a
// node gets a route, with the node's first address of the same family as next hop and with the
// cloud provider's name for it. Nodes and routes are sorted by name. id is the cluster's.
func NodesTable(id arm.ID, nodes []Node) *RouteTable {
	routes := make([]Route, 0, len(nodes))
	for _, n := range nodes {
		routes = append(routes, n.PodRoutes()...)
	}
	return (&RouteTable{Document: arm.Document{ID: id}}).WithRoutes(routes)
}

// PodRoutes returns the routes to a node's pods, as far as the node object shows them.
func (n Node) PodRoutes() []Route {
	routes := make([]Route, 0, len(n.PodCIDRs))
	for _, prefix := range n.PodCIDRs {
		if hop := n.addressLike(prefix.Addr()); hop.IsValid() {
			prefix = prefix.Masked()
			routes = append(routes, Route{Name: PodRouteName(n.Name, prefix), Prefix: prefix,
				HopType: HopAppliance, Hop: hop})
		}
	}
	return routes
}

// addressLike returns the node's first address in the family of another address.
func (n Node) addressLike(other netip.Addr) netip.Addr {
	for _, a := range n.Addresses {
		if a.Is4() == other.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// ReadyFor reports whether a node has been Ready for a given time.
func (n Node) ReadyFor(d time.Duration, now time.Time) bool {
	return n.Ready && !n.ReadySince.IsZero() && now.Sub(n.ReadySince) >= d
}
