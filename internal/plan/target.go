package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: planning a target. First each route in the table is placed: it stays, follows its
// node to another address, or is stale. Then stale routes are removed, each with its own proof
// (gone.go). Then the routes that the clusters' tables have and the target lacks are added.
// report_target.go reports the result.
//
// ownership.go says whose a route is. writable.go says whether the table may be written at all.
//
//	the route in the target                    | and                          | action
//	-------------------------------------------|------------------------------|------------------------
//	unmanaged                                  |                              | stays, byte for byte
//	a cluster's, wanted, same next hop         |                              | stays
//	a cluster's                                | its table was not read       | stays
//	a cluster's, wanted, another next hop      | its machine's: machine.go    | update
//	                                           | another machine's            | stays: wrong-next-hop
//	                                           | not proven                   | stays: updates-withheld
//	a cluster's, not wanted                    | proven stale                 | delete
//	                                           | not proven                   | stays: deletes-withheld
//	                                           | policy UpsertOnly            | stays: stale-routes-kept
//	of a cluster that does not exist           |                              | see removal.go
//	left behind by a node in a former subnet   | next hop proven gone         | as a cluster's
//	                                           | not proven                   | unmanaged
//	of a former pod CIDR of a cluster that was |                              | see former.go
//	  created again                            |                              |
//	a node's by name, changed in the target,   | the wanted next hop is its   | update (a repair)
//	  and remembered as correct                | machine's                    |
//	-------------------------------------------|------------------------------|------------------------
//	none: the prefix is wanted                 | there is room                | create
//	                                           | it leads to another machine  | wrong-next-hop
//	                                           | its name is taken            | create by another name
//	                                           | no room                      | target-full
//	the prefix is an unmanaged route's         |                              | stays: prefix-taken
//	the prefix is another cluster's            |                              | stays: clusters-overlap
//
// Under policy Observe nothing changes: target-drift lists what would change.

// targetCluster is one of the clusters whose routes are copied to a target, with what the plan of
// the target finds.
type targetCluster struct {
	targetConfig
	drift      []string // changes that policy Observe withholds
	retained   []string // stale routes that policy UpsertOnly keeps
	undeleted  []string // stale routes without proof, and the proof that is missing
	blindly    bool     // for an undeleted one it is unknown whether its node exists
	harmless   int      // how many undeleted ones have proof.unwritten or proof.neighbour
	strange    bool     // an undeleted one has the addresses of a row in strangers
	unfollowed []string // routes whose new next hop is not proven
	left       []string // routes of a missing cluster that stay
	alike      bool     // some of the left ones only look like its routes
	former     []string // routes that look like those of a former pod CIDR, and stay

	hidden map[string]string           // nodes that the NIC lists do not show, by family
	memory Remembered                  // of the cluster
	inSync map[netip.Prefix]netip.Addr // its Remembered.InSync for this target
}

// targetCluster returns a cluster of a target, with what is remembered of it.
func (w *planning) targetCluster(c targetConfig, target arm.ID) *targetCluster {
	memory := w.s.Memory.Of(arm.ID(c.config.Spec.ClusterID))
	return &targetCluster{targetConfig: c, memory: memory, inSync: memory.InSync[target.Key()]}
}

// mayTouch reports whether the policy allows a route to change.
func (s *targetCluster) mayTouch(r inventory.Route) bool {
	return s.policy == v1alpha1.PolicySync || s.policy == v1alpha1.PolicyUpsertOnly &&
		s.wants(r.Prefix)
}

// wants reports whether the source of the cluster's routes has a pod route with a prefix.
func (s *targetCluster) wants(prefix netip.Prefix) bool {
	_, wanted := s.wanted.at(prefix)
	return wanted
}

// target is a route table in planning, with the routes that it will have, in order.
type target struct {
	w        *planning
	now      *inventory.RouteTable
	clusters []*targetCluster

	routes   []inventory.Route
	owners   []*targetCluster     // of routes; unmanaged routes have none
	byPrefix map[netip.Prefix]int // index into routes
	byName   map[string]bool      // lower-case
	changes  []Change
	gone     map[string]int // deletes, by lower-case name: index into changes
	values   []Value        // of creates, allocated together
	limit    int            // the largest number of routes
	// prefixes whose route was removed in favor of another machine's
	replaced map[netip.Prefix]bool
	// prefixes that one cluster cannot have because another has them, by the two names
	blocked map[[2]string][]string
}

// target decides which routes one target should have. It returns nil if the target cannot be read
// (table is nil) or must not be written.
func (w *planning) target(id arm.ID, table *inventory.RouteTable) *Table {
	parts, _ := arm.Lookup(w.targets, id)
	if len(parts) == 0 {
		return nil
	}
	first := parts[0].clusterState
	if w.notWritable(id, table, first) {
		return nil
	}
	t := &target{w: w, now: table, limit: inventory.DefaultRouteLimit}
	for i, p := range parts {
		t.clusters = append(t.clusters, w.targetCluster(p, id))
		if i == 0 || p.maxRoutes < t.limit {
			t.limit = p.maxRoutes
		}
	}
	if !w.removing && t.alreadyInSync() {
		t.routes = slices.Clip(table.Routes())
	} else {
		t.decide()
	}
	if !w.removing {
		t.report()
		t.noteLeft()
	}
	if table.Failed {
		w.add(lastOperationFailed(first.name, id,
			finding.Command("az network route-table update --ids %s", id)))
	}
	return &Table{ID: table.ID, Routes: t.routes, Changes: t.changes, Limit: t.limit}
}

// alreadyInSync reports whether the target is in sync, as nearly every check finds it. decide would
// then leave each route in place: the ones that one cluster wants, with the wanted next hop, and
// those outside all pod addresses. alreadyInSync walks both tables once, in the order of the
// prefixes.
func (t *target) alreadyInSync() bool {
	next := make([]int, len(t.clusters)) // of the routes that each cluster wants
	for _, i := range t.now.ByPrefix() {
		r := &t.now.Routes()[i]
		wanted, near := 0, false
		for n, s := range t.clusters {
			if next[n] < len(s.wanted) && s.wanted[next[n]].Prefix == r.Prefix {
				if !s.wanted[next[n]].SameHop(*r) {
					return false
				}
				next[n]++
				wanted++
				continue
			}
			near = near || s.overlapsPods(r.Prefix)
		}
		if wanted > 1 || wanted == 0 && (near || t.mayBeFormer(r)) {
			return false
		}
	}
	for n, s := range t.clusters {
		if s.wanted == nil || next[n] < len(s.wanted) {
			return false
		}
	}
	return true
}

// overlapsPods reports whether a prefix contains addresses of the cluster's pods. That of a default
// route does not count.
func (s *targetCluster) overlapsPods(p netip.Prefix) bool {
	return p.Bits() > 0 && slices.ContainsFunc(s.cidrs, p.Overlaps)
}

// decide places each route, and adds the missing ones.
func (t *target) decide() {
	room := len(t.now.Routes())
	t.routes, t.owners = make([]inventory.Route, 0, room), make([]*targetCluster, 0, room)
	for _, s := range t.clusters {
		room = max(room, len(s.wanted)) // growing the maps later is expensive
	}
	t.byPrefix, t.byName = make(map[netip.Prefix]int, room), make(map[string]bool, room)
	t.gone = map[string]int{}
	t.blocked = map[[2]string][]string{}
	for _, r := range t.now.Routes() {
		t.place(r)
	}
	if !t.w.removing {
		t.addMissing()
	}
}

// lastOperationFailed returns the finding for a resource whose last operation failed.
func lastOperationFailed(cluster string, id arm.ID, fix finding.CommandLine) finding.Finding {
	return finding.New(finding.Unsettled, cluster, string(id),
		"the last operation on %s failed: its settings may not be in effect", id.Short()).
		With("provisioningState: Failed").WithFix("%s", fix)
}

func (t *target) put(r inventory.Route, owner *targetCluster) {
	t.byName[strings.ToLower(r.Name)] = true
	if r.Prefix.IsValid() {
		t.byPrefix[r.Prefix] = len(t.routes)
	}
	t.routes, t.owners = append(t.routes, r), append(t.owners, owner)
}

// place decides what happens to one route in the table.
func (t *target) place(r inventory.Route) {
	if t.w.removing {
		t.placeRemoved(r)
		return
	}
	var owners []*targetCluster
	var wants, agrees *targetCluster
	unknown := false
	claim := func(s *targetCluster) {
		owners = append(owners, s)
		unknown = unknown || s.wanted == nil
		if want, ok := s.wanted.at(r.Prefix); ok {
			if wants == nil {
				wants = s
			}
			if agrees == nil && want.SameHop(r) {
				agrees = s
			}
		}
	}
	for _, s := range t.clusters {
		if t.owns(s, r) {
			claim(s)
		}
	}
	if len(owners) == 0 {
		if s := t.leftBehind(r); s != nil {
			claim(s)
		} else if s, remembered := t.ofVanished(r); s != nil {
			t.placeVanished(r, s, remembered)
			return
		} else if former := t.formerOwners(r); former != nil {
			t.placeStale(r, former)
			return
		} else if t.removeFormer(r) {
			return
		}
	}
	switch {
	case len(owners) == 0:
		t.reportUnmanaged(r)
		t.put(r, nil)
	case agrees != nil:
		t.put(r, agrees)
	case unknown: // without all wanted routes, none is known to be stale
		t.put(r, owners[0])
	case wants != nil:
		if r, stays := t.follow(r, wants); stays {
			t.put(r, wants)
		}
	default:
		// a cluster with its addresses may own it, too, although the name is not the cluster's
		for _, s := range t.clusters {
			if s.owns(r) && !slices.Contains(owners, s) {
				owners = append(owners, s)
			}
		}
		t.placeStale(r, owners)
	}
}

// follow returns the route with the next hop that the cluster's route table has for its prefix, or
// unchanged. It returns false if the route gives way to that of another machine, which addMissing
// adds.
func (t *target) follow(r inventory.Route, s *targetCluster) (now inventory.Route, stays bool) {
	want, _ := s.wanted.at(r.Prefix)
	if s.policy == v1alpha1.PolicyObserve {
		s.drift = append(s.drift, fmt.Sprintf("the next hop of %s would change from %s to %s",
			r.Prefix, r.NextHop(), want.Hop))
		return r, true
	}
	p, against := t.w.leadsHome(s.clusterState, want)
	undone := t.undone(s, r.Prefix, want.Hop)
	replaced := s.nodeOf(r) != s.nodeOf(want)
	if p.lacks == "" && replaced {
		p = t.replaceable(s, r)
	}
	if against {
		t.w.stays[s.clusterState] = append(t.w.stays[s.clusterState],
			fmt.Sprintf("%s: %s stays", t.now.ID.Short(), routeLine(r)))
		return r, true
	}
	if p.lacks != "" {
		s.unfollowed = append(s.unfollowed,
			fmt.Sprintf("%s, to %s: %s", routeLine(r), want.Hop, p.lacks))
		return r, true
	}
	if replaced {
		t.remove(r, s, p.why)
		if t.replaced == nil {
			t.replaced = map[netip.Prefix]bool{}
		}
		t.replaced[r.Prefix] = true
		return r, false
	}
	changed, err := r.With(r.Prefix, want.Hop)
	if err != nil {
		t.w.add(finding.New(finding.WriteFailed, s.name, string(t.now.ID), "%v", err))
		return r, true
	}
	why := "the node's address changed"
	if undone {
		why = "another writer changed it in this table"
	}
	t.changes = append(t.changes, Change{Verb: Update, Resource: t.now.ID, Cluster: s.name,
		Route: r.Name, Old: valueOf(r), New: valueOf(changed), Why: why, Repair: undone})
	return changed, true
}

// placeStale removes a stale route, or keeps it and notes why.
func (t *target) placeStale(r inventory.Route, owners []*targetCluster) {
	s := owners[0]
	switch s.policy {
	case v1alpha1.PolicyObserve:
		s.drift = append(s.drift, fmt.Sprintf("%s to %s is stale", r.Prefix, r.NextHop()))
	case v1alpha1.PolicyUpsertOnly:
		s.retained = append(s.retained, routeLine(r))
	default:
		p := t.proveStale(r, owners)
		if p.lacks == "" {
			t.remove(r, s, p.why)
			return
		}
		s.undeleted = append(s.undeleted, routeLine(r)+": "+p.lacks)
		s.blindly = s.blindly || !p.nodeExists
		s.strange = s.strange || slices.ContainsFunc(s.strangers, func(row inventory.Route) bool {
			return row.Prefix == r.Prefix && row.SameHop(r)
		})
		if p.unwritten || p.neighbour {
			s.harmless++
		}
	}
	t.put(r, s)
}

// addMissing adds as many of the missing routes as fit. A route that replaces another takes its
// place, because packets may have arrived by the old one: a wrong node sends them on.
func (t *target) addMissing() {
	present := len(t.routes)
	added, missing := 0, 0
	room := 0
	for _, s := range t.clusters {
		for _, want := range s.wanted {
			if _, there := t.byPrefix[want.Prefix]; !there {
				room++
			}
		}
	}
	room = min(room, max(t.limit-present, len(t.replaced)))
	t.routes, t.owners = slices.Grow(t.routes, room), slices.Grow(t.owners, room)
	t.changes, t.values = slices.Grow(t.changes, room), make([]Value, 0, room)
	var without []string // clusters that lack routes
	for _, s := range t.clusters {
		before := missing
		var nics addresses
		if s.wanted != nil {
			nics = t.w.s.addresses(s.cluster.ID)
		}
		for _, want := range s.byNode() {
			switch want := *want; {
			case t.taken(s, want):
			case s.policy == v1alpha1.PolicyObserve:
				s.drift = append(s.drift,
					fmt.Sprintf("%s to %s is missing", want.Prefix, want.NextHop()))
			case len(t.routes)+len(t.replaced) >= t.limit && !t.replaced[want.Prefix]:
				missing++
			case t.w.contradicted(s.clusterState, nics, want): // reportCrossed reports the row
			default:
				t.create(s, want)
				delete(t.replaced, want.Prefix)
				added++
			}
		}
		if missing > before {
			without = append(without, s.name)
		}
	}
	t.reportFull(present, added, missing, without)
}

// taken reports whether another route has the prefix that a cluster wants.
func (t *target) taken(s *targetCluster, want inventory.Route) bool {
	i, taken := t.byPrefix[want.Prefix]
	if !taken {
		return false
	}
	there := t.routes[i]
	switch owner := t.owners[i]; {
	case owner == s:
	case owner != nil:
		pair := [2]string{s.name, owner.name}
		t.blocked[pair] = append(t.blocked[pair],
			fmt.Sprintf("%s stays with %s (%s)", want.Prefix, there.NextHop(), there.Name))
	default:
		t.reportTaken(s, want, there)
	}
	return true
}

func (t *target) create(s *targetCluster, want inventory.Route) {
	why, repair := "new in the cluster's table", t.undone(s, want.Prefix, want.Hop)
	switch {
	case repair:
		why = "another writer removed it from this table"
	case fromNodes(s.config):
		why = "a new node"
	}
	r := inventory.NewRoute(t.freeName(want), want.Prefix, want.Hop)
	t.put(r, s)
	t.values = append(t.values, value(r))
	made := Change{Verb: Create, Resource: t.now.ID, Cluster: s.name, Route: r.Name,
		New: &t.values[len(t.values)-1], Why: why, Repair: repair}
	if i, was := t.gone[strings.ToLower(r.Name)]; was { // a delete and a create of the same name
		made.Verb, made.Old = Update, t.changes[i].Old
		t.changes[i] = made
		return
	}
	t.changes = append(t.changes, made)
}

// remove notes that a route leaves the table.
func (t *target) remove(r inventory.Route, s *targetCluster, why string) {
	t.gone[strings.ToLower(r.Name)] = len(t.changes)
	t.changes = append(t.changes, Change{Verb: Delete, Resource: t.now.ID, Cluster: s.name,
		Route: r.Name, Old: valueOf(r), Why: why})
}

// freeName returns the name that the route has in the cluster's route table. If another route in
// the target has that name, freeName returns the long name, and if that is also taken, the long
// name with a number.
func (t *target) freeName(want inventory.Route) string {
	for i, name := 0, want.Name; ; i++ {
		if !t.byName[strings.ToLower(name)] {
			return name
		}
		name = inventory.PodRouteName(inventory.RouteNode(want.Name), want.Prefix)
		if i > 0 {
			name = fmt.Sprintf("%s-%d", name, i+1)
		}
	}
}

func deleteCommand(table arm.ID, route string) finding.CommandLine {
	return finding.Command("az network route-table route delete --ids %s",
		table.Child("routes", route))
}
