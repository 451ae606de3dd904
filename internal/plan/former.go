package plan

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// Copies of a former pod CIDR. A cluster was deleted and made again with another pod CIDR: what the
// targets have of its old routes has no prefix of its nodes any more. Such a route is the cluster's
// when its next hop is in a node subnet, present or remembered, and the cluster's table had this very
// route, or a cloud provider named it. No cluster that is seen has the prefix, and all clusters of
// the target are seen. It is stale then, and leaves the target by the proofs of every delete; one that
// nothing remembers needs more, because it may be another cluster's: see target.noFormerNode.

// former finds the clusters that have left a route behind when they were made again.
func (t *target) former(r inventory.Route) (owners []*share) {
	if !t.mayBeFormer(&r) {
		return nil
	}
	for _, s := range t.shares {
		if t.w.vanished(s.view) {
			continue // target.ofVanished has let it pass
		}
		if s.wanted == nil || s.blind || slices.ContainsFunc(s.cluster.PodCIDRs, r.Prefix.Overlaps) {
			return nil
		}
	}
	if owner, kept, blind := t.w.ownerOfRoute(t.now, r); owner != nil || kept || blind != "" {
		return nil
	}
	for _, s := range t.shares {
		if t.leftByFormer(s, &r) && !s.cluster.Stopped && s.allows(r.Prefix) && !t.w.s.Elsewhere(t.now, s.cluster) {
			owners = append(owners, s)
		}
	}
	return owners
}

// mayBeFormer reports whether a route can be of a former pod CIDR of one of the clusters.
func (t *target) mayBeFormer(r *inventory.Route) bool {
	return slices.ContainsFunc(t.shares, func(s *share) bool { return t.leftByFormer(s, r) })
}

func (t *target) leftByFormer(s *share, r *inventory.Route) bool {
	return s.cluster != nil && !s.anyHop && s.isNodeHop(*r) &&
		(podRouteStyle(*r) || t.had(s, *r) && nodeSized(r.Prefix))
}

// noFormerNode proves that no node is behind a route of a former pod CIDR that nothing remembers. The
// NICs of the cluster that is there now do not show those of others in its subnets: nothing but the
// cluster's own NICs may be in the subnet of the next hop, and its table must lack the route.
func (t *target) noFormerNode(s *share, r inventory.Route) proof {
	p := t.noNIC(s, r.Hop)
	switch {
	case p.lacks != "":
		return p
	case t.w.shows:
		return lacking("the networks are not read only to show it")
	case t.needNetworks(r.Hop):
		return lacking("the networks that %s reaches were not read", t.now.ID.Short())
	}
	if _, lacks := t.w.hopGone(t.now, r, beforehand{group: s.cluster.NodeGroup()}); lacks != "" {
		return proof{lacks: lacks}
	}
	return p
}
