package plan

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// This file has the findings about a target. The rules are in target.go and gone.go.

// report reports what the target withholds, keeps or lacks, with one finding for each kind.
func (t *target) report() {
	for _, s := range t.clusters {
		t.reportWithheld(s)
		t.reportFormer(s)
		if n := len(s.retained); n > 0 {
			t.w.add(t.finding(finding.StaleKept, s, "%s in %s: the policy is UpsertOnly",
				finding.CountOf(n, "stale route stays", "stale routes stay"),
				t.now.ID.Short()).With(s.retained...))
		}
		if n := len(s.drift); n > 0 {
			t.w.add(t.finding(finding.TargetDrift, s,
				"target %s differs from %s in %s",
				t.now.ID.Short(), s.whence(), finding.Count(n, "route")).With(s.drift...).
				WithAdvice("promote sets the policy of this target to Sync").
				WithFix("routekeeper promote %s%s", s.name, finding.Config()))
		}
	}
	t.reportSharing()
}

func (t *target) finding(code finding.Code, s *targetCluster, format string,
	args ...any) finding.Finding {
	return finding.New(code, s.name, string(t.now.ID), format, args...)
}

// reportWithheld reports the deletes and updates that lack a proof.
func (t *target) reportWithheld(s *targetCluster) {
	if n := len(s.undeleted); n > 0 {
		lacks, strange, gone := "lacks them", "has them with names", "their nodes are gone"
		if n == 1 {
			lacks, strange, gone = "lacks it", "has it with a name", "its node is gone"
		}
		if s.strange {
			lacks += ", or " + strange + " that its cloud provider does not give"
		}
		f := t.finding(finding.DeletesWithheld, s,
			"%s in %s: %s %s, but nothing proves that %s",
			finding.CountOf(n, "route stays", "routes stay"), t.now.ID.Short(), s.whence(), lacks,
			gone).With(s.undeleted...).
			WithFix("%s", s.showSource())
		switch {
		case s.harmless == n: // until another node gets its pod CIDR
			f.Severity = finding.Info
		case !s.blindly: // the routes are correct, or will soon become stale
			f.Severity = finding.Warning
		}
		t.w.add(f)
	}
	if n := len(s.unfollowed); n > 0 {
		t.w.add(t.finding(finding.UpdatesWithheld, s,
			"%s in %s: %s has another next hop, but nothing proves that it is the right one",
			finding.CountOf(n, "route keeps its next hop", "routes keep their next hops"),
			t.now.ID.Short(), s.whence()).With(s.unfollowed...).
			WithFix("%s", s.showSource()))
	}
}

// reportFull reports how many routes did not fit.
func (t *target) reportFull(present, added, missing int, clusters []string) {
	if missing == 0 {
		return
	}
	t.w.add(finding.New(finding.TargetFull, clusters[0], string(t.now.ID),
		"target %s is full: %s for %s not fit (limit %d, present %d, added %d)",
		t.now.ID.Short(), finding.Count(missing, "route"),
		strings.Join(clusters, " and ")+map[bool]string{true: " does", false: " do"}[missing == 1],
		t.limit, present, added).
		WithAdvice("remove routes from %s; if Azure Virtual Network Manager raised the table's "+
			"limit, raise maxRoutes",
			t.now.ID.Short()))
}

// reportTaken reports an unmanaged route that has the prefix of a node.
func (t *target) reportTaken(s *targetCluster, want, there inventory.Route) {
	t.w.add(t.finding(finding.PrefixTaken, s,
		"%s already goes to %s by the unmanaged route %s in %s, so the pod route %s to %s is not "+
			"added",
		want.Prefix, there.NextHop(), there.Name, t.now.ID.Short(), want.Name, want.NextHop()).
		About(want.Name).
		WithAdvice("delete the unmanaged route unless it is intended").
		WithFix("%s", deleteCommand(t.now.ID, there.Name)))
}

func routeLine(r inventory.Route) string {
	return fmt.Sprintf("%s to %s (%s)", r.Destination(), r.NextHop(), r.Name)
}

// reportUnmanaged reports an unmanaged route that affects pod traffic.
func (t *target) reportUnmanaged(r inventory.Route) {
	if !r.Prefix.IsValid() || r.Prefix.Bits() == 0 {
		return // a default route covers everything by design
	}
	for _, s := range t.clusters {
		if s.blind || s.wanted == nil {
			continue // without that table, the route may be managed
		}
		report := func(code finding.Code, format string) finding.Finding {
			return t.finding(code, s, "the unmanaged route %s in %s sends %s to %s, "+format,
				r.Name, t.now.ID.Short(), r.Prefix, r.NextHop(), s.cluster.ID.Short()).About(r.Name)
		}
		for i, cidr := range s.cidrs {
			switch {
			case !cidr.Overlaps(r.Prefix):
			case r.Prefix.Bits() > s.masks[i]:
				t.w.add(report(finding.UnmanagedShadow,
					"and the packets do not reach their node of cluster %s").
					WithAdvice("delete the route unless it is intended").
					WithFix("%s", deleteCommand(t.now.ID, r.Name)))
			case r.Prefix.Bits() < s.masks[i]:
				t.w.add(report(finding.UnmanagedOverlap,
					"which covers pods of cluster %s without a route of their own"))
			case !s.wants(r.Prefix):
				t.w.add(report(finding.UnmanagedOverlap,
					"a prefix that a node of cluster %s can get"))
			}
		}
	}
}

// reportSharing reports clusters that claim the same pod addresses in this target, in one finding.
func (t *target) reportSharing() {
	var pairs, blocked []string
	for i, a := range t.clusters {
		for _, b := range t.clusters[i+1:] {
			for _, x := range a.cidrs {
				for _, y := range b.cidrs {
					if x.Overlaps(y) {
						pairs = append(pairs,
							fmt.Sprintf("%s of %s and %s of %s", x, a.name, y, b.name))
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
	f := finding.New(finding.ClustersOverlap, "", string(t.now.ID),
		"clusters with the target %s have overlapping pod CIDRs: %s", t.now.ID.Short(), text)
	if len(blocked) > 0 {
		f.Severity = finding.Error
		f.Evidence = blocked
	}
	t.w.add(f)
}
