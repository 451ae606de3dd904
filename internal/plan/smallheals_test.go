package plan

import (
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/internal/finding"
)

// heals plays what must follow when nothing else happens.
func (s smallStory) heals(w *smallWorld) (rules []string) {
	if s.stopped { // before anyone starts the cloud provider
		waits := s
		for range 2 {
			var broken []string
			waits.wait(w)
			waits, _, broken = waits.check(w, 0, readWhole, true)
			rules = append(rules, broken...)
		}
	}
	s.stopped = false
	var last [2]*smallAnswer
	check := func() {
		for k := range w.keepers {
			var broken []string
			s, last[k], broken = s.check(w, k, readWhole, true)
			rules = append(rules, broken...)
		}
	}
	rest := func() {
		for range 3 {
			s.wait(w)
			check()
		}
		for k := range s.keeper {
			s.keeper[k].looks = true
		}
		check()
	}
	rests := 1
	if s.keeper[0].mistaken() { // the log is asked once a node was seen without a route for a while
		rests = 3
	}
	for range rests {
		rest()
	}
	a := last[0]
	for k := range w.keepers {
		if last[k].planned != "" {
			rules = append(rules, "rest: "+last[k].planned)
		}
	}
	mistaken := s.keeper[0].mistaken()
	if s.on != hasOwn && a.said.codes == 0 && !mistaken || s.on == hasNone && a.lost == "" {
		rules = append(rules, "heals: the node subnet lacks its table")
	}
	if mistaken && s.on == hasOwn && a.lost == "" && slices.ContainsFunc(s.own[:], smallRow.node) {
		rules = append(rules, "heals: the copy is taken for the cluster's table")
	}
	if mistaken && !s.forgot && s.deleted == 0 && s.lacking(w) {
		rules = append(rules, "heals: the copy lacks a node, and is taken for the cluster's table")
	}
	if s.deleted != 0 {
		missing := map[int8]finding.Code{deletedCluster: finding.ClusterMissing,
			deletedTable: finding.TableMissing}[s.deleted]
		switch other := s.on == hasCopy; {
		case a.lost != missing && a.lost != finding.TableUnknown && !other && !mistaken:
			rules = append(rules, "heals: what was deleted is not said")
		case a.lost == finding.TableMissing && other:
			rules = append(rules, "heals: the node subnet has another table in its place")
		}
		return rules
	}
	for k := range w.targets {
		rules = append(rules, s.healed(w, k, a)...)
	}
	return rules
}

// lacking reports whether a node has no route in the copy of the cluster's table.
func (s smallStory) lacking(w *smallWorld) bool {
	for i, m := range s.machine {
		led := func(r smallRow) bool { return r.node() && r.address() == m.address() }
		if m.exists() && !s.off[i] && !slices.ContainsFunc(w.start.own[:], led) {
			return true
		}
	}
	return false
}

// healed returns what is neither right nor said in a target.
func (s smallStory) healed(w *smallWorld, k int, a *smallAnswer) (rules []string) {
	if a.lost == finding.TableUnknown || s.keeper[0].mistaken() {
		return nil
	}
	right := !s.byOther && s.own == s.provided(w) && w.room == 0 && s.off == smallState{}.off
	for c, r := range s.target[k] {
		same := s.own[c].exists() && s.own[c].address() == r.address()
		ours := r.node() || r.exists() && r == s.adopted[k][c]
		switch {
		case !ours || same || s.delivers(c, r.hop(c)):
		case right && k == 0 && s.adopted[k][c] == r:
			rules = append(rules, "gone: "+smallRoute(c, r)+" stays")
		case !a.said.any(c, r.address()):
			rules = append(rules, "stale: "+smallRoute(c, r)+" stays, and nothing says so")
		}
	}
	for i, m := range s.machine {
		for _, c := range []int{m.cidr(), m.cidr() + smallMost} {
			if !m.exists() || s.off[i] || c >= smallMost && !w.dual {
				continue
			}
			copied := s.target[k][c]
			if right && k == 0 && copied.address() != m.address() && !copied.person() &&
				!w.stray(copied) {
				rules = append(rules, "right: the target lacks "+smallRoute(c, s.own[c]))
			}
			for _, r := range []smallRow{s.own[c], copied} {
				addresses := []int{m.address()}
				if r.exists() {
					addresses = append(addresses, r.address())
				}
				full := w.room > 0 && !copied.exists() && a.said.codes > 0
				if (!r.exists() || r.address() != m.address()) && !full &&
					!a.said.any(c, addresses...) {
					rules = append(rules, fmt.Sprintf("heals: %s has no route to %s",
						smallCIDR[c], hopOf(c, m.address())))
				}
			}
		}
	}
	return rules
}
