package armtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// Values are nil, bool, int64, float64, string, Opaque, []any, *Object and *Unknown.

// Object is a JSON object with its members in order. Names are case-insensitive, as in Resource
// Manager.
type Object struct {
	Members []Member
	// Open is set if the object has unknown members, such as the future state of a resource.
	// Open.Of names the resource.
	Open *Unknown
	// File and Line are its place in the code, even for a copy that an expression made. They are ""
	// and 0 if an expression made the object.
	File string
	Line int
	// Start is the offset of its opening brace in the file.
	Start int

	index map[string]int
}

// Member is a name and its value.
type Member struct {
	Name  string
	Value any
	// Line is its line; At is the offset of its name in the file, From and To are the offsets of
	// its value.
	Line         int
	At, From, To int
}

// Unknown stands for a value that the template does not show, and for everything computed from it.
type Unknown struct {
	// Why describes the value, for messages: "the parameter prefix".
	Why string
	// Of is the resource's ID if this is part of its state, and Path is the part, such as
	// routeTable.id. Otherwise both are "".
	Of, Path string
}

// Opaque is text with unknown parts, which are in braces: {prefix}-rt. The same unknown value
// always has the same spelling. So names and IDs with unknown parts can be compared with each
// other, but with nothing else.
type Opaque string

// Lookup returns a member by name, and whether it exists. In an open object a missing member is
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

// Get works like Lookup, but does not distinguish null from absent.
func (o *Object) Get(name string) any {
	v, _ := o.Lookup(name)
	return v
}

// Object returns a member that is an object, or nil.
func (o *Object) Object(name string) *Object {
	v, _ := o.Get(name).(*Object)
	return v
}

// List returns a member that is an array, or nil.
func (o *Object) List(name string) []any {
	v, _ := o.Get(name).([]any)
	return v
}

// Objects returns the objects in a member that is an array.
func (o *Object) Objects(name string) (all []*Object) {
	for _, item := range o.List(name) {
		if o, is := item.(*Object); is {
			all = append(all, o)
		}
	}
	return all
}

// Text returns a member that is text, possibly partly unknown, or "".
func (o *Object) Text(name string) string {
	s, _ := TextOf(o.Get(name))
	return s
}

// Member returns a member by name, or nil.
func (o *Object) Member(name string) *Member {
	if o == nil {
		return nil
	}
	if i := o.find(name); i >= 0 {
		return &o.Members[i]
	}
	return nil
}

// LineOf returns the line of a member, or the line of the object if it has no such member.
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

// set sets a member. If a name appears twice, the last value wins.
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

// like returns an empty object with the place of this one.
func (o *Object) like() *Object {
	return &Object{File: o.File, Line: o.Line, Start: o.Start, Open: o.Open}
}

// at returns the unknown member of an unknown value.
func (u *Unknown) at(name string) *Unknown {
	next := *u
	if next.Path != "" {
		next.Path += "."
	}
	next.Path += name
	return &next
}

// TextOf returns a text, known or partly unknown, and whether the value is text.
func TextOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Opaque:
		return string(v), true
	}
	return "", false
}

// Plain returns a value in the form of encoding/json, without unknown parts. Partly unknown text
// keeps its braces.
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

// walk calls visit for a value and everything in it, until visit returns false.
func walk(v any, visit func(part any) bool) bool {
	if !visit(v) {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if !walk(item, visit) {
				return false
			}
		}
	case *Object:
		for _, m := range v.Members {
			if !walk(m.Value, visit) {
				return false
			}
		}
	}
	return true
}

// as returns a value of a type, or an error that names both types.
func as[T any](v any) (T, error) {
	t, is := v.(T)
	if anything := any(t) == nil; !is && !anything {
		return t, fmt.Errorf("expected %s, not %s", kindOf(t), kindOf(v))
	}
	return t, nil
}

// kindOf names the type of a value, for messages.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
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
