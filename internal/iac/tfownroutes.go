package iac

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// ownRoute is a route that is a resource of its own: an azurerm_route. Its table is known by ID, or
// by name and resource group until the route is made.
type ownRoute struct {
	table       arm.ID
	name, group string
	route       tfRouteValues
}

// maxOwnRoutes limits the routes in a picture, to bound memory.
const maxOwnRoutes = 10 * maxPicture

func newOwnRoute(v *tfValues) ownRoute {
	o := ownRoute{name: v.TableName, group: v.ResourceGroup, route: v.tfRouteValues}
	o.route.Name = v.Name
	if v.ID.Is(arm.TypeRouteTable + "/routes") {
		o.table = v.ID.Parent()
		o.name = o.table.Name()
	}
	return o
}

func (o ownRoute) in(table arm.ID) bool {
	if o.table != "" {
		return o.table.Equal(table)
	}
	return strings.EqualFold(o.name, table.Name()) &&
		(o.group == "" || strings.EqualFold(o.group, table.ResourceGroup()))
}

// ownRoutes are the routes with names and prefixes that are resources of their own, before and
// after, by the name of their table in lower case.
type ownRoutes struct{ before, after map[string][]ownRoute }

func byTable(routes []ownRoute) map[string][]ownRoute {
	out := map[string][]ownRoute{}
	for _, o := range routes {
		if o.route.Name != "" && o.route.Prefix != "" {
			key := strings.ToLower(o.name)
			out[key] = append(out[key], o)
		}
	}
	return out
}

// of returns the routes of one table before and after, by their names in lower case.
func (o ownRoutes) of(table arm.ID) (before, after map[string]tfRouteValues) {
	find := func(all map[string][]ownRoute) map[string]tfRouteValues {
		out := map[string]tfRouteValues{}
		for _, r := range all[strings.ToLower(table.Name())] {
			if r.in(table) {
				out[strings.ToLower(r.route.Name)] = r.route
			}
		}
		return out
	}
	return find(o.before), find(o.after)
}

func (r tfRouteValues) object() object {
	return object{"name": r.Name, "properties": object{"addressPrefix": r.Prefix,
		"nextHopType": r.HopType, "nextHopIpAddress": r.Hop}}
}

// addTo adds routes to the tables of a picture. A table shows such routes, too, as they were when
// it was last read: these are removed first.
func (o ownRoutes) addTo(pic picture, then bool) {
	for _, doc := range pic.docs {
		id := arm.ID(doc["id"].(string))
		if !id.Is(arm.TypeRouteTable) {
			continue
		}
		before, after := o.of(id)
		add := before
		if then {
			add = after
		}
		properties := doc["properties"].(object)
		routes, _ := properties["routes"].([]object)
		routes = slices.DeleteFunc(routes, func(r object) bool {
			name := strings.ToLower(r["name"].(string))
			_, goes := before[name]
			_, comes := after[name]
			return goes || comes && then
		})
		for _, name := range slices.Sorted(maps.Keys(add)) {
			routes = append(routes, add[name].object())
		}
		properties["routes"] = routes
	}
}

// change returns the routes of a real table after the changes of its own routes.
func (o ownRoutes) change(table *inventory.RouteTable) (routes []inventory.Route, changed bool) {
	before, after := o.of(table.ID)
	gone := map[string]bool{}
	for name, r := range before {
		gone[name] = after[name] != r
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if r := after[name]; before[name] != r {
			gone[name], changed = true, true
			routes = append(routes, r.inAzure())
		}
	}
	for _, r := range table.Routes() {
		if gone[strings.ToLower(r.Name)] {
			changed = true
		} else {
			routes = append(routes, r)
		}
	}
	return routes, changed
}

// inAzure returns a route with a name and a prefix as Azure shows it.
func (r tfRouteValues) inAzure() inventory.Route {
	raw, _ := json.Marshal(r.object()) // it is only text
	route, _ := inventory.DecodeRoute(raw)
	return route
}
