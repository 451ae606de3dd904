package iac

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// Edit is a file before and after its repair.
type Edit struct {
	File          string
	Before, After []byte
}

// Repairs returns the findings at or above a severity, each with its repair, or nil if only a
// person can decide. Notes with a repair are included at any severity: without the repair the apply
// fails.
func (r *Reading) Repairs(known Known, from finding.Severity) (findings []finding.Finding,
	repairs []*Repair) {
	known.Carriers = slices.Concat(known.Carriers, r.Carriers)
	for _, e := range slices.Concat(r.Effects, r.Open) {
		if e = known.decide(e); e.Verb == "" {
			continue
		}
		for _, f := range known.finding(e) {
			if f.Severity >= from && f.Code != finding.IaCNote {
				findings, repairs = append(findings, f), append(repairs, e.Repair)
			}
		}
	}
	for _, n := range r.Notes {
		if n.Repair != nil {
			findings, repairs = append(findings, n.finding()), append(repairs, n.Repair)
		}
	}
	return findings, repairs
}

// Fix makes repairs in the code. The edits are sorted by file. For each repair, why says why it was
// not made, or is "".
func (s *Source) Fix(repairs []*Repair) (edits []Edit, why []string) {
	x := &fixer{source: s, open: map[string]*hclFile{}, set: map[string]string{},
		imported: map[string]bool{}}
	for _, r := range repairs {
		reason := "this needs your decision"
		if r != nil {
			reason = x.repair(*r)
		}
		why = append(why, reason)
	}
	for _, name := range slices.Sorted(maps.Keys(x.open)) {
		x.open[name].read()
		before := s.content(name)
		if after := x.open[name].text; !bytes.Equal(before, after) {
			edits = append(edits, Edit{File: name, Before: before, After: layout(before, after)})
		}
	}
	return edits, why
}

// Apply returns the configuration with the edits.
func (s *Source) Apply(edits []Edit) (*Source, error) {
	out := &Source{files: s.files}
	for _, m := range s.modules {
		n := &sourceModule{way: m.way, dir: m.dir, whole: out, tfvars: m.tfvars,
			locked: m.locked, versions: m.locked}
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			raw := m.files[name]
			for _, e := range edits {
				if e.File == name {
					raw = e.After
				}
			}
			if err := n.parse(name, raw); err != nil {
				return nil, err
			}
		}
		out.modules = append(out.modules, n)
	}
	return out, nil
}

func (s *Source) content(name string) []byte {
	for _, m := range s.modules {
		if raw, here := m.files[name]; here {
			return raw
		}
	}
	return nil
}

// fixer edits files, and opens each once.
type fixer struct {
	source *Source
	open   map[string]*hclFile
	// what was set, by file, resource, block and attribute: instances of a module share their code
	set      map[string]string
	imported map[string]bool
}

func (x *fixer) file(name string) *hclFile {
	if x.open[name] == nil {
		x.open[name] = openHCL(name, x.source.content(name))
	}
	return x.open[name]
}

// resource finds the block of a resource, and its file.
func (x *fixer) resource(address string) (*hclsyntax.Block, *hclFile) {
	found := x.source.resource(address)
	if found == nil {
		return nil, nil
	}
	parts := strings.Split(withoutKeys(address), ".")
	f := x.file(found.place.File)
	return f.resource(parts[len(parts)-2:]), f
}

// repair makes one repair, or says why it cannot.
func (x *fixer) repair(r Repair) string {
	switch {
	case r.Add:
		return x.add(r)
	case r.Import != "":
		return x.imports(r)
	}
	block, f := x.resource(r.Address)
	if block == nil {
		return "the code of " + r.Address + " was not found"
	}
	switch {
	case oneLine(block):
		return r.Address + " is written on one line: write it on several"
	case r.Drop != "":
		f.unignore(block, r.Drop)
		return ""
	case r.Ignore != "":
		return f.ignore(block, r.Ignore)
	}
	kind := block.Labels[0]
	inline := writtenBlock(block.Body, r.Subnet)
	// the block is not written out, so blocks are ignored instead
	if kind == tfVNet && inline == nil {
		return f.ignore(block, "subnet")
	}
	if conflict := x.claim(f.name, r); conflict != "" {
		return conflict
	}
	switch {
	case kind == tfVNet && oneLine(inline):
		return "the block of " + r.Subnet + " is written on one line: write it on several"
	case kind == tfVNet:
		block = inline
	case strings.HasPrefix(kind, "azapi_"):
		kind, _, _ := strings.Cut(literal(block.Body, "type"), "@")
		return f.bodyTable(block.Body, r, strings.EqualFold(kind, arm.TypeVNet))
	}
	f.setAttributes(block, r.Set)
	return ""
}

// claim records what is set where. Instances of one block cannot have different tables. The
// callers of a module share its code, so they must pass the table in.
func (x *fixer) claim(file string, r Repair) string {
	keyed, inModule := r.Address != withoutKeys(r.Address), moduleOf(r.Address) != ""
	for _, s := range r.Set {
		byID := strings.Contains(s.Expression, `"/`)
		if byID && inModule && !keyed {
			return "the code of " + r.Address + " is in a module and the table is not: pass the " +
				"table in as a variable"
		}
		key := strings.Join([]string{file, withoutKeys(r.Address), r.Subnet, s.Attribute}, "\x00")
		if other, known := x.set[key]; known && other != s.Expression || keyed && byID || r.Shared {
			return "several instances share the code of " + r.Address +
				": pass its table in as a variable"
		}
		x.set[key] = s.Expression
	}
	return ""
}

// writtenBlock returns the literal block of a subnet in its network, nil if there is none.
func writtenBlock(body *hclsyntax.Body, subnet string) *hclsyntax.Block {
	for _, b := range blocks(body, "subnet") {
		if strings.EqualFold(literal(b.Body, "name"), subnet) {
			return b
		}
	}
	return nil
}

// add writes a new resource at the end of the file of another.
func (x *fixer) add(r Repair) string {
	if block, _ := x.resource(r.Address); block != nil {
		return "" // it is there
	}
	next := x.source.resource(r.Next)
	if next == nil || moduleOf(r.Next) != moduleOf(r.Address) ||
		r.Address != withoutKeys(r.Address) {
		return "found no code to put " + cmp.Or(r.Address, "it") + " next to"
	}
	if conflict := x.claim(next.place.File, r); conflict != "" {
		return conflict
	}
	parts := strings.Split(r.Address, ".")
	parts = parts[len(parts)-2:]
	x.file(next.place.File).add("resource "+quoteHCL(parts[0])+" "+quoteHCL(parts[1]), r.Set...)
	return ""
}

// imports writes an import block at the end of the file with the resource, or with the call of its
// module. Terraform accepts such blocks only in the root module, since 1.5.
func (x *fixer) imports(r Repair) string {
	name := x.rootFile(r.Address)
	if name == "" || !isAddress(r.Address) {
		return "the code of " + r.Address + " was not found"
	}
	for other := range x.source.modules[0].files {
		f := x.file(other)
		for _, b := range blocks(f.body, "import") {
			if to := b.Body.Attributes["to"]; to != nil && string(f.value(to)) == r.Address {
				return "" // it is there
			}
		}
	}
	if x.imported[r.Address] {
		return ""
	}
	x.imported[r.Address] = true
	x.file(name).add("import", Setting{"to", r.Address}, Setting{"id", quoteHCL(r.Import)})
	return ""
}

// rootFile returns the file of the root module that has the resource or the call of its module; ""
// if neither was found.
func (x *fixer) rootFile(address string) string {
	names := modulesOf(moduleOf(address))
	if len(names) == 0 {
		if found := x.source.resource(address); found != nil {
			return found.place.File
		}
		return ""
	}
	for _, call := range x.source.modules[0].calls {
		if call.Labels[0] == names[0] {
			return call.TypeRange.Filename
		}
	}
	return ""
}

// bodyTable sets the table in the body of an azapi resource: in the properties of the subnet that
// the resource is, or that it lists.
func (f *hclFile) bodyTable(body *hclsyntax.Body, r Repair, vnet bool) string {
	a := body.Attributes["body"]
	if a == nil {
		return "it has no body"
	}
	properties := propertiesOf(a.Expr)
	if properties != nil && vnet {
		properties = listed(properties, r.Subnet)
	}
	if properties == nil {
		return "its body is an expression: add " + r.Set[0].Attribute + " = " +
			r.Set[0].Expression + " to the properties of " + r.Subnet
	}
	if old := member(properties, r.Set[0].Attribute); old != nil {
		at := old.Range()
		f.change(at.Start.Byte, at.End.Byte, r.Set[0].Expression)
		return ""
	}
	start, end := properties.OpenRange.End.Byte, properties.SrcRange.End.Byte-1
	inside := string(f.text[start:end])
	setting := r.Set[0].Attribute + " = " + r.Set[0].Expression
	switch line, rest, _ := strings.Cut(inside, "\n"); {
	case strings.TrimSpace(inside) == "":
		f.change(start, end, " "+setting+" ")
	case strings.TrimSpace(line) == "" && len(line) < len(inside):
		space := rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))]
		f.change(start, start, "\n"+space+setting)
	default:
		f.change(start, start, " "+setting+",")
	}
	return ""
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
