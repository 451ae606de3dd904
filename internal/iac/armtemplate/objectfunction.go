package armtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// Functions on objects, and functions that also merge arrays (template-functions-object).
var objectFunctions = map[string]function{
	"createObject": {max: -1, open: true, call: createObject},
	"json":         typed1(parseText),
	"null":         {call: func(*scope, []any) (any, error) { return nil, nil }},
	"items":        listed(item),
	"objectKeys":   listed(func(_ *Object, name string) any { return name }),
	"union":        {min: 1, max: -1, call: union},
	"shallowMerge": typed1(shallowMerge),
	"tryGet":       {min: 2, max: -1, open: true, call: tryGet},
}

func createObject(x *scope, args []any) (any, error) {
	if len(args)%2 != 0 {
		return nil, fmt.Errorf("each name needs a value")
	}
	o := &Object{}
	for i := 0; i < len(args); i += 2 {
		if u := unknownOf(args[i : i+1]); u != nil {
			o.Open = u
			continue
		}
		name, is := TextOf(args[i])
		if !is {
			return nil, fmt.Errorf("expected a string as the name, not %s", kindOf(args[i]))
		}
		o.set(name, args[i+1], 0)
	}
	return o, nil
}

// names returns the names of an object's members in Resource Manager's order.
func names(o *Object) []string {
	list := memberNames(o)
	slices.SortFunc(list, func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	})
	return list
}

func item(o *Object, name string) any {
	item := o.like()
	item.set("key", name, 0)
	item.set("value", o.Get(name), 0)
	return item
}

// listed makes the function that lists something for each member of an object.
func listed(what func(o *Object, name string) any) function {
	return typed1(func(x *scope, o *Object) (any, error) {
		if o.Open != nil {
			return o.Open, nil
		}
		x.d.spend(4 * len(o.Members))
		list := make([]any, 0, len(o.Members))
		for _, name := range names(o) {
			list = append(list, what(o, name))
		}
		return list, nil
	})
}

func union(x *scope, args []any) (any, error) {
	all := args[0]
	for _, next := range args[1:] {
		var err error
		if all, err = deepUnion(x, all, next); err != nil {
			return nil, err
		}
		if u := unknownOf([]any{all}); u != nil {
			return u, nil
		}
	}
	return all, nil
}

// deepUnion merges objects recursively, and arrays as sets. An array inside an object is replaced,
// not merged.
func deepUnion(x *scope, a, b any) (any, error) {
	switch a := a.(type) {
	case *Object:
		b, is := b.(*Object)
		if !is {
			break
		}
		return x.merged(a, b, true), nil
	case []any:
		b, is := b.([]any)
		if !is {
			break
		}
		all := []any{}
		for _, item := range slices.Concat(a, b) {
			x.d.spend(1)
			if at, err := indexIn(x, all, item, false); err != nil || at != int64(-1) {
				if u, unknown := at.(*Unknown); unknown {
					return u, nil
				}
				continue
			}
			all = append(all, item)
		}
		return all, nil
	}
	return nil, fmt.Errorf("expected objects or arrays, not %s and %s", kindOf(a), kindOf(b))
}

func (x *scope) merged(a, b *Object, deep bool) *Object {
	x.d.spend(len(a.Members) + len(b.Members) + 1)
	out := &Object{Members: slices.Clone(a.Members), Open: a.Open, File: a.File, Line: a.Line}
	if b.Open != nil {
		out.Open = b.Open
	}
	for _, m := range b.Members {
		if was, is := out.Get(m.Name).(*Object); is && deep {
			if now, is := m.Value.(*Object); is {
				out.set(m.Name, x.merged(was, now, deep), m.Line)
				continue
			}
		}
		out.set(m.Name, m.Value, m.Line)
	}
	return out
}

func shallowMerge(x *scope, list []any) (any, error) {
	out := &Object{}
	for _, item := range list {
		if u, unknown := item.(*Unknown); unknown {
			return u, nil
		}
		o, err := as[*Object](item)
		if err != nil {
			return nil, err
		}
		out = x.merged(out, o, false)
	}
	return out, nil
}

// tryGet follows a path, and returns null if the path does not exist.
func tryGet(_ *scope, args []any) (any, error) {
	v := args[0]
	for _, at := range args[1:] {
		switch of := v.(type) {
		case nil:
			return nil, nil
		case *Object:
			if name, is := TextOf(at); is {
				if _, there := of.Lookup(name); !there {
					return nil, nil
				}
			}
		case []any:
			if n, is := at.(int64); is && (n < 0 || n >= int64(len(of))) {
				return nil, nil
			}
		}
		var err error
		if v, err = member(v, at); err != nil {
			return nil, err
		}
	}
	return v, nil
}
