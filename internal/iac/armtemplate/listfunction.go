package armtemplate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Functions on arrays, and functions that work on arrays, text and objects
// (template-functions-array).
var listFunctions = map[string]function{
	"array": typed1(toArray),
	"createArray": {max: -1, open: true, call: func(_ *scope, args []any) (any, error) {
		return slices.Clone(args), nil
	}},
	"concat":   {min: 1, max: -1, open: true, call: concat},
	"contains": {min: 2, max: 2, open: true, call: contains},
	"empty":    {min: 1, max: 1, open: true, call: empty},
	"length":   typed1(length),
	"first":    firstOrLast(0),
	"last":     firstOrLast(-1),
	"take": takeOrSkip(func(n, size int64) (int64, int64) {
		return 0, min(max(n, 0), size)
	}),
	"skip": takeOrSkip(func(n, size int64) (int64, int64) {
		return min(max(n, 0), size), size
	}),
	"range":           typed2(numbers),
	"flatten":         typed1(flatten),
	"tryIndexFromEnd": typed2(fromEnd),
	"indexFromEnd":    typed2(fromEnd),
}

func toArray(_ *scope, v any) (any, error) {
	if list, is := v.([]any); is {
		return list, nil
	}
	return []any{v}, nil
}

func concat(x *scope, args []any) (any, error) {
	if u := unknownOf(args); u != nil {
		return u, nil
	}
	if _, lists := args[0].([]any); lists {
		all := []any{}
		for _, arg := range args {
			list, is := arg.([]any)
			if !is {
				return nil, fmt.Errorf("an array can only be joined with arrays, not with %s",
					kindOf(arg))
			}
			x.d.spend(len(list))
			all = append(all, list...)
		}
		return all, nil
	}
	var b strings.Builder
	opaque := false
	for _, arg := range args {
		if _, is := arg.([]any); is {
			return nil, fmt.Errorf("a string can only be joined with strings, not with an array")
		}
		s, partly := x.written(arg)
		opaque = opaque || partly
		if b.WriteString(s); b.Len() > maxText {
			break
		}
	}
	return x.assembled(b.String(), opaque)
}

func contains(x *scope, args []any) (any, error) {
	if u := unknownOf(args); u != nil {
		return u, nil
	}
	switch in := args[0].(type) {
	case []any:
		var doubt any
		for _, item := range in {
			switch same, known := x.sameValues(item, args[1]); {
			case !known:
				doubt = &Unknown{Why: "whether two unknown values are the same"}
			case same:
				return true, nil
			}
		}
		if doubt != nil {
			return doubt, nil
		}
		return false, nil
	case *Object:
		name, opaque := x.written(args[1])
		if in.find(name) >= 0 {
			return true, nil
		}
		if in.Open != nil {
			return in.Open.at(name), nil
		}
		if opaque {
			return &Unknown{Why: "whether there is a member " + name}, nil
		}
		return false, nil
	}
	text, known := args[0].(string)
	item, opaque := x.written(args[1])
	if _, partly := args[0].(Opaque); partly || opaque {
		return &Unknown{Why: "what a text holds that is not known"}, nil
	}
	if !known {
		return nil, fmt.Errorf("%s has no content to search", kindOf(args[0]))
	}
	x.d.spend(len(text) / 64)
	return strings.Contains(text, item), nil
}

func empty(_ *scope, args []any) (any, error) {
	switch v := args[0].(type) {
	case nil:
		return true, nil
	case *Unknown:
		return v, nil
	case string:
		return v == "", nil
	case Opaque:
		// Text outside the braces is not empty, whatever the braces contain.
		if rest := string(v); rest[0] != '{' || strings.IndexByte(rest, '}') != len(rest)-1 {
			return false, nil
		}
		return &Unknown{Why: "whether " + string(v) + " is empty"}, nil
	case []any:
		return len(v) == 0, nil
	case *Object:
		if len(v.Members) == 0 && v.Open != nil {
			return v.Open, nil
		}
		return len(v.Members) == 0, nil
	}
	return nil, fmt.Errorf("%s cannot be empty", kindOf(args[0]))
}

func length(_ *scope, of any) (any, error) {
	switch v := of.(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), nil
	case []any:
		return int64(len(v)), nil
	case *Object:
		if v.Open != nil {
			return v.Open, nil
		}
		return int64(len(v.Members)), nil
	}
	return nil, fmt.Errorf("%s has no length", kindOf(of))
}

// firstOrLast returns a function for the first (0) or last (-1) element of an array or text. An
// empty array gives null, an empty text "".
func firstOrLast(at int) function {
	return textual(typed1(func(_ *scope, of any) (any, error) {
		switch v := of.(type) {
		case []any:
			if len(v) == 0 {
				return nil, nil
			}
			return v[(len(v)+at)%len(v)], nil
		case string:
			if v == "" {
				return "", nil
			}
			r, _ := utf8.DecodeRuneInString(v)
			if at < 0 {
				r, _ = utf8.DecodeLastRuneInString(v)
			}
			return string(r), nil
		}
		return nil, fmt.Errorf("expected an array or a string, not %s", kindOf(of))
	}))
}

func takeOrSkip(from func(n, size int64) (start, end int64)) function {
	return textual(typed2(func(x *scope, of any, n int64) (any, error) {
		switch v := of.(type) {
		case []any:
			start, end := from(n, int64(len(v)))
			return v[start:end:end], nil
		case string:
			x.d.spend(len(v) / 16)
			runes := []rune(v)
			start, end := from(n, int64(len(runes)))
			return string(runes[start:end]), nil
		}
		return nil, fmt.Errorf("expected an array or a string, not %s", kindOf(of))
	}))
}

func numbers(x *scope, start, count int64) (any, error) {
	if count < 0 || count > 10000 || start > 1<<31-1-count || start < -1<<31 {
		return nil, fmt.Errorf("expected a start and a count of at most 10000")
	}
	x.d.spend(int(count))
	list := make([]any, count)
	for i := range list {
		list[i] = start + int64(i)
	}
	return list, nil
}

func flatten(x *scope, list []any) (any, error) {
	if u := unknownOf(list); u != nil {
		return u, nil
	}
	all := []any{}
	for _, item := range list {
		inner, is := item.([]any)
		if !is {
			return nil, fmt.Errorf("expected arrays in the array, not %s", kindOf(item))
		}
		x.d.spend(len(inner))
		all = append(all, inner...)
	}
	return all, nil
}

func fromEnd(_ *scope, list []any, n int64) (any, error) {
	if n < 1 || n > int64(len(list)) {
		return nil, nil
	}
	return list[int64(len(list))-n], nil
}

// indexIn returns the first or last index of a value in an array.
func indexIn(x *scope, list []any, wanted any, last bool) (any, error) {
	at := int64(-1)
	for i, item := range list {
		switch same, known := x.sameValues(item, wanted); {
		case !known:
			return &Unknown{Why: "whether two unknown values are the same"}, nil
		case same && !last:
			return int64(i), nil
		case same:
			at = int64(i)
		}
	}
	return at, nil
}
