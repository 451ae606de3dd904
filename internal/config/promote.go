package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// Edit replaces one value in a file, at a line and column counted from 1.
type Edit struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Field  string `json:"field"` // such as spec.targets[0].policy
	From   string `json:"from"`
	To     string `json:"to"`
}

// observe is the value that guard.mode and policy share.
const observe = string(v1alpha1.GuardObserve)

// Parts selects what to promote in a document: its guard, and the targets with these route tables.
type Parts struct {
	Guard  bool
	Target func(table arm.ID) bool
}

// Promote changes Observe to Enforce and Sync in the named document, and returns the new text of
// its file with the edits. Everything else stays, byte for byte. The text is nil if the file has no
// such document. It is an error if the new text would read differently from what was intended.
func Promote(f File, name string, parts Parts) (text []byte, edits []Edit, err error) {
	docs, _, err := readRoutes(f)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(docs, func(d *routes) bool { return d.spec.Metadata.Name == name })
	if at < 0 {
		return nil, nil, nil
	}
	d := docs[at]
	want := d.spec
	want.Spec.Targets = slices.Clone(want.Spec.Targets)
	t := editedText{f: f, text: f.Data}
	if spec := &want.Spec; parts.Guard && spec.Guard.Mode == v1alpha1.GuardObserve {
		spec.Guard.Mode = v1alpha1.GuardEnforce
		t.replace(d, "spec.guard.mode", string(v1alpha1.GuardEnforce))
	}
	for i := range want.Spec.Targets {
		target := &want.Spec.Targets[i]
		id := arm.ID(target.RouteTableID)
		if target.Policy == v1alpha1.PolicyObserve && parts.Target(id) {
			target.Policy = v1alpha1.PolicySync
			field := fmt.Sprintf("spec.targets[%d].policy", i)
			t.replace(d, field, string(v1alpha1.PolicySync))
		}
	}
	if t.err != nil {
		return nil, nil, t.err
	}
	text = t.done()
	docs[at].spec = want
	read, _, err := readRoutes(File{Name: f.Name, Data: text})
	same := func(a, b *routes) bool { return reflect.DeepEqual(a.spec, b.spec) }
	if err != nil || !slices.EqualFunc(read, docs, same) {
		return nil, nil, d.errorAt(d.body, "", "it cannot be edited: change the values by hand")
	}
	return text, t.edits, nil
}

// editedText is a text with the edits to make.
type editedText struct {
	f     File
	text  []byte
	edits []Edit
	err   error
}

// replace adds the edit of a field with the value Observe, if the file has the field.
func (t *editedText) replace(d *routes, field, to string) {
	node := d.find(field)
	for {
		anchor, is := node.(*ast.AnchorNode)
		if !is {
			break
		}
		node = anchor.Value
	}
	place := d.errorAt(node, field, "it cannot be edited: write "+to+" by hand")
	e := Edit{t.f.Name, place.Line, place.Column, field, observe, to}
	if t.err == nil && t.offset(e) < 0 {
		t.err = place
	}
	t.edits = append(t.edits, e)
}

// offset is where the value of an edit begins in the text, or -1 if the text has another value
// there.
func (t *editedText) offset(e Edit) int {
	at := 0
	for n := 1; n < e.Line; n++ {
		end := strings.IndexByte(string(t.text[at:]), '\n')
		if end < 0 {
			return -1
		}
		at += end + 1
	}
	line, _, _ := strings.Cut(string(t.text[at:]), "\n")
	if e.Line == 1 && strings.HasPrefix(line, "\ufeff") { // a byte order mark has no column
		at, line = at+len("\ufeff"), strings.TrimPrefix(line, "\ufeff")
	}
	column := 1
	for i := range line {
		if column == e.Column {
			rest := line[i:]
			for _, quote := range []string{"", `"`, "'"} {
				if strings.HasPrefix(rest, quote+e.From+quote) {
					return at + i + len(quote)
				}
			}
			return -1
		}
		column++
	}
	return -1
}

// done applies the edits, from the last to the first.
func (t *editedText) done() []byte {
	edits := slices.Clone(t.edits)
	slices.SortFunc(edits, func(a, b Edit) int { return t.offset(b) - t.offset(a) })
	text := t.text
	for _, e := range edits {
		at := t.offset(e)
		text = slices.Concat(text[:at], []byte(e.To), text[at+len(e.From):])
	}
	return text
}
