package iac

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// ignore adds an attribute to ignore_changes of a resource, and removes items that name parts of
// it.
func ignore(body *hclwrite.Body, attribute string) string {
	lifecycle := body.FirstMatchingBlock("lifecycle", nil)
	if lifecycle == nil {
		body.AppendNewline()
		lifecycle = body.AppendNewBlock("lifecycle", nil)
	}
	list := lifecycle.Body().GetAttribute("ignore_changes")
	if list == nil {
		openUp(lifecycle)
		setAttribute(lifecycle.Body(), Setting{"ignore_changes", "[" + attribute + "]"})
		return ""
	}
	items, all, known := ignoredItems(list)
	switch {
	case all:
		return ""
	case !known:
		return "ignore_changes is not a plain list: add " + attribute + " to it"
	}
	written := list.Expr().BuildTokens(nil)
	now := appended(written, attribute)
	for _, item := range items {
		switch root := rootOf(item); {
		case item == attribute || item == `"`+attribute+`"`:
			return ""
		case root == attribute:
			now = without(written, attribute, attribute)
		}
	}
	lifecycle.Body().SetAttributeRaw("ignore_changes", now)
	return ""
}

// openUp splits a block on one line into several lines.
func openUp(b *hclwrite.Block) {
	if !oneLine(b) {
		return
	}
	set := map[string]hclwrite.Tokens{} // at most one: HCL allows only one on a line
	for name, a := range b.Body().Attributes() {
		set[name] = a.Expr().BuildTokens(nil)
		b.Body().RemoveAttribute(name)
	}
	b.Body().AppendNewline()
	for name, expression := range set {
		b.Body().SetAttributeRaw(name, expression)
	}
}

// unignore removes an attribute from ignore_changes, and then the list and the block if they are
// empty.
func unignore(body *hclwrite.Body, attribute string) {
	lifecycle := body.FirstMatchingBlock("lifecycle", nil)
	if lifecycle == nil {
		return
	}
	list := lifecycle.Body().GetAttribute("ignore_changes")
	if list == nil {
		return
	}
	items, all, known := ignoredItems(list)
	if all || !known {
		return
	}
	kept := 0
	for _, item := range items {
		if rootOf(item) != attribute {
			kept++
		}
	}
	switch {
	case kept == len(items):
	case kept > 0:
		lifecycle.Body().SetAttributeRaw("ignore_changes",
			without(list.Expr().BuildTokens(nil), attribute, ""))
	default:
		lifecycle.Body().RemoveAttribute("ignore_changes")
		if len(lifecycle.Body().Attributes())+len(lifecycle.Body().Blocks()) == 0 {
			body.RemoveBlock(lifecycle)
		}
	}
}

// ignoredItems returns the items of ignore_changes as written; all is set for the word all, known
// for a literal list.
func ignoredItems(a *hclwrite.Attribute) (items []string, all, known bool) {
	expr, source, ok := expressionOf(a)
	if !ok {
		return nil, false, false
	}
	if hcl.ExprAsKeyword(expr) == "all" {
		return nil, true, true
	}
	list, diagnostics := hcl.ExprList(expr)
	if diagnostics.HasErrors() {
		return nil, false, false
	}
	for _, item := range list {
		r := item.Range()
		items = append(items, string(r.SliceBytes(source)))
	}
	return items, false, true
}

// rootOf returns the first attribute of an item of ignore_changes.
func rootOf(item string) string {
	item = strings.Trim(item, `"`)
	if end := strings.IndexAny(item, ".["); end >= 0 {
		return item[:end]
	}
	return item
}

// without removes from a literal list the items that begin with an attribute, with the comments
// after them, and keeps the other lines. If instead is not "", it replaces the first of them.
func without(list hclwrite.Tokens, attribute, instead string) hclwrite.Tokens {
	space := func(i int) bool {
		return list[i].Type == hclsyntax.TokenNewline || list[i].Type == hclsyntax.TokenComment
	}
	out := hclwrite.Tokens{list[0]}
	last := len(list) - 1 // the closing bracket
	for i := 1; i < last; {
		if space(i) {
			out = append(out, list[i])
			i++
			continue
		}
		start, depth := i, 0
		for ; i < last && (depth > 0 || list[i].Type != hclsyntax.TokenComma && !space(i)); i++ {
			switch list[i].Type {
			case hclsyntax.TokenOBrack:
				depth++
			case hclsyntax.TokenCBrack:
				depth--
			}
		}
		item := list[start:i]
		comma := i < last && list[i].Type == hclsyntax.TokenComma
		if comma {
			i++
		}
		switch {
		case rootOf(strings.TrimSpace(string(item.Bytes()))) != attribute:
			out = append(out, list[start:i]...)
		case instead != "":
			out = append(out, &hclwrite.Token{Type: hclsyntax.TokenIdent, Bytes: []byte(instead),
				SpacesBefore: item[0].SpacesBefore})
			if comma {
				out = append(out, list[i-1])
			}
			instead = ""
		default:
			// the last one on a line of several
			if !comma && out[len(out)-1].Type == hclsyntax.TokenComma {
				out = out[:len(out)-1]
			}
			// the item had its own line
			if before := out[len(out)-1]; i < last && space(i) &&
				strings.HasSuffix(string(before.Bytes), "\n") {
				i++
			}
		}
	}
	return append(out, list[last])
}

// appended adds an item to a literal list, and keeps its lines and comments.
func appended(list hclwrite.Tokens, item string) hclwrite.Tokens {
	end := len(list) - 1
	for end > 0 && list[end].Type != hclsyntax.TokenCBrack {
		end--
	}
	last := end - 1 // the last token that is not a line break or a comment
	for last > 0 &&
		(list[last].Type == hclsyntax.TokenNewline || list[last].Type == hclsyntax.TokenComment) {
		last--
	}
	word := &hclwrite.Token{Type: hclsyntax.TokenIdent, Bytes: []byte(item)}
	comma := &hclwrite.Token{Type: hclsyntax.TokenComma, Bytes: []byte(",")}
	var out hclwrite.Tokens
	switch list[last].Type {
	case hclsyntax.TokenOBrack:
		out = append(out, list[:end]...)
		out = append(out, word)
	case hclsyntax.TokenComma: // a line for each
		out = append(out, list[:end]...)
		out = append(out, word, comma)
		if last < end-1 {
			out = append(out, &hclwrite.Token{Type: hclsyntax.TokenNewline, Bytes: []byte("\n")})
		}
	default:
		out = append(out, list[:last+1]...)
		out = append(out, comma)
		word.SpacesBefore = 1
		out = append(out, list[last+1:end]...)
		out = append(out, word)
		if last < end-1 {
			out = append(out, &hclwrite.Token{Type: hclsyntax.TokenNewline, Bytes: []byte("\n")})
		}
	}
	return append(out, list[end:]...)
}
