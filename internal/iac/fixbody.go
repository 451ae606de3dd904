package iac

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// bodyTable sets the table in the body of an azapi resource: in the properties of the subnet that
// it is, or lists.
func bodyTable(body *hclwrite.Body, r Repair, vnet bool) string {
	a := body.GetAttribute("body")
	if a == nil {
		return "it has no body"
	}
	source := a.Expr().BuildTokens(nil).Bytes()
	expr, diagnostics := hclsyntax.ParseExpression(source, "", hcl.InitialPos)
	if diagnostics.HasErrors() {
		return "its body cannot be read"
	}
	properties := propertiesOf(expr)
	if properties != nil && vnet {
		properties = listed(properties, r.Subnet)
	}
	if properties == nil {
		return "its body is an expression: add " + r.Set[0].Attribute + " = " +
			r.Set[0].Expression + " to the properties of " + r.Subnet
	}
	if old := member(properties, r.Set[0].Attribute); old != nil {
		at := old.Range()
		setBody(body, string(source[:at.Start.Byte])+r.Set[0].Expression+
			string(source[at.End.Byte:]))
		return ""
	}
	start, end := properties.OpenRange.End.Byte, properties.SrcRange.End.Byte-1
	inside := string(source[start:end])
	setting := r.Set[0].Attribute + " = " + r.Set[0].Expression
	switch {
	case strings.TrimSpace(inside) == "":
		inside = " " + setting + " "
	case strings.HasPrefix(strings.TrimLeft(inside, " \t\r"), "\n"):
		inside = "\n" + setting + inside
	default:
		inside = " " + setting + "," + inside
	}
	setBody(body, string(source[:start])+inside+string(source[end:]))
	return ""
}

func setBody(body *hclwrite.Body, expression string) {
	setAttribute(body, Setting{"body", strings.TrimSpace(expression)})
}

// propertiesOf returns the properties object in a literal body: an object, or jsonencode of one.
// Nil for any other body.
func propertiesOf(expr hclsyntax.Expression) *hclsyntax.ObjectConsExpr {
	if call, ok := expr.(*hclsyntax.FunctionCallExpr); ok && call.Name == "jsonencode" &&
		len(call.Args) == 1 {
		expr = call.Args[0]
	}
	object, ok := expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	properties, _ := member(object, "properties").(*hclsyntax.ObjectConsExpr)
	return properties
}

// listed returns the properties object of a subnet in the list of a network.
func listed(properties *hclsyntax.ObjectConsExpr, name string) *hclsyntax.ObjectConsExpr {
	for _, object := range listedSubnets(properties) {
		if n := member(object, "name"); n != nil && strings.EqualFold(text(n), name) {
			inner, _ := member(object, "properties").(*hclsyntax.ObjectConsExpr)
			return inner
		}
	}
	return nil
}
