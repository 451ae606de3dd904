package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

const typeRole = arm.TypeRoleDefinition

// armText writes deployments as ARM templates.
type armText struct{ *deployment }

// arm returns a deployment as a template.
func (d *deployment) arm() []Output {
	var text bytes.Buffer
	_ = json.Indent(&text, encode(armText{d}.template()), "", "  ") // encode writes JSON
	text.WriteByte('\n')
	return []Output{{"main.json", text.Bytes()}}
}

var schemas = map[string]string{
	"resourceGroup": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
	"subscription":  "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#",
}

// template returns a deployment as JSON. Its resources have symbolic names, by which others can
// refer to them (language version 2.0).
func (a armText) template() fields {
	var params, vars, resources, outputs fields
	for _, p := range a.params {
		m := fields{{"type",
			map[bool]string{false: p.typeName(), true: "securestring"}[p.secret]}}
		if p.secret {
			m = append(m, member{"minLength", 16})
		}
		if p.value != "" {
			m = append(m, member{"defaultValue", a.value(p.value)})
		}
		m = append(m, member{"metadata", fields{{"description", p.about}}})
		params = append(params, member{p.name, m})
	}
	for _, v := range a.vars {
		vars = append(vars, member{v.name, a.value(v.value)})
	}
	for _, n := range a.nodes {
		if !n.existing { // others refer to it by its ID
			resources = append(resources, member{n.symbol, a.resource(n)})
		}
	}
	for _, o := range a.outputs {
		m := fields{{"type", "string"}}
		if o.about != "" {
			m = append(m, member{"metadata", fields{{"description", o.about}}})
		}
		outputs = append(outputs, member{o.name, append(m, member{"value", a.value(o.value)})})
	}
	out := fields{
		{"$schema", schemas[a.scope]}, {"languageVersion", "2.0"}, {"contentVersion", "1.0.0.0"},
	}
	if len(a.head) > 0 {
		out = append(out, member{"metadata", fields{{"description", strings.Join(a.head, "\n")}}})
	}
	for _, m := range []member{
		{"parameters", params}, {"variables", vars}, {"resources", resources}, {"outputs", outputs},
	} {
		if len(m.value.(fields)) > 0 {
			out = append(out, m)
		}
	}
	return out
}

func (a armText) resource(n *node) fields {
	m := fields{{"type", n.kind}, {"apiVersion", n.version}}
	if n.comment != "" {
		m = append(m, member{"comments", n.comment})
	}
	if n.module != nil {
		m = append(m, a.nested(n)...)
	} else {
		m = append(m, member{"name", a.name(n)})
		if n.on != nil {
			m = append(m, member{"scope", "[" + a.id(n.on) + "]"})
		}
		for _, field := range n.body {
			m = append(m, member{field.name, a.value(field.value)})
		}
	}
	if n.once {
		m = append(m, member{"@options", fields{{"onlyIfNotExists", true}}})
	}
	var after []any
	implied := n.implied()
	for _, other := range a.nodes {
		if implied[other.symbol] && !other.existing {
			after = append(after, other.symbol)
		}
	}
	for _, other := range n.explicit() {
		after = append(after, other.symbol)
	}
	if len(after) > 0 {
		m = append(m, member{"dependsOn", after})
	}
	return m
}

// nested returns a nested deployment: at another scope, with its own parameters.
func (a armText) nested(n *node) fields {
	var args fields
	for _, arg := range n.args {
		args = append(args, member{arg.name, fields{{"value", a.value(arg.value)}}})
	}
	m := fields{{"name", a.value(n.deploymentName())}}
	if n.group != "" {
		m = append(m, member{"subscriptionId", n.group.Subscription()},
			member{"resourceGroup", n.group.ResourceGroup()})
	}
	if n.module.scope == "subscription" {
		m = append(m, member{"subscriptionId", "[subscription().subscriptionId]"},
			member{"location", "[parameters('location')]"})
	}
	return append(m, member{"properties", fields{
		{"mode", "Incremental"},
		{"expressionEvaluationOptions", fields{{"scope", "inner"}}},
		{"parameters", args},
		{"template", armText{n.module}.template()},
	}})
}

// name returns the name of a resource with its parents'.
func (a armText) name(n *node) any { return a.value(strings.Join(n.path(), "/")) }

// id returns the expression of a resource's ID.
func (a armText) id(n *node) string {
	args := []string{"'" + n.kind + "'"}
	if group := n.root().group; group != "" {
		args = []string{armString(group.Subscription()), armString(group.ResourceGroup()), args[0]}
	}
	for _, name := range n.path() {
		args = append(args, a.expression(name))
	}
	function := "resourceId"
	switch {
	case n.kind == arm.TypeRoleDefinition, n.kind == typePolicy:
		function = "subscriptionResourceId"
	case n.on != nil:
		return fmt.Sprintf("extensionResourceId(%s, %s)", a.id(n.on), strings.Join(args, ", "))
	}
	return fmt.Sprintf("%s(%s)", function, strings.Join(args, ", "))
}

func (a armText) value(v any) any {
	switch v := v.(type) {
	case string:
		pieces := dialect(a.mark).pieces(v)
		for _, p := range pieces {
			if p.expression {
				return "[" + a.expression(v) + "]"
			}
		}
		if strings.HasPrefix(v, "[") {
			return "[" + v // this escapes a text that begins like an expression
		}
		return v
	case lines:
		var items []string
		for _, line := range v {
			items = append(items, a.expression(line))
		}
		return "[join(createArray(" + strings.Join(items, ", ") + "), '\n')]"
	case []any:
		out := []any{}
		for _, item := range v {
			out = append(out, a.value(item))
		}
		return out
	case object:
		out := fields{}
		for _, m := range ordered(v) {
			out = append(out, member{fmt.Sprint(a.value(m.name)), a.value(m.value)})
		}
		return out
	}
	return v
}

// expression returns a text as an expression.
func (a armText) expression(text string) string {
	pieces := dialect(a.mark).pieces(text)
	switch {
	case len(pieces) == 0:
		return "''"
	case len(pieces) == 1 && pieces[0].expression:
		return pieces[0].text
	case len(pieces) == 1:
		return armString(text)
	}
	var format string
	var args []string
	for _, p := range pieces {
		if p.expression {
			format += fmt.Sprintf("{%d}", len(args))
			args = append(args, p.text)
		} else {
			format += strings.NewReplacer("{", "{{", "}", "}}").Replace(p.text)
		}
	}
	return "format(" + armString(format) + ", " + strings.Join(args, ", ") + ")"
}

func armString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// mark returns what a mark stands for.
func (a armText) mark(kind string, args []string) string {
	switch kind {
	case "param":
		return "parameters('" + args[0] + "')"
	case "var":
		return "variables('" + args[0] + "')"
	case "id":
		return a.id(a.node(args[0]))
	case "get":
		return fmt.Sprintf("reference('%s').%s", args[0], args[1])
	case "withtable":
		return fmt.Sprintf("union(createObject('routeTable', createObject('id', "+
			"parameters('%s'))), parameters('%s'))", args[1], args[0])
	case "properties":
		n := a.node(args[0])
		return fmt.Sprintf("reference(%s, '%s')", a.id(n), n.version)
	case "part":
		n := a.node(args[0])
		return fmt.Sprintf("resourceId('%s/%s', %s, '%s')", n.kind, args[1], a.expression(n.name),
			args[2])
	case "builtin":
		return fmt.Sprintf("subscriptionResourceId('%s', '%s')", typeRole, args[0])
	case "guid":
		if len(args) == 1 {
			return fmt.Sprintf("guid(%s, '%s')", a.cluster(), args[0])
		}
		on := "resourceGroup().id"
		switch {
		case len(args) > 2:
			on = armString(args[2])
		case args[1] != "":
			on = a.id(a.node(args[1]))
		}
		return fmt.Sprintf("guid(%s, '%s', toLower(%s))", a.cluster(), args[0], on)
	case "guid8":
		return fmt.Sprintf("substring(guid(%s, '%s'), 0, 8)", a.cluster(), args[0])
	case "clusterid":
		return "toLower(resourceId('" + arm.TypeCluster + "', parameters('name')))"
	case "owner":
		return "toLower(format('{0}/{1}', resourceGroup().name, parameters('name')))"
	}
	return shared(kind, args)
}

// cluster returns the part that names begin with: a variable, or a parameter of a nested
// deployment.
func (a armText) cluster() string {
	if len(a.vars) == 0 {
		return "parameters('clusterId')"
	}
	return "variables('clusterId')"
}

// shared writes the marks that look the same in Bicep and ARM JSON.
func shared(kind string, args []string) string {
	switch kind {
	case "grouplocation":
		return "resourceGroup().location"
	case "groupid":
		return "resourceGroup().id"
	case "subscription":
		return "subscription().subscriptionId"
	case "subscriptionid":
		return "subscription().id"
	case "GROUP":
		return "resourceGroup().name"
	case "json":
		return "json('" + args[0] + "')"
	case "clusterid": // Bicep
		return "toLower(resourceId('" + arm.TypeCluster + "', name))"
	case "owner":
		return "toLower('${resourceGroup().name}/${name}')"
	}
	panic("no mark is called " + kind)
}

// fields are the fields of a JSON object, in their order.
type fields []member

// MarshalJSON implements json.Marshaler.
func (f fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", encode(m.name), encode(m.value))
	}
	return []byte("{" + b.String() + "}"), nil
}

// encode writes JSON.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only strings, numbers, booleans, lists and fields reach this point
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
