package iac

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// How it works. A repair replaces parts of a file's text by their offsets, so that all other bytes
// stay. Repairs of different blocks cannot overlap, so they are made together. Before a second
// repair of a block, the file is read again with the first one made.

// hclFile is a file that repairs change.
type hclFile struct {
	textEdit
	name string
	body *hclsyntax.Body
	// committed changes are not yet in text and body. touched has the offsets of their blocks.
	committed []textChange
	touched   map[int]bool
}

// openHCL reads code. Code that a repair broke is empty: Source.Apply says what is wrong with it.
func openHCL(name string, code []byte) *hclFile {
	f := &hclFile{textEdit: textEdit{text: code}, name: name, body: &hclsyntax.Body{},
		touched: map[int]bool{}}
	if body, err := parseHCL(name, code); err == nil {
		f.body = body
	}
	return f
}

// replace replaces a part of the text at the next commit, with the line ends that the file has.
func (f *hclFile) replace(from, to int, with string) {
	if bytes.Contains(f.text, []byte("\r\n")) {
		with = strings.ReplaceAll(with, "\n", "\r\n")
	}
	f.textEdit.replace(from, to, with)
}

func (f *hclFile) change(from, to int, with string) {
	f.replace(from, to, with)
	f.commit()
}

// commit keeps the changes for the next read.
func (f *hclFile) commit() { f.committed, f.changes = append(f.committed, f.changes...), nil }

// read makes the committed changes, and reads the code that results.
func (f *hclFile) read() {
	f.changes = f.committed
	*f = *openHCL(f.name, f.done())
}

// resource returns the block of a resource for a repair, or nil.
func (f *hclFile) resource(labels []string) *hclsyntax.Block {
	for _, b := range blocks(f.body, "resource") {
		if !slices.Equal(b.Labels, labels) {
			continue
		}
		start := b.TypeRange.Start.Byte
		if f.touched[start] {
			f.read()
			return f.resource(labels)
		}
		f.touched[start] = true
		return b
	}
	return nil
}

// layout formats changed code like terraform fmt if all of it was formatted before: new lines can
// move the equal signs next to them.
func layout(before, after []byte) []byte {
	plain := func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	was, lines := plain(before), bytes.Count(before, []byte("\n"))
	switch windows := len(before) - len(was); {
	case !bytes.Equal(hclwrite.Format(was), was):
	case windows == 0:
		return hclwrite.Format(after)
	case windows == lines:
		return bytes.ReplaceAll(hclwrite.Format(plain(after)), []byte("\n"), []byte("\r\n"))
	}
	return after
}

// oneLine reports whether a block is on one line, which allows no second attribute.
func oneLine(b *hclsyntax.Block) bool {
	return b.OpenBraceRange.Start.Line == b.CloseBraceRange.Start.Line
}

// value returns the value of an attribute as written.
func (f *hclFile) value(a *hclsyntax.Attribute) []byte {
	return bytes.TrimSpace(f.text[a.EqualsRange.End.Byte:a.SrcRange.End.Byte])
}

// setAttributes sets attributes of a block on several lines, in place or after everything else.
func (f *hclFile) setAttributes(b *hclsyntax.Block, settings []Setting) {
	var lines []string
	for _, s := range settings {
		if a := b.Body.Attributes[s.Attribute]; a != nil {
			f.replace(a.EqualsRange.End.Byte, a.SrcRange.End.Byte, " "+s.Expression)
		} else {
			lines = append(lines, s.Attribute+" = "+s.Expression)
		}
	}
	f.atEnd(b, lines...)
}

// atEnd adds lines at the end of a block on several lines.
func (f *hclFile) atEnd(b *hclsyntax.Block, lines ...string) {
	brace := b.CloseBraceRange.Start.Byte
	at := f.line(brace)
	indent, text := string(f.text[at:brace]), ""
	if strings.TrimSpace(indent) != "" { // a comment of several lines
		at, indent, text = brace, "", "\n"
	}
	for _, line := range lines {
		if line != "" {
			line = indent + "  " + line
		}
		text += line + "\n"
	}
	f.change(at, at, text)
}

// line returns the start of the line of an offset.
func (f *hclFile) line(at int) int { return bytes.LastIndexByte(f.text[:at], '\n') + 1 }

// add adds a block at the end of the file.
func (f *hclFile) add(head string, settings ...Setting) {
	text := head + " {\n"
	for _, s := range settings {
		text += s.Attribute + " = " + s.Expression + "\n"
	}
	text = "\n" + string(hclwrite.Format([]byte(text+"}\n")))
	if !bytes.HasSuffix(f.text, []byte("\n")) {
		text = "\n" + text
	}
	f.change(len(f.text), len(f.text), text)
}

// cut removes a part of the text, or its lines if there is nothing else than a comment after it.
func (f *hclFile) cut(from, to int) {
	end := len(f.text)
	if i := bytes.IndexByte(f.text[to:], '\n'); i >= 0 {
		end = to + i + 1
	}
	rest := bytes.TrimSpace(f.text[to:end])
	switch start := f.line(from); {
	case len(bytes.TrimSpace(f.text[start:from])) == 0 && (len(rest) == 0 || rest[0] == '#' ||
		bytes.HasPrefix(rest, []byte("//"))):
		f.replace(start, end, "")
	default:
		for to < end && f.text[to] == ' ' {
			to++
		}
		f.replace(from, to, "")
	}
}

// ignore adds an attribute to ignore_changes of a resource, in place of items that name parts of
// it.
func (f *hclFile) ignore(resource *hclsyntax.Block, attribute string) string {
	setting := "ignore_changes = [" + attribute + "]"
	all := blocks(resource.Body, "lifecycle")
	if len(all) == 0 {
		f.atEnd(resource, "", "lifecycle {", "  "+setting, "}")
		return ""
	}
	lifecycle := all[0]
	a := lifecycle.Body.Attributes["ignore_changes"]
	switch {
	case a == nil && oneLine(lifecycle):
		from, to := lifecycle.OpenBraceRange.End.Byte, lifecycle.CloseBraceRange.Start.Byte
		indent := "\n" + f.indent(from)
		if inside := string(bytes.TrimSpace(f.text[from:to])); inside != "" {
			setting = inside + indent + "  " + setting
		}
		f.change(from, to, indent+"  "+setting+indent)
		return ""
	case a == nil:
		f.atEnd(lifecycle, setting)
		return ""
	case hcl.ExprAsKeyword(a.Expr) == "all":
		return ""
	}
	list, is := a.Expr.(*hclsyntax.TupleConsExpr)
	if !is {
		return "ignore_changes is not a plain list: add " + attribute + " to it"
	}
	items, place := f.items(list.SrcRange), -1
	for i, item := range items {
		switch written := f.text[item.from:item.to]; {
		case string(written) == attribute || string(written) == `"`+attribute+`"`:
			return ""
		case place < 0 && rootOf(written) == attribute:
			place = i
		}
	}
	if place < 0 {
		f.append(list, items, attribute)
		return ""
	}
	f.replace(items[place].from, items[place].to, attribute)
	f.without(items, attribute, place)
	f.commit()
	return ""
}

// unignore removes an attribute from ignore_changes, and then the list and the block if they are
// empty.
func (f *hclFile) unignore(resource *hclsyntax.Block, attribute string) {
	lifecycles := blocks(resource.Body, "lifecycle") // Terraform allows one
	if len(lifecycles) == 0 {
		return
	}
	body := lifecycles[0].Body
	a := body.Attributes["ignore_changes"]
	if a == nil {
		return
	}
	list, is := a.Expr.(*hclsyntax.TupleConsExpr)
	if !is {
		return
	}
	items := f.items(list.SrcRange)
	switch kept := f.without(items, attribute, -1); {
	case kept > 0 || len(items) == 0:
	case len(body.Attributes)+len(body.Blocks) == 1:
		f.changes = nil
		f.cut(lifecycles[0].TypeRange.Start.Byte, lifecycles[0].CloseBraceRange.End.Byte)
	default:
		f.changes = nil
		f.cut(a.SrcRange.Start.Byte, a.SrcRange.End.Byte)
	}
	f.commit()
}

// rootOf returns the first attribute of an item of ignore_changes.
func rootOf(item []byte) string {
	text := strings.Trim(string(item), `"`)
	if end := strings.IndexAny(text, ".["); end >= 0 {
		return text[:end]
	}
	return text
}

// listItem is an item of a literal list. comma is where its comma is, -1 if it has none.
type listItem struct{ from, to, comma int }

// end returns the offset after an item and its comma.
func (i listItem) end() int { return max(i.to, i.comma+1) }

// items returns the items of a literal list.
func (f *hclFile) items(list hcl.Range) (out []listItem) {
	tokens, _ := hclsyntax.LexExpression(list.SliceBytes(f.text), f.name, list.Start) // it was parsed
	next := listItem{-1, -1, -1}
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrack, hclsyntax.TokenOBrace, hclsyntax.TokenOParen:
			if depth++; depth == 1 {
				continue
			}
		case hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenCParen:
			depth--
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			continue
		}
		switch comma := t.Type == hclsyntax.TokenComma && depth == 1; {
		case (comma || depth == 0) && next.from >= 0:
			if comma {
				next.comma = t.Range.Start.Byte
			}
			out = append(out, next)
			next = listItem{-1, -1, -1}
		case depth == 0 || comma:
		case next.from < 0:
			next.from, next.to = t.Range.Start.Byte, t.Range.End.Byte
		default:
			next.to = t.Range.End.Byte
		}
	}
	return out
}

// without removes the items that begin with an attribute, except one, and returns how many remain.
func (f *hclFile) without(items []listItem, attribute string, except int) (kept int) {
	last := -1
	for i, item := range items {
		if i == except || rootOf(f.text[item.from:item.to]) != attribute {
			last = i
			kept++
			continue
		}
		f.cut(item.from, item.end())
	}
	// the comma before the last ones on a line of several
	if last >= 0 && last < len(items)-1 && items[len(items)-1].comma < 0 {
		if from, to := items[last].comma, items[last+1].from; !bytes.Contains(f.text[from:to],
			[]byte("\n")) {
			f.replace(from, to, "")
		}
	}
	return kept
}

// append adds an item to a literal list, and keeps its lines and comments.
func (f *hclFile) append(list *hclsyntax.TupleConsExpr, items []listItem, item string) {
	end := list.SrcRange.End.Byte - 1
	if len(items) == 0 {
		f.change(end, end, item)
		return
	}
	last, line := items[len(items)-1], f.line(end)
	if last.comma < 0 {
		f.replace(last.to, last.to, ",")
	} else {
		item += ","
	}
	if line > last.to && len(bytes.TrimSpace(f.text[line:end])) == 0 {
		f.change(line, line, f.indent(last.from)+item+"\n")
	} else {
		f.change(last.end(), last.end(), " "+item)
	}
}
