package inventory

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// AssignedPolicy is a policy definition as an assignment applies it, by itself or in an initiative.
// Assignment, Scope, Definition and Exempt are IDs as text, because those of management groups are
// no resource IDs.
type AssignedPolicy struct {
	Assignment string   `json:"assignment"`
	Name       string   `json:"name"` // of the definition, as people see it
	Scope      string   `json:"scope"`
	NotScopes  []string `json:"notScopes,omitempty"`
	Definition string   `json:"definition"`
	// Reference is its name in the initiative, or "".
	Reference string   `json:"reference,omitempty"`
	Exempt    []string `json:"exempt,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	// Rule, Parameters and Defaults are the policyRule, the parameters of the assignment and those
	// of the definition.
	Rule map[string]any `json:"rule"`
	// Deploys lists the properties of subnets that the template of its rule names. The template
	// itself is left out.
	Deploys    []Property     `json:"deploys,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
	Defaults   map[string]any `json:"defaults,omitempty"`
}

// AppliesTo reports whether it applies to a resource.
func (p AssignedPolicy) AppliesTo(id arm.ID) bool {
	covers := func(scope string) bool {
		return strings.HasPrefix(id.Key()+"/", strings.ToLower(scope)+"/")
	}
	above := strings.HasPrefix(strings.ToLower(p.Scope),
		"/providers/microsoft.management/managementgroups/")
	return (above || covers(p.Scope)) && !slices.ContainsFunc(p.NotScopes, covers) &&
		!slices.ContainsFunc(p.Exempt, covers)
}

// PolicyDefinition is a policy definition, or with Policies an initiative.
type PolicyDefinition struct {
	ID, Name   string
	Properties struct {
		DisplayName string
		Mode        string
		PolicyRule  map[string]any
		Parameters  map[string]any
		Policies    []PolicyMember `json:"policyDefinitions"`
	}
}

// PolicyMember is a definition in an initiative.
type PolicyMember struct {
	Definition string `json:"policyDefinitionId"`
	Reference  string `json:"policyDefinitionReferenceId"`
	Parameters map[string]any
}

// PolicyAssignment is an assignment of a definition or an initiative.
type PolicyAssignment struct {
	ID         string
	Properties struct {
		Scope           string
		NotScopes       []string
		Definition      string `json:"policyDefinitionId"`
		Parameters      map[string]any
		EnforcementMode string
	}
}

// PolicyExemption is an exemption from an assignment. Its parent is the exempt scope.
type PolicyExemption struct {
	ID         string
	Properties struct {
		Assignment string   `json:"policyAssignmentId"`
		References []string `json:"policyDefinitionReferenceIds"`
		ExpiresOn  string
	}
}

// parameterUse matches an expression that uses a parameter of an initiative.
var parameterUse = lazy.Regexp(`^\[parameters\('([^']+)'\)\]$`)

// memberParameters returns the parameters that an initiative's assignment passes to a member.
func (d *PolicyDefinition) memberParameters(member PolicyMember,
	a PolicyAssignment) map[string]any {

	all := map[string]any{}
	for name, v := range member.Parameters {
		o, _ := v.(map[string]any)
		text, _ := o["value"].(string)
		if m := parameterUse().FindStringSubmatch(text); m != nil {
			declared, _ := d.Properties.Parameters[m[1]].(map[string]any)
			o = map[string]any{"value": declared["defaultValue"]}
			if set, _ := a.Properties.Parameters[m[1]].(map[string]any); set != nil {
				o = set
			}
		}
		all[name] = o
	}
	return all
}

// changingEffects lists the effects that refuse or change a write, in lower case.
var changingEffects = []string{"deny", "modify", "append", "deployifnotexists"}

// LackingPolicies returns the IDs of the definitions that assignments enforce, directly or as
// members of a given initiative, and that are not given. It leaves out members whose effect can
// only report: Azure's own definitions take the effect from a parameter "effect"
// (Azure/azure-policy).
func LackingPolicies(assignments []PolicyAssignment,
	definitions map[string]*PolicyDefinition) (ids []string) {
	add := func(id string) {
		if definitions[strings.ToLower(id)] == nil {
			ids = append(ids, id)
		}
	}
	for _, a := range assignments {
		if strings.EqualFold(a.Properties.EnforcementMode, "DoNotEnforce") {
			continue
		}
		add(a.Properties.Definition)
		d := definitions[strings.ToLower(a.Properties.Definition)]
		if d == nil {
			continue
		}
		for _, member := range d.Properties.Policies {
			set, _ := d.memberParameters(member, a)["effect"].(map[string]any)
			effect, known := set["value"].(string)
			if !known || slices.Contains(changingEffects, strings.ToLower(effect)) {
				add(member.Definition)
			}
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	})
	return slices.CompactFunc(ids, strings.EqualFold)
}

// AssignPolicies returns the policies that assignments enforce, if their definitions are given.
// The keys of definitions are IDs in lower case.
func AssignPolicies(assignments []PolicyAssignment,
	definitions map[string]*PolicyDefinition) (all []AssignedPolicy) {
	for _, a := range assignments {
		p, d := a.Properties, definitions[strings.ToLower(a.Properties.Definition)]
		if d == nil || strings.EqualFold(p.EnforcementMode, "DoNotEnforce") {
			continue
		}
		assigned := AssignedPolicy{Assignment: a.ID, Scope: p.Scope, NotScopes: p.NotScopes}
		if len(d.Properties.Policies) == 0 {
			all = append(all, assigned.withDefinition(d, p.Parameters))
		}
		for _, member := range d.Properties.Policies {
			inner := definitions[strings.ToLower(member.Definition)]
			if inner == nil {
				continue
			}
			assigned.Reference = member.Reference
			all = append(all, assigned.withDefinition(inner, d.memberParameters(member, a)))
		}
	}
	return all
}

func (p AssignedPolicy) withDefinition(d *PolicyDefinition,
	parameters map[string]any) AssignedPolicy {

	p.Definition, p.Mode, p.Rule = d.ID, d.Properties.Mode, d.Properties.PolicyRule
	p.Parameters, p.Defaults, p.Name = parameters, d.Properties.Parameters, d.Properties.DisplayName
	if p.Name == "" {
		p.Name = d.Name
	}
	then, _ := p.Rule["then"].(map[string]any)
	details, _ := then["details"].(map[string]any)
	if template := details["deployment"]; template != nil && mentions(template, arm.TypeVNet) {
		for _, property := range Properties {
			if mentions(template, `"`+string(property)+`"`) {
				p.Deploys = append(p.Deploys, property)
			}
		}
	}
	if details != nil { // other assignments have the same definition
		p.Rule, then, details = maps.Clone(p.Rule), maps.Clone(then), maps.Clone(details)
		delete(details, "deployment")
		then["details"], p.Rule["then"] = details, then
	}
	return p
}

// OfNetworks reports whether the rule can concern networks and route tables: it names them, or
// names no type at all.
func (p AssignedPolicy) OfNetworks() bool {
	return mentions(p.Rule, "microsoft.network/virtualnetworks") ||
		mentions(p.Rule, "microsoft.network/routetables") || !mentions(p.Rule, `"microsoft.`)
}

func mentions(document any, word string) bool {
	text, err := json.Marshal(document)
	return err == nil && strings.Contains(strings.ToLower(string(text)), strings.ToLower(word))
}
