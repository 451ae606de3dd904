package armtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// copyLoops returns the loops in a member of an object: an array with the name copy
// (copy-properties).
func copyLoops(m Member) (loops []*Object, is bool) {
	list, isList := m.Value.([]any)
	if !strings.EqualFold(m.Name, "copy") || !isList || len(list) == 0 {
		return nil, false
	}
	for _, item := range list {
		o, _ := item.(*Object)
		if o == nil || o.find("count") < 0 || o.find("input") < 0 || o.Text("name") == "" {
			return nil, false
		}
		loops = append(loops, o)
	}
	return loops, true
}

// count returns how often a loop repeats. A number that Azure does not accept ends the evaluation.
func (x *scope) count(l *Object) (int64, *Unknown) {
	switch n := x.value(l.Get("count")).(type) {
	case int64:
		if n < 0 || n > MaxCopies {
			panic(limit{fmt.Sprintf(
				"line %d: a copy loop repeats %d times, expected 0 to %d", l.Line, n,
				MaxCopies)})
		}
		return n, nil
	case *Unknown:
		return 0, n
	}
	x.d.note(x.place, true, "the count of a copy loop is not a number")
	return 0, &Unknown{Why: "the count of a copy loop"}
}

// expand returns the array that a loop over properties, variables or outputs makes.
func (x *scope) expand(l *Object) any {
	count, unknown := x.count(l)
	if unknown != nil {
		return unknown
	}
	list := make([]any, count)
	for i := range count {
		step := *x
		step.loops = append(slices.Clone(x.loops), loop{l.Text("name"), i, false})
		list[i] = step.value(l.Get("input"))
	}
	return list
}

// copyIndex returns the number of the current copy. Without a name it is the resource's loop, or
// the innermost loop if there is none.
func copyIndex(x *scope, args []any) (any, error) {
	var name string
	var offset int64
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			name = v
		case int64:
			offset = v
		}
	}
	found := -1
	for i, l := range x.loops {
		if name != "" && strings.EqualFold(l.name, name) ||
			name == "" && (l.resource || found < 0 || !x.loops[found].resource) {
			found = i
		}
	}
	if found < 0 {
		return nil, fmt.Errorf("there is no copy loop %s here", shorten(name))
	}
	if x.loops[found].index < 0 {
		return &Unknown{Why: "the number of a copy"}, nil
	}
	return x.loops[found].index + offset, nil
}
