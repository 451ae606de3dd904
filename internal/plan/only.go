package plan

import (
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/network"
)

// Only is the plan with the changes of some verbs alone; read returns a target as it was planned for. A route is left out as well where
// it needs what only a change of another verb makes: its prefix free, or room.
func (p Plan) Only(verbs []Verb, read func(network.ID) *network.RouteTable) Plan {
	chosen := func(v Verb) bool { return slices.Contains(verbs, v) }
	changes := slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.Verb != Associate || !chosen(Associate) })
	state := State{}
	if chosen(Associate) {
		state.Associations = p.Desired.Associations
	}
	for _, t := range p.Desired.Tables {
		if now := read(t.ID); now != nil {
			t.Routes = t.partly(now, chosen)
			state.Tables = append(state.Tables, t)
			changes = append(changes, diffTable(now, t)...)
		}
	}
	sortChanges(changes)
	p.Desired, p.Changes = state, changes
	return p
}

// partly are the routes of a table on its way to what it should hold, by changes of chosen verbs.
func (t Table) partly(now *network.RouteTable, chosen func(Verb) bool) []network.Route {
	wanted := make(map[string]network.Route, len(t.Routes))
	for _, r := range t.Routes {
		wanted[strings.ToLower(r.Name)] = r
	}
	taken := make(map[netip.Prefix]bool, len(now.Routes))
	for _, r := range now.Routes {
		if _, stays := wanted[strings.ToLower(r.Name)]; stays || !chosen(Delete) {
			taken[r.Prefix] = true
		}
	}
	var routes []network.Route
	there := make(map[string]bool, len(now.Routes))
	for _, r := range now.Routes {
		name := strings.ToLower(r.Name)
		there[name] = true
		switch w, stays := wanted[name]; {
		case !stays && chosen(Delete):
		case stays && chosen(Update) && (w.Prefix == r.Prefix || !taken[w.Prefix]):
			routes = append(routes, w)
			taken[w.Prefix] = true
		default:
			routes = append(routes, r)
		}
	}
	kept := len(routes)
	for _, w := range t.Routes {
		if !there[strings.ToLower(w.Name)] && chosen(Create) && !taken[w.Prefix] {
			routes = append(routes, w)
		}
	}
	if t.Limit > 0 && len(routes) > t.Limit {
		return routes[:kept]
	}
	return routes
}
