package iac

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"routekeeper.dev/routekeeper/internal/arm"
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

// noTable reports whether the properties of a subnet name no table.
func noTable(properties *hclsyntax.ObjectConsExpr) bool {
	table := member(properties, "routeTable")
	if object, written := table.(*hclsyntax.ObjectConsExpr); written {
		return empty(member(object, "id"))
	}
	return empty(table)
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
	what := res.place
	effect := func() Effect {
		return Effect{
			Verb: MayLose, What: what, By: res.place, How: "the body names no routeTable, and " +
				"Azure writes it as it is",
			Fix: fmt.Sprintf("in the body of %s: properties = { routeTable = { id = <the table's "+
				"id> } }", res.place.Address),
		}
	}
	if subnet {
		if !noTable(properties) {
			return nil
		}
		what.Name = literal(res.Body, "name")
		return []Effect{effect()}
	}
	list, diagnostics := hcl.ExprList(orNothing(member(properties, "subnets")))
	if diagnostics.HasErrors() {
		return nil
	}
	var out []Effect
	for _, item := range list {
		object, ok := item.(*hclsyntax.ObjectConsExpr)
		if !ok {
			continue
		}
		inner, ok := member(object, "properties").(*hclsyntax.ObjectConsExpr)
		if ok && noTable(inner) {
			what.VNet, what.Name = literal(res.Body, "name"), ""
			if n := member(object, "name"); n != nil {
				what.Name = text(n)
			}
			out = append(out, effect())
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

func orNothing(expr hclsyntax.Expression) hclsyntax.Expression {
	if expr == nil {
		return &hclsyntax.TupleConsExpr{}
	}
	return expr
}
