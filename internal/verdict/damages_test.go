package verdict_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// damage is a way to break a cluster.
type damage struct {
	name string
	do   func(f *fleet, cluster string, at int)
}

var damages = []damage{
	{"the node subnet loses its table", func(f *fleet, cluster string, _ int) {
		f.setTable(f.subnet(cluster, "nodes"), "")
	}},
	{"the gateway's subnet loses its table", func(f *fleet, cluster string, _ int) {
		f.setTable(f.subnet(cluster, "appgw"), "")
	}},
	{"the node subnet has the gateway's table", func(f *fleet, cluster string, _ int) {
		f.setTable(f.subnet(cluster, "nodes"), f.id(cluster, arm.TypeRouteTable, "-appgw-rt"))
	}},
	{"the gateway's table lacks a route", bend("-appgw-rt", "")},
	{"the gateway's table has another node's hop", bend("-appgw-rt", "node")},
	{"the gateway's table has an unused hop", bend("-appgw-rt", "unused")},
	{"the gateway's table drops a route", bend("-appgw-rt", "None")},
	{"the gateway's table leads a route to the internet", bend("-appgw-rt", "Internet")},
	{"the cluster's table lacks a route", bend("-rt", "")},
	{"the cluster's table has another node's hop", bend("-rt", "node")},
	{"the cluster's table has an unused hop", bend("-rt", "unused")},
	{"the cluster's table drops a route", bend("-rt", "None")},
	{"the cluster's table leads a route to the internet", bend("-rt", "Internet")},
	{"the gateway's table hides a half", shadow("-appgw-rt")},
	{"the cluster's table hides a half", shadow("-rt")},
	{"the gateway's table is empty", func(f *fleet, cluster string, _ int) {
		f.routes(f.id(cluster, arm.TypeRouteTable, "-appgw-rt"), func([]any) []any {
			return []any{}
		})
	}},
}

// departures delete tables and nodes. Damages at random leave them out: others need the tables, and
// a node that had lost its route before is reported for a minute after it is gone.
var departures = []damage{
	{"the gateway's table is deleted", func(f *fleet, cluster string, _ int) {
		f.setTable(f.subnet(cluster, "appgw"), "")
		f.delete(f.id(cluster, arm.TypeRouteTable, "-appgw-rt"))
	}},
	{"a node is gone, and its routes are still there", leave},
	{"a node is gone, and the node subnet has the gateway's table",
		func(f *fleet, cluster string, at int) {
			f.setTable(f.subnet(cluster, "nodes"), f.id(cluster, arm.TypeRouteTable, "-appgw-rt"))
			leave(f, cluster, at)
		}},
}

// leave removes a node. A cloud provider that does not work leaves the node's routes.
func leave(f *fleet, cluster string, _ int) {
	f.Helper()
	doc, err := f.do.Get(f.id(cluster, arm.TypeCluster, ""), "2024-09-01")
	if err != nil {
		f.Fatal(err)
	}
	pool := doc["properties"].(map[string]any)["agentPoolProfiles"].([]any)[0].(map[string]any)
	count, _ := strconv.Atoi(fmt.Sprint(pool["count"]))
	if err := f.azure.Scale(f.id(cluster, arm.TypeCluster, ""), fmt.Sprint(pool["name"]),
		max(count-1, 1)); err != nil {
		f.Fatal(err)
	}
}

// bend changes the next hop of a route: to another node's address, an unused one or a type; "":
// removes the route.
func bend(table, to string) func(*fleet, string, int) {
	return func(f *fleet, cluster string, at int) {
		f.routes(f.id(cluster, arm.TypeRouteTable, table), func(routes []any) []any {
			if len(routes) == 0 {
				return routes
			}
			at %= len(routes)
			p := func(i int) map[string]any {
				return routes[i].(map[string]any)["properties"].(map[string]any)
			}
			switch hop := p(at)["nextHopIpAddress"]; {
			case hop == nil || p((at + 1) % len(routes))["nextHopIpAddress"] == nil: // bent before
			case to == "":
				return slices.Delete(routes, at, at+1)
			case to == "node":
				p(at)["nextHopIpAddress"] = p((at + 1) % len(routes))["nextHopIpAddress"]
			case to == "unused":
				text := fmt.Sprint(hop)
				p(at)["nextHopIpAddress"] = text[:strings.LastIndexByte(text, '.')+1] + "99"
			default:
				p(at)["nextHopType"] = to
				delete(p(at), "nextHopIpAddress")
			}
			return routes
		})
	}
}

// shadow adds a route that drops the second half of a node's pods.
func shadow(table string) func(*fleet, string, int) {
	return func(f *fleet, cluster string, at int) {
		f.routes(f.id(cluster, arm.TypeRouteTable, table), func(routes []any) []any {
			if len(routes) == 0 || slices.ContainsFunc(routes, func(r any) bool {
				return r.(map[string]any)["name"] == "half"
			}) {
				return routes
			}
			p := routes[at%len(routes)].(map[string]any)["properties"].(map[string]any)
			first, whole := strings.CutSuffix(fmt.Sprint(p["addressPrefix"]), ".0/24")
			if !whole { // a half already
				return routes
			}
			half := first + ".128/25"
			return append(routes, map[string]any{"name": "half", "properties": map[string]any{
				"addressPrefix": half, "nextHopType": "None"}})
		})
	}
}

// routes changes the routes of a table.
func (f *fleet) routes(table arm.ID, change func([]any) []any) {
	f.Helper()
	doc, err := f.do.Get(table, "2024-05-01")
	if err != nil {
		f.Fatal(err)
	}
	var routes []any
	for _, r := range doc["properties"].(map[string]any)["routes"].([]any) {
		p := r.(map[string]any)["properties"].(map[string]any)
		sent := map[string]any{"addressPrefix": p["addressPrefix"], "nextHopType": p["nextHopType"]}
		if p["nextHopIpAddress"] != nil {
			sent["nextHopIpAddress"] = p["nextHopIpAddress"]
		}
		routes = append(routes,
			map[string]any{"name": r.(map[string]any)["name"], "properties": sent})
	}
	if err := f.do.Put(table, "2024-05-01", map[string]any{"location": "westeurope",
		"properties": map[string]any{"routes": change(routes)}}); err != nil {
		f.Fatal(err)
	}
}

// setTable sets the table of a subnet; "" removes it.
func (f *fleet) setTable(subnet, table arm.ID) {
	f.Helper()
	doc, err := f.do.Get(subnet, "2024-05-01")
	if err != nil {
		f.Fatal(err)
	}
	p := map[string]any{"addressPrefix": doc["properties"].(map[string]any)["addressPrefix"]}
	if table != "" {
		p["routeTable"] = map[string]any{"id": string(table)}
	}
	if err := f.do.Put(subnet, "2024-05-01", map[string]any{"properties": p}); err != nil {
		f.Fatal(err)
	}
}
