package plan

import (
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// clusterState is what is known about one configured cluster: its addresses, its route table and
// the routes in it.
type clusterState struct {
	config  *v1alpha1.ClusterRoutes
	name    string             // metadata.name
	cluster *inventory.Cluster // nil if it was not read
	cidrs   []netip.Prefix     // pod CIDRs, narrowed by the config
	subnets []arm.ID           // its present node subnets
	nodes   []netip.Prefix     // their prefixes, and remembered ones
	anyHop  bool
	// blind is set if some node subnets could not be read. Then a route that looks unmanaged may be
	// the cluster's.
	blind bool
	masks []int // the length of node prefixes, for each of cidrs

	// from the Discovery of the cluster's route table; source is "" if that is unknown
	source           arm.ID
	how              string
	proven, doubtful bool
	rivals           []arm.ID
	// from is the source of the pod routes: the cluster's route table, or its nodes as a table.
	from *inventory.RouteTable
	// strangers has the rows of its route table that have the cluster's addresses but not a cloud
	// provider's name.
	strangers []inventory.Route
	// opinion has the pod routes of its route table if its nodes are the source.
	opinion podRoutes
	// wanted are the pod routes of the source. They are nil if the source could not be read. Then
	// no route in a target counts as stale.
	wanted podRoutes
}

func newClusterState(s Facts, c *v1alpha1.ClusterRoutes, cluster *inventory.Cluster) *clusterState {
	v := &clusterState{config: c, name: c.Metadata.Name, cluster: cluster}
	if cluster == nil {
		return v
	}
	v.subnets = s.NodeSubnetIDs(cluster)
	v.nodes = s.prefixesEver(cluster, v.subnets)
	v.anyHop = s.AnyHop
	v.cidrs = narrow(cluster.PodCIDRs, c.Spec.PodCIDRs)
	for _, cidr := range v.cidrs {
		v.masks = append(v.masks, inventory.NodeMask(cidr))
	}
	return v
}

// narrow returns the parts of the cluster's pod CIDRs that the config allows. It drops prefixes
// that are too wide to be intended, because they would contain unmanaged routes.
func narrow(podCIDRs []netip.Prefix, allowed []string) []netip.Prefix {
	var out []netip.Prefix
	for _, cidr := range podCIDRs {
		if config.CheckPodCIDR(cidr) != nil {
			continue
		}
		if len(allowed) == 0 {
			out = append(out, cidr)
		}
		for _, text := range allowed {
			a, err := netip.ParsePrefix(text)
			if err != nil || !a.Overlaps(cidr) {
				continue
			}
			if a.Bits() < cidr.Bits() {
				a = cidr
			}
			out = append(out, a)
		}
	}
	return inventory.SortPrefixes(out)
}

// podRoutes has the cluster's routes in its route table, by prefix, each prefix once. They are not
// copies.
type podRoutes []*inventory.Route

// at returns the route with a prefix.
func (p podRoutes) at(prefix netip.Prefix) (r inventory.Route, found bool) {
	i, found := slices.BinarySearchFunc(p, prefix,
		func(r *inventory.Route, prefix netip.Prefix) int {
			return r.Prefix.Compare(prefix)
		})
	if !found {
		return inventory.Route{}, false
	}
	return *p[i], true
}

// byPrefix returns the routes by prefix, or nil if they are unknown.
func (p podRoutes) byPrefix() map[netip.Prefix]inventory.Route {
	if p == nil {
		return nil
	}
	routes := make(map[netip.Prefix]inventory.Route, len(p))
	for _, r := range p {
		routes[r.Prefix] = *r
	}
	return routes
}

// rows returns the cluster's routes in its route table: those with its addresses and a name that
// its cloud provider gives. All other routes there belong to strangers.
func (v *clusterState) rows(table *inventory.RouteTable) (rows podRoutes,
	strangers []inventory.Route) {
	routes := v.podRoutes(table)
	if !table.ID.Is(arm.TypeRouteTable) {
		return routes, nil // the table was made from the nodes themselves
	}
	rows = routes[:0]
	for _, r := range routes {
		if providerNamed(*r) {
			rows = append(rows, r)
		} else {
			strangers = append(strangers, *r)
		}
	}
	return rows, strangers
}

// podRoutes returns the routes of any table that have the cluster's addresses.
func (v *clusterState) podRoutes(table *inventory.RouteTable) podRoutes {
	v.learnMasks(table)
	routes := make(podRoutes, 0, len(table.Routes()))
	for _, i := range table.ByPrefix() {
		r := &table.Routes()[i]
		twice := len(routes) > 0 && routes[len(routes)-1].Prefix == r.Prefix
		if !twice && v.owns(*r) {
			routes = append(routes, r)
		}
	}
	return routes
}

// learnMasks corrects the length of IPv6 node prefixes from the routes in the cluster's route
// table: Azure documents the length only by an example (configure-kubenet-dual-stack).
func (v *clusterState) learnMasks(table *inventory.RouteTable) {
	for i, cidr := range v.cidrs {
		if !cidr.Addr().Is6() {
			continue
		}
		seen := map[int]bool{}
		for _, r := range table.Routes() {
			if r.Prefix.IsValid() && r.Prefix.Bits() > cidr.Bits() &&
				cidr.Contains(r.Prefix.Addr()) && v.isNodeHop(r) {
				seen[r.Prefix.Bits()] = true
			}
		}
		if len(seen) == 1 {
			for bits := range seen {
				v.masks[i] = bits
			}
		}
	}
}
