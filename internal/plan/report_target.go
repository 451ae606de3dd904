package plan

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// What a person is told of a target. The rules are in target.go and proof.go.

// report tells what was withheld, kept or left undone in the target, in one finding of each kind.
func (t *target) report() {
	for _, s := range t.shares {
		t.reportWithheld(s)
		t.reportFormer(s)
		if n := len(s.kept); n > 0 {
			t.w.add(t.finding(finding.StaleKept, s, "%d stale routes stay in %s: the policy is UpsertOnly",
				n, t.now.ID.Short()).With(s.kept...))
		}
		if n := len(s.drift); n > 0 {
			t.w.add(t.finding(finding.TargetDrift, s,
				"the target %s differs from what it should hold for %s, in routes: %d",
				t.now.ID.Short(), s.name, n).With(s.drift...).
				WithFix("routekeeper promote %s, with the -f of the keeper,"+
					" sets the policy of this target to Sync", s.name))
		}
	}
	t.reportSharing()
}

func (t *target) finding(code finding.Code, s *share, format string, args ...any) finding.Finding {
	return finding.New(code, s.name, string(t.now.ID), format, args...)
}

// reportWithheld tells of the deletes and updates that lack a proof.
func (t *target) reportWithheld(s *share) {
	if n := len(s.undeleted); n > 0 {
		f := t.finding(finding.DeletesWithheld, s,
			"routes that the table of cluster %s lacks stay in %s, because it is not proven that their nodes are gone: %d",
			s.cluster.ID.Short(), t.now.ID.Short(), n).With(s.undeleted...).
			WithFix("az network route-table show --ids %s", s.source)
		if !s.blindly { // the routes are correct, or will be stale in a moment
			f.Severity = finding.Warning
		}
		t.w.add(f)
	}
	if n := len(s.unfollowed); n > 0 {
		t.w.add(t.finding(finding.UpdatesWithheld, s,
			"routes to which the table of cluster %s gives another next hop keep theirs in %s, "+
				"because it is not proven that a node has the new one: %d",
			s.cluster.ID.Short(), t.now.ID.Short(), n).With(s.unfollowed...).
			WithFix("az network route-table show --ids %s", s.source))
	}
}

// reportFull tells how many routes did not fit.
func (t *target) reportFull(kept, added, missing int, clusters []string) {
	if missing == 0 {
		return
	}
	t.w.add(finding.New(finding.TargetFull, clusters[0], string(t.now.ID),
		"the target %s has room for %d routes; of those for %s are missing: %d (there: %d, added: %d)",
		t.now.ID.Short(), t.limit, strings.Join(clusters, " and "), missing, kept, added).
		WithFix("make room in %s, or raise maxRoutes where Azure Virtual Network Manager raised the limit",
			t.now.ID.Short()))
}

// reportTaken tells of an unmanaged route that has the prefix of a node.
func (t *target) reportTaken(s *share, want, there inventory.Route) {
	t.w.add(t.finding(finding.PrefixTaken, s,
		"%s is routed to %s by the unmanaged route %s in %s; the pod route %s to %s is not added",
		want.Prefix, there.NextHop(), there.Name, t.now.ID.Short(), want.Name, want.NextHop()).About(want.Name).
		WithFix("if the unmanaged route is not meant: %s", deleteCommand(t.now.ID, there.Name)))
}

func routeLine(r inventory.Route) string {
	return fmt.Sprintf("%s to %s (%s)", r.Destination(), r.NextHop(), r.Name)
}

// reportUnmanaged tells of an unmanaged route that takes part in what happens to pod traffic.
func (t *target) reportUnmanaged(r inventory.Route) {
	if !r.Prefix.IsValid() || r.Prefix.Bits() == 0 {
		return // a default route covers everything, and is meant to
	}
	for _, s := range t.shares {
		if s.blind || s.wanted == nil {
			continue // it cannot be told whether it is unmanaged
		}
		tell := func(code finding.Code, format string) finding.Finding {
			return t.finding(code, s, "the unmanaged route %s in %s sends %s to %s, "+format,
				r.Name, t.now.ID.Short(), r.Prefix, r.NextHop(), s.cluster.ID.Short()).About(r.Name)
		}
		for i, cidr := range s.cidrs {
			switch {
			case !cidr.Overlaps(r.Prefix):
			case r.Prefix.Bits() > s.masks[i]:
				t.w.add(tell(finding.UnmanagedShadow, "past the nodes of cluster %s").
					WithFix("if it is not meant: %s", deleteCommand(t.now.ID, r.Name)))
			case r.Prefix.Bits() < s.masks[i]:
				t.w.add(tell(finding.UnmanagedOverlap,
					"which covers pods of cluster %s that have no route of their own"))
			case !s.wants(r.Prefix):
				t.w.add(tell(finding.UnmanagedOverlap, "a prefix that a node of cluster %s can get"))
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
	f := finding.New(finding.ClustersOverlap, "", string(t.now.ID),
		"clusters that share the target %s overlap: %s", t.now.ID.Short(), text)
	if len(blocked) > 0 {
		f.Severity = finding.Error
		f.Evidence = blocked
	}
	t.w.add(f)
}
