package iac

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// routeTable judges an azurerm_route_table. Its inline routes are the whole table: if they change,
// the provider removes all others in Azure.
func (j *judge) routeTable(r *tfResource) {
	before, after := r.before(), r.after()
	switch {
	case r.deletes(), r.replaces():
		for _, subnet := range before.Subnets {
			if s := j.byID[subnet.Key()]; !j.freed(subnet, inventory.PropertyTable) &&
				!j.gone[subnet.Parent().Key()] && (s == nil || !s.goes && s.becomes == "") {
				j.note(r, "its deletion fails while subnet %s uses it "+
					"(InUseRouteTableCannotBeDeleted)", subnet.Short())
			}
		}
	case r.updates():
		j.routesWritten(r, before, after.Route)
	}
}

// routesWritten judges a table whose inline routes may change.
func (j *judge) routesWritten(r *tfResource, before *tfValues, after []tfRouteValues) {
	e := Effect{Verb: MayLoseRoutes, By: r.place(),
		What:   Place{ID: before.ID, Name: before.Name, Address: r.Address},
		Repair: &Repair{Address: r.Address, Ignore: "route"},
		Fix: fmt.Sprintf("in %s: lifecycle { ignore_changes = [route] }, or azurerm_route "+
			"resources in place of the route blocks", r.Address)}
	gone := j.podRoutes(before.Route, after)
	switch {
	case r.Change.Unknown.of("route").all:
		e.How = "its inline routes are known only after apply, and replace the whole table"
		e.Fix = fmt.Sprintf("in %s: lifecycle { ignore_changes = [route] }", r.Address)
	case len(gone) > 0:
		e.Verb, e.Routes = RoutesGone, gone
		e.How = "its inline routes replace the whole table and do not include the pod routes " +
			"that others wrote"
	case !j.refreshed && routesDiffer(before.Route, after) && len(j.podRoutes(after, nil)) == 0:
		e.How = "its inline routes replace the whole table, and the plan does not show whether " +
			"Azure has pod routes in it"
	default:
		return
	}
	e.Users = j.users(r)
	j.effects = append(j.effects, e)
}

// users returns the subnets of a table, from the table or from their associations.
func (j *judge) users(table *tfResource) []Place {
	var out []Place
	for _, subnet := range table.before().Subnets {
		out = append(out, j.subnet(subnet, table.place()))
	}
	if len(out) == 0 {
		out = j.usersOf(table.before().ID, table.place())
	}
	return out
}

// usersOf returns the subnets that something else than a table says have it.
func (j *judge) usersOf(table arm.ID, by Place) (out []Place) {
	for key, other := range j.tables {
		if other.Equal(table) {
			out = append(out, j.subnet(arm.ID(key), by))
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return strings.Compare(a.ID.Key(), b.ID.Key()) })
	return out
}

func routesDiffer(before, after []tfRouteValues) bool {
	if len(before) != len(after) {
		return true
	}
	seen := map[tfRouteValues]bool{}
	for _, r := range before {
		seen[r] = true
	}
	return slices.ContainsFunc(after, func(r tfRouteValues) bool { return !seen[r] })
}

// route judges an azurerm_route that is destroyed or gets another next hop.
func (j *judge) route(r *tfResource) {
	before, after, how := r.before(), []tfRouteValues(nil), "the route is destroyed"
	switch {
	case r.deletes():
	case r.updates(), r.replaces():
		if r.Change.Unknown.of("address_prefix").all ||
			r.Change.Unknown.of("next_hop_in_ip_address").all {
			return
		}
		after, how = append(after, r.after().tfRouteValues), "the route leads elsewhere"
	default:
		return
	}
	before.tfRouteValues.Name = before.Name
	table := before.ID.Parent()
	if slices.ContainsFunc(j.changes, func(t *tfResource) bool {
		return t.Type == tfTable && t.deletes() && t.before().ID.Equal(table)
	}) {
		return // with its table
	}
	if gone := j.podRoutes([]tfRouteValues{before.tfRouteValues}, after); len(gone) > 0 {
		j.effects = append(j.effects, Effect{
			Verb: RoutesGone, What: Place{ID: table, Name: table.Name(),
				Address: r.Address}, By: r.place(), Routes: gone,
			How: how, Fix: "keep " + r.Address + ", or take it out of the state only (removed " +
				"block with destroy = false)",
		})
	}
}

// podRoutes returns the routes to nodes' pods that exist before, and afterwards are gone or have
// another next hop.
func (j *judge) podRoutes(before, after []tfRouteValues) []inventory.Route {
	kept := map[netip.Prefix]netip.Addr{}
	for _, r := range after {
		kept[r.route().Prefix] = r.route().Hop
	}
	var gone []inventory.Route
	cidrs := j.podCIDRs()
	for _, r := range before {
		if route := r.route(); leadsToNode(route, cidrs) && kept[route.Prefix] != route.Hop {
			gone = append(gone, route)
		}
	}
	return gone
}

// defaultPodCIDR is AKS's default, for files without a cluster.
var defaultPodCIDR = netip.MustParsePrefix("10.244.0.0/16")

// podCIDRs returns the pod CIDRs of the clusters in the file.
func (p *tfPlan) podCIDRs() []netip.Prefix {
	cidrs := []netip.Prefix{defaultPodCIDR}
	add := func(r *tfResource) {
		if r == nil {
			return
		}
		for _, profile := range r.Values.Profile {
			if cidr, err := netip.ParsePrefix(profile.PodCIDR); err == nil {
				cidrs = append(cidrs, cidr)
			}
		}
	}
	for _, r := range p.users {
		add(r)
	}
	for _, r := range p.changes {
		add(r.user(r.before()))
		add(r.user(r.after()))
	}
	return cidrs
}

// nodeName matches the names that AKS gives to nodes (scale sets, availability sets, Windows
// pools), and the names that cloud-provider-azure gives to their routes: the node's name, four
// underscores and the prefix.
var nodeName = lazy.Regexp(
	`(?i)^aks(-[a-z0-9]+-[0-9]{8}-(vmss[0-9a-z]{6}|[0-9]+)|[a-z]{1,6}0[0-9a-z]{5})(____[0-9a-f]+)?$`)

// leadsToNode reports whether a route leads to the pods of one node: to an appliance, with a name
// that the cloud provider gives, or with a /24 (IPv6: a /64) of a pod CIDR.
func leadsToNode(route inventory.Route, cidrs []netip.Prefix) bool {
	if !strings.EqualFold(route.HopType, inventory.HopAppliance) || !route.Prefix.IsValid() ||
		!route.Hop.IsValid() {
		return false
	}
	if nodeName().MatchString(route.Name) {
		return true
	}
	return slices.ContainsFunc(cidrs, func(cidr netip.Prefix) bool {
		return cidr.Bits() < route.Prefix.Bits() && cidr.Contains(route.Prefix.Addr()) &&
			(route.Prefix.Bits() == 24 || route.Prefix.Bits() == 64)
	})
}
