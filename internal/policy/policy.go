// Package policy evaluates rules of Azure Policy for a request.
//
// How it works. A policy rule is a tree of allOf, anyOf and not. Its leaves compare a field of the
// request, a value, or a count with an operator (policy/concepts/definition-structure-policy-rule).
// What this package does not evaluate, such as most template functions, is Unknown, and so is a
// tree that depends on it.
//
// It is pure. Its users are the emulator, which enforces policies, and package prevent, which says
// what policies do to guarded subnets.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Object is a JSON object.
type Object = map[string]any

// Truth is whether a condition holds.
type Truth int

// No is less than Unknown, and Unknown is less than Yes.
const (
	No Truth = iota
	Unknown
	Yes
)

func truth(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// Request is what a rule judges: the body of a write, or the resource to delete.
type Request struct {
	Type string // in Azure's case
	ID   arm.ID
	Body Object
}

// Rule is a rule with the parameters of its assignment, and their defaults in its definition.
type Rule struct {
	Mode                 string
	If, Then             Object
	Parameters, Defaults Object
}

// Applies reports whether a mode evaluates a type: "Indexed" only evaluates types that support tags
// and location, such as route tables, and not their routes or the subnets of networks
// (policy/concepts/definition-structure-basics).
func (r Rule) Applies(resourceType string) bool {
	return !strings.EqualFold(r.Mode, "Indexed") || strings.Count(resourceType, "/") == 1
}

// Effect returns the effect in lower case.
func (r Rule) Effect() string {
	effect, _ := evaluation{rule: r}.value(r.Then["effect"])
	return strings.ToLower(text(effect))
}

// Value evaluates an expression with the parameters of the assignment. ok is false if it is one
// that this package does not evaluate.
func (r Rule) Value(v any) (value any, ok bool) { return evaluation{rule: r}.value(v) }

// Holds evaluates the if of the rule.
func (r Rule) Holds(request Request) Truth {
	return evaluation{rule: r, request: request}.condition(r.If)
}

// evaluation is a rule for a request. current are the elements that count expressions enumerate: by
// their name, or by the array alias.
type evaluation struct {
	rule    Rule
	request Request
	current map[string]any
}

// operators compare the value that a condition reads with the value that it names. A condition with
// an array alias holds if all elements meet it (policy/how-to/author-policies-for-arrays).
var operators = map[string]func(have, want any) bool{
	"equals": equal, "notEquals": negated(equal), "in": among, "notIn": negated(among),
	"like": like, "notLike": negated(like),
	"contains": contains, "notContains": negated(contains),
	"exists":          func(have, want any) bool { return equal(have != nil, want) },
	"greater":         func(have, want any) bool { return number(have) > number(want) },
	"greaterOrEquals": func(have, want any) bool { return number(have) >= number(want) },
	"less":            func(have, want any) bool { return number(have) < number(want) },
	"lessOrEquals":    func(have, want any) bool { return number(have) <= number(want) },
}

// Compares reports whether this package evaluates an operator.
func Compares(operator string) bool { return operators[operator] != nil }

func negated(holds func(any, any) bool) func(any, any) bool {
	return func(have, want any) bool { return !holds(have, want) }
}

// equal compares without case (definition-structure-policy-rule).
func equal(have, want any) bool { return strings.EqualFold(text(have), text(want)) }

func among(have, want any) bool {
	items, _ := want.([]any)
	return slices.ContainsFunc(items, func(item any) bool { return equal(have, item) })
}

func contains(have, want any) bool {
	if items, ok := have.([]any); ok {
		return slices.ContainsFunc(items, func(item any) bool { return equal(item, want) })
	}
	return strings.Contains(strings.ToLower(text(have)), strings.ToLower(text(want)))
}

// like compares with a pattern whose one star stands for any text.
func like(have, want any) bool {
	value, pattern := strings.ToLower(text(have)), strings.ToLower(text(want))
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return value == pattern
	}
	rest, found := strings.CutPrefix(value, before)
	if !found {
		return false
	}
	if !strings.Contains(after, "*") {
		return strings.HasSuffix(rest, after)
	}
	for i := range len(rest) + 1 {
		if like(rest[i:], after) {
			return true
		}
	}
	return false
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func number(v any) float64 {
	n, _ := strconv.ParseFloat(text(v), 64)
	return n
}

// expression is what is evaluated of the template functions: [parameters('x')], [current('x').y].
var expression = lazy.Regexp(`^\[(parameters|current)\('([^']+)'\)(?:\.(\w+))?\]$`)

// Evaluates reports whether a text is a literal, or an expression that this package evaluates.
func Evaluates(s string) bool {
	return !strings.HasPrefix(s, "[") || strings.HasPrefix(s, "[[") || expression().MatchString(s)
}

func (e evaluation) value(v any) (value any, ok bool) {
	s, _ := v.(string)
	m := expression().FindStringSubmatch(s)
	if m == nil {
		return v, Evaluates(s)
	}
	value = e.current[strings.ToLower(m[2])]
	if m[1] == "parameters" {
		declared, _ := e.rule.Defaults[m[2]].(Object)
		value = declared["defaultValue"]
		if given, _ := e.rule.Parameters[m[2]].(Object); given != nil {
			value = given["value"]
		}
		if inner, isText := value.(string); isText && inner != s && !Evaluates(inner) {
			return nil, false
		}
	}
	if m[3] != "" {
		o, _ := value.(Object)
		value = o[m[3]]
	}
	return value, true
}

func objects(v any) (all []Object) {
	items, _ := v.([]any)
	for _, item := range items {
		o, _ := item.(Object)
		all = append(all, o)
	}
	return all
}

// condition evaluates a condition.
func (e evaluation) condition(c Object) Truth {
	switch {
	case c["allOf"] != nil:
		result := Yes
		for _, o := range objects(c["allOf"]) {
			result = min(result, e.condition(o))
		}
		return result
	case c["anyOf"] != nil:
		result := No
		for _, o := range objects(c["anyOf"]) {
			result = max(result, e.condition(o))
		}
		return result
	case c["not"] != nil:
		inner, _ := c["not"].(Object)
		return Yes - e.condition(inner)
	}
	single, ok := e.value(c["value"])
	have := []any{single}
	if field, isField := c["field"].(string); isField {
		have, ok = e.field(field)
	} else if counted, isCount := c["count"].(Object); isCount {
		var n int
		n, ok = e.count(counted)
		have = []any{n}
	}
	if !ok {
		return Unknown
	}
	for operator, holds := range operators {
		wanted, used := c[operator]
		if !used {
			continue
		}
		want, ok := e.value(wanted)
		if !ok {
			return Unknown
		}
		return truth(!slices.ContainsFunc(have, func(v any) bool { return !holds(v, want) }))
	}
	return Unknown
}

// count counts the elements of an array of the request, or of a parameter, that meet a condition.
func (e evaluation) count(c Object) (n int, ok bool) {
	name := strings.ToLower(text(c["field"]))
	var items []any
	if name != "" {
		items, ok = e.field(name)
	} else {
		var value any
		name = strings.ToLower(text(c["name"]))
		value, ok = e.value(c["value"])
		items, _ = value.([]any)
	}
	for _, item := range items {
		inner := e
		inner.current = maps.Clone(e.current)
		if inner.current == nil {
			inner.current = map[string]any{}
		}
		inner.current[name] = item
		holds := Yes
		if where, _ := c["where"].(Object); where != nil {
			holds = inner.condition(where)
		}
		if holds == Yes {
			n++
		}
		ok = ok && holds != Unknown
	}
	return n, ok
}

// field reads a field of the resource: its own, a tag, or an alias, which is the type and the path
// of a property. An array alias has a value for each element.
func (e evaluation) field(name string) (values []any, ok bool) {
	if strings.HasPrefix(name, "[") {
		return nil, false
	}
	switch strings.ToLower(name) {
	case "type":
		return []any{e.request.Type}, true
	case "name":
		return []any{e.request.ID.Name()}, true
	case "id":
		return []any{string(e.request.ID)}, true
	case "location":
		return []any{strings.ToLower(strings.ReplaceAll(text(e.request.Body["location"]), " ",
			""))}, true
	case "kind", "tags", "identity":
		return []any{e.request.Body[strings.ToLower(name)]}, true
	}
	if tag, found := strings.CutPrefix(name, "tags"); found {
		tags, _ := e.request.Body["tags"].(Object)
		return []any{tags[strings.Trim(tag, "[].'")]}, true
	}
	prefix := e.request.Type + "/"
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return []any{nil}, true
	}
	values, at := []any{any(e.request.Body)}, strings.ToLower(e.request.Type)
	for i, step := range strings.Split(name[len(prefix):], ".") {
		at += map[bool]string{true: "/", false: "."}[i == 0] + strings.ToLower(step)
		step, isArray := strings.CutSuffix(step, "[*]")
		var next []any
		for _, v := range values {
			v = property(v, step)
			if items, _ := v.([]any); isArray {
				next = append(next, items...)
			} else {
				next = append(next, v)
			}
		}
		if item, counted := e.current[at]; counted && isArray {
			next = []any{item}
		}
		values = next
	}
	return values, true
}

// property returns a property of a document. Its alias leaves out the envelope of a resource.
func property(v any, name string) any {
	o, _ := v.(Object)
	inside, _ := named(o, "properties").(Object)
	if value := named(inside, name); value != nil {
		return value
	}
	return named(o, name)
}

// named returns a value of an object: ARM's names have no case.
func named(o Object, name string) any {
	for key, value := range o {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}
