package generate

import (
	"fmt"
	"slices"
	"strings"
)

// template is the parsed Bicep as an ARM template.
func (b *bicepReader) template(files []Output) object {
	params, vars, outputs, resources := object{}, object{}, object{}, object{}
	for name, p := range b.params {
		if d, has := p["defaultValue"]; has {
			p["defaultValue"] = b.value(d)
		}
		params[name] = p
	}
	for name, v := range b.vars {
		vars[name] = b.value(v)
	}
	for name, v := range b.outputs {
		outputs[name] = object{"type": "string", "value": b.value(v)}
	}
	for symbol, d := range b.resources {
		if d.existing {
			continue // others refer to it by its ID
		}
		if d.module != "" {
			resources[symbol] = b.module(d, files)
		} else {
			resources[symbol] = b.resource(d)
		}
	}
	return object{"$schema": schemas[b.scope], "languageVersion": "2.0",
		"contentVersion": "1.0.0.0",
		"parameters":     params, "variables": vars, "resources": resources, "outputs": outputs}
}

// field is a member of a declaration.
func (d *bicepDeclared) field(name string) any {
	for _, m := range d.body {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (b *bicepReader) resource(d *bicepDeclared) object {
	b.used = map[string]bool{}
	out := object{"type": d.kind, "apiVersion": d.version, "name": "[" + b.nameOf(d) + "]"}
	if d.once {
		out["@options"] = object{"onlyIfNotExists": true}
	}
	var after []string
	for _, m := range d.body {
		switch m.name {
		case "name":
		case "parent":
			b.used[string(m.value.(bicepIdent))] = true
		case "scope":
			out["scope"] = "[" + b.idOf(string(m.value.(bicepIdent))) + "]"
		case "dependsOn":
			for _, item := range m.value.(bicepArray) {
				after = append(after, string(item.(bicepIdent)))
			}
		default:
			out[m.name.(string)] = b.value(m.value)
		}
	}
	b.depend(out, after)
	return out
}

func (b *bicepReader) depend(out object, after []string) {
	for symbol := range b.used {
		after = append(after, symbol)
	}
	slices.Sort(after)
	for _, symbol := range after {
		if b.resources[symbol] == nil {
			b.t.Fatalf("%s: nothing is called %s", b.name, symbol)
		}
	}
	out["dependsOn"] = slices.DeleteFunc(after, func(symbol string) bool {
		return b.resources[symbol].existing
	})
}

func (b *bicepReader) module(d *bicepDeclared, files []Output) object {
	b.used = map[string]bool{}
	params := object{}
	for _, m := range d.field("params").(bicepObject) {
		params[m.name.(string)] = object{"value": b.value(m.value)}
	}
	inner := readBicep(b.t, files, d.module)
	for name, p := range inner["parameters"].(object) {
		if _, given := params[name]; !given && p.(object)["defaultValue"] == nil {
			b.t.Fatalf("%s: %s is called without %s", b.name, d.module, name)
		}
	}
	for name := range params {
		if inner["parameters"].(object)[name] == nil {
			b.t.Fatalf("%s: %s does not take %s", b.name, d.module, name)
		}
	}
	out := object{"type": typeDeployment, "apiVersion": versions[typeDeployment],
		"name": b.value(d.field("name")),
		"properties": object{"mode": "Incremental", "parameters": params, "template": inner,
			"expressionEvaluationOptions": object{"scope": "inner"}}}
	c := d.field("scope").(bicepCall)
	switch {
	case c.of == "subscription":
		out["subscriptionId"], out["location"] = "[subscription().subscriptionId]",
			"[parameters('location')]"
	case len(c.args) == 2:
		out["subscriptionId"], out["resourceGroup"] = c.args[0], c.args[1]
	}
	var after []string
	if list, has := d.field("dependsOn").(bicepArray); has {
		for _, item := range list {
			after = append(after, string(item.(bicepIdent)))
		}
	}
	b.depend(out, after)
	return out
}

// nameOf is the name of a resource with its parents', as an expression.
func (b *bicepReader) nameOf(d *bicepDeclared) string {
	name := b.expr(d.field("name"))
	if parent, is := d.field("parent").(bicepIdent); is {
		return "format('{0}/{1}', " + b.nameOf(b.resources[string(parent)]) + ", " + name + ")"
	}
	return name
}

// idOf is the ID of a resource, as an expression.
func (b *bicepReader) idOf(symbol string) string {
	d := b.resources[symbol]
	if d == nil {
		b.t.Fatalf("%s: nothing is called %s", b.name, symbol)
	}
	b.used[symbol] = true
	names := []string{"'" + d.kind + "'"}
	for at := d; at != nil; {
		names = slices.Insert(names, 1, b.expr(at.field("name")))
		if c, is := at.field("scope").(bicepCall); is && at.existing {
			names = append([]string{b.expr(c.args[0]), b.expr(c.args[1])}, names...)
		}
		parent, _ := at.field("parent").(bicepIdent)
		at = b.resources[string(parent)]
	}
	return "resourceId(" + strings.Join(names, ", ") + ")"
}

// value is an expression as a value of a template.
func (b *bicepReader) value(v any) any {
	switch v := v.(type) {
	case bicepObject:
		out := object{}
		for _, m := range v {
			out[fmt.Sprint(b.value(m.name))] = b.value(m.value)
		}
		return out
	case bicepArray:
		out := []any{}
		for _, item := range v {
			out = append(out, b.value(item))
		}
		return out
	case string:
		if strings.HasPrefix(v, "[") {
			return "[" + v
		}
		return v
	case float64, bool:
		return v
	}
	return "[" + b.expr(v) + "]"
}

// expr is an expression of a template.
func (b *bicepReader) expr(v any) string {
	switch v := v.(type) {
	case string:
		return armString(v)
	case float64, bool:
		return fmt.Sprint(v)
	case bicepParts:
		format, args := "", []string(nil)
		for _, part := range v {
			if text, literal := part.(string); literal {
				format += strings.NewReplacer("{", "{{", "}", "}}").Replace(text)
				continue
			}
			format += fmt.Sprintf("{%d}", len(args))
			args = append(args, b.expr(part))
		}
		return "format(" + armString(format) + ", " + strings.Join(args, ", ") + ")"
	case bicepObject:
		var items []string
		for _, m := range v {
			items = append(items, armString(m.name.(string)), b.expr(m.value))
		}
		return "createObject(" + strings.Join(items, ", ") + ")"
	case bicepArray:
		var items []string
		for _, item := range v {
			items = append(items, b.expr(item))
		}
		return "createArray(" + strings.Join(items, ", ") + ")"
	case bicepCall:
		var args []string
		for _, arg := range v.args {
			args = append(args, b.expr(arg))
		}
		return v.of + "(" + strings.Join(args, ", ") + ")"
	case bicepIdent:
		if b.params[string(v)] != nil {
			return "parameters('" + string(v) + "')"
		}
		if b.vars[string(v)] != nil {
			return "variables('" + string(v) + "')"
		}
		b.t.Fatalf("%s: nothing is called %s", b.name, v)
	case bicepMember:
		return b.member(v)
	}
	b.t.Fatalf("%s: %#v is not an expression", b.name, v)
	return ""
}

func (b *bicepReader) member(v bicepMember) string {
	names := []string{v.name}
	of := v.of
	for {
		m, is := of.(bicepMember)
		if !is {
			break
		}
		names, of = append([]string{m.name}, names...), m.of
	}
	symbol, is := of.(bicepIdent)
	d := b.resources[string(symbol)]
	switch {
	case !is || d == nil:
		return b.expr(of) + "." + strings.Join(names, ".")
	case names[0] == "id":
		return b.idOf(string(symbol))
	case names[0] == "name":
		b.used[string(symbol)] = true
		return b.expr(d.field("name"))
	case names[0] == "properties" && len(names) == 1 && d.existing:
		return fmt.Sprintf("reference(%s, '%s')", b.idOf(string(symbol)), d.version)
	case names[0] == "properties" && len(names) > 1:
		b.used[string(symbol)] = true
		return fmt.Sprintf("reference('%s').%s", symbol, strings.Join(names[1:], "."))
	}
	b.t.Fatalf("%s: %s.%s", b.name, symbol, strings.Join(names, "."))
	return ""
}
