package armtemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Functions that take functions (template-functions-lambda).
var lambdaFunctions = map[string]function{
	"lambda": {min: 1, max: -1, lazy: func(*scope, []expression) (any, error) {
		return nil, fmt.Errorf("lambda can only be an argument")
	}},
	"lambdaVariables": typed1(lambdaVariable),
	"map":             {min: 2, max: 2, lazy: mapEach},
	"filter":          {min: 2, max: 2, lazy: filter},
	"reduce":          {min: 3, max: 3, lazy: reduce},
	"sort":            {min: 2, max: 2, lazy: sorted},
	"toObject":        {min: 2, max: 3, lazy: toObject},
}

func lambdaVariable(x *scope, name string) (any, error) {
	v, there := x.locals[strings.ToLower(name)]
	if !there || x.function {
		return nil, fmt.Errorf("there is no variable %s", shorten(name))
	}
	return v, nil
}

// lambda turns an argument into a function. It drops values for which the lambda declares no
// variable, such as the index that map passes.
func (x *scope) lambda(arg expression) (func(values ...any) (any, error), error) {
	c, is := arg.(*call)
	if !is || !strings.EqualFold(c.name, "lambda") || len(c.args) == 0 {
		return nil, fmt.Errorf("expected a lambda")
	}
	var names []string
	for _, arg := range c.args[:len(c.args)-1] {
		named, _ := arg.(literal)
		name, is := named.value.(string)
		if !is {
			return nil, fmt.Errorf("the variables of a lambda need names")
		}
		names = append(names, strings.ToLower(name))
	}
	return func(values ...any) (any, error) {
		inner := *x
		if inner.locals = maps.Clone(x.locals); inner.locals == nil {
			inner.locals = map[string]any{}
		}
		for i, name := range names {
			if i >= len(values) {
				return nil, fmt.Errorf("the lambda has %d variables, and gets %d values",
					len(names),
					len(values))
			}
			inner.locals[name] = values[i]
		}
		return inner.eval(c.args[len(c.args)-1])
	}, nil
}

// each evaluates an array and a lambda, calls the lambda with each element and its number, and
// gives the result to do. If do returns an end, each returns it. Otherwise each returns the result
// of out.
func (x *scope) each(list, lambda expression, do func(item, result any) (end any, err error),
	out func() any) (any, error) {
	v, err := x.eval(list)
	if err != nil {
		return nil, err
	}
	if u, unknown := v.(*Unknown); unknown {
		return u, nil
	}
	values, is := v.([]any)
	if !is {
		return nil, fmt.Errorf("expected an array, not %s", kindOf(v))
	}
	f, err := x.lambda(lambda)
	if err != nil {
		return nil, err
	}
	for i, item := range values {
		result, err := f(item, int64(i))
		if err != nil {
			return nil, err
		}
		if end, err := do(item, result); end != nil || err != nil {
			return end, err
		}
	}
	return out(), nil
}

func mapEach(x *scope, args []expression) (any, error) {
	out := []any{}
	return x.each(args[0], args[1], func(_, result any) (any, error) {
		out = append(out, result)
		return nil, nil
	}, func() any { return out })
}

func filter(x *scope, args []expression) (any, error) {
	out := []any{}
	return x.each(args[0], args[1], func(item, result any) (any, error) {
		switch keep := result.(type) {
		case bool:
			if keep {
				out = append(out, item)
			}
			return nil, nil
		case *Unknown:
			return keep, nil
		}
		return nil, fmt.Errorf("filter: expected a boolean, not %s", kindOf(result))
	}, func() any { return out })
}

func reduce(x *scope, args []expression) (any, error) {
	v, err := x.eval(args[0])
	if err != nil {
		return nil, err
	}
	result, err := x.eval(args[1])
	if u, unknown := v.(*Unknown); unknown || err != nil {
		return u, err
	}
	values, is := v.([]any)
	if !is {
		return nil, fmt.Errorf("reduce: expected an array, not %s", kindOf(v))
	}
	f, err := x.lambda(args[2])
	for i := 0; i < len(values) && err == nil; i++ {
		result, err = f(result, values[i], int64(i))
	}
	return result, err
}

func sorted(x *scope, args []expression) (any, error) {
	v, err := x.eval(args[0])
	if err != nil {
		return nil, err
	}
	values, is := v.([]any)
	if !is {
		return v, nil
	}
	f, err := x.lambda(args[1])
	if err != nil {
		return nil, err
	}
	var doubt any
	before := func(a, b any) bool {
		if err != nil || doubt != nil {
			return false
		}
		var result any
		if result, err = f(a, b); err != nil {
			return false
		}
		yes, known := result.(bool)
		if !known {
			doubt = &Unknown{Why: "the order of an array"}
		}
		return yes
	}
	out := slices.Clone(values)
	slices.SortStableFunc(out, func(a, b any) int {
		switch {
		case before(a, b):
			return -1
		case before(b, a):
			return 1
		}
		return 0
	})
	if err != nil || doubt != nil {
		return doubt, err
	}
	return out, nil
}

func toObject(x *scope, args []expression) (any, error) {
	out := &Object{}
	value := func(values ...any) (any, error) { return values[0], nil }
	if len(args) == 3 {
		var err error
		if value, err = x.lambda(args[2]); err != nil {
			return nil, err
		}
	}
	return x.each(args[0], args[1], func(item, key any) (any, error) {
		name, is := TextOf(key)
		if !is {
			return &Unknown{Why: "an object whose names are not known"}, nil
		}
		v, err := value(item)
		out.set(name, v, 0)
		return nil, err
	}, func() any { return out })
}
