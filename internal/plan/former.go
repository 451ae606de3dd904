package plan

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: copies of a former pod CIDR. A cluster was deleted and created again with another
// pod CIDR. The targets still have copies of its old routes. Their prefixes are not in its pod CIDR
// any more, but their next hops are in its present or remembered node subnets. This applies only if
// all clusters of the target were read, and no cluster has the prefix.
//
//	the cluster's table had this route     | it is a stale route of the cluster: deleted with a
//	                                       |   proof, otherwise withheld
//	only its name is a cloud provider's    | it may be of a cluster that was not read, in another
//	  (nothing is remembered)              |   network with the same addresses: deleted if
//	                                       |   provenFormer proves it, otherwise unmanaged and
//	                                       |   reported

// formerOwners finds the clusters whose tables had a route while they had another pod CIDR.
func (t *target) formerOwners(r inventory.Route) (owners []*targetCluster) {
	if !t.mayBeFormer(&r) || !t.unclaimed(r) {
		return nil
	}
	for _, s := range t.clusters {
		if s.formerHop(&r) && t.had(s, r) && s.allows(r.Prefix) {
			owners = append(owners, s)
		}
	}
	return owners
}

// removeFormer removes a route of a former pod CIDR that nothing remembers if it is proven stale,
// and reports whether it did. It notes the routes without proof.
func (t *target) removeFormer(r inventory.Route) (removed bool) {
	if !podRouteStyle(r) || !t.mayBeFormer(&r) || !t.unclaimed(r) {
		return false
	}
	noted := false
	for _, s := range t.clusters {
		if !s.formerHop(&r) || !s.allows(r.Prefix) {
			continue
		}
		if p := t.provenFormer(s, r); p.why != "" {
			t.remove(r, s, p.why)
			return true
		}
		if !noted {
			s.former, noted = append(s.former, routeLine(r)), true
		}
	}
	return false
}

// mayBeFormer reports whether the next hop and the prefix length of a route allow it to be of a
// former pod CIDR of a cluster.
func (t *target) mayBeFormer(r *inventory.Route) bool {
	return nodeSized(r.Prefix) && slices.ContainsFunc(t.clusters, func(s *targetCluster) bool {
		return s.formerHop(r) && (podRouteStyle(*r) || t.had(s, *r))
	})
}

func (s *targetCluster) formerHop(r *inventory.Route) bool {
	return s.cluster != nil && !s.anyHop && !s.cluster.Stopped && s.isNodeHop(*r)
}

// unclaimed reports whether a route's prefix belongs to no cluster, and all clusters of the target
// were read.
func (t *target) unclaimed(r inventory.Route) bool {
	for _, s := range t.clusters {
		if t.w.s.vanished(s.clusterState) {
			continue // target.ofVanished has checked this cluster
		}
		if s.wanted == nil || s.blind ||
			slices.ContainsFunc(s.cluster.PodCIDRs, r.Prefix.Overlaps) {
			return false
		}
	}
	owner, managed, blind := t.w.ownerOfRoute(t.now, r)
	return owner == nil && !managed && blind == ""
}

// provenFormer proves that no node is behind a route of a former pod CIDR that nothing remembers.
// All networks that the target reaches and that contain the next hop must be networks of the
// cluster's nodes. Then one of two proofs suffices. Either the next hop is a node with another pod
// CIDR. Or no NIC of the cluster or in the next hop's subnet has the next hop, and that subnet's
// table lacks the route.
func (t *target) provenFormer(s *targetCluster, r inventory.Route) proof {
	if !s.mayTouch(r) || t.w.onlyShown || t.needNetworks(r.Hop) || !t.reachesNodes(s, r) {
		return proof{}
	}
	if p := t.hasOtherCIDR(s, r); p.why != "" {
		return p
	}
	if _, lacks := t.w.s.noNodeAt(t.now, r, hopFacts{group: s.cluster.NodeGroup()}); lacks != "" {
		return proof{lacks: lacks}
	}
	return t.noNIC(s, r.Hop)
}

// reachesNodes reports whether a route's next hop can only be in the networks of a cluster's nodes.
func (t *target) reachesNodes(s *targetCluster, r inventory.Route) bool {
	var networks []arm.ID
	for _, id := range t.w.s.NodeSubnetIDs(s.cluster) {
		if subnet := t.w.s.Subnet(id); subnet != nil && within(subnet.Prefixes, r.Hop) {
			networks = append(networks, id.Parent())
		}
	}
	reached := false
	for _, id := range t.now.Subnets {
		at := t.w.s.VNets[id.Parent().Key()]
		if at == nil {
			return false
		}
		for _, holder := range holders(at, r.Hop) {
			if reached = slices.ContainsFunc(networks, holder.Equal); !reached {
				return false
			}
		}
	}
	return reached
}

// reportFormer reports routes that look like those of a former pod CIDR of a cluster.
func (t *target) reportFormer(s *targetCluster) {
	n := len(s.former)
	if n == 0 {
		return
	}
	f := t.finding(finding.RoutesOrphaned, s,
		"%s has %s that may be left from a former pod CIDR of cluster %s; there is no proof",
		t.now.ID.Short(), finding.Count(n, "route"), s.cluster.ID.Short()).About(
		"former pod CIDR").With(s.former...).
		WithAdvice("this command shows which proof each route lacks").
		WithFix("routekeeper sync prune --subscription %s --table %s",
			t.now.ID.Subscription(), t.now.ID)
	f.Severity = finding.Info
	t.w.add(f)
}
