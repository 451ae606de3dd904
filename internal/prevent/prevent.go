// Package prevent makes rules of Azure Policy that refuse to strip guarded subnets. They refuse a
// write in which such a subnet lacks its route table, NAT gateway or network security group, or has
// another one. It says what the rules block, and which writes of the past they would have refused.
//
// It is pure, and writes no code: package generate does.
package prevent

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works. A policy sees only the request. It cannot know what was there before, so a rule
// names subnets with what they must have, and counts the subnets of a request that differ. A
// request for a network without "subnets" changes none (since api-version 2023-09-01), and passes,
// because the count is 0. Both types need a rule: a subnet can be written by itself or with its
// network (Enterprise-Scale#407). A rule has one property, so that the loss of one property does
// not block a write that restores another.

// Need is a property that a subnet must have.
type Need struct {
	Subnet   arm.ID
	Property inventory.Property
	Value    arm.ID
}

// Rule is a policy definition, and what its assignments are about: needs, or tables that must keep
// their default route.
type Rule struct {
	Name, Title, About string
	Effect             string
	Property           inventory.Property
	Needs              []Need
	Tables             []arm.ID
}

// Aliases that rules use, and the element of a list that they count.
const (
	network = arm.TypeVNet + "/subnets[*]"
	routes  = arm.TypeRouteTable + "/routes[*]"
)

// aliases returns what a rule needs.
func (r Rule) aliases() []string {
	switch r.Effect + string(r.Property) {
	case "deny":
		return []string{routes, routes + ".addressPrefix"}
	case "denyAction":
		return []string{arm.TypeRoute + "/addressPrefix"}
	}
	property := string(r.Property) + ".id"
	return []string{network, network + ".name", network + "." + property,
		arm.TypeSubnet + "/" + property}
}

// Make makes the rules for needs and for tables that must keep their default route. What no rule
// can hold is left, with the reason.
func Make(needs []Need, tables []arm.ID, aliases []string) (rules []Rule, left []string) {
	needs, left = agreed(needs)
	tables = slices.CompactFunc(inventory.SortIDs(slices.Clone(tables)), arm.ID.Equal)
	for _, r := range candidates(needs, tables) {
		i := slices.IndexFunc(r.aliases(), func(alias string) bool {
			return !slices.ContainsFunc(aliases, func(s string) bool {
				return strings.EqualFold(s, alias)
			})
		})
		switch {
		case len(r.Needs)+len(r.Tables) == 0:
		case i >= 0:
			left = append(left, fmt.Sprintf("the rule %q: Azure Policy has no alias %s here, so "+
				"no rule can read it", r.Title, r.aliases()[i]))
		default:
			rules = append(rules, r)
		}
	}
	return rules, left
}

// agreed returns the needs, each once, without subnets that must have two different ones: every
// write of them would be refused.
func agreed(needs []Need) (out []Need, left []string) {
	needs = slices.Clone(needs)
	slices.SortStableFunc(needs, func(a, b Need) int {
		return cmp.Or(cmp.Compare(a.Subnet.Key(), b.Subnet.Key()),
			cmp.Compare(a.Property, b.Property), cmp.Compare(a.Value.Key(), b.Value.Key()))
	})
	needs = slices.CompactFunc(needs, func(a, b Need) bool {
		return a.Subnet.Equal(b.Subnet) && a.Property == b.Property && a.Value.Equal(b.Value)
	})
	for i, n := range needs {
		twice := func(j int) bool {
			return j >= 0 && j < len(needs) && needs[j].Subnet.Equal(n.Subnet) &&
				needs[j].Property == n.Property
		}
		if !twice(i-1) && !twice(i+1) {
			out = append(out, n)
		} else if !twice(i - 1) {
			left = append(left, fmt.Sprintf("the %s of %s: two clusters need different ones",
				n.Property.Name(), n.Subnet))
		}
	}
	return out, left
}

func candidates(needs []Need, tables []arm.ID) (all []Rule) {
	for _, property := range inventory.Properties {
		r := Rule{Name: "routekeeper-" + map[inventory.Property]string{
			inventory.PropertyTable: "route-table", inventory.PropertyNAT: "nat-gateway",
			inventory.PropertyGroup: "network-security-group"}[property],
			Title: "Subnets keep their " + property.Name(), Effect: "deny", Property: property,
			About: "Refuses a write in which a subnet listed in the subnets parameter lacks its " +
				property.Name() + ", or has another one. Written by routekeeper prevent."}
		for _, n := range needs {
			if n.Property == property {
				r.Needs = append(r.Needs, n)
			}
		}
		all = append(all, r)
	}
	return append(all,
		Rule{Name: "routekeeper-default-route", Title: "Route tables keep 0.0.0.0/0",
			Effect: "deny", Tables: tables,
			About: "Refuses a write of a route table listed in the tables parameter if the " +
				"written table has no route 0.0.0.0/0. Written by routekeeper prevent."},
		Rule{Name: "routekeeper-default-route-delete", Title: "The route 0.0.0.0/0 stays",
			Effect: "denyAction", Tables: tables,
			About: "Refuses to delete the route 0.0.0.0/0 of a route table listed in the tables " +
				"parameter. Written by routekeeper prevent."})
}

type object = map[string]any

// Condition returns the if of the policy rule.
func (r Rule) Condition() map[string]any {
	switch {
	case r.Effect == "denyAction":
		return allOf(is("type", arm.TypeRoute), is(arm.TypeRoute+"/addressPrefix", defaultRoute),
			anyElement("tables", "table",
				object{"field": "id", "like": "[current('table').routes]"}))
	case r.Property == "":
		return allOf(is("type", arm.TypeRouteTable), anyElement("tables", "table",
			is("id", "[current('table').table]"), object{"count": object{"field": routes,
				"where": is(routes+".addressPrefix", defaultRoute)}, "equals": 0}))
	}
	property := "." + string(r.Property) + ".id"
	return object{"anyOf": []any{
		allOf(is("type", arm.TypeVNet), anyElement("subnets", "guarded",
			is("id", "[current('guarded').network]"), object{"count": object{"field": network,
				"where": allOf(is(network+".name", "[current('guarded').name]"),
					differs(network+property))}, "greater": 0})),
		allOf(is("type", arm.TypeSubnet), anyElement("subnets", "guarded",
			is("id", "[current('guarded').subnet]"),
			differs(arm.TypeSubnet+"/"+property[1:]))),
	}}
}

// defaultRoute is the prefix of the route to a firewall.
const defaultRoute = "0.0.0.0/0"

func is(field, value string) object { return object{"field": field, "equals": value} }

func allOf(conditions ...object) object {
	var all []any
	for _, c := range conditions {
		all = append(all, c)
	}
	return object{"allOf": all}
}

// anyElement returns the condition that at least one element of a parameter meets all conditions.
func anyElement(parameter, name string, conditions ...object) object {
	return object{"count": object{"value": "[parameters('" + parameter + "')]", "name": name,
		"where": allOf(conditions...)}, "greater": 0}
}

// differs holds if a subnet lacks the wanted value or has another one. It is not documented whether
// a comparison with a missing value holds, so the condition asks for both.
func differs(field string) object {
	return object{"anyOf": []any{object{"field": field, "exists": "false"},
		object{"field": field, "notEquals": "[current('guarded').has]"}}}
}

// Parameter returns the name of the definition's only parameter, and what it is about.
func (r Rule) Parameter() (name, about string) {
	if r.Property == "" {
		return "tables", "Route tables with the pattern of their routes' IDs: table, routes."
	}
	return "subnets", "Subnets with what they must have: network, name, subnet (their ID), has."
}

// iterations is how many elements a value count can have (definition-structure-policy-rule, "Policy
// rule limits").
const iterations = 100

// Assignment assigns a rule's definition, with a value of its parameter.
type Assignment struct {
	Name  string
	Rule  Rule
	Value []any
	// about are the subnets or tables in Value.
	about []arm.ID
}

// Assignments returns a rule's assignments: more than one if a parameter would be too long.
func (r Rule) Assignments() (all []Assignment) {
	var elements []any
	var about []arm.ID
	for _, n := range r.Needs {
		elements = append(elements, object{"network": string(n.Subnet.Parent()),
			"name": n.Subnet.Name(), "subnet": string(n.Subnet), "has": string(n.Value)})
		about = append(about, n.Subnet)
	}
	for _, id := range r.Tables {
		elements = append(elements, object{"table": string(id), "routes": string(id) + "/routes/*"})
		about = append(about, id)
	}
	for i := 0; i < len(elements); i += iterations {
		end := min(i+iterations, len(elements))
		a := Assignment{Name: r.Name, Rule: r, Value: elements[i:end], about: about[i:end]}
		if i > 0 {
			a.Name += "-" + strconv.Itoa(i/iterations+1)
		}
		all = append(all, a)
	}
	return all
}

// Concerning returns those assignments of the rules that name a subnet of a network.
func Concerning(rules []Rule, network arm.ID) (all []Assignment) {
	for _, r := range rules {
		for _, a := range r.Assignments() {
			if slices.ContainsFunc(a.about, func(id arm.ID) bool {
				return id.Parent().Equal(network)
			}) {
				all = append(all, a)
			}
		}
	}
	return all
}
