package armtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// Values are nil, bool, int64, float64, string, Opaque, []any, *Object and *Unknown.

// Object is a JSON object with its members in their order. Names are compared without case, as
// Resource Manager does.
type Object struct {
	Members []Member
	// Open is set where there is more in it than is known: what a resource will say of itself once
	// it is there. Of says of which.
	Open *Unknown
	// File and Line are where it is written, also for a copy that an expression made of it; "" and
	// 0 for what expressions made.
	File string
	Line int
	// Start is the offset of its brace in the file.
	Start int

	index map[string]int
}

// Member is a name and its value.
type Member struct {
	Name  string
	Value any
	// Line is where it is written; At is the offset of its name in the file, From and To those of
	// its value.
	Line         int
	At, From, To int
}

// Unknown stands for a value that a template does not show, and for whatever is computed from it.
type Unknown struct {
	// Why says what it is, for a sentence: "the parameter prefix".
	Why string
	// Of is the ID of the resource whose state it is, and Path where in it, such as routeTable.id;
	// "" for others.
	Of, Path string
}

// Opaque is a text of which parts are not known. They stand in braces, {prefix}-rt, and the same
// unknown is always spelled alike, so that names and IDs made of it can be compared with each
// other, and with nothing else.
type Opaque string

// Lookup returns the member of a name, and whether there is one. In an open object a missing one is
// unknown.
func (o *Object) Lookup(name string) (any, bool) {
	if o == nil {
		return nil, false
	}
	if i := o.find(name); i >= 0 {
		return o.Members[i].Value, true
	}
	if o.Open != nil {
		return o.Open.at(name), true
	}
	return nil, false
}

// Get is Lookup without the difference between null and absent.
func (o *Object) Get(name string) any {
	v, _ := o.Lookup(name)
	return v
}

// Object returns the member of a name where it is an object, or nil.
func (o *Object) Object(name string) *Object {
	v, _ := o.Get(name).(*Object)
	return v
}

// List returns the member of a name where it is a list, or nil.
func (o *Object) List(name string) []any {
	v, _ := o.Get(name).([]any)
	return v
}

// Text returns the member of a name where it is a text, also a partly unknown one, or "".
func (o *Object) Text(name string) string {
	s, _ := TextOf(o.Get(name))
	return s
}

// Member returns the member of a name, or nil.
func (o *Object) Member(name string) *Member {
	if o == nil {
		return nil
	}
	if i := o.find(name); i >= 0 {
		return &o.Members[i]
	}
	return nil
}

// LineOf returns the line of a member, or of the object where it has none.
func (o *Object) LineOf(name string) int {
	if i := o.find(name); i >= 0 && o.Members[i].Line > 0 {
		return o.Members[i].Line
	}
	return o.Line
}

func (o *Object) find(name string) int {
	if len(o.Members) <= 8 {
		return slices.IndexFunc(o.Members, func(m Member) bool {
			return strings.EqualFold(m.Name, name)
		})
	}
	if len(o.index) != len(o.Members) {
		o.index = make(map[string]int, len(o.Members))
		for i, m := range o.Members {
			o.index[strings.ToLower(m.Name)] = i
		}
	}
	if i, ok := o.index[strings.ToLower(name)]; ok {
		return i
	}
	return -1
}

// set gives a member a value; of two with one name the last one counts.
func (o *Object) set(name string, v any, line int) {
	if i := o.find(name); i >= 0 {
		o.Members[i] = Member{Name: name, Value: v, Line: line}
		return
	}
	if len(o.index) == len(o.Members) && o.index != nil {
		o.index[strings.ToLower(name)] = len(o.Members)
	}
	o.Members = append(o.Members, Member{Name: name, Value: v, Line: line})
}

// like returns an empty object that is written where this one is.
func (o *Object) like() *Object {
	return &Object{File: o.File, Line: o.Line, Start: o.Start, Open: o.Open}
}

// at returns the unknown behind a name of an unknown.
func (u *Unknown) at(name string) *Unknown {
	next := *u
	if next.Path != "" {
		next.Path += "."
	}
	next.Path += name
	return &next
}

// TextOf returns a text, and whether it is one, known or partly unknown.
func TextOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Opaque:
		return string(v), true
	}
	return "", false
}

// Plain returns a value as encoding/json has it, without what is unknown; texts that are partly
// unknown keep their braces.
func Plain(v any) any {
	switch v := v.(type) {
	case *Unknown:
		return nil
	case Opaque:
		return string(v)
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			if _, unknown := item.(*Unknown); !unknown {
				list = append(list, Plain(item))
			}
		}
		return list
	case *Object:
		out := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			if _, unknown := m.Value.(*Unknown); !unknown {
				out[m.Name] = Plain(m.Value)
			}
		}
		return out
	}
	return v
}

// kindOf names what a value is, for messages.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string, Opaque:
		return "a string"
	case []any:
		return "an array"
	case *Object:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}
