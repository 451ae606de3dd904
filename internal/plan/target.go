package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
)

// share is one cluster's part in one target, as it is being planned.
type share struct {
	part
	owned int             // its routes in the target now
	stale []network.Route // those of them that its own table no longer has
	drift []string        // what would be done, if the policy were not Observe
}

// target is a route table being planned: the routes it will hold, in their order.
type target struct {
	w      *work
	now    *network.RouteTable
	shares []*share

	routes   []network.Route
	byPrefix map[netip.Prefix]int // index into routes
	byName   map[string]int
	owner    map[string]*share // by lower-case route name; foreign routes have none
	reasons  map[string]Reason
	gone     map[string]Reason
	limit    int                    // how many it may hold
	blocked  map[[2]string][]string // prefixes one cluster could not have because of another, by the two names
}

// target decides what one target should hold, or nil when it cannot be read (table is nil) or must not be written.
func (w *work) target(id network.ID, table *network.RouteTable) *Table {
	parts := w.parts[id.Key()]
	if len(parts) == 0 {
		return nil
	}
	first := parts[0].view
	if own, taken := w.ownTables[id.Key()]; taken {
		w.add(finding.New(finding.TargetIsSource, first.name, string(id), "the target %s is not written: %s, so it is the own table of the cluster of %s, or stands in its place",
			id.Short(), own.how, own.v.name).WithFix("remove the target from %s, or see to the association and spec.routeTableID of %s", first.name, own.v.name))
		return nil
	}
	if table == nil {
		w.reportUnread(w.add, first.config, id, finding.TargetMissing, "target %s", finding.Command("create the route table %s, or remove the target from %s", id.Short(), first.name))
		return nil
	}
	if how := w.ownOfSomebody(table); how != "" {
		w.add(finding.New(finding.TargetIsSource, first.name, string(id), "the target %s is not written: %s", id.Short(), how).
			WithFix("remove the target from %s; if no cluster is there any more, take the table off that subnet", first.name))
		return nil
	}
	room := len(table.Routes)
	t := &target{w: w, now: table, reasons: map[string]Reason{}, gone: map[string]Reason{}, blocked: map[[2]string][]string{}}
	for _, p := range parts {
		t.shares = append(t.shares, &share{part: p})
		room = max(room, len(p.wanted))
	}
	t.routes, t.byPrefix, t.byName = make([]network.Route, 0, room), make(map[netip.Prefix]int, room), make(map[string]int, room)
	t.owner = make(map[string]*share, room)
	t.keep()
	t.dropStale()
	t.addMissing()
	t.reportSharing()
	t.reportDrift()
	if table.Failed {
		w.add(unsettled(first.name, id, finding.Command("az network route-table update --ids %s", id)))
	}
	return &Table{ID: table.ID, Routes: t.routes, Reasons: t.reasons, Gone: t.gone, Limit: t.limit}
}

// unsettled is the finding for a resource whose last operation failed.
func unsettled(cluster string, id network.ID, fix finding.CommandLine) finding.Finding {
	return finding.New(finding.Unsettled, cluster, string(id), "the last operation on %s failed: what it says may not be in effect", id.Short()).
		With("provisioningState: Failed").WithFix("%s", fix)
}

func (t *target) put(r network.Route, owner *share) {
	name := strings.ToLower(r.Name)
	t.byName[name] = len(t.routes)
	if r.Prefix.IsValid() {
		t.byPrefix[r.Prefix] = len(t.routes)
	}
	t.owner[name] = owner
	t.routes = append(t.routes, r)
}

// keep goes through the routes that are there. Foreign ones stay as they are. The clusters' own stay, follow their
// next hop, or are noted as stale.
func (t *target) keep() {
	for _, r := range t.now.Routes {
		var owner, wants *share
		agreed, known := false, true
		for _, s := range t.shares {
			if !s.owns(r) {
				continue
			}
			if owner == nil {
				owner = s
			}
			known = known && s.wanted != nil
			if w, ok := s.wanted[r.Prefix]; ok {
				agreed = agreed || w.SameHop(r)
				if wants == nil {
					wants = s
				}
			}
		}
		switch {
		case owner == nil:
			t.reportForeign(r)
			t.put(r, nil)
		case agreed, !known: // where nothing is known of what should be, nothing is stale
			owner.owned++
			t.put(r, owner)
		case wants != nil:
			wants.owned++
			t.put(t.follow(r, wants), wants)
		default:
			owner.owned++
			owner.stale = append(owner.stale, r)
			t.put(r, owner)
		}
	}
}

// follow returns the route with the next hop that the cluster's own table has for its prefix.
func (t *target) follow(r network.Route, s *share) network.Route {
	hop := s.wanted[r.Prefix].Hop
	if s.policy == v1alpha1.PolicyObserve {
		s.drift = append(s.drift, fmt.Sprintf("%s would follow from %s to %s", r.Prefix, r.NextHop(), hop))
		return r
	}
	changed, err := r.With(r.Prefix, hop)
	if err != nil {
		t.w.add(finding.New(finding.WriteFailed, s.name, string(t.now.ID), "%v", err))
		return r
	}
	why := Reason{Cluster: s.name, Why: "the node's address changed"}
	if t.undone(s, r.Prefix, hop) {
		why.Why, why.Repair = "changed in this table, and not in the cluster's", true
	}
	t.reasons[strings.ToLower(r.Name)] = why
	return changed
}

// dropStale leaves out the stale routes where that may be believed.
func (t *target) dropStale() {
	for _, s := range t.shares {
		if s.wanted == nil {
			continue
		}
		slices.SortFunc(s.stale, func(a, b network.Route) int { return a.Prefix.Compare(b.Prefix) })
		part := Part{s.cluster.ID, t.now.ID}
		if len(s.stale) > 0 && !t.mayDelete(s) {
			t.w.held = append(t.w.held, part)
			continue
		}
		t.w.released = append(t.w.released, part)
		for _, r := range s.stale {
			t.gone[strings.ToLower(r.Name)] = Reason{Cluster: s.name, Why: "gone from the cluster's table"}
		}
	}
	if len(t.gone) == 0 {
		return
	}
	kept := t.routes
	t.routes, t.byPrefix, t.byName = nil, map[netip.Prefix]int{}, map[string]int{}
	for _, r := range kept {
		if name := strings.ToLower(r.Name); t.gone[name] == (Reason{}) {
			t.put(r, t.owner[name])
		}
	}
}

// addMissing adds the routes that the clusters' own tables have and the target has not.
func (t *target) addMissing() {
	kept := len(t.routes)
	t.limit = network.DefaultRouteLimit
	var adders []string
	for i, s := range t.shares {
		if i == 0 || s.maxRoutes < t.limit {
			t.limit = s.maxRoutes
		}
		before := len(t.routes)
		for _, prefix := range sortedPrefixes(s.wanted) {
			t.addRoute(s, s.wanted[prefix])
		}
		if len(t.routes) > before {
			adders = append(adders, s.name)
		}
	}
	if added := len(t.routes) - kept; added > 0 && len(t.routes) > t.limit {
		t.w.add(finding.New(finding.TargetFull, adders[0], string(t.now.ID),
			"the target %s has room for %d routes: %d stay in it and %d would have to be added for %s; none is added",
			t.now.ID.Short(), t.limit, kept, added, strings.Join(adders, " and ")).
			WithFix("make room in %s, or raise maxRoutes where Azure Virtual Network Manager raised the limit", t.now.ID.Short()))
		t.routes = t.routes[:kept]
	}
}

func (t *target) addRoute(s *share, want network.Route) {
	if i, ok := t.byPrefix[want.Prefix]; ok {
		there := t.routes[i]
		switch owner := t.owner[strings.ToLower(there.Name)]; {
		case owner == s:
		case owner != nil:
			pair := [2]string{s.name, owner.name}
			t.blocked[pair] = append(t.blocked[pair], fmt.Sprintf("%s stays with %s (%s)", want.Prefix, there.NextHop(), there.Name))
		default:
			t.w.add(finding.New(finding.PrefixTaken, s.name, string(t.now.ID),
				"%s is routed to %s by the foreign route %s in %s; the pod route %s to %s is not added",
				want.Prefix, there.NextHop(), there.Name, t.now.ID.Short(), want.Name, want.NextHop()).
				About(want.Name).WithFix("if the foreign route is not meant: %s", deleteCommand(t.now.ID, there.Name)))
		}
		return
	}
	name := want.Name
	if _, taken := t.byName[strings.ToLower(name)]; taken && t.owner[strings.ToLower(name)] != nil {
		// A configured cluster's route that has to stay has the same short name: the long one tells them apart.
		name = network.PodRouteName(network.RouteNode(name), want.Prefix)
	}
	if i, taken := t.byName[strings.ToLower(name)]; taken {
		there := t.routes[i]
		t.w.add(finding.New(finding.NameTaken, s.name, string(t.now.ID),
			"the name %s belongs to a foreign route in %s (%s to %s); the pod route of that name (%s to %s) is not added",
			name, t.now.ID.Short(), there.Destination(), there.NextHop(), want.Prefix, want.NextHop()).
			About(name).WithFix("if the foreign route is not meant: %s", deleteCommand(t.now.ID, there.Name)))
		return
	}
	if s.policy == v1alpha1.PolicyObserve {
		s.drift = append(s.drift, fmt.Sprintf("%s to %s is missing", want.Prefix, want.NextHop()))
		return
	}
	why := Reason{Cluster: s.name, Why: "new in the cluster's table"}
	if t.undone(s, want.Prefix, want.Hop) {
		why.Why, why.Repair = "removed from this table, and not from the cluster's", true
	}
	t.reasons[strings.ToLower(name)] = why
	t.put(network.NewRoute(name, want.Prefix, want.Hop), s)
}

func deleteCommand(table network.ID, route string) finding.CommandLine {
	return finding.Command("az network route-table route delete --ids %s", table.Child("routes", route))
}

func sortedPrefixes(routes map[netip.Prefix]network.Route) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(routes))
	for p := range routes {
		prefixes = append(prefixes, p)
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return prefixes
}
