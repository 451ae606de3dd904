package iac

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// bindings has the values of names that are valid only in a part of the code: the iterator of a
// dynamic block, the variables of a for expression.
type bindings map[string]cty.Value

// functions has the functions of Terraform with which people choose subnets and tables. None of
// them makes more text than its arguments have, so that no code grows forever.
var functions = map[string]function.Function{
	"try": tryfunc.TryFunc, "can": tryfunc.CanFunc,
	"merge": stdlib.MergeFunc, "concat": stdlib.ConcatFunc,
	"lower": stdlib.LowerFunc, "upper": stdlib.UpperFunc, "keys": stdlib.KeysFunc,
	"values": stdlib.ValuesFunc, "length": stdlib.LengthFunc,
	"toset":  stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
	"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
	"tomap":  stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
}

// Larger values are unknown, because code can double a value with each local.
const (
	longestText   = 1 << 10
	mostParts     = 2000
	mostChained   = 100     // locals and variables that lead to one another
	mostEvaluated = 500_000 // expressions of a whole configuration
)

// value returns the value of an expression by the code alone, without the resources that it refers
// to. Variables have the value that terraform.tfvars, a caller or their default gives them. It is
// unknown (cty.DynamicVal) if the code does not show it, and can have unknown parts.
func (m *sourceModule) value(expr hclsyntax.Expression, in bindings) (v cty.Value) {
	if expr == nil {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	switch e := expr.(type) { // what is written out is known in code of any size
	case *hclsyntax.LiteralValueExpr:
		return e.Val
	case *hclsyntax.TemplateExpr:
		if e.IsStringLiteral() {
			return cty.StringVal(text(e))
		}
	}
	at := expr.Range()
	if m.whole.steps += 1 + (at.End.Byte-at.Start.Byte)>>6; m.whole.steps > mostEvaluated {
		return cty.DynamicVal
	}
	// An unknown part leaves the other parts known.
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return m.value(e.Expression, in)
	case *hclsyntax.ObjectConsExpr:
		v = m.object(e, in)
	case *hclsyntax.TupleConsExpr:
		v = cty.TupleVal(m.all(e.Exprs, in))
	case *hclsyntax.ConditionalExpr:
		if holds := m.value(e.Condition, in); !holds.IsKnown() || holds.IsNull() ||
			holds.Type() != cty.Bool {
			return cty.DynamicVal
		} else if holds.True() {
			return m.value(e.TrueResult, in)
		}
		return m.value(e.FalseResult, in)
	case *hclsyntax.ForExpr:
		v = m.loop(e, in)
	case *hclsyntax.FunctionCallExpr:
		v = m.call(e, in)
	default:
		v = m.evaluate(e, in)
	}
	if !small(v) {
		return cty.DynamicVal
	}
	return v
}

func (m *sourceModule) all(list []hclsyntax.Expression, in bindings) []cty.Value {
	out := make([]cty.Value, len(list))
	for i, expr := range list {
		out[i] = m.value(expr, in)
	}
	return out
}

func (m *sourceModule) object(e *hclsyntax.ObjectConsExpr, in bindings) cty.Value {
	out := map[string]cty.Value{}
	for _, item := range e.Items {
		key := m.text(item.KeyExpr, in)
		if key == "" {
			return cty.DynamicVal
		}
		out[key] = m.value(item.ValueExpr, in)
	}
	return cty.ObjectVal(out)
}

// loop returns the value of a for expression.
func (m *sourceModule) loop(e *hclsyntax.ForExpr, in bindings) cty.Value {
	var list []cty.Value
	object := map[string]cty.Value{}
	for _, turn := range repetitions(m.value(e.CollExpr, in)) {
		inner := bindings{}
		maps.Copy(inner, in)
		inner[e.ValVar] = turn.value
		if e.KeyVar != "" {
			inner[e.KeyVar] = turn.key
		}
		holds := cty.True
		if e.CondExpr != nil {
			holds = m.value(e.CondExpr, inner)
		}
		if opaque(turn.value) || !holds.IsKnown() || holds.IsNull() || holds.Type() != cty.Bool ||
			e.Group {
			return cty.DynamicVal
		}
		if holds.False() {
			continue
		}
		value := m.value(e.ValExpr, inner)
		list = append(list, value)
		if e.KeyExpr != nil {
			key := m.text(e.KeyExpr, inner)
			if key == "" {
				return cty.DynamicVal
			}
			object[key] = value
		}
	}
	if e.KeyExpr != nil {
		return cty.ObjectVal(object)
	}
	return cty.TupleVal(list)
}

func (m *sourceModule) call(e *hclsyntax.FunctionCallExpr, in bindings) cty.Value {
	switch {
	case e.Name == "try" || e.Name == "can":
		return m.evaluate(e, in)
	case e.Name == "lookup" && len(e.Args) == 3: // the library does not look for null
		key := m.text(e.Args[1], in)
		found := field(m.value(e.Args[0], in), key)
		switch {
		case key == "":
			return cty.DynamicVal
		case found.IsNull():
			return m.value(e.Args[2], in)
		}
		return found
	}
	f, known := functions[e.Name]
	if !known || e.ExpandFinal {
		return cty.DynamicVal
	}
	v, err := f.Call(m.all(e.Args, in))
	if err != nil {
		return cty.DynamicVal
	}
	return v
}

// evaluate returns what the HCL library makes of an expression.
func (m *sourceModule) evaluate(expr hclsyntax.Expression, in bindings) cty.Value {
	repeats := false // the library has no limit of its own
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		_, loop := n.(*hclsyntax.ForExpr)
		repeats = repeats || loop
		return nil
	})
	if repeats {
		return cty.DynamicVal
	}
	known := map[string]cty.Value{}
	parts := map[string]map[string]cty.Value{}
	for _, t := range expr.Variables() {
		root := t.RootName()
		if v, is := in[root]; is {
			known[root] = v
			continue
		}
		name, attribute := "", false
		if len(t) > 1 {
			var step hcl.TraverseAttr
			step, attribute = t[1].(hcl.TraverseAttr)
			name = step.Name
		}
		var v cty.Value
		switch root {
		case "var", "local":
			v = m.named(root, name)
		default:
			v = m.nameOf(root, name, t)
			attribute = attribute && !opaque(v) // opaque: not the resource's name
		}
		if !attribute {
			known[root] = cty.DynamicVal
			continue
		}
		if parts[root] == nil {
			parts[root] = map[string]cty.Value{}
		}
		parts[root][name] = v
	}
	for root, values := range parts {
		if _, is := known[root]; !is {
			known[root] = cty.ObjectVal(values)
		}
	}
	v, diagnostics := expr.Value(&hcl.EvalContext{Variables: known, Functions: functions})
	if diagnostics.HasErrors() {
		return cty.DynamicVal
	}
	return v
}

// small reports whether a value is small enough to be used further.
func small(v cty.Value) bool {
	parts := 0
	err := cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if parts++; parts > mostParts || v.IsKnown() && !v.IsNull() && v.Type() == cty.String &&
			len(v.AsString()) > longestText {
			return false, errCut
		}
		return true, nil
	})
	return err == nil
}

// named returns the value of a variable or a local, each evaluated once.
func (m *sourceModule) named(root, name string) cty.Value {
	key := root + "." + name
	if v, done := m.values[key]; done {
		return v
	}
	if m.values == nil {
		m.values = map[string]cty.Value{}
	}
	m.values[key] = cty.DynamicVal // if it refers to itself
	if m.whole.chained == mostChained {
		return cty.DynamicVal
	}
	m.whole.chained++
	if root == "var" {
		m.values[key] = m.variable(name)
	} else if m.locals[name] != nil {
		m.values[key] = m.value(m.locals[name], nil)
	}
	m.whole.chained--
	return m.values[key]
}

// variable returns the value that a variable gets, or its default, in the form of its type:
// attributes that the type lists as optional are null.
func (m *sourceModule) variable(name string) cty.Value {
	block := m.variables[name]
	if block == nil {
		return cty.DynamicVal
	}
	v := cty.DynamicVal
	caller, call := m.caller()
	switch {
	case call != nil && call.Body.Attributes[name] != nil:
		v = caller.value(call.Body.Attributes[name].Expr, nil)
	case m.tfvars[name] != nil:
		v = m.value(m.tfvars[name], nil)
	case block.Attributes["default"] != nil:
		v = m.value(block.Attributes["default"].Expr, nil)
	}
	of := block.Attributes["type"]
	if of == nil || opaque(v) {
		return v
	}
	kind, defaults, diagnostics := typeexpr.TypeConstraintWithDefaults(of.Expr)
	if diagnostics.HasErrors() {
		return v
	}
	if defaults != nil && !v.IsNull() {
		v = defaults.Apply(v)
	}
	if converted, err := convert.Convert(v, kind); err == nil {
		return converted
	}
	return cty.DynamicVal
}

// nameOf returns the name of a resource, if the expression refers to nothing else of it.
func (m *sourceModule) nameOf(kind, name string, t hcl.Traversal) cty.Value {
	i := slices.IndexFunc(m.resources, func(r *sourceResource) bool {
		return r.kind == kind && r.name == name
	})
	if len(t) != 3 || i < 0 || m.resources[i].Body.Attributes["name"] == nil {
		return cty.DynamicVal
	}
	if step, is := t[2].(hcl.TraverseAttr); !is || step.Name != "name" {
		return cty.DynamicVal
	}
	key := "name of " + kind + "." + name
	if v, done := m.values[key]; done {
		return v
	}
	if m.values == nil {
		m.values = map[string]cty.Value{}
	}
	m.values[key] = cty.DynamicVal
	if v := m.value(m.resources[i].Body.Attributes["name"].Expr, nil); v.IsKnown() {
		m.values[key] = cty.ObjectVal(map[string]cty.Value{"name": v})
	}
	return m.values[key]
}

// opaque reports whether nothing is known of a value.
func opaque(v cty.Value) bool { return !v.IsKnown() && v.Type() == cty.DynamicPseudoType }

// text returns an expression that is text, "" if the code does not show it.
func (m *sourceModule) text(expr hclsyntax.Expression, in bindings) string {
	v := m.value(expr, in)
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

// literal returns the text of an attribute, "" if the code does not show it.
func (m *sourceModule) literal(body *hclsyntax.Body, name string) string {
	a := body.Attributes[name]
	if a == nil {
		return ""
	}
	return m.text(a.Expr, nil)
}

// dependsOnInput reports whether an expression depends on values that a caller or a file of
// variables can change.
func dependsOnInput(expr hclsyntax.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool {
		root := t.RootName()
		return root == "var" || root == "local"
	})
}

// isNone reports whether a value is null, "" or an object without an ID.
func isNone(v cty.Value) bool {
	switch {
	case v.IsNull():
		return true
	case !v.IsKnown():
		return false
	case v.Type().IsObjectType():
		return !v.Type().HasAttribute("id") || isNone(v.GetAttr("id"))
	}
	return v.Type() == cty.String && v.AsString() == ""
}

// repetition is one repetition of a part of code.
type repetition struct{ key, value cty.Value }

// repetitions returns the repetitions over a collection; one that is unknown if the code does not
// show it.
func repetitions(collection cty.Value) (out []repetition) {
	switch {
	case collection.IsNull():
	case !collection.IsKnown() || !collection.CanIterateElements():
		return []repetition{{cty.DynamicVal, cty.DynamicVal}}
	default:
		for i := collection.ElementIterator(); i.Next(); {
			key, value := i.Element()
			out = append(out, repetition{key, value})
		}
	}
	return out
}
