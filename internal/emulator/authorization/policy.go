package authorization

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const (
	TypePolicyDefinition = "Microsoft.Authorization/policyDefinitions"
	TypePolicyAssignment = "Microsoft.Authorization/policyAssignments"
)

// settlePolicyAssignment checks that what is assigned exists.
func (s *Authorization) settlePolicyAssignment(c *kernel.Call, r,
	old *kernel.Resource) *kernel.Failure {
	r.ETag = ""
	p := kernel.ObjectAt(r.Body, "properties")
	definition := arm.ID(kernel.Text(p, "policyDefinitionId"))
	if s.kernel.Store.Get(definition) == nil && !builtInPolicy(definition) {
		return kernel.Fail(http.StatusNotFound, "PolicyDefinitionNotFound",
			"The policy definition '%s' could not be found.", definition.Name())
	}
	p["scope"] = string(r.ID.Parent())
	kernel.SetDefault(p, "enforcementMode", "Default")
	signPolicy(c, r, old)
	return nil
}

func (s *Authorization) settlePolicyDefinition(c *kernel.Call, r,
	old *kernel.Resource) *kernel.Failure {
	r.ETag = ""
	p := kernel.ObjectAt(r.Body, "properties")
	if kernel.ObjectAt(p, "policyRule", "if") == nil ||
		kernel.ObjectAt(p, "policyRule", "then") == nil {
		return kernel.Fail(http.StatusBadRequest, "InvalidPolicyRule",
			"The policy definition '%s' rule is invalid: it needs an 'if' and a 'then'.",
			r.ID.Name())
	}
	kernel.SetDefault(p, "policyType", "Custom")
	kernel.SetDefault(p, "mode", "Indexed")
	signPolicy(c, r, old)
	return nil
}

// CheckPolicies refuses a write that an assigned policy denies. Other effects are not enforced, and
// of the conditions only those that condition reads: one it does not know is not fulfilled.
func (s *Authorization) CheckPolicies(id arm.ID, body kernel.Object) *kernel.Failure {
	assignments := s.kernel.Store.ByType[strings.ToLower(TypePolicyAssignment)]
	for _, key := range slices.Sorted(maps.Keys(assignments)) {
		a := kernel.ObjectAt(assignments[key].Body, "properties")
		definition := s.kernel.Store.Get(arm.ID(kernel.Text(a, "policyDefinitionId")))
		if definition == nil || !Covers(assignments[key].ID.Parent(), id) ||
			kernel.Text(a, "enforcementMode") == "DoNotEnforce" ||
			slices.ContainsFunc(kernel.List(a, "notScopes"), func(excluded string) bool {
				return Covers(arm.ID(excluded), id)
			}) {
			continue
		}
		d := kernel.ObjectAt(definition.Body, "properties")
		p := policy{kind: s.kernel.KindName(id), id: id, body: body,
			parameters: kernel.ObjectAt(a, "parameters"),
			defaults:   kernel.ObjectAt(d, "parameters")}
		if !strings.EqualFold(
			fmt.Sprint(p.value(kernel.ObjectAt(d, "policyRule", "then")["effect"])),
			"deny") || !p.condition(kernel.ObjectAt(d, "policyRule", "if")) {
			continue
		}
		name := func(r *kernel.Resource) string {
			if display := kernel.Text(kernel.ObjectAt(r.Body, "properties"),
				"displayName"); display != "" {
				return display
			}
			return r.ID.Name()
		}
		identifiers := kernel.Encode([]kernel.Object{{
			"policyAssignment": kernel.Object{"name": name(assignments[key]),
				"id": string(assignments[key].ID)},
			"policyDefinition": kernel.Object{"name": name(definition),
				"id": string(definition.ID)},
		}})
		return kernel.Fail(http.StatusForbidden, "RequestDisallowedByPolicy",
			"Resource '%s' was disallowed by policy. Policy identifiers: '%s'.", id.Name(),
			identifiers)
	}
	return nil
}

// policy is a policy's view of a write.
type policy struct {
	kind                 string // its type in Azure's case
	id                   arm.ID
	body                 kernel.Object
	parameters, defaults kernel.Object
}

// value replaces [parameters('x')].
func (p policy) value(v any) any {
	s, _ := v.(string)
	name, isParameter := strings.CutPrefix(s, "[parameters('")
	if !isParameter {
		return v
	}
	name = strings.TrimSuffix(name, "')]")
	if given := kernel.ObjectAt(p.parameters, name); given != nil {
		return given["value"]
	}
	return kernel.ObjectAt(p.defaults, name)["defaultValue"]
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
	case kernel.ObjectAt(c, "not") != nil:
		return !p.condition(kernel.ObjectAt(c, "not"))
	}
	have := p.field(kernel.Text(c, "field"))
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
		return kernel.NormalLocation(kernel.Text(p.body, "location"))
	case "kind", "tags", "identity":
		return p.body[strings.ToLower(name)]
	}
	if tag, found := strings.CutPrefix(name, "tags"); found {
		return kernel.ObjectAt(p.body, "tags")[strings.Trim(tag, "[].'")]
	}
	prefix := p.kind + "/"
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return nil
	}
	names := strings.Split(name[len(prefix):], ".")
	return kernel.ObjectAt(p.body,
		append([]string{"properties"}, names[:len(names)-1]...)...)[names[len(names)-1]]
}
