package generate

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// bicepText writes deployments as Bicep.
type bicepText struct {
	*deployment
	strings.Builder
}

// bicep returns a deployment as main.bicep, with its modules.
func (d *deployment) bicep() []Output {
	files := []Output{{"main.bicep", d.bicepFile()}}
	for _, n := range d.nodes {
		if n.module != nil {
			files = append(files, Output{"modules/" + n.moduleFile(), n.module.bicepFile()})
		}
	}
	return files
}

// deploymentName returns the name of a module's deployment. In a resource group it has the
// cluster's name, because other clusters can be deployed there at the same time.
func (n *node) deploymentName() string {
	if n.module.scope == "subscription" {
		return kebab(n.symbol)
	}
	return markName + "-" + kebab(n.symbol)
}

func (n *node) moduleFile() string { return kebab(n.symbol) + ".bicep" }

var capital = lazy.Regexp(`[A-Z]`)

// kebab returns a symbol with hyphens: keeper-reads for keeperReads.
func kebab(symbol string) string {
	return strings.ToLower(capital().ReplaceAllString(symbol, "-$0"))
}

func (d *deployment) bicepFile() []byte {
	b := &bicepText{deployment: d}
	for _, line := range d.head {
		b.line("%s", strings.TrimRight("// "+line, " "))
	}
	b.line("")
	b.line("targetScope = '%s'", d.scope)
	for _, p := range d.params {
		b.line("")
		b.line("@description(%s)", bicepString(p.about))
		if p.secret {
			b.line("@secure()\n@minLength(16)")
		}
		if p.value == "" {
			b.line("param %s %s", p.name, p.typeName())
		} else {
			b.line("param %s %s = %s", p.name, p.typeName(), b.value(p.value, ""))
		}
	}
	for _, v := range d.vars {
		b.line("")
		b.comment(v.about)
		b.line("var %s = %s", v.name, b.value(v.value, ""))
	}
	for _, n := range d.nodes {
		b.line("")
		b.comment(n.comment)
		b.node(n)
	}
	for _, o := range d.outputs {
		b.line("")
		if o.about != "" {
			b.line("@description(%s)", bicepString(o.about))
		}
		b.line("output %s string = %s", o.name, b.value(o.value, ""))
	}
	return []byte(b.String())
}

func (b *bicepText) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

func (b *bicepText) comment(text string) {
	if text != "" {
		b.line("%s", wrap("//", text))
	}
}

func (b *bicepText) node(n *node) {
	if n.module != nil {
		b.line("module %s 'modules/%s' = {", n.symbol, n.moduleFile())
		b.line("  name: %s", b.text(n.deploymentName()))
		b.line("  scope: %s", n.module.scope+bicepGroup(n.group))
		b.line("  params: {")
		for _, a := range n.args {
			b.line("    %s: %s", a.name, b.value(a.value, "    "))
		}
		b.line("  }")
		b.after(n)
		b.line("}")
		return
	}
	if n.existing {
		b.line("resource %s '%s@%s' existing = {", n.symbol, n.kind, n.version)
		switch {
		case n.parent != nil:
			b.line("  parent: %s", n.parent.symbol)
		case n.group != "":
			b.line("  scope: resourceGroup%s", bicepGroup(n.group))
		}
		b.line("  name: %s", b.value(n.name, "  "))
		b.line("}")
		return
	}
	if n.once {
		b.line("@onlyIfNotExists()")
	}
	b.line("resource %s '%s@%s' = {", n.symbol, n.kind, n.version)
	if n.parent != nil {
		b.line("  parent: %s", n.parent.symbol)
	}
	if n.on != nil {
		b.line("  scope: %s", n.on.symbol)
	}
	b.line("  name: %s", b.value(n.name, "  "))
	for _, m := range n.body {
		b.line("  %s: %s", m.name, b.value(m.value, "  "))
	}
	b.after(n)
	b.line("}")
}

// after writes the explicit dependencies of a node.
func (b *bicepText) after(n *node) {
	if after := n.explicit(); len(after) > 0 {
		b.line("  dependsOn: [")
		for _, m := range after {
			b.line("    %s", m.symbol)
		}
		b.line("  ]")
	}
}

// bicepGroup returns the arguments of resourceGroup or subscription.
func bicepGroup(group arm.ID) string {
	if group == "" {
		return "()"
	}
	return "(" + bicepString(group.Subscription()) + ", " + bicepString(group.ResourceGroup()) + ")"
}

var bicepKey = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// value writes a value; indent is that of the line that it starts on.
func (b *bicepText) value(v any, indent string) string {
	inner := indent + "  "
	switch v := v.(type) {
	case string:
		return b.text(v)
	case lines:
		out := "join([\n"
		for _, line := range v {
			out += inner + b.text(line) + "\n"
		}
		return out + indent + "], '\\n')"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		out := "[\n"
		for _, item := range v {
			out += inner + b.value(item, inner) + "\n"
		}
		return out + indent + "]"
	case object:
		return b.object(ordered(v), indent)
	}
	return fmt.Sprint(v)
}

func (b *bicepText) object(members []member, indent string) string {
	if len(members) == 0 {
		return "{}"
	}
	inner := indent + "  "
	out := "{\n"
	for _, m := range members {
		key := m.name
		if !bicepKey().MatchString(key) {
			key = b.quoted(key)
		}
		out += inner + key + ": " + b.value(m.value, inner) + "\n"
	}
	return out + indent + "}"
}

// text returns a text as an expression: a single one as it is, anything else as a string.
func (b *bicepText) text(text string) string {
	if p := dialect(b.mark).pieces(text); len(p) == 1 && p[0].expression {
		return p[0].text
	}
	return b.quoted(text)
}

func (b *bicepText) quoted(text string) string {
	out := "'"
	for _, p := range dialect(b.mark).pieces(text) {
		if p.expression {
			out += "${" + p.text + "}"
		} else {
			literal := bicepString(p.text)
			out += literal[1 : len(literal)-1]
		}
	}
	return out + "'"
}

// mark returns what a mark stands for.
func (b *bicepText) mark(kind string, args []string) string {
	switch kind {
	case "param", "var":
		return args[0]
	case "id":
		if b.deployment.node(args[0]).kind == typeRole { // Azure knows a role by its subscription
			return fmt.Sprintf("subscriptionResourceId('%s', %s.name)", typeRole, args[0])
		}
		return args[0] + ".id"
	case "get":
		return args[0] + ".properties." + args[1]
	case "properties":
		return args[0] + ".properties"
	case "withtable":
		return fmt.Sprintf("union({ routeTable: { id: %s } }, %s)", args[1], args[0])
	case "part":
		n := b.deployment.node(args[0])
		return fmt.Sprintf("resourceId('%s/%s', %s, '%s')", n.kind, args[1], b.text(n.name),
			args[2])
	case "builtin":
		return fmt.Sprintf("subscriptionResourceId('%s', '%s')", typeRole, args[0])
	case "guid":
		if len(args) == 1 {
			return fmt.Sprintf("guid(clusterId, '%s')", args[0])
		}
		on := "resourceGroup().id"
		switch {
		case len(args) > 2:
			on = bicepString(args[2])
		case args[1] != "":
			on = args[1] + ".id"
		}
		return fmt.Sprintf("guid(clusterId, '%s', toLower(%s))", args[0], on)
	case "guid8":
		return fmt.Sprintf("substring(guid(clusterId, '%s'), 0, 8)", args[0])
	}
	return shared(kind, args)
}
