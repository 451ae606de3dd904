package iac

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// textEdit collects changes of a JSON text by offset, and makes them all at once.
type textEdit struct {
	text    []byte
	changes []textChange
}

type textChange struct {
	from, to int
	with     string
}

func (e *textEdit) replace(from, to int, with string) {
	e.changes = append(e.changes, textChange{from, to, with})
}

// member sets a member of an object: it replaces the member with that name, or adds one before the
// first, in the layout of the others.
func (e *textEdit) member(o *armtemplate.Object, name, value string) {
	if m := o.Member(name); m != nil {
		e.replace(m.From, m.To, value)
		return
	}
	at := o.Start + 1
	text := `"` + name + `": ` + value
	if len(o.Members) == 0 {
		e.replace(at, at, text)
		return
	}
	// the new member gets the white space before the old first one, without comments
	between := string(e.text[at:o.Members[0].At])
	if strings.TrimSpace(between) != "" {
		between = " "
	}
	if between == "" {
		text += ", "
	} else {
		text += ","
	}
	e.replace(at, at, between+text)
}

// before inserts an item before the one at an offset, with the same line break and indentation.
func (e *textEdit) before(at int, item string) {
	indent := e.indent(at)
	var b bytes.Buffer
	name, doc := "", item
	if strings.HasPrefix(item, `"`) {
		i := strings.Index(item, ": {")
		name, doc = item[:i+2], item[i+2:]
	}
	if json.Indent(&b, []byte(doc), indent, "  ") == nil {
		doc = b.String()
	}
	e.replace(at, at, name+doc+",\n"+indent)
}

// indent returns the white space at the start of the line of an offset.
func (e *textEdit) indent(at int) string {
	line := e.text[bytes.LastIndexByte(e.text[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// nameBefore returns the offset of the name of the member whose value starts at an offset.
func (e *textEdit) nameBefore(at int) int {
	end := bytes.LastIndexByte(e.text[:at], '"')
	return bytes.LastIndexByte(e.text[:max(end, 0)], '"')
}

// done makes the changes.
func (e *textEdit) done() []byte {
	slices.SortStableFunc(e.changes, func(a, b textChange) int { return a.from - b.from })
	var out bytes.Buffer
	at := 0
	for _, c := range e.changes {
		if c.from < at {
			// two edits overlap: make none, and the check of the result finds no improvement
			return e.text
		}
		out.Write(e.text[at:c.from])
		out.WriteString(c.with)
		at = c.to
	}
	out.Write(e.text[at:])
	return out.Bytes()
}
