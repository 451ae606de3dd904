package iac

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// readConfigFile reads one .tf file on its own.
func readConfigFile(name string, s *stream) (*Reading, error) {
	rest, err := io.ReadAll(s.r)
	if err != nil {
		return nil, err
	}
	m := &sourceModule{}
	m.whole = &Source{modules: []*sourceModule{m}}
	if err := m.parse(name, append(s.buf[s.pos:s.end:s.end], rest...)); err != nil {
		return nil, err
	}
	return m.whole.Reading(), nil
}

// Reading returns what a configuration could do to tables and routes, whatever the present network
// is.
func (s *Source) Reading() *Reading {
	r := &Reading{Format: TerraformConfig}
	old := s.oldProvider()
	for _, m := range s.modules {
		r.Notes = append(r.Notes, m.notSeen()...)
		r.Effects = append(r.Effects, m.removals()...)
		for _, res := range m.resources {
			ignored := res.ignored()
			switch res.kind {
			case tfVNet:
				r.Effects = append(r.Effects, useless(res, ignored, "subnet", "subnet")...)
				if !ignored.whole("subnet") && !old {
					r.put(inlineSubnets(res, inventory.PropertyTable)...)
				}
				if !ignored.whole("subnet") {
					r.put(inlineSubnets(res, inventory.PropertyGroup)...)
					r.Notes = append(r.Notes, res.unseenSubnets()...)
				}
			case tfSubnet:
				if ignored.whole("route_table_id") && !ignored.all {
					r.Effects = append(r.Effects, Effect{
						Verb: Useless, What: res.subnet(), By: res.place,
						How: "ignore_changes = [route_table_id] protects nothing: since " +
							"azurerm 2.0, azurerm_subnet does not write the table and keeps the " +
							"present one",
						Repair: &Repair{Address: res.place.Address, Drop: "route_table_id"},
						Fix: "remove it; protect what writes the table: inline subnet blocks " +
							"of the network, and the association",
					})
				}
			case tfTable:
				r.Effects = append(r.Effects, useless(res, ignored, "route", "route")...)
				if !ignored.whole("route") {
					r.Effects = append(r.Effects, m.inlineRoutes(res)...)
				}
			case tfAzapi, tfAzapiUpdate:
				if !ignored.whole("body") {
					res.azapi(r)
				}
			case tfDeployment:
				r.Notes = append(r.Notes, Note{Place: res.place, Text: notTheTemplate,
					Unknown: networked().Match(m.code(res.Block))})
			case tfCluster, tfPool:
				r.Carriers = append(r.Carriers, m.poolSubnets(res)...)
			case tfGateway:
				for _, b := range blocks(res.Body, "gateway_ip_configuration") {
					r.Carriers = append(r.Carriers, m.carrier(b, "subnet_id", "the gateway "+
						res.place.Address+" is in it and must reach pods")...)
				}
			}
		}
	}
	if s.steps > mostEvaluated {
		r.Notes = append(r.Notes, Note{Unknown: true, Text: "the code is too large to evaluate " +
			"all of it: the rest counts as correct, so check a plan"})
	}
	return r
}

// removals returns what removed blocks do: they destroy the association that the state still has.
func (m *sourceModule) removals() (out []Effect) {
	for _, b := range m.removed {
		from := b.Body.Attributes["from"]
		if from == nil {
			continue
		}
		address := string(from.Expr.Range().SliceBytes(m.files[b.TypeRange.Filename]))
		parts := strings.Split(address, ".")
		p, of := associations[parts[max(0, len(parts)-2)]]
		for _, lifecycle := range blocks(b.Body, "lifecycle") {
			destroy := lifecycle.Body.Attributes["destroy"]
			of = of && (destroy == nil || !m.value(destroy.Expr, nil).RawEquals(cty.False))
		}
		if of {
			at := Place{Address: strings.TrimPrefix(m.way+"."+address, "."),
				File: b.TypeRange.Filename, Line: b.TypeRange.Start.Line}
			out = append(out, Effect{Verb: MayLose, What: at, By: at, Property: other(p),
				Doubt: true, How: "the removed block destroys its association, if the state " +
					"still has it", Fix: "lifecycle { destroy = false } in the removed block"})
		}
	}
	return out
}

// networked finds calls of modules that may write subnets or route tables, or place clusters.
var networked = lazy.Regexp(`(?i)subnet|vnet|virtual-?network|route-?table|\b(aks|` +
	`kubernetes)\b|managed-?cluster`)

// notSeen notes the modules whose code is not here: of a registry or a repository. If nothing
// connects a module with networks, it is worth no warning.
func (m *sourceModule) notSeen() (notes []Note) {
	for _, call := range m.unseenCalls {
		source := cmp.Or(literal(call.Body, "source"), "named by an expression")
		notes = append(notes, Note{
			Unknown: networked().Match(m.code(call)),
			Place: Place{Address: strings.TrimPrefix(m.way+".module."+call.Labels[0], "."),
				File: call.TypeRange.Filename, Line: call.TypeRange.Start.Line},
			Text: "the code of module " + source + " is not in the folder, so what it does to " +
				"subnets and route tables is not checked: check a plan"})
	}
	return notes
}

// code returns the text of a block.
func (m *sourceModule) code(b *hclsyntax.Block) []byte {
	at := b.Range()
	at.End = b.CloseBraceRange.End
	return at.SliceBytes(m.files[at.Filename])
}

// major finds the numbers of a version constraint: its operator and the major version.
var major = lazy.Regexp(`(=|!=|>=|<=|~>|>|<)?\s*v?(\d+)`)

// oldProvider reports whether the constraints allow only azurerm before 4.0, which reads every
// inline subnet before it writes it.
func (s *Source) oldProvider() bool {
	for _, m := range s.modules {
		for _, constraint := range m.versions {
			for _, one := range strings.Split(constraint, ",") {
				match := major().FindStringSubmatch(strings.TrimSpace(one))
				if match == nil {
					continue
				}
				n, _ := strconv.Atoi(match[2])
				if n < 4 && (match[1] == "" || match[1] == "=" || match[1] == "~>" ||
					match[1] == "<=") || n <= 4 && match[1] == "<" {
					return true
				}
			}
		}
	}
	return false
}

func blocks(body *hclsyntax.Body, kind string) []*hclsyntax.Block {
	var out []*hclsyntax.Block
	for _, b := range body.Blocks {
		if b.Type == kind {
			out = append(out, b)
		}
	}
	return out
}

// subnet returns the place of an azurerm_subnet, as far as the code shows it.
func (r *sourceResource) subnet() Place {
	p := r.place
	p.Name, p.VNet = r.literal("name"), r.literal("virtual_network_name")
	return p
}

// ignored are the items of lifecycle.ignore_changes: whole attributes, everything, or parts of
// attributes.
type ignored struct {
	all               bool
	attributes, parts map[string]bool
}

func (i ignored) whole(attribute string) bool { return i.all || i.attributes[attribute] }

func (r *sourceResource) ignored() ignored {
	out := ignored{attributes: map[string]bool{}, parts: map[string]bool{}}
	for _, lifecycle := range blocks(r.Body, "lifecycle") {
		a := lifecycle.Body.Attributes["ignore_changes"]
		if a == nil {
			continue
		}
		if hcl.ExprAsKeyword(a.Expr) == "all" {
			out.all = true
		}
		list, _ := hcl.ExprList(a.Expr) // an expression that is no list has none
		for _, item := range list {
			written := item.Range().SliceBytes(r.module.files[r.place.File])
			if root := rootOf(written); root == strings.Trim(string(written), `"`) {
				out.attributes[root] = true
			} else {
				out.parts[root] = true
			}
		}
	}
	return out
}

// useless reports that a part of a set protects nothing. Terraform refuses an index or a splat into
// inline blocks, which are a set.
func useless(res *sourceResource, i ignored, attribute, whole string) []Effect {
	if !i.parts[attribute] || i.whole(attribute) {
		return nil
	}
	return []Effect{{
		Verb: Useless, What: Place{Name: res.literal("name"), Address: res.place.Address,
			File: res.place.File, Line: res.place.Line}, By: res.place,
		How: fmt.Sprintf("ignore_changes with a part of %s protects nothing: the blocks are a "+
			"set, and no index or splat selects a part of it", attribute),
		Fix:    fmt.Sprintf("in %s: lifecycle { ignore_changes = [%s] }", res.place.Address, whole),
		Repair: &Repair{Address: res.place.Address, Ignore: whole},
	}}
}

// inlineCode is a subnet in the code of its network: a block, one repetition of a dynamic block, or
// an item of the argument subnet.
type inlineCode struct {
	name string
	line int
	// attribute returns an attribute of it, nil if it has none.
	attribute func(name string) hclsyntax.Expression
	in        bindings
}

// inlineCode returns the subnets in a network's code.
func (r *sourceResource) inlineCode() (out []inlineCode) {
	add := func(b *hclsyntax.Block, in bindings) {
		out = append(out, inlineCode{line: b.TypeRange.Start.Line, in: in,
			attribute: func(name string) hclsyntax.Expression {
				if a := b.Body.Attributes[name]; a != nil {
					return a.Expr
				}
				return nil
			}})
	}
	for _, b := range blocks(r.Body, "subnet") {
		add(b, nil)
	}
	for _, d := range r.dynamic("subnet", true) {
		for _, content := range blocks(d.block.Body, "content") {
			content.TypeRange = d.block.TypeRange
			add(content, d.in)
		}
	}
	if a := r.Body.Attributes["subnet"]; a != nil {
		items := r.module.items(a.Expr)
		for _, turn := range r.written(a, items) {
			out = append(out, inlineCode{line: a.SrcRange.Start.Line,
				attribute: func(name string) hclsyntax.Expression {
					return &hclsyntax.LiteralValueExpr{Val: field(turn.value, name)}
				}})
		}
		for _, item := range items {
			out = append(out, inlineCode{line: item.object.SrcRange.Start.Line, in: item.in,
				attribute: func(name string) hclsyntax.Expression {
					return member(item.object, name)
				}})
		}
	}
	for i, code := range out {
		if name := code.attribute("name"); name != nil {
			out[i].name = r.module.text(name, code.in)
		}
	}
	return out
}

// written returns the items of a list that an expression, such as a local, gives by its value.
func (r *sourceResource) written(a *hclsyntax.Attribute, items []item) []repetition {
	if _, diagnostics := hcl.ExprList(a.Expr); len(items) > 0 || !diagnostics.HasErrors() {
		return nil
	}
	return repetitions(r.module.value(a.Expr, nil))
}

// unseenSubnets notes that the subnets in a network's code are an expression without a known value.
func (r *sourceResource) unseenSubnets() []Note {
	a := r.Body.Attributes["subnet"]
	if a == nil || !opaque(r.module.value(a.Expr, nil)) || len(r.module.items(a.Expr)) > 0 {
		return nil
	}
	return []Note{{Place: r.place, Unknown: true, Text: "its subnets are an expression whose " +
		"value the code does not show, so it is not known which of them keep their route table: " +
		"check a plan"}}
}

// repeated is a dynamic block in one of its repetitions.
type repeated struct {
	block *hclsyntax.Block
	in    bindings
}

// dynamic returns the repetitions of the dynamic blocks of a kind. A variable that is empty in the
// root module may be filled at apply. Then one repetition is unknown, if filled is set.
func (r *sourceResource) dynamic(kind string, filled bool) (out []repeated) {
	for _, d := range blocks(r.Body, "dynamic") {
		each := d.Body.Attributes["for_each"]
		if len(d.Labels) != 1 || d.Labels[0] != kind || each == nil {
			continue
		}
		iterator := kind
		if a := d.Body.Attributes["iterator"]; a != nil {
			iterator = hcl.ExprAsKeyword(a.Expr)
		}
		all := repetitions(r.module.value(each.Expr, nil))
		if len(all) == 0 && filled && r.module.way == "" && dependsOnInput(each.Expr) {
			all = repetitions(cty.DynamicVal)
		}
		for _, turn := range all {
			out = append(out, repeated{d, bindings{iterator: cty.ObjectVal(map[string]cty.Value{
				"key": turn.key, "value": turn.value})}})
		}
	}
	return out
}

// inlineSubnets returns an effect for each subnet in a network's code that does not name a
// property.
func inlineSubnets(res *sourceResource, p inventory.Property) []Effect {
	var out []Effect
	attribute := inlineAttributes[p]
	for _, code := range res.inlineCode() {
		expr := code.attribute(attribute)
		if !isNone(res.module.value(expr, code.in)) {
			continue
		}
		e := Effect{
			Verb: MayLose, What: res.place, By: res.place, Property: other(p),
			How: "its inline subnet block names no " + p.Name() + ", so any change of the " +
				"network's blocks removes the one it has",
			Fix: fmt.Sprintf("in %s, the subnet block: %s = <the %s's id>; or "+
				"lifecycle { ignore_changes = [subnet] }", res.place.Address, attribute, p.Noun()),
		}
		if !empty(expr) { // a variable may get another value
			e.Doubt = true
			e.How = "by the values that variables have here, its inline subnet block names no " +
				p.Name() + ", so any change of the network's blocks removes the one it has"
		}
		e.What.Name, e.What.VNet, e.By.Line = code.name, res.literal("name"), code.line
		if e.Property == "" {
			e.Repair = &Repair{Address: res.place.Address, Ignore: "subnet"}
		}
		out = append(out, e)
	}
	return out
}

// inlineRoutes reports that a table with route blocks is replaced as a whole.
func (m *sourceModule) inlineRoutes(res *sourceResource) []Effect {
	if len(blocks(res.Body, "route")) == 0 && res.Body.Attributes["route"] == nil &&
		len(res.dynamic("route", false)) == 0 {
		return nil
	}
	return m.routesWritten(res, "its inline routes replace the whole table: the next apply "+
		"removes pod routes that others wrote", fmt.Sprintf("in %s: lifecycle { ignore_changes = "+
		"[route] }, or azurerm_route resources in place of the route blocks", res.place.Address),
		&Repair{Address: res.place.Address, Ignore: "route"})
}

// routesWritten reports that all routes of a table are replaced, with the subnets that have it.
func (m *sourceModule) routesWritten(res *sourceResource, how, fix string,
	repair *Repair) []Effect {
	what := res.place
	what.Name = res.literal("name")
	var users []Place
	for _, other := range m.whole.modules {
		for _, link := range other.resources {
			table, subnet := link.Body.Attributes["route_table_id"],
				link.Body.Attributes["subnet_id"]
			if link.kind != tfAssociation || table == nil || subnet == nil ||
				other.refers(table.Expr, res.kind) != res {
				continue
			}
			if user := other.refers(subnet.Expr, tfSubnet); user != nil {
				users = append(users, user.subnet())
			}
		}
	}
	return []Effect{{Verb: MayLoseRoutes, What: what, By: res.place, Users: users, How: how,
		Fix: fix, Repair: repair}}
}
