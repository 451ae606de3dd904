package config

import (
	"bytes"
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

// Parts selects what to promote in a document: its guard, and the targets and the egress with these
// route tables.
type Parts struct {
	Guard  bool
	Target func(table arm.ID) bool
}

// Promote changes Observe to Enforce and Sync in the named documents, and returns the new text of
// the file with the edits. Everything else stays, byte for byte. The text is nil if the file has
// none of these documents. It is an error if the new text would read differently from what was
// intended.
func Promote(f File, named map[string]Parts) (text []byte, edits []Edit, err error) {
	docs, _, err := readRoutes(f)
	if err != nil {
		return nil, nil, err
	}
	t := editedText{f: f, lines: lineStarts(f.Data)}
	var first *routes
	for _, d := range docs {
		if parts, is := named[d.spec.Metadata.Name]; is {
			t.promote(d, parts)
			if first == nil {
				first = d
			}
		}
	}
	if t.err != nil || first == nil {
		return nil, nil, t.err
	}
	text = t.done()
	read, _, err := readRoutes(File{Name: f.Name, Data: text})
	same := func(a, b *routes) bool { return reflect.DeepEqual(a.spec, b.spec) }
	if err != nil || !slices.EqualFunc(read, docs, same) {
		return nil, nil, first.errorAt(first.body, "",
			"it cannot be edited: change the values by hand")
	}
	return text, t.edits, nil
}

// promote adds the edits that promote the chosen parts of a document. It changes d.spec in the same
// way, because the edited text must then decode to d.spec.
func (t *editedText) promote(d *routes, parts Parts) {
	spec := &d.spec.Spec
	if parts.Guard && spec.Guard.Mode == v1alpha1.GuardObserve {
		spec.Guard.Mode = v1alpha1.GuardEnforce
		t.replace(d, "spec.guard.mode", string(v1alpha1.GuardEnforce))
	}
	if parts.Guard && spec.Guard.SecurityGroups == v1alpha1.GuardObserve &&
		d.value("spec.guard.securityGroups") != nil {
		spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
		t.replace(d, "spec.guard.securityGroups", string(v1alpha1.GuardEnforce))
	}
	egress := spec.Egress.RouteTableID // a cluster's own table is only watched
	if spec.Egress.Mode == v1alpha1.GuardObserve && parts.Target(arm.ID(egress)) &&
		!equalIDs(egress, spec.RouteTableID) &&
		d.value("spec.egress.mode") != nil {
		spec.Egress.Mode = v1alpha1.GuardEnforce
		t.replace(d, "spec.egress.mode", string(v1alpha1.GuardEnforce))
	}
	for i := range spec.Targets {
		target := &spec.Targets[i]
		if target.Policy == v1alpha1.PolicyObserve && parts.Target(arm.ID(target.RouteTableID)) {
			target.Policy = v1alpha1.PolicySync
			t.replace(d, fmt.Sprintf("spec.targets[%d].policy", i), string(v1alpha1.PolicySync))
		}
	}
}

// editedText is a text with the edits to make.
type editedText struct {
	f     File
	lines []int // where each line begins
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

// offset returns where the value of an edit begins in the text, or -1 if the text has another value
// there.
func (t *editedText) offset(e Edit) int {
	if e.Line > len(t.lines) {
		return -1
	}
	at := t.lines[e.Line-1]
	rest, _, _ := bytes.Cut(t.f.Data[at:], []byte("\n"))
	line := string(rest)
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

// done returns the text with the edits.
func (t *editedText) done() []byte {
	type place struct{ at, edit int }
	var places []place
	for i, e := range t.edits {
		places = append(places, place{t.offset(e), i})
	}
	slices.SortFunc(places, func(a, b place) int { return a.at - b.at })
	var text []byte
	from := 0
	for _, p := range places {
		e := t.edits[p.edit]
		text = append(append(text, t.f.Data[from:p.at]...), e.To...)
		from = p.at + len(e.From)
	}
	return append(text, t.f.Data[from:]...)
}

// lineStarts returns where each line of a text begins.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, b := range text {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}
