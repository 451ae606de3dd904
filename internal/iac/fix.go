package iac

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

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
		if e = known.settle(e); e.Verb == "" {
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
	x := &fixer{source: s, open: map[string]*hclwrite.File{}, set: map[string]string{}}
	for _, r := range repairs {
		reason := "this needs your decision"
		if r != nil {
			reason = x.repair(*r)
		}
		why = append(why, reason)
	}
	for _, name := range slices.Sorted(maps.Keys(x.open)) {
		before := s.content(name)
		if after := layout(before, x.open[name].BuildTokens(nil).Bytes()); !bytes.Equal(before,
			after) {
			edits = append(edits, Edit{File: name, Before: before, After: after})
		}
	}
	return edits, why
}

// layout formats new lines like terraform fmt, and keeps all others byte by byte. If the whole file
// was formatted before, it is formatted again, because new lines can move the equal signs next to
// them.
func layout(before, after []byte) []byte {
	plain := func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	lines := func(text []byte) [][]byte { return bytes.Split(text, []byte("\n")) }
	if bytes.Equal(before, after) {
		return before
	}
	old, now := lines(before), lines(plain(after))
	formatted := lines(hclwrite.Format(plain(after)))
	if whole := plain(before); bytes.Equal(hclwrite.Format(whole), whole) {
		now = formatted
	}
	was := lines(plain(rewritten(before)))
	same := func(i, j int) bool { return bytes.Equal(was[i], now[j]) }
	start, end, shift := 0, len(was), len(now)-len(was)
	for start < min(len(was), len(now)) && same(start, start) {
		now[start] = old[start]
		start++
	}
	for end > start && end+shift > start && same(end-1, end-1+shift) {
		end--
		now[end+shift] = old[end]
	}
	had := map[string][][]byte{}
	for i := start; i < end; i++ {
		had[string(was[i])] = append(had[string(was[i])], old[i])
	}
	fresh := false
	for i := start; i < end+shift; i++ {
		line := now[i]
		kept := had[string(line)]
		// a new block ends with a brace that others have, too
		if fresh = len(kept) == 0 || fresh && string(line) == "}"; !fresh {
			now[i] = kept[0]
			had[string(line)] = kept[min(1, len(kept)-1):]
			continue
		}
		if len(formatted) == len(now) {
			line = formatted[i]
		}
		if bytes.Contains(before, []byte("\r\n")) {
			line = append(bytes.Clone(line), '\r')
		}
		now[i] = line
	}
	return bytes.Join(now, []byte("\n"))
}

// rewritten returns code as the HCL library writes it, line by line: with spaces in place of tabs.
func rewritten(code []byte) []byte {
	f, diagnostics := hclwrite.ParseConfig(code, "", hcl.InitialPos)
	if diagnostics.HasErrors() {
		return code // it was parsed before
	}
	return f.BuildTokens(nil).Bytes()
}

// oneLine reports whether a block is on one line, which allows no second attribute.
func oneLine(b *hclwrite.Block) bool {
	return !bytes.Contains(bytes.TrimSpace(b.BuildTokens(nil).Bytes()), []byte("\n"))
}

// Apply returns the configuration with the edits.
func (s *Source) Apply(edits []Edit) (*Source, error) {
	out := &Source{files: s.files}
	for _, m := range s.modules {
		n := &sourceModule{way: m.way, dir: m.dir, whole: out, given: m.given,
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
	open   map[string]*hclwrite.File
	// what was set, by file, resource, block and attribute: instances of a module share their code
	set map[string]string
}

func (x *fixer) file(name string) *hclwrite.File {
	if x.open[name] == nil {
		f, diagnostics := hclwrite.ParseConfig(x.source.content(name), name, hcl.InitialPos)
		if diagnostics.HasErrors() {
			return nil // it was parsed before
		}
		x.open[name] = f
	}
	return x.open[name]
}

// resource finds the block of a resource, and its file.
func (x *fixer) resource(address string) (*hclwrite.Block, string) {
	place, found := x.source.find(address)
	if !found {
		return nil, ""
	}
	f := x.file(place.File)
	if f == nil {
		return nil, ""
	}
	plain := withoutKeys(address)
	parts := strings.Split(plain, ".")
	return f.Body().FirstMatchingBlock("resource", parts[len(parts)-2:]), place.File
}

// repair makes one repair, or says why it cannot.
func (x *fixer) repair(r Repair) string {
	switch {
	case r.Add:
		return x.add(r)
	case r.Import != "":
		return x.imports(r)
	}
	block, file := x.resource(r.Address)
	if block == nil {
		return "the code of " + r.Address + " was not found"
	}
	switch {
	case oneLine(block):
		return r.Address + " is written on one line: write it on several"
	case r.Drop != "":
		unignore(block.Body(), r.Drop)
		return ""
	case r.Ignore != "":
		return ignore(block.Body(), r.Ignore)
	}
	kind := block.Labels()[0]
	inline := writtenBlock(block.Body(), r.Subnet)
	// the block is not written out, so blocks are ignored instead
	if kind == tfVNet && inline == nil {
		return ignore(block.Body(), "subnet")
	}
	if conflict := x.claim(file, r); conflict != "" {
		return conflict
	}
	switch {
	case kind == tfVNet:
		return inlineTable(inline, r)
	case strings.HasPrefix(kind, "azapi_"):
		kind, _, _ := strings.Cut(unquoted(block.Body().GetAttribute("type")), "@")
		return bodyTable(block.Body(), r, strings.EqualFold(kind, arm.TypeVNet))
	}
	for _, s := range r.Set {
		setAttribute(block.Body(), s)
	}
	return ""
}

// claim records what is set where. Instances of one block cannot have different tables. A module
// has only the tables that its callers pass in.
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
func writtenBlock(body *hclwrite.Body, subnet string) *hclwrite.Block {
	for _, b := range body.Blocks() {
		if b.Type() == "subnet" &&
			strings.EqualFold(unquoted(b.Body().GetAttribute("name")), subnet) {
			return b
		}
	}
	return nil
}

// inlineTable sets the table in the inline block of a subnet.
func inlineTable(b *hclwrite.Block, r Repair) string {
	if oneLine(b) {
		return "the block of " + r.Subnet + " is written on one line: write it on several"
	}
	for _, s := range r.Set {
		setAttribute(b.Body(), s)
	}
	return ""
}

// unquoted returns the text of a constant attribute, "" for any other.
func unquoted(a *hclwrite.Attribute) string {
	if a == nil {
		return ""
	}
	if expr, _, ok := expressionOf(a); ok {
		return text(expr)
	}
	return ""
}

// expressionOf returns the expression of an attribute, with its text.
func expressionOf(a *hclwrite.Attribute) (expr hclsyntax.Expression, source []byte, ok bool) {
	source = a.Expr().BuildTokens(nil).Bytes()
	expr, diagnostics := hclsyntax.ParseExpression(source, "", hcl.InitialPos)
	return expr, source, !diagnostics.HasErrors()
}

// setAttribute sets an attribute, in place or after the others.
func setAttribute(body *hclwrite.Body, s Setting) {
	body.SetAttributeRaw(s.Attribute, tokens(s.Expression))
}

// tokens returns the tokens of an expression, with its spaces.
func tokens(expression string) hclwrite.Tokens {
	const attribute = "x = "
	f, diagnostics := hclwrite.ParseConfig([]byte(attribute+expression+"\n"), "", hcl.InitialPos)
	if diagnostics.HasErrors() {
		return nil
	}
	return f.Body().GetAttribute("x").Expr().BuildTokens(nil)
}

// add writes a new resource at the end of the file of another.
func (x *fixer) add(r Repair) string {
	if block, _ := x.resource(r.Address); block != nil {
		return "" // it is there
	}
	place, found := x.source.find(r.Next)
	if !found || moduleOf(r.Next) != moduleOf(r.Address) || r.Address != withoutKeys(r.Address) {
		return "found no code to put " + cmp.Or(r.Address, "it") + " next to"
	}
	f := x.file(place.File)
	if f == nil {
		return fmt.Sprintf("%s cannot be edited", place.File)
	}
	if conflict := x.claim(place.File, r); conflict != "" {
		return conflict
	}
	parts := strings.Split(r.Address, ".")
	f.Body().AppendNewline()
	block := f.Body().AppendNewBlock("resource", parts[len(parts)-2:])
	for _, s := range r.Set {
		setAttribute(block.Body(), s)
	}
	return ""
}

// bodyTable sets the table in the body of an azapi resource: in the properties of the subnet that
// it is, or lists.
func bodyTable(body *hclwrite.Body, r Repair, vnet bool) string {
	a := body.GetAttribute("body")
	if a == nil {
		return "it has no body"
	}
	expr, source, ok := expressionOf(a)
	if !ok {
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
