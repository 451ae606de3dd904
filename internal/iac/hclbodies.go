package iac

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// member returns a value of a literal object, nil if it has none.
func member(object *hclsyntax.ObjectConsExpr, name string) hclsyntax.Expression {
	for _, item := range object.Items {
		key := hcl.ExprAsKeyword(item.KeyExpr)
		if key == "" {
			key = text(item.KeyExpr)
		}
		if key == name {
			return item.ValueExpr
		}
	}
	return nil
}

// empty reports whether an expression is missing, null or "".
func empty(expr hclsyntax.Expression) bool {
	if expr == nil {
		return true
	}
	v, diagnostics := expr.Value(nil)
	return !diagnostics.HasErrors() && v.IsKnown() &&
		(v.IsNull() || v.Type() == cty.String && v.AsString() == "")
}

// item is an object in a list, with the names that are valid in it.
type item struct {
	object *hclsyntax.ObjectConsExpr
	in     bindings
}

// items returns the objects that a list in the code has: one for each item of a literal list, and
// for each repetition of a for expression.
func (m *sourceModule) items(list hclsyntax.Expression) (out []item) {
	if loop, is := list.(*hclsyntax.ForExpr); is {
		object, is := loop.ValExpr.(*hclsyntax.ObjectConsExpr)
		for _, turn := range repetitions(m.value(loop.CollExpr, nil)) {
			if is {
				out = append(out,
					item{object, bindings{loop.KeyVar: turn.key, loop.ValVar: turn.value}})
			}
		}
		return out
	}
	literal, _ := hcl.ExprList(list)
	for _, one := range literal {
		if object, is := one.(*hclsyntax.ObjectConsExpr); is {
			out = append(out, item{object: object})
		}
	}
	return out
}

// field returns a member of an object, null if it has none.
func field(v cty.Value, name string) cty.Value {
	switch of := v.Type(); {
	case !v.IsKnown():
		return cty.DynamicVal
	case v.IsNull(), of.IsObjectType() && !of.HasAttribute(name):
	case of.IsObjectType():
		return v.GetAttr(name)
	case of.IsMapType() && v.HasIndex(cty.StringVal(name)).True():
		return v.Index(cty.StringVal(name))
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

// azapi judges an azapi resource by its body: an object, or jsonencode of one.
func (r *sourceResource) azapi(to *Reading) {
	kind, version, _ := strings.Cut(r.literal("type"), "@")
	subnet, vnet := strings.EqualFold(kind, arm.TypeSubnet), strings.EqualFold(kind, arm.TypeVNet)
	table, whole := strings.EqualFold(kind, arm.TypeRouteTable), r.kind == tfAzapi
	a := r.Body.Attributes["body"]
	if !subnet && !vnet && !table || subnet && !whole || a == nil {
		return
	}
	expr := a.Expr
	if call, ok := expr.(*hclsyntax.FunctionCallExpr); ok && call.Name == "jsonencode" &&
		len(call.Args) == 1 {
		expr = call.Args[0]
	}
	properties := field(r.module.value(expr, nil), "properties")
	if table {
		if whole || !field(properties, "routes").IsNull() {
			to.Effects = append(to.Effects, r.module.routesWritten(r, "the body replaces all "+
				"routes of the table, also pod routes that others wrote", routesApart, nil)...)
		}
		return
	}
	what := r.place
	judge := func(properties cty.Value) {
		if !properties.IsKnown() {
			to.Notes = append(to.Notes, Note{Place: r.place, Unknown: true, Text: "its body is " +
				"an expression whose value the code does not show, so it is not known which " +
				"subnets keep their route table: check a plan"})
			return
		}
		for _, p := range inventory.Properties {
			if isNone(field(properties, string(p))) {
				to.put(Effect{
					Verb: MayLose, What: what, By: r.place, Property: other(p),
					Doubt: dependsOnInput(expr),
					How:   "the body names no " + string(p) + ", and Azure writes it as it is",
					Fix: fmt.Sprintf("in the body of %s: properties = { %s = { id = <the %s's "+
						"id> } }", r.place.Address, p, p.Noun()),
				})
			}
		}
	}
	what.Name = r.literal("name")
	if subnet {
		judge(properties)
		return
	}
	what.VNet = what.Name
	subnets := field(properties, "subnets")
	if subnets.IsNull() {
		if whole && plainVersion(version) && version < subnetsKept {
			to.Notes = append(to.Notes, listsNone(r.place, version))
		}
		return
	}
	for _, turn := range repetitions(subnets) {
		what.Name = ""
		if name := field(turn.value, "name"); name.IsKnown() && !name.IsNull() &&
			name.Type() == cty.String {
			what.Name = name.AsString()
		}
		judge(field(turn.value, "properties"))
	}
}

// listedSubnets returns the subnets that the properties of a network list as objects.
func listedSubnets(properties *hclsyntax.ObjectConsExpr) (out []*hclsyntax.ObjectConsExpr) {
	list := member(properties, "subnets")
	if list == nil {
		return nil
	}
	items, _ := hcl.ExprList(list) // an expression that is no list has none
	for _, item := range items {
		if object, is := item.(*hclsyntax.ObjectConsExpr); is {
			out = append(out, object)
		}
	}
	return out
}
