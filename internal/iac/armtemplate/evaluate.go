package armtemplate

import (
	"fmt"
	"strings"
)

// scope is what an expression can refer to.
type scope struct {
	d     *deployment // its parameters, variables, functions and resources are visible
	loops []loop      // the copy loops around the expression, the innermost last
	// locals are the variables of lambdas. In a user-defined function they are its parameters, and
	// nothing else is visible.
	locals   map[string]any
	function bool
	place    place     // for notes
	resource *Resource // the resource whose body contains the expression, or nil
}

// loop is the current iteration of a copy loop.
type loop struct {
	name     string
	index    int64
	resource bool
}

// function is a template function. Its arguments are values or, if it does not need all of them,
// expressions.
type function struct {
	min, max int // number of arguments; max -1: any number
	call     func(x *scope, args []any) (any, error)
	lazy     func(x *scope, args []expression) (any, error)
	// open means that the function accepts unknown arguments. Otherwise its result for them is
	// unknown. text means that the function returns text. For partly unknown text its result is
	// partly unknown, too.
	open, text bool
}

// typed1, typed2 and typed3 make functions whose arguments have a type; any takes every value.
func typed1[A any](f func(x *scope, a A) (any, error)) function {
	return function{min: 1, max: 1, call: func(x *scope, args []any) (any, error) {
		a, err := argument[A](args, 0)
		if err != nil {
			return nil, err
		}
		return f(x, a)
	}}
}

func typed2[A, B any](f func(x *scope, a A, b B) (any, error)) function {
	return function{min: 2, max: 2, call: func(x *scope, args []any) (any, error) {
		b, err := argument[B](args, 1)
		if err != nil {
			return nil, err
		}
		return typed1(func(x *scope, a A) (any, error) { return f(x, a, b) }).call(x, args)
	}}
}

func typed3[A, B, C any](f func(x *scope, a A, b B, c C) (any, error)) function {
	return function{min: 3, max: 3, call: func(x *scope, args []any) (any, error) {
		c, err := argument[C](args, 2)
		if err != nil {
			return nil, err
		}
		return typed2(func(x *scope, a A, b B) (any, error) { return f(x, a, b, c) }).call(x, args)
	}}
}

func argument[T any](args []any, i int) (T, error) {
	v, err := as[T](args[i])
	if err != nil {
		return v, fmt.Errorf("argument %d: %w", i+1, err)
	}
	return v, nil
}

// textual marks a function that returns text.
func textual(f function) function {
	f.text = true
	return f
}

// functions are the supported functions, by lower-case name.
var functions map[string]function

func init() { // not in the declaration, because functions call functions
	functions = map[string]function{}
	for _, family := range []map[string]function{textFunctions, listFunctions, objectFunctions,
		numberFunctions, logicFunctions, cidrFunctions, lambdaFunctions, scopeFunctions,
		templateFunctions} {
		for name, f := range family {
			functions[strings.ToLower(name)] = f
		}
	}
}

// unevaluated has functions whose result only Azure knows, at deployment, and some rare ones:
// dates, data URIs, groups of values. In no known template does one of them decide about a subnet.
var unevaluated = map[string]bool{"datetimeadd": true, "datetimefromepoch": true,
	"datetimetoepoch": true, "datauri": true, "datauritostring": true,
	"uricomponenttostring": true, "groupby": true, "mapvalues": true, "intersection": true,
	"providers": true, "pickzones": true, "environment": true,
	"externalinput": true, "getsecret": true, "tologicalzone": true, "tologicalzones": true,
	"tophysicalzone": true, "tophysicalzones": true}

// value evaluates all expressions in a value of a template. If an expression fails, that is noted,
// and its value is unknown.
func (x *scope) value(v any) any {
	x.d.spend(1)
	switch v := v.(type) {
	case string:
		return x.text(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = x.value(item)
		}
		return list
	case *Object:
		return x.object(v)
	}
	return v
}

func (x *scope) object(o *Object) any {
	out := o.like()
	for _, m := range o.Members {
		if loops, is := copyLoops(m); is {
			for _, l := range loops {
				out.set(l.Text("name"), x.expand(l), l.Line)
			}
			continue
		}
		name, known := TextOf(x.text(m.Name))
		if !known {
			out.Open = &Unknown{Why: "a member whose name is not known"}
			continue
		}
		out.set(name, x.value(m.Value), m.Line)
	}
	return out
}

// text evaluates a text of a template, which may be an expression.
func (x *scope) text(text string) any {
	is, source := isExpression(text)
	if !is {
		return source
	}
	v, err := x.evaluate(source)
	if err != nil {
		x.d.note(x.place, true, "%s cannot be evaluated: %v", shorten(text), err)
		if x.live() {
			return &Unknown{Why: fmt.Sprintf("%s cannot be evaluated: %v", shorten(text), err)}
		}
		return &Unknown{Why: "an expression that cannot be evaluated"}
	}
	if x.d.verbatim && x.resource != nil && x.d.unknownIn(v) != nil {
		return text
	}
	return v
}

func (x *scope) evaluate(source string) (any, error) {
	e, ok := x.d.parsed[source]
	if !ok {
		var err error
		x.d.spend(1 + len(source)/16)
		if e, err = parseExpression(source); err != nil {
			return nil, err
		}
		x.d.parsed[source] = e
	}
	return x.eval(e)
}

func (x *scope) eval(e expression) (any, error) {
	x.d.spend(1)
	switch e := e.(type) {
	case literal:
		return e.value, nil
	case *access:
		of, err := x.eval(e.of)
		if err != nil {
			return nil, err
		}
		at, err := x.eval(e.at)
		if err != nil {
			return nil, err
		}
		return member(of, at)
	case *call:
		return x.call(e)
	}
	return nil, fmt.Errorf("%T", e)
}

func (x *scope) call(c *call) (any, error) {
	if namespace, name, own := strings.Cut(c.name, "."); own {
		return x.callOwn(namespace, name, c.args)
	}
	name := strings.ToLower(c.name)
	f, known := functions[name]
	switch {
	case !known && strings.HasPrefix(name, "list") && x.live():
		return x.list(c)
	case unevaluated[name] || !known && strings.HasPrefix(name, "list"):
		return &Unknown{Why: "what " + c.name + "() returns during the deployment"}, nil
	case !known:
		x.d.note(x.place, true,
			"the function %s is not supported, so its result is unknown", shorten(c.name))
		return &Unknown{Why: "what the function " + c.name + " says"}, nil
	case len(c.args) < f.min || f.max >= 0 && len(c.args) > f.max:
		return nil, fmt.Errorf("%s: wrong number of arguments: %d", c.name, len(c.args))
	case f.lazy != nil:
		return f.lazy(x, c.args)
	}
	args, err := x.evalAll(c.args)
	if err != nil {
		return nil, err
	}
	if !f.open {
		if u := unknownOf(args); u != nil {
			return u, nil
		}
		for _, arg := range args {
			if _, opaque := arg.(Opaque); opaque && f.text {
				return x.opaque(c.name, args), nil
			} else if opaque {
				return &Unknown{Why: fmt.Sprintf("what %s is", arg)}, nil
			}
		}
	}
	v, err := f.call(x, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return v, nil
}

func (x *scope) evalAll(args []expression) ([]any, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		v, err := x.eval(arg)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// callOwn calls a user-defined function of the template.
func (x *scope) callOwn(namespace, name string, args []expression) (any, error) {
	for _, n := range x.d.expressions().template.List("functions") {
		n, _ := n.(*Object)
		if n == nil || !strings.EqualFold(n.Text("namespace"), namespace) {
			continue
		}
		f := n.Object("members").Object(name)
		if f == nil {
			break
		}
		values, err := x.evalAll(args)
		if err != nil {
			return nil, err
		}
		inner := &scope{d: x.d, locals: map[string]any{}, function: true, place: x.place}
		for i, p := range f.List("parameters") {
			if p, _ := p.(*Object); p != nil && i < len(values) {
				inner.locals[strings.ToLower(p.Text("name"))] = values[i]
			} else if p != nil {
				return nil, fmt.Errorf("%s.%s has %d arguments, and none for %s", namespace, name,
					len(values), p.Text("name"))
			}
		}
		if x.d.enter() {
			defer x.d.leave()
			return inner.value(f.Object("output").Get("value")), nil
		}
		return nil, fmt.Errorf("%s.%s calls itself", namespace, name)
	}
	return nil, fmt.Errorf("the template has no function %s.%s", namespace, name)
}

// member returns a member of an object, or an element of an array.
func member(of, at any) (any, error) {
	if u, unknown := of.(*Unknown); unknown {
		if name, known := at.(string); known {
			return u.at(name), nil
		}
		return u, nil
	}
	if u, unknown := at.(*Unknown); unknown {
		return u, nil
	}
	switch of := of.(type) {
	case Opaque:
		return &Unknown{Why: "what " + string(of) + " is"}, nil
	case *Object:
		name, is := TextOf(at)
		if !is {
			return nil, fmt.Errorf("the name of a member is a string, not %s", kindOf(at))
		}
		if v, there := of.Lookup(name); there {
			return v, nil
		}
		if _, opaque := at.(Opaque); opaque {
			return &Unknown{Why: "the member " + name}, nil
		}
		return nil, fmt.Errorf("there is no member %s", shorten(name))
	case []any:
		n, is := at.(int64)
		if !is {
			return nil, fmt.Errorf("the index of an element is an integer, not %s", kindOf(at))
		}
		if n < 0 || n >= int64(len(of)) {
			return nil, fmt.Errorf("there is no element %d among %d", n, len(of))
		}
		return of[n], nil
	case string:
		return nil, fmt.Errorf("a string has no members")
	}
	return nil, fmt.Errorf("%s has no members", kindOf(of))
}

// unknownOf returns the first of the values that is unknown, or nil.
func unknownOf(values []any) *Unknown {
	for _, v := range values {
		if u, is := v.(*Unknown); is {
			return u
		}
	}
	return nil
}

// opaque stands for the result of a text function with partly unknown arguments.
func (x *scope) opaque(function string, args []any) Opaque {
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = x.json(arg)
	}
	return Opaque("{" + function + "-" + uniqueString(texts...) + "}")
}

// shorten cuts a text of a template to the length of a message.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 80 {
		return string(runes[:77]) + "..."
	}
	return text
}
