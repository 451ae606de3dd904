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
	return !diagnostics.HasErrors() && v.IsKnown() && (v.IsNull() || v.Type() == cty.String &&
		v.AsString() == "")
}

// omitted returns what the properties of a subnet do not name.
func omitted(properties *hclsyntax.ObjectConsExpr) (out []inventory.Property) {
	for _, p := range inventory.Properties {
		value := member(properties, string(p))
		if object, written := value.(*hclsyntax.ObjectConsExpr); written {
			value = member(object, "id")
		}
		if empty(value) {
			out = append(out, p)
		}
	}
	return out
}

// azapiBlock judges an azapi resource by its body: an object, or jsonencode of one. Other bodies
// are unknown.
func azapiBlock(res *sourceResource) []Effect {
	kind, _, _ := strings.Cut(literal(res.Body, "type"), "@")
	subnet, vnet := strings.EqualFold(kind, arm.TypeSubnet) &&
		res.kind == tfAzapi, strings.EqualFold(kind, arm.TypeVNet)
	a := res.Body.Attributes["body"]
	if !subnet && !vnet || a == nil {
		return nil
	}
	properties := propertiesOf(a.Expr)
	if properties == nil {
		return nil
	}
	var out []Effect
	what := res.place
	judge := func(properties *hclsyntax.ObjectConsExpr) {
		for _, p := range omitted(properties) {
			out = append(out, Effect{
				Verb: MayLose, What: what, By: res.place, Property: other(p),
				How: "the body names no " + string(p) + ", and Azure writes it as it is",
				Fix: fmt.Sprintf("in the body of %s: properties = { %s = { id = <the %s's id> } }",
					res.place.Address, p, p.Noun()),
			})
		}
	}
	if subnet {
		what.Name = literal(res.Body, "name")
		judge(properties)
		return out
	}
	for _, object := range listedSubnets(properties) {
		inner, ok := member(object, "properties").(*hclsyntax.ObjectConsExpr)
		if ok {
			what.VNet, what.Name = literal(res.Body, "name"), ""
			if n := member(object, "name"); n != nil {
				what.Name = text(n)
			}
			judge(inner)
		}
	}
	return out
}

// azapiListsNone notes a network whose body lists no subnets, at an api-version that deletes them
// then.
func azapiListsNone(res *sourceResource) []Note {
	kind, version, _ := strings.Cut(literal(res.Body, "type"), "@")
	a := res.Body.Attributes["body"]
	if res.kind != tfAzapi || !strings.EqualFold(kind, arm.TypeVNet) || !plainVersion(version) ||
		version >= subnetsKept || a == nil {
		return nil
	}
	if properties := propertiesOf(a.Expr); properties == nil ||
		member(properties, "subnets") != nil {
		return nil
	}
	return []Note{listsNone(res.place, version)}
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
