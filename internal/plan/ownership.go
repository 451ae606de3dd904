package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: this file decides whose a route is. A route is a cluster's if its prefix is the pod
// CIDR of one node, and its next hop is in a present or remembered node subnet. In addition, either
// its name is one that a cloud provider gives, or the cluster's table has or had this route. All
// other routes are unmanaged.
//
//	a route that is no cluster's by these rules    | may be
//	-----------------------------------------------|----------------------------------------------------
//	was in sync with a row, and changed            | the cluster's, still (owns)
//	led to a node in a former subnet               | the cluster's, with proof (leftBehind)
//	was in the table of a cluster that is gone     | that cluster's (removal.go)
//	was in a cluster's table with another pod CIDR | that cluster's (former.go)
//	leads to pods of a cluster without a table     | that cluster's (orphan.go)

// owns reports whether a route's addresses are this cluster's: it leads to the pod CIDR of one node
// through an address in a node subnet. In a target its name counts too: see target.owns.
func (v *clusterState) owns(r inventory.Route) bool {
	return v.isNodePrefix(r.Prefix) && v.isNodeHop(r)
}

func (v *clusterState) isNodePrefix(p netip.Prefix) bool {
	for i, cidr := range v.cidrs {
		if p.IsValid() && p.Bits() == v.masks[i] && cidr.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

func (v *clusterState) isNodeHop(r inventory.Route) bool {
	return r.Hop.IsValid() && (v.anyHop ||
		slices.ContainsFunc(v.nodes, func(p netip.Prefix) bool { return p.Contains(r.Hop) }))
}

// Ownership decides by the rules of a plan whether a route is a cluster's.
type Ownership struct {
	v   *clusterState
	had map[Pair]bool
}

// Owner returns the Ownership of a cluster, given its config and its route table, which shows the
// length of its node prefixes.
func Owner(s Facts, c *v1alpha1.ClusterRoutes, own *inventory.RouteTable) Ownership {
	v := newClusterState(s, c, s.Cluster(arm.ID(c.Spec.ClusterID)))
	v.learnMasks(own)
	return Ownership{v, s.Memory.Of(arm.ID(c.Spec.ClusterID)).Had}
}

// PodCIDRs returns the cluster's pod CIDRs, narrowed by the config.
func (o Ownership) PodCIDRs() []netip.Prefix { return o.v.cidrs }

// Owns reports whether a route outside the cluster's route table is the cluster's: its addresses
// must match, and its name must, or that table had it.
func (o Ownership) Owns(r inventory.Route) bool {
	return o.v.owns(r) && (nodeNamed(r) || o.had[Pair{Prefix: r.Prefix, Hop: r.Hop}])
}

// NodePrefix reports whether a prefix can be the pod CIDR of one node.
func (o Ownership) NodePrefix(p netip.Prefix) bool { return o.v.isNodePrefix(p) }

// NodeHop reports whether a route's next hop is in a node subnet.
func (o Ownership) NodeHop(r inventory.Route) bool { return o.v.isNodeHop(r) }

// owns reports whether a route is a cluster's.
func (t *target) owns(s *targetCluster, r inventory.Route) bool {
	want, wanted := s.wanted.at(r.Prefix)
	if s.owns(r) && (wanted && want.SameHop(r) || nodeNamed(r) || t.had(s, r)) {
		return true
	}
	// It was correct before, and another writer changed it in this table.
	named := strings.EqualFold(r.Name, want.Name) || nodeNamed(r)
	return wanted && named && t.undone(s, r.Prefix, want.Hop)
}

func (t *target) had(s *targetCluster, r inventory.Route) bool {
	return s.memory.Had[Pair{Prefix: r.Prefix, Hop: r.Hop}]
}

// mayBeNeighbours says why a route with a cluster's addresses may be that of another cluster, which
// another keeper manages: it names the missing proof that it is not. Clusters with Azure CNI
// Overlay can share a node subnet and have the same pod CIDR. A route that the cluster itself had
// is its own. If its nodes have left the next hop's subnet, only that subnet shows whose nodes it
// has now.
func (s *targetCluster) mayBeNeighbours(t *target, r inventory.Route) proof {
	if t.had(s, r) {
		return proof{}
	}
	for _, id := range s.subnets {
		if t.w.s.Subnet(id) == nil && !t.w.s.Unread[id.Key()].Absent {
			return lacking("%s was not read: it may have nodes of another cluster, whose route "+
				"it may be", id.Short())
		}
	}
	seen := false
	for _, key := range slices.Sorted(maps.Keys(t.w.s.Subnets)) {
		subnet := t.w.s.Subnets[key]
		if !within(subnet.Prefixes, r.Hop) {
			continue
		}
		seen = true
		node := nodeIn(subnet, func(configuration arm.ID) bool {
			return slices.ContainsFunc(t.clusters, func(o *targetCluster) bool {
				return o.cluster != nil && configuration.Group().Equal(o.cluster.NodeGroup())
			})
		})
		if node != "" {
			p := lacking("%s also has a node of another cluster (%s), whose route it may be",
				subnet.ID.Short(), node)
			p.neighbour = true
			return p
		}
	}
	if seen || !fromNodes(s.config) {
		return proof{} // clusters with a table of their own share no node subnet
	}
	if t.needNetworks(r.Hop) {
		return lacking("the subnet of %s was not read: it may have nodes of another cluster",
			r.Hop)
	}
	_, lacks := t.w.s.noNodeAt(t.now, r, hopFacts{group: s.cluster.NodeGroup()})
	return proof{lacks: lacks}
}

// undone reports whether another writer changed a route in the target: the target had the wanted
// next hop before, and the cluster's route table has not changed. Restoring it is a repair.
func (t *target) undone(s *targetCluster, prefix netip.Prefix, hop netip.Addr) bool {
	was, known := s.inSync[prefix]
	return known && was == hop
}

// leftBehind finds the cluster to whose former nodes an unmanaged route leads. Such routes remain
// if a pool was deleted with its subnet, or moved to another subnet, while no keeper ran. The next
// nodes get the same pod CIDRs.
//
// Such a route has a cloud provider's name and a prefix of the cluster's nodes, but its next hop is
// in none of the node subnets. It may also be the route of a cluster that no config names. So the
// next hop's subnet must contain no NICs of others.
func (t *target) leftBehind(r inventory.Route) *targetCluster {
	if !podRouteStyle(r) || t.w.onlyShown { // proofs are not read for changes that are only shown
		return nil
	}
	if owner, managed, blind := t.w.ownerOfRoute(t.now, r); owner != nil || managed || blind != "" {
		return nil
	}
	for _, s := range t.clusters {
		if s.wanted == nil || s.blind || s.cluster.Stopped || !s.isNodePrefix(r.Prefix) ||
			!s.mayTouch(r) {
			continue
		}
		if t.needNetworks(r.Hop) {
			return nil
		}
		if _, lacks := t.w.s.noNodeAt(t.now, r,
			hopFacts{group: s.cluster.NodeGroup()}); lacks != "" {
			continue
		}
		if p := t.noNIC(s, r.Hop); p.lacks == "" {
			return s
		}
	}
	return nil
}

// ownerOfRoute finds, by addresses, the cluster to whose pods a route of a table leads. managed is
// set if this is a kubenet cluster, or may be leaving kubenet. Then its own plan decides about its
// routes, and its nodes need them until each has moved. blind says why the owner is unknown.
func (p *Planner) ownerOfRoute(table *inventory.RouteTable,
	r inventory.Route) (owner *inventory.Cluster, managed bool, blind string) {
	for _, key := range slices.Sorted(maps.Keys(p.s.Clusters)) {
		cluster := p.s.Clusters[key]
		switch {
		case ownsRoute(p.s, cluster, r) && p.s.LeadsElsewhere(table, cluster):
			blind = fmt.Sprintf("cluster %s has nodes with the same addresses in another network",
				cluster.ID.Name())
		case ownsRoute(p.s, cluster, r) && (cluster.Kubenet() || p.readsNodes(cluster.ID)),
			cluster.MayLeave() && p.s.mayOwn(cluster, r):
			return cluster, true, ""
		case ownsRoute(p.s, cluster, r):
			owner = cluster
		case p.s.mayOwn(cluster, r):
			blind = fmt.Sprintf("not all node subnets of cluster %s were read: the route may be "+
				"the cluster's",
				cluster.ID.Name())
		}
	}
	return owner, false, blind
}
