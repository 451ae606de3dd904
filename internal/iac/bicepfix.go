package iac

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// FixBicep repairs the text of a Bicep file, and keeps layout and comments. A subnet without
// routeTable keeps its present one, which the code reads from an existing subnet. A network that
// lists no subnets gets an api-version that keeps them. With carriers, it repairs only subnets that
// have one of their names. It does not compile Bicep: compile the result, and check it.
func FixBicep(file File, carriers []Carrier) *TemplateFix {
	b := &bicepFix{
		bicepFile: parseBicep(string(file.Data)), carriers: carriers, edit: &textEdit{
			text: file.Data},
		fix:  &TemplateFix{Edit: Edit{File: file.Name, Before: file.Data}},
		made: map[string]string{},
	}
	for _, r := range b.resources {
		switch {
		case r.existing:
		case strings.EqualFold(r.kind, arm.TypeVNet):
			b.vnet(r)
		case strings.EqualFold(r.kind, arm.TypeSubnet):
			b.subnet(r, r.body, b.ownName(r))
		}
	}
	b.fix.After = b.edit.done()
	return b.fix
}

type bicepFix struct {
	*bicepFile
	carriers []Carrier
	edit     *textEdit
	fix      *TemplateFix
	// the names that existing subnets were declared with, by their symbol
	made map[string]string
}

func (b *bicepFix) line(at int) int { return 1 + strings.Count(b.text[:at], "\n") }

func (b *bicepFix) left(at int, format string, args ...any) {
	b.fix.Left = append(b.fix.Left, fmt.Sprintf("line %d: ", b.line(at))+
		fmt.Sprintf(format, args...))
}

func (b *bicepFix) vnet(r *bicepResource) {
	properties := b.member(r.body, "properties")
	if properties == nil || !b.startsWith(properties.value, '{') {
		return
	}
	subnets := b.member(properties.value, "subnets")
	switch {
	case subnets == nil && r.version < subnetsKept:
		b.edit.replace(r.versionAt, r.versionAt+len(r.version), subnetsKept)
		b.fix.Done = append(b.fix.Done,
			fmt.Sprintf("%s gets the api-version %s, which keeps subnets that it does not list",
				r.symbol, subnetsKept))
		return
	case subnets == nil:
		return
	case !b.startsWith(subnets.value, '['):
		b.left(subnets.at, "the subnets of %s are an expression: make sure that each has its "+
			"routeTable", r.symbol)
		return
	case strings.HasPrefix(strings.TrimSpace(b.mask[subnets.value.from+1:subnets.value.to]),
		"for ") || r.looped:
		b.left(subnets.at, "the subnets of %s are made by a loop: give its object a routeTable, "+
			"such as routeTable: subnet.?routeTable", r.symbol)
		return
	}
	for i := subnets.value.from + 1; i < subnets.value.to; i++ {
		if b.mask[i] == '{' {
			item := bicepSpan{i, b.close(i)}
			b.subnet(r, item, b.inVNet(r, item))
			i = item.to
		}
	}
}

// inVNet returns the written name of a subnet in its network's list, with the network's name.
func (b *bicepFix) inVNet(r *bicepResource, item bicepSpan) string {
	return joinNames(b.raw(b.member(r.body, "name")), b.raw(b.member(item, "name")))
}

// ownName returns the written name of a separate subnet, with its network's name.
func (b *bicepFix) ownName(r *bicepResource) string {
	name := b.raw(b.member(r.body, "name"))
	if parent := b.raw(b.member(r.body, "parent")); parent != "" && name != "" {
		return joinNames(parent+".name", name)
	}
	return name
}

// joinNames joins two expressions into one text, network/subnet.
func joinNames(vnet, subnet string) string {
	if vnet == "" || subnet == "" {
		return ""
	}
	part := func(expression string) string {
		if len(expression) > 1 && expression[0] == '\'' &&
			bicepString(expression) == len(expression) && !strings.HasPrefix(expression, "'''") {
			return expression[1 : len(expression)-1]
		}
		return "${" + expression + "}"
	}
	return "'" + part(vnet) + "/" + part(subnet) + "'"
}

var bicepSymbol = lazy.Regexp(`\W+`)

// subnet makes a subnet object keep its present table. name is the written name of the subnet with
// its network.
func (b *bicepFix) subnet(r *bicepResource, item bicepSpan, name string) {
	written := b.raw(b.member(item, "name"))
	label := strings.Trim(written, "'")
	label = label[strings.LastIndexByte(label, '/')+1:]
	plain := b.constant(written, label)
	if plain != "" && !b.wanted(plain) {
		return
	}
	properties := b.member(item, "properties")
	if properties == nil || !b.startsWith(properties.value, '{') || name == "" {
		b.left(item.from, "the properties of %s are an expression: make sure that they include "+
			"its routeTable", label)
		return
	}
	table := b.member(properties.value, "routeTable")
	if table != nil && b.raw(table) != "null" {
		return
	}
	if r.looped {
		b.left(item.from, "%s is made by a loop: give its properties a routeTable", r.symbol)
		return
	}
	if plain == "" && len(b.carriers) > 0 {
		b.left(item.from, "%s does not say which subnet it is: give its properties a routeTable "+
			"if pods need it", label)
		return
	}
	symbol := "keepRouteTable_" + strings.Trim(bicepSymbol().ReplaceAllString(label, "_"), "_")
	for _, other := range b.resources {
		if other.symbol == symbol {
			b.left(item.from, "%s is declared already: pass its routeTable on", symbol)
			return
		}
	}
	if other := b.made[symbol]; other != "" && other != name {
		symbol += "_" + r.symbol
	}
	value := symbol + ".properties.?routeTable"
	if table != nil {
		b.edit.replace(table.value.from, table.value.to, value)
	} else if members := b.members(properties.value); len(members) == 0 {
		b.edit.replace(properties.value.from+1, properties.value.from+1, " routeTable: "+value+" ")
	} else if first := members[0].at; strings.Contains(b.text[properties.value.from:first], "\n") {
		b.edit.replace(first, first, "routeTable: "+value+"\n"+b.edit.indent(first))
	} else {
		b.edit.replace(first, first, "routeTable: "+value+", ")
	}
	if b.made[symbol] != name {
		b.declare(r, symbol, name)
	}
	b.fix.Done = append(b.fix.Done, fmt.Sprintf("%s passes on its present route table (line %d). "+
		"The subnet and its network must exist already", label, b.line(item.from)))
}

// declare writes an existing subnet above a resource.
func (b *bicepFix) declare(r *bicepResource, symbol, name string) {
	b.made[symbol] = name
	at := b.aboveDecorators(r.at)
	b.edit.replace(at, at, fmt.Sprintf("// Reads the subnet's present route table, so that the "+
		"deployment passes it on. The subnet must exist already.\nresource %s "+
		"'Microsoft.Network/virtualNetworks/subnets@%s' existing = {\n  name: %s\n}\n\n", symbol,
		r.version, name))
}

// aboveDecorators returns the start of the decorators and comments directly above a declaration.
func (b *bicepFix) aboveDecorators(at int) int {
	start := strings.LastIndexByte(b.text[:at], '\n') + 1
	for start > 0 {
		above := strings.LastIndexByte(b.text[:start-1], '\n') + 1
		line := strings.TrimSpace(b.text[above : start-1])
		if !strings.HasPrefix(line, "@") && !strings.HasPrefix(line, "//") {
			break
		}
		start = above
	}
	return start
}

// constant returns the text of a subnet's name: a literal, a variable, or the default of a
// parameter. "" for an expression.
func (b *bicepFix) constant(written, label string) string {
	switch {
	case strings.Contains(label, "${"):
		return ""
	case strings.HasPrefix(written, "'"):
		return label
	}
	for _, found := range bicepConstant().FindAllStringSubmatch(b.text, -1) {
		if found[1] == written {
			return found[2]
		}
	}
	return ""
}

// bicepConstant is a variable with a literal text, or a parameter with one as its default.
var bicepConstant = lazy.Regexp(`(?m)^(?:var|param)\s+(\w+)(?:\s+string)?\s*=\s*'([^'$\\]+)'`)

func (b *bicepFix) wanted(name string) bool {
	if len(b.carriers) == 0 {
		return true
	}
	return slices.ContainsFunc(b.carriers, func(c Carrier) bool {
		return strings.EqualFold(c.Name, name) && c.needs(inventory.PropertyTable)
	})
}
