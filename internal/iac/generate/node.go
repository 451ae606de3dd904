package generate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// How it works. The cluster's steps are computed with marks instead of its name, location,
// subscription and resource group. So every text in a body shows which parts come from a parameter,
// and every resource ID shows its resource. The steps become the nodes of a deployment, which is
// written as Bicep or as ARM JSON. Terraform has different arguments, so templates write it. The
// tests compare all three with what cluster create writes.

// deployment is the content of a Bicep file or an ARM template.
type deployment struct {
	// scope is resourceGroup or subscription.
	scope   string
	head    []string
	params  []param
	vars    []binding
	nodes   []*node
	outputs []binding
}

// param is a parameter. Its value is "" if the user must give one; kind is "" for a string.
type param struct {
	name, about, value, kind string
	secret                   bool
}

func (p param) typeName() string { return cmp.Or(p.kind, "string") }

// binding is a variable or an output: a text with marks, or lines of it.
type binding struct {
	name, about string
	value       any
}

// node is a resource of a deployment.
type node struct {
	symbol, kind, version, comment string
	// name is the node's own name, with marks. A child has a parent. An extension, such as a role
	// assignment, is on another node, or on the resource group if on is nil.
	name       string
	parent, on *node
	// existing is set for a resource that the code only refers to. group is the resource group that
	// contains it, or to which a module deploys, or "" for that of the deployment. madeBy is the
	// module that makes or changes it, or nil.
	existing bool
	id       arm.ID // of an existing resource
	group    arm.ID
	madeBy   *node
	// once is set for a resource that is made if it does not exist, and never written again,
	// because other writers write into it.
	once bool
	body []member
	// after has nodes that must exist first, although the body does not refer to them.
	after []*node
	// module is set for a deployment at another scope, which gets args.
	module *deployment
	args   []member
}

// member is a field of an object whose fields have an order.
type member struct {
	name  string
	value any
}

type object = map[string]any

// lines is a text of several lines, which code shows line by line.
type lines []string

// Marks replace text that is known only at deployment. They contain no slash, so that resource IDs
// with marks can be parsed.
const (
	markStart = "\x01"
	markEnd   = "\x02"
	markSplit = "|"
)

// mark returns a mark of a kind: param NAME, var NAME, id SYMBOL, get SYMBOL PATH, properties
// SYMBOL (of an existing resource), withtable PARAM PARAM (a subnet's properties with a table),
// part SYMBOL TYPE NAME (what is inside a resource), builtin GUID (a built-in role), guid PURPOSE
// SYMBOL (a name), and those without arguments that dialects know.
func mark(kind string, args ...string) string {
	return markStart + strings.Join(append([]string{kind}, args...), markSplit) + markEnd
}

// dialect writes a mark as an expression of a language.
type dialect func(kind string, args []string) string

// piece is a part of a text: literal, or an expression.
type piece struct {
	text       string
	expression bool
}

// pieces splits a text.
func (d dialect) pieces(text string) []piece {
	var out []piece
	for text != "" {
		before, rest, found := strings.Cut(text, markStart)
		if before != "" {
			out = append(out, piece{text: before})
		}
		if !found {
			break
		}
		inner, after, _ := strings.Cut(rest, markEnd)
		fields := strings.Split(inner, markSplit)
		out = append(out, piece{text: d(fields[0], fields[1:]), expression: true})
		text = after
	}
	return out
}

// marked calls a function for each mark in a value.
func marked(v any, each func(kind string, args []string)) {
	switch v := v.(type) {
	case string:
		dialect(func(kind string, args []string) string { each(kind, args); return "" }).pieces(v)
	case lines:
		for _, line := range v {
			marked(line, each)
		}
	case []any:
		for _, item := range v {
			marked(item, each)
		}
	case []member:
		for _, m := range v {
			marked(m.name, each)
			marked(m.value, each)
		}
	case object:
		for _, m := range ordered(v) {
			marked(m.name, each)
			marked(m.value, each)
		}
	}
}

// has reports whether there is a node with a symbol.
func (d *deployment) has(symbol string) bool {
	return slices.ContainsFunc(d.nodes, func(n *node) bool { return n.symbol == symbol })
}

// node finds a node by its symbol.
func (d *deployment) node(symbol string) *node {
	i := slices.IndexFunc(d.nodes, func(n *node) bool { return n.symbol == symbol })
	if i < 0 {
		panic(fmt.Sprintf("no node is called %s", symbol))
	}
	return d.nodes[i]
}

// implied returns the symbols that a node refers to, so that it comes after them anyway.
func (n *node) implied() map[string]bool {
	out := map[string]bool{}
	note := func(kind string, args []string) {
		switch kind {
		case "id", "get", "part":
			if args[0] != n.symbol {
				out[args[0]] = true
			}
		}
	}
	marked(n.body, note)
	marked(n.args, note)
	for _, on := range []*node{n.parent, n.on} {
		if on != nil {
			out[on.symbol] = true
		}
	}
	return out
}

// explicit returns the nodes that need an explicit dependency.
func (n *node) explicit() []*node {
	implied := n.implied()
	return slices.DeleteFunc(slices.Clone(n.after), func(m *node) bool { return implied[m.symbol] })
}

// path returns the names of a node and its parents, the outermost first.
func (n *node) path() []string {
	if n.parent == nil {
		return []string{n.name}
	}
	return append(n.parent.path(), n.name)
}

// root returns a node's outermost parent.
func (n *node) root() *node {
	if n.parent == nil {
		return n
	}
	return n.parent.root()
}

// properties returns the object "properties" in the node's body, or nil.
func (n *node) properties() object {
	for _, m := range n.body {
		if m.name == "properties" {
			return m.value.(object)
		}
	}
	return nil
}

// first are the fields that people expect at the top.
var first = []string{"name", "location", "tags", "sku", "identity", "mode", "id"}

// ordered returns the fields of an object: the expected ones at the top, then by name.
func ordered(o object) []member {
	var out []member
	for name, value := range o {
		out = append(out, member{name, value})
	}
	rank := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortFunc(out, func(a, b member) int {
		if d := rank(a.name) - rank(b.name); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	return out
}
