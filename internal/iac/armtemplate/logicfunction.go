package armtemplate

import (
	"cmp"
	"fmt"
	"strings"
)

// Functions that decide and compare (template-functions-logical, template-functions-comparison).
var logicFunctions = map[string]function{
	"true":            {call: func(*scope, []any) (any, error) { return true, nil }},
	"false":           {call: func(*scope, []any) (any, error) { return false, nil }},
	"if":              {min: 3, max: 3, lazy: ifThen},
	"and":             {min: 2, max: -1, lazy: andOr(true)},
	"or":              {min: 2, max: -1, lazy: andOr(false)},
	"not":             typed1(func(_ *scope, b bool) (any, error) { return !b, nil }),
	"bool":            typed1(toBool),
	"coalesce":        {min: 1, max: -1, lazy: coalesce},
	"equals":          {min: 2, max: 2, open: true, call: equals},
	"less":            compare(func(c int) bool { return c < 0 }),
	"lessOrEquals":    compare(func(c int) bool { return c <= 0 }),
	"greater":         compare(func(c int) bool { return c > 0 }),
	"greaterOrEquals": compare(func(c int) bool { return c >= 0 }),
}

func ifThen(x *scope, args []expression) (any, error) {
	condition, err := x.eval(args[0])
	if err != nil {
		return nil, err
	}
	switch c := condition.(type) {
	case bool:
		if c {
			return x.eval(args[1])
		}
		return x.eval(args[2])
	case *Unknown:
		// If both results are equal, an unknown condition does not matter.
		yes, errYes := x.eval(args[1])
		no, errNo := x.eval(args[2])
		if same, known := x.sameValues(yes, no); errYes == nil && errNo == nil && same && known {
			return yes, nil
		}
		return c, nil
	}
	return nil, fmt.Errorf("if: the condition is %s", kindOf(condition))
}

// andOr returns the function "and" (wanted is true) or the function "or" (false). One argument with
// the opposite value decides, even if others are unknown.
func andOr(wanted bool) func(*scope, []expression) (any, error) {
	return func(x *scope, args []expression) (any, error) {
		var doubt *Unknown
		for _, arg := range args {
			v, err := x.eval(arg)
			if err != nil {
				return nil, err
			}
			switch v := v.(type) {
			case bool:
				if v != wanted {
					return v, nil
				}
			case *Unknown:
				doubt = v
			default:
				return nil, fmt.Errorf("expected booleans, not %s", kindOf(v))
			}
		}
		if doubt != nil {
			return doubt, nil
		}
		return wanted, nil
	}
}

func toBool(_ *scope, of any) (any, error) {
	switch v := of.(type) {
	case bool:
		return v, nil
	case int64:
		return v != 0, nil
	case string:
		switch strings.ToLower(v) {
		case "true", "1":
			return true, nil
		case "false", "0":
			return false, nil
		}
	}
	return nil, fmt.Errorf("it is not a boolean")
}

func coalesce(x *scope, args []expression) (any, error) {
	for _, arg := range args {
		if v, err := x.eval(arg); v != nil || err != nil {
			return v, err // an unknown value may be null, so the result is unknown
		}
	}
	return nil, nil
}

func equals(x *scope, args []any) (any, error) {
	same, known := x.sameValues(args[0], args[1])
	if known {
		return same, nil
	}
	if u := unknownOf(args); u != nil {
		return u, nil
	}
	return &Unknown{Why: "whether two unknown values are the same"}, nil
}

func compare(is func(int) bool) function {
	return typed2(func(_ *scope, a, b any) (any, error) {
		m, isM := a.(int64)
		n, isN := b.(int64)
		if isM && isN {
			return is(cmp.Compare(m, n)), nil
		}
		s, isS := a.(string)
		t, isT := b.(string)
		if !isS || !isT {
			return nil, fmt.Errorf("expected two integers or two strings, not %s and %s",
				kindOf(a), kindOf(b))
		}
		order, known := collate(s, t)
		if !known {
			return &Unknown{Why: "the order of two strings"}, nil
		}
		return is(order), nil
	})
}

// collate orders text as .NET's invariant culture does: by letters first, then lower case before
// upper case. It knows the order of ASCII letters and digits only.
func collate(a, b string) (order int, known bool) {
	for _, s := range []string{a, b} {
		if strings.ContainsFunc(s, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			return 0, a == b
		}
	}
	if c := strings.Compare(strings.ToLower(a), strings.ToLower(b)); c != 0 {
		return c, true
	}
	return -strings.Compare(a, b), true // in ASCII, upper case comes first
}
