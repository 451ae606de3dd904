package plan

import (
	"fmt"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
)

// mayDelete decides whether a cluster's stale routes may leave a target. Where the cluster's table reads empty, more than
// maxDeletePercent of the target's routes would go, or it was so before and nothing has resolved it since, the table alone
// is not believed: the addresses of the nodes' NICs must show for every single route that its node is gone. One that
// contradicts holds them all, because a table that is wrong about one node may be wrong about the others, and because the
// next round, with fewer routes left, would come under the percentage.
func (t *target) mayDelete(s *share) bool {
	switch s.policy {
	case v1alpha1.PolicyObserve:
		for _, r := range s.stale {
			s.drift = append(s.drift, fmt.Sprintf("%s to %s is stale", r.Prefix, r.NextHop()))
		}
		return false
	case v1alpha1.PolicyUpsertOnly:
		t.w.add(finding.New(finding.StaleKept, s.name, string(t.now.ID), "%d stale routes stay in %s: the policy is UpsertOnly",
			len(s.stale), t.now.ID.Short()).With(routeLines(s.stale)...))
		return false
	}
	percent := *s.config.Spec.MaxDeletePercent
	known := t.w.s.Known(s.cluster.ID)
	why, needed := "", true
	switch {
	case len(s.wanted) == 0:
		why = fmt.Sprintf("the own table of cluster %s reads empty", s.cluster.ID.Short())
	case 100*len(s.stale) > percent*s.owned:
		why = fmt.Sprintf("%d of the %d routes of cluster %s would go, more than %d %%", len(s.stale), s.owned, s.cluster.ID.Short(), percent)
	case known.Held[t.now.ID.Key()]:
		why = fmt.Sprintf("%d routes of cluster %s were held back before", len(s.stale), s.cluster.ID.Short())
	case known.Fresh[t.now.ID.Key()]:
		// What was held back before the program started is not known, so the nodes are asked; but where they cannot be, the
		// percentage alone counts as ever.
		why = fmt.Sprintf("%d routes of cluster %s would go at the first look", len(s.stale), s.cluster.ID.Short())
		needed = known.NICs == nil || known.NICs.Failed == ""
	default:
		return true
	}
	return !needed || t.nodesGone(s, known, why)
}

// nodesGone reports whether the nodes' NICs prove that the nodes of all stale routes are gone, and otherwise why the
// routes stay.
func (t *target) nodesGone(s *share, known network.Known, why string) bool {
	hold := func(evidence []string, format string, args ...any) bool {
		t.w.add(finding.New(finding.BrakeHeld, s.name, string(t.now.ID), "no route is deleted from %s: %s, and %s",
			t.now.ID.Short(), why, fmt.Sprintf(format, args...)).
			With(evidence...).
			WithFix("az network route-table show --ids %s", s.source))
		return false
	}
	switch nics := known.NICs; {
	case nics == nil:
		t.w.needNICs = append(t.w.needNICs, s.cluster.ID)
		return hold(routeLines(s.stale), "the network interfaces of the nodes were not read")
	case nics.Failed != "":
		return hold(routeLines(s.stale), "the network interfaces of the nodes could not be read: %s", nics.Failed)
	default: // a list shows only what the identity may see
		var hidden []string
		for _, pool := range t.w.s.Cluster(s.cluster.ID).Pools {
			if seen := nics.Of(pool.Name); seen < pool.Count {
				hidden = append(hidden, fmt.Sprintf("pool %s has %d nodes, and network interfaces of %d are seen", pool.Name, pool.Count, seen))
			}
		}
		if len(hidden) > 0 {
			return hold(append(hidden, routeLines(s.stale)...), "not all network interfaces of the nodes are seen: the identity may lack read access to %s", s.cluster.NodeResourceGroup)
		}
	}
	// A node has one pod CIDR of each family: an address to which the cluster's table routes another prefix belongs to a
	// new node, and proves nothing for the old one that had it before. But the table is what is doubted here, so this
	// counts only once it has stood for longer than the cloud provider takes to repair it.
	reused := map[netip.Addr]bool{}
	for _, w := range s.wanted {
		reused[w.Hop] = true
	}
	var alive []string
	for _, r := range s.stale {
		if holder, held := known.NICs.Holder[r.Hop]; held && !(known.Steady && reused[r.Hop]) {
			alive = append(alive, fmt.Sprintf("%s to %s: the address is held by %s", r.Prefix, r.NextHop(), holder))
		}
	}
	if len(alive) > 0 {
		return hold(alive, "%d of their next hops belong to nodes that are there", len(alive))
	}
	return true
}

func routeLines(routes []network.Route) []string {
	lines := make([]string, len(routes))
	for i, r := range routes {
		lines[i] = fmt.Sprintf("%s to %s (%s)", r.Prefix, r.NextHop(), r.Name)
	}
	return lines
}

// reportForeign tells of a foreign route that takes part in what happens to pod traffic.
func (t *target) reportForeign(r network.Route) {
	if !r.Prefix.IsValid() || r.Prefix.Bits() == 0 {
		return // a default route covers everything, and is meant to
	}
	for _, s := range t.shares {
		if s.blind || s.wanted == nil {
			continue // it cannot be told whether it is foreign
		}
		for _, cidr := range s.cidrs {
			switch {
			case !cidr.Overlaps(r.Prefix):
			case r.Prefix.Bits() > s.masks[cidr]:
				t.w.add(finding.New(finding.ForeignShadow, s.name, string(t.now.ID), "the foreign route %s in %s sends %s to %s, past the nodes of cluster %s",
					r.Name, t.now.ID.Short(), r.Prefix, r.NextHop(), s.cluster.ID.Short()).
					About(r.Name).WithFix("if it is not meant: %s", deleteCommand(t.now.ID, r.Name)))
			case r.Prefix.Bits() < s.masks[cidr]:
				t.w.add(finding.New(finding.ForeignOverlap, s.name, string(t.now.ID), "the foreign route %s in %s sends %s to %s, which covers pods of cluster %s that have no route of their own",
					r.Name, t.now.ID.Short(), r.Prefix, r.NextHop(), s.cluster.ID.Short()).About(r.Name))
			case s.wanted[r.Prefix].Name == "":
				t.w.add(finding.New(finding.ForeignOverlap, s.name, string(t.now.ID), "the foreign route %s in %s sends %s to %s, a prefix that a node of cluster %s can get",
					r.Name, t.now.ID.Short(), r.Prefix, r.NextHop(), s.cluster.ID.Short()).About(r.Name))
			}
		}
	}
}

// reportSharing tells of clusters that claim the same pod addresses in this target, in one finding.
func (t *target) reportSharing() {
	var pairs, blocked []string
	for i, a := range t.shares {
		for _, b := range t.shares[i+1:] {
			for _, x := range a.cidrs {
				for _, y := range b.cidrs {
					if x.Overlaps(y) {
						pairs = append(pairs, fmt.Sprintf("%s of %s and %s of %s", x, a.name, y, b.name))
					}
				}
			}
			blocked = append(blocked, t.blocked[[2]string{a.name, b.name}]...)
			blocked = append(blocked, t.blocked[[2]string{b.name, a.name}]...)
		}
	}
	if len(pairs)+len(blocked) == 0 {
		return
	}
	const shown = 3
	text := strings.Join(pairs[:min(shown, len(pairs))], "; ")
	if len(pairs) > shown {
		text += fmt.Sprintf("; and %d more pairs", len(pairs)-shown)
	}
	f := finding.New(finding.ClustersOverlap, "", string(t.now.ID), "clusters that share the target %s overlap: %s", t.now.ID.Short(), text)
	if len(blocked) > 0 {
		f.Severity = finding.Error
		f.Evidence = blocked
	}
	t.w.add(f)
}

// reportDrift tells what a policy of Observe leaves undone.
func (t *target) reportDrift() {
	for _, s := range t.shares {
		if len(s.drift) > 0 {
			t.w.add(finding.New(finding.TargetDrift, s.name, string(t.now.ID), "the target %s differs from what it should hold for %s, in routes: %d",
				t.now.ID.Short(), s.name, len(s.drift)).With(s.drift...).WithFix("set the policy of this target to Sync or UpsertOnly to have them kept"))
		}
	}
}
