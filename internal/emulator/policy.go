package emulator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

const (
	typePolicyDefinition = "Microsoft.Authorization/policyDefinitions"
	typePolicyAssignment = "Microsoft.Authorization/policyAssignments"
)

// settlePolicyAssignment checks that what is assigned exists.
func (s *authorization) settlePolicyAssignment(c *call, r, old *resource) *failure {
	r.etag = ""
	p := objectAt(r.body, "properties")
	definition := arm.ID(text(p, "policyDefinitionId"))
	if s.kernel.store.get(definition) == nil && !builtInPolicy(definition) {
		return fail(http.StatusNotFound, "PolicyDefinitionNotFound",
			"The policy definition '%s' could not be found.", definition.Name())
	}
	p["scope"] = string(r.id.Parent())
	setDefault(p, "enforcementMode", "Default")
	signPolicy(c, r, old)
	return nil
}

func (s *authorization) settlePolicyDefinition(c *call, r, old *resource) *failure {
	r.etag = ""
	p := objectAt(r.body, "properties")
	if objectAt(p, "policyRule", "if") == nil || objectAt(p, "policyRule", "then") == nil {
		return fail(http.StatusBadRequest, "InvalidPolicyRule",
			"The policy definition '%s' rule is invalid: it needs an 'if' and a 'then'.",
			r.id.Name())
	}
	setDefault(p, "policyType", "Custom")
	setDefault(p, "mode", "Indexed")
	signPolicy(c, r, old)
	return nil
}

// checkPolicies refuses a write that an assigned policy denies. Other effects are not enforced, and
// of the conditions only those that condition reads: one it does not know is not fulfilled.
func (s *authorization) checkPolicies(id arm.ID, body object) *failure {
	assignments := s.kernel.store.byType[strings.ToLower(typePolicyAssignment)]
	for _, key := range slices.Sorted(maps.Keys(assignments)) {
		a := objectAt(assignments[key].body, "properties")
		definition := s.kernel.store.get(arm.ID(text(a, "policyDefinitionId")))
		if definition == nil || !covers(assignments[key].id.Parent(), id) ||
			text(a, "enforcementMode") == "DoNotEnforce" ||
			slices.ContainsFunc(list(a, "notScopes"), func(excluded string) bool {
				return covers(arm.ID(excluded), id)
			}) {
			continue
		}
		d := objectAt(definition.body, "properties")
		p := policy{kind: s.kernel.kindName(id), id: id, body: body,
			parameters: objectAt(a, "parameters"),
			defaults:   objectAt(d, "parameters")}
		if !strings.EqualFold(fmt.Sprint(p.value(objectAt(d, "policyRule", "then")["effect"])),
			"deny") || !p.condition(objectAt(d, "policyRule", "if")) {
			continue
		}
		name := func(r *resource) string {
			if display := text(objectAt(r.body, "properties"), "displayName"); display != "" {
				return display
			}
			return r.id.Name()
		}
		identifiers := encode([]object{{
			"policyAssignment": object{"name": name(assignments[key]),
				"id": string(assignments[key].id)},
			"policyDefinition": object{"name": name(definition), "id": string(definition.id)},
		}})
		return fail(http.StatusForbidden, "RequestDisallowedByPolicy",
			"Resource '%s' was disallowed by policy. Policy identifiers: '%s'.", id.Name(),
			identifiers)
	}
	return nil
}

// policy is a policy's view of a write.
type policy struct {
	kind                 string // its type in Azure's case
	id                   arm.ID
	body                 object
	parameters, defaults object
}

// value replaces [parameters('x')].
func (p policy) value(v any) any {
	s, _ := v.(string)
	name, isParameter := strings.CutPrefix(s, "[parameters('")
	if !isParameter {
		return v
	}
	name = strings.TrimSuffix(name, "')]")
	if given := objectAt(p.parameters, name); given != nil {
		return given["value"]
	}
	return objectAt(p.defaults, name)["defaultValue"]
}

// condition evaluates the if of a policy rule.
func (p policy) condition(c object) bool {
	switch {
	case c["allOf"] != nil:
		return !slices.ContainsFunc(listAt(c, "allOf"), func(o object) bool {
			return !p.condition(o)
		})
	case c["anyOf"] != nil:
		return slices.ContainsFunc(listAt(c, "anyOf"), p.condition)
	case objectAt(c, "not") != nil:
		return !p.condition(objectAt(c, "not"))
	}
	have := p.field(text(c, "field"))
	is := func(v any) bool { return strings.EqualFold(fmt.Sprint(have), fmt.Sprint(p.value(v))) }
	among := func(v any) bool {
		items, _ := p.value(v).([]any)
		return slices.ContainsFunc(items, is)
	}
	like := func(v any) bool {
		return matchStars(strings.ToLower(fmt.Sprint(p.value(v))),
			strings.ToLower(fmt.Sprint(have)))
	}
	for operator, holds := range map[string]func(any) bool{
		"equals": is, "in": among, "like": like,
		"notEquals": func(v any) bool { return !is(v) },
		"notIn":     func(v any) bool { return !among(v) },
		"notLike":   func(v any) bool { return !like(v) },
		"exists": func(v any) bool {
			return strings.EqualFold(fmt.Sprint(p.value(v)), fmt.Sprint(have != nil))
		},
	} {
		if v, used := c[operator]; used {
			return holds(v)
		}
	}
	return false
}

// field reads a field of the resource: its own, a tag, or an alias, which is the type and the path
// of a property.
func (p policy) field(name string) any {
	switch strings.ToLower(name) {
	case "type":
		return p.kind
	case "name":
		return p.id.Name()
	case "id":
		return string(p.id)
	case "location":
		return normalLocation(text(p.body, "location"))
	case "kind", "tags", "identity":
		return p.body[strings.ToLower(name)]
	}
	if tag, found := strings.CutPrefix(name, "tags"); found {
		return objectAt(p.body, "tags")[strings.Trim(tag, "[].'")]
	}
	prefix := p.kind + "/"
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return nil
	}
	names := strings.Split(name[len(prefix):], ".")
	return objectAt(p.body,
		append([]string{"properties"}, names[:len(names)-1]...)...)[names[len(names)-1]]
}
