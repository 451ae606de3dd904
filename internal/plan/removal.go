package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: routes leave the targets together with their cluster, in one of two ways. Both need
// spec.onRemoval: Prune and a target with the policy Sync.
//
// The cluster is gone: Azure answers 404 for it, while the config still names it. Each route needs
// a proof:
//
//	the route                           | is deleted if
//	------------------------------------|-----------------------------------------------------------
//	the cluster's table had it, as this | no network interface can have its next hop: none of the
//	  process remembers                 |   networks that the target reaches shows one
//	it only looks like a pod route      | the same, and the table of the next hop's subnet lacks the
//	  (nothing is remembered)           |   route: a stopped cluster has no machines either
//
// The config is gone: the user removed it from a running keeper. That is an instruction: the
// cluster's routes leave its targets without proof (Removal). A route that may be another cluster's
// stays (mayBeNeighbours).

// vanished reports whether Azure answered that a cluster does not exist.
func (f Facts) vanished(v *clusterState) bool {
	return v.cluster == nil && f.Unread[arm.ID(v.config.Spec.ClusterID).Key()].Absent
}

// leftover has the routes that a missing cluster left in one target.
type leftover struct {
	table  arm.ID
	routes []string // the ones that stay
	alike  bool     // some only look like its routes
}

// ofVanished finds the missing cluster that left a route. If nothing remembers whose a route is, a
// cluster whose routes stay comes first.
func (t *target) ofVanished(r inventory.Route) (s *targetCluster, remembered bool) {
	for _, candidate := range t.clusters {
		if !t.w.s.vanished(candidate.clusterState) {
			continue
		}
		known := t.w.s.Memory.Of(arm.ID(candidate.config.Spec.ClusterID))
		if known.Had[Pair{Prefix: r.Prefix, Hop: r.Hop}] {
			return candidate, true
		}
		similar := podRouteStyle(r) && candidate.allows(r.Prefix) &&
			(len(known.Subnets) == 0 || within(known.Subnets, r.Hop))
		if similar && (s == nil || !candidate.prunes()) {
			s = candidate
		}
	}
	if s != nil {
		if owner, managed, blind := t.w.ownerOfRoute(t.now, r); owner != nil || managed ||
			blind != "" {
			return nil, false
		}
	}
	return s, false
}

// allows reports whether spec.podCIDRs, if set, contains a prefix.
func (s *targetCluster) allows(prefix netip.Prefix) bool {
	allowed := s.config.Spec.PodCIDRs
	return len(allowed) == 0 || slices.ContainsFunc(allowed, func(text string) bool {
		cidr, err := netip.ParsePrefix(text)
		return err == nil && cidr.Bits() <= prefix.Bits() && cidr.Contains(prefix.Addr())
	})
}

// prunes reports whether the routes of a missing cluster are deleted from the target.
func (s *targetCluster) prunes() bool {
	return s.config.Spec.OnRemoval == v1alpha1.RemovalPrune && s.policy == v1alpha1.PolicySync
}

// placeVanished removes a route that a missing cluster left, or keeps it and notes it.
func (t *target) placeVanished(r inventory.Route, s *targetCluster, remembered bool) {
	if s.prunes() && !t.needNetworks(r.Hop) {
		known := hopFacts{alone: true, gone: remembered}
		if proof, lacks := t.w.s.noNodeAt(t.now, r, known); lacks == "" {
			t.remove(r, s, "the cluster does not exist: "+proof)
			return
		}
	}
	s.left, s.alike = append(s.left, routeLine(r)), s.alike || !remembered
	t.reportUnmanaged(r)
	t.put(r, nil)
}

// noteLeft notes the routes that missing clusters left in the target.
func (t *target) noteLeft() {
	for _, s := range t.clusters {
		if len(s.left) > 0 && t.w.left == nil {
			t.w.left = map[*clusterState][]leftover{}
		}
		if len(s.left) > 0 {
			t.w.left[s.clusterState] = append(t.w.left[s.clusterState],
				leftover{t.now.ID, s.left, s.alike})
		}
	}
}

// reportVanished reports clusters that do not exist, and the routes that they left.
func (w *planning) reportVanished() {
	for _, v := range w.clusters {
		if !w.s.vanished(v) {
			continue
		}
		id := arm.ID(v.config.Spec.ClusterID)
		text := fmt.Sprintf("cluster %s does not exist", id.Short())
		left := w.left[v]
		if len(left) == 0 {
			w.add(finding.New(finding.ClusterMissing, v.name, string(id), "%s", text).
				WithAdvice("correct spec.clusterID of %s, or remove %s from the config", v.name,
					v.name))
			continue
		}
		var lines []string
		command := finding.Command("routekeeper sync prune --subscription %s",
			left[0].table.Subscription())
		for i, l := range left {
			word := ", and "
			switch {
			case i > 0:
			case slices.ContainsFunc(left, func(l leftover) bool { return l.alike }):
				word = "; routes like those to its pods remain: "
			default:
				word = "; routes to its pods remain: "
			}
			text += fmt.Sprintf("%s%d in %s", word, len(l.routes), l.table.Short())
			command = finding.Command("%s --table %s", command, l.table)
			for _, line := range l.routes {
				lines = append(lines, l.table.Short()+": "+line)
			}
		}
		f := finding.New(finding.ClusterMissing, v.name, string(id), "%s", text).With(lines...)
		if v.config.Spec.OnRemoval == v1alpha1.RemovalPrune {
			w.add(f.WithAdvice("this command shows which proof each route lacks").WithFix("%s",
				command))
		} else {
			w.add(f.WithAdvice("correct spec.clusterID of %s, or set spec.onRemoval: Prune; "+
				"or prune the routes, then remove %s from the config", v.name, v.name).
				WithFix("%s", command))
		}
	}
}

// Removal plans for a cluster whose config was removed, from the cluster's memory. The plan deletes
// the cluster's routes from the targets that the config names, and nothing else.
func Removal(s Facts, config v1alpha1.ClusterRoutes, taken Taken) *Planner {
	p := &Planner{s: s, configs: []v1alpha1.ClusterRoutes{config}, taken: taken, removing: true,
		targets: map[string][]targetConfig{}, clusterTables: map[string]clusterTable{}}
	p.readClusters()
	return p
}

// placeRemoved decides about a route when the cluster's config was removed: it removes the
// cluster's own routes if the removed config prunes them from this target, and keeps all others.
func (t *target) placeRemoved(r inventory.Route) {
	s := t.clusters[0]
	its := t.had(s, r) || s.owns(r) && nodeNamed(r) && s.mayBeNeighbours(t, r).lacks == ""
	if !its || !s.prunes() {
		t.put(r, nil)
		return
	}
	t.remove(r, s, "the config of "+s.name+" was removed")
}
