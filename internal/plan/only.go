package plan

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Only returns the plan with only the chosen changes. read returns a target as the plan saw it.
// Only omits a route that depends on a change that is not chosen: one that frees its prefix, or
// makes room.
func (p Plan) Only(chosen func(Change) bool, read func(arm.ID) *inventory.RouteTable) Plan {
	var state State
	var changes []Change
	routes := map[string]map[string]bool{} // by the table's ID.Key() and the lower-case name
	for _, c := range p.Changes {
		switch {
		case !chosen(c):
		case c.Verb == Associate:
			changes = append(changes, c)
			p, id := c.New.Associated()
			state.Associations = append(state.Associations, Association{Cluster: c.Cluster,
				Subnet: c.Resource, Property: p, Value: id, Why: c.Why})
		case routes[c.Resource.Key()] == nil:
			routes[c.Resource.Key()] = map[string]bool{strings.ToLower(c.Route): true}
		default:
			routes[c.Resource.Key()][strings.ToLower(c.Route)] = true
		}
	}
	for _, t := range p.Desired.Tables {
		if now := read(t.ID); now != nil {
			t.Routes, t.Changes = t.partly(now, routes[t.ID.Key()])
			state.Tables = append(state.Tables, t)
			changes = append(changes, t.Changes...)
		}
	}
	sortChanges(changes)
	p.Desired, p.Changes = state, changes
	return p
}

// partly returns the routes of a table after some of its changes, and the changes that were made.
func (t Table) partly(now *inventory.RouteTable, chosen map[string]bool) (routes []inventory.Route,
	made []Change) {
	wanted := make(map[string]inventory.Route, len(t.Routes))
	for _, r := range t.Routes {
		wanted[strings.ToLower(r.Name)] = r
	}
	taken := make(map[netip.Prefix]bool, len(now.Routes()))
	for _, r := range now.Routes() {
		name := strings.ToLower(r.Name)
		if _, stays := wanted[name]; stays || !chosen[name] {
			taken[r.Prefix] = true
		}
	}
	changed := make(map[string]bool, len(t.Changes))
	there := make(map[string]bool, len(now.Routes()))
	for _, r := range now.Routes() {
		name := strings.ToLower(r.Name)
		there[name] = true
		switch w, stays := wanted[name]; {
		case !stays && chosen[name]:
			changed[name] = true
		case stays && chosen[name] && (w.Prefix == r.Prefix || !taken[w.Prefix]):
			routes = append(routes, w)
			taken[w.Prefix], changed[name] = true, true
		default:
			routes = append(routes, r)
		}
	}
	staying := len(routes)
	for _, w := range t.Routes {
		if name := strings.ToLower(w.Name); !there[name] && chosen[name] && !taken[w.Prefix] {
			routes = append(routes, w)
		}
	}
	if t.Limit > 0 && len(routes) > t.Limit {
		routes = routes[:max(staying, t.Limit)]
	}
	for _, r := range routes[staying:] {
		changed[strings.ToLower(r.Name)] = true
	}
	for _, c := range t.Changes {
		if changed[strings.ToLower(c.Route)] {
			made = append(made, c)
		}
	}
	return routes, made
}
