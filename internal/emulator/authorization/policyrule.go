package authorization

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// How it works. A policy rule is a tree of allOf, anyOf and not. Its leaves compare a field of the
// request, a value, or a count with an operator (policy/concepts/definition-structure-policy-rule).
// checkPolicyRule refuses a definition with anything that condition does not evaluate, so that no
// rule is ignored silently.

// policy is the context of a policy rule: a request.
type policy struct {
	kind                 string // its type in Azure's case
	id                   arm.ID
	body                 kernel.Object
	parameters, defaults kernel.Object
	// current are the elements that count expressions enumerate: by their name, or by the array
	// alias.
	current map[string]any
}

// operators compare what a condition has with what it names. A condition with an array alias holds
// if all elements meet it (policy/how-to/author-policies-for-arrays).
var operators = map[string]func(have, want any) bool{
	"equals": same, "notEquals": negated(same), "in": among, "notIn": negated(among),
	"like": like, "notLike": negated(like),
	"exists":          func(have, want any) bool { return same(have != nil, want) },
	"greater":         func(have, want any) bool { return number(have) > number(want) },
	"greaterOrEquals": func(have, want any) bool { return number(have) >= number(want) },
	"less":            func(have, want any) bool { return number(have) < number(want) },
	"lessOrEquals":    func(have, want any) bool { return number(have) <= number(want) },
}

func negated(holds func(any, any) bool) func(any, any) bool {
	return func(have, want any) bool { return !holds(have, want) }
}

// same compares without case (definition-structure-policy-rule).
func same(have, want any) bool { return strings.EqualFold(text(have), text(want)) }

func among(have, want any) bool {
	items, _ := want.([]any)
	return slices.ContainsFunc(items, func(item any) bool { return same(have, item) })
}

func like(have, want any) bool {
	return matchStars(strings.ToLower(text(want)), strings.ToLower(text(have)))
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
var expression = regexp.MustCompile(`^\[(parameters|current)\('([^']+)'\)(?:\.(\w+))?\]$`)

// value evaluates an expression, or returns a literal as it is.
func (p policy) value(v any) any {
	s, _ := v.(string)
	m := expression.FindStringSubmatch(s)
	if m == nil {
		return v
	}
	value := p.current[strings.ToLower(m[2])]
	if m[1] == "parameters" {
		value = kernel.ObjectAt(p.defaults, m[2])["defaultValue"]
		if given := kernel.ObjectAt(p.parameters, m[2]); given != nil {
			value = given["value"]
		}
	}
	if m[3] != "" {
		o, _ := value.(map[string]any)
		value = o[m[3]]
	}
	return value
}

// condition evaluates the if of a policy rule.
func (p policy) condition(c kernel.Object) bool {
	switch {
	case c["allOf"] != nil:
		return !slices.ContainsFunc(kernel.ListAt(c, "allOf"), func(o kernel.Object) bool {
			return !p.condition(o)
		})
	case c["anyOf"] != nil:
		return slices.ContainsFunc(kernel.ListAt(c, "anyOf"), p.condition)
	case c["not"] != nil:
		return !p.condition(kernel.ObjectAt(c, "not"))
	}
	have := []any{p.value(c["value"])}
	if c["field"] != nil {
		have = p.field(kernel.Text(c, "field"))
	} else if c["count"] != nil {
		have = []any{p.count(kernel.ObjectAt(c, "count"))}
	}
	for operator, holds := range operators {
		if want, used := c[operator]; used {
			return !slices.ContainsFunc(have, func(v any) bool { return !holds(v, p.value(want)) })
		}
	}
	return false
}

// count counts the elements of an array of the request, or of a parameter, that meet a condition.
func (p policy) count(c kernel.Object) int {
	var items []any
	name := strings.ToLower(kernel.Text(c, "field"))
	if name != "" {
		items = p.field(name)
	} else {
		name = strings.ToLower(kernel.Text(c, "name"))
		items, _ = p.value(c["value"]).([]any)
	}
	n := 0
	for _, item := range items {
		inner := p
		inner.current = maps.Clone(p.current)
		if inner.current == nil {
			inner.current = map[string]any{}
		}
		inner.current[name] = item
		if c["where"] == nil || inner.condition(kernel.ObjectAt(c, "where")) {
			n++
		}
	}
	return n
}

// field reads a field of the resource: its own, a tag, or an alias, which is the type and the path
// of a property. An array alias has a value for each element.
func (p policy) field(name string) []any {
	switch strings.ToLower(name) {
	case "type":
		return []any{p.kind}
	case "name":
		return []any{p.id.Name()}
	case "id":
		return []any{string(p.id)}
	case "location":
		return []any{kernel.NormalLocation(kernel.Text(p.body, "location"))}
	case "kind", "tags", "identity":
		return []any{p.body[strings.ToLower(name)]}
	}
	if tag, found := strings.CutPrefix(name, "tags"); found {
		return []any{kernel.ObjectAt(p.body, "tags")[strings.Trim(tag, "[].'")]}
	}
	prefix := p.kind + "/"
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return []any{nil}
	}
	values, at := []any{any(p.body)}, strings.ToLower(p.kind)
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
		if item, counted := p.current[at]; counted && isArray {
			next = []any{item}
		}
		values = next
	}
	return values
}

// property is a property of a document. Its alias leaves out the envelope of a resource.
func property(v any, name string) any {
	o, _ := v.(map[string]any)
	for _, o := range []kernel.Object{kernel.ObjectAt(o, "properties"), o} {
		for key, value := range o {
			if strings.EqualFold(key, name) {
				return value
			}
		}
	}
	return nil
}

// checkPolicyRule refuses a rule that this emulator cannot evaluate, or with an alias that does not
// exist, if its effect is one that is enforced.
func checkPolicyRule(name string, properties kernel.Object) *kernel.Failure {
	effect := kernel.Text(kernel.ObjectAt(properties, "policyRule", "then"), "effect")
	if !strings.HasPrefix(effect, "[") && !strings.EqualFold(effect, "deny") &&
		!strings.EqualFold(effect, "denyAction") {
		return nil
	}
	return checkCondition(name, kernel.ObjectAt(properties, "policyRule", "if"))
}

func checkCondition(name string, c kernel.Object) *kernel.Failure {
	unknown := func(format string, args ...any) *kernel.Failure {
		return kernel.Fail(http.StatusNotImplemented, "PolicyRuleNotSupported",
			"The emulator does not support this in the policy definition '%s': %s.", name,
			fmt.Sprintf(format, args...))
	}
	compared := 0
	for _, key := range slices.Sorted(maps.Keys(c)) {
		switch key {
		case "allOf", "anyOf":
			for _, o := range kernel.ListAt(c, key) {
				if f := checkCondition(name, o); f != nil {
					return f
				}
			}
		case "not":
			if f := checkCondition(name, kernel.ObjectAt(c, key)); f != nil {
				return f
			}
		case "field":
			if f := checkAlias(name, kernel.Text(c, key)); f != nil {
				return f
			}
		case "count":
			count := kernel.ObjectAt(c, key)
			if count["field"] == nil && count["name"] == nil {
				return unknown("a count of a value without a name")
			}
			if f := checkAlias(name, kernel.Text(count, "field")); f != nil {
				return f
			}
			if where := kernel.ObjectAt(count, "where"); where != nil {
				if f := checkCondition(name, where); f != nil {
					return f
				}
			}
		default:
			if key != "value" && operators[key] == nil {
				return unknown("the operator '%s'", key)
			}
			s, _ := c[key].(string)
			if strings.HasPrefix(s, "[") && !expression.MatchString(s) {
				return unknown("the expression '%s'", s)
			}
			if key != "value" {
				compared++
			}
		}
	}
	leaf := c["field"] != nil || c["value"] != nil || c["count"] != nil
	if leaf && compared != 1 || !leaf && (len(c) != 1 || compared != 0) {
		return unknown("the condition %s", kernel.Encode(c))
	}
	return nil
}
