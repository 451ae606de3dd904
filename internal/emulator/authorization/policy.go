package authorization

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/policy"
)

const (
	TypePolicyDefinition = "Microsoft.Authorization/policyDefinitions"
	TypePolicyAssignment = "Microsoft.Authorization/policyAssignments"
	TypePolicySet        = "Microsoft.Authorization/policySetDefinitions"
	TypePolicyExemption  = "Microsoft.Authorization/policyExemptions"
)

// policies are the definitions, initiatives, assignments and exemptions of Azure Policy.
type policies struct{ *Authorization }

// settleAssignment checks that the assigned policy exists.
func (s policies) settleAssignment(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	if f := checkDefined(s.Authorization, p); f != nil {
		return f
	}
	p["scope"] = string(r.ID.Parent())
	kernel.SetDefault(p, "enforcementMode", "Default")
	signPolicy(c, r, old)
	return nil
}

func (s policies) settleDefinition(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	if kernel.ObjectAt(p, "policyRule", "if") == nil ||
		kernel.ObjectAt(p, "policyRule", "then") == nil {
		return kernel.Bad("InvalidPolicyRule", "The policy definition '%s' rule is invalid: it "+
			"needs an 'if' and a 'then'.", r.ID.Name())
	}
	if f := checkPolicyRule(r.ID.Name(), p); f != nil {
		return f
	}
	kernel.SetDefault(p, "policyType", "Custom")
	kernel.SetDefault(p, "mode", "Indexed")
	signPolicy(c, r, old)
	return nil
}

// checkDefined refuses properties that name a policy definition that does not exist.
func checkDefined(s *Authorization, p kernel.Object) *kernel.Failure {
	definition := arm.ID(kernel.Text(p, "policyDefinitionId"))
	if s.kernel.Store.Get(definition) == nil && !builtInPolicy(definition) {
		return kernel.Fail(http.StatusNotFound, "PolicyDefinitionNotFound",
			"The policy definition '%s' could not be found.", definition.Name())
	}
	return nil
}

// settleSet checks that the policies of an initiative exist.
func (s policies) settleSet(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	members := kernel.ListAt(p, "policyDefinitions")
	if len(members) == 0 {
		return kernel.Bad("InvalidPolicySetDefinition",
			"The policy set definition '%s' is invalid: it needs 'policyDefinitions'.", r.ID.Name())
	}
	for _, m := range members {
		if f := checkDefined(s.Authorization, m); f != nil {
			return f
		}
	}
	kernel.SetDefault(p, "policyType", "Custom")
	signPolicy(c, r, old)
	return nil
}

// member is a policy that an assignment assigns, by itself or in an initiative.
type member struct {
	definition *kernel.Resource
	parameters kernel.Object
}

// members returns the policies of an assignment. Parameters of an initiative's policies are values,
// or [parameters('x')] of the initiative.
func (s policies) members(assignment kernel.Object) (all []member) {
	assigned := definitionOf(s.Authorization, arm.ID(kernel.Text(assignment, "policyDefinitionId")))
	given := kernel.ObjectAt(assignment, "parameters")
	if assigned == nil || !assigned.ID.Is(TypePolicySet) {
		return []member{{assigned, given}}
	}
	set := assigned.Properties()
	outer := policy.Rule{Parameters: given, Defaults: kernel.ObjectAt(set, "parameters")}
	for _, m := range kernel.ListAt(set, "policyDefinitions") {
		inner := kernel.Object{}
		for name := range kernel.ObjectAt(m, "parameters") {
			value, _ := outer.Value(kernel.ObjectAt(m, "parameters", name)["value"])
			inner[name] = kernel.Object{"value": value}
		}
		all = append(all, member{definitionOf(s.Authorization,
			arm.ID(kernel.Text(m, "policyDefinitionId"))), inner})
	}
	return all
}

// settleExemption checks that the assignment exists. The category is Waiver or Mitigated
// (policy/concepts/exemption-structure).
func (s policies) settleExemption(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	assignment := arm.ID(kernel.Text(p, "policyAssignmentId"))
	if s.kernel.Store.Get(assignment) == nil {
		return kernel.Fail(http.StatusNotFound, "PolicyAssignmentNotFound",
			"The policy assignment '%s' is not found.", assignment.Name())
	}
	category := kernel.Text(p, "exemptionCategory")
	_, err := time.Parse(time.RFC3339, kernel.Text(p, "expiresOn"))
	if err != nil && p["expiresOn"] != nil ||
		!strings.EqualFold(category, "Waiver") && !strings.EqualFold(category, "Mitigated") {
		return kernel.Bad("InvalidPolicyExemption",
			"The policy exemption '%s' is invalid: it needs an 'exemptionCategory' of 'Waiver' or "+
				"'Mitigated', and an 'expiresOn' that is a time.", r.ID.Name())
	}
	signPolicy(c, r, old)
	return nil
}

// exempted reports whether an exemption that has not expired frees a resource from an assignment.
func (s policies) exempted(id, assignment arm.ID) bool {
	for _, r := range s.kernel.Store.List(TypePolicyExemption, "") {
		p := r.Properties()
		until, err := time.Parse(time.RFC3339, kernel.Text(p, "expiresOn"))
		if assignment.Equal(arm.ID(kernel.Text(p, "policyAssignmentId"))) &&
			Covers(r.ID.Parent(), id) && (err != nil || time.Now().Before(until)) {
			return true
		}
	}
	return false
}

// CheckPolicies refuses a write that an assigned policy denies. Other effects are not enforced.
func (s *Authorization) CheckPolicies(id arm.ID, body kernel.Object) *kernel.Failure {
	return policies{s}.refusalByPolicies(id, body, "deny")
}

// CheckPolicyActions refuses a delete that an assigned policy denies with denyAction. This effect
// can deny only deletes (policy/concepts/effect-deny-action).
func (s *Authorization) CheckPolicyActions(id arm.ID) *kernel.Failure {
	if r := s.kernel.Store.Get(id); r != nil {
		return policies{s}.refusalByPolicies(id, r.Body, "denyAction")
	}
	parent := s.kernel.Store.Get(id.Parent())
	if parent == nil {
		return nil
	}
	list := id.Type()[strings.LastIndex(id.Type(), "/")+1:] // of the parts of a document: routes
	item := kernel.Named(kernel.ListAt(parent.Properties(), list), id.Name())
	if item == nil {
		return nil
	}
	return policies{s}.refusalByPolicies(id, item, "denyAction")
}

// refusalByPolicies returns the refusal by the assigned policies that have the given effect, or
// nil. It names all of these policies.
func (s policies) refusalByPolicies(id arm.ID, body kernel.Object, effect string) *kernel.Failure {
	var identifiers []kernel.Object
	var more []any
	for _, assignment := range s.kernel.Store.List(TypePolicyAssignment, "") {
		a := assignment.Properties()
		if !Covers(assignment.ID.Parent(), id) ||
			kernel.Text(a, "enforcementMode") == "DoNotEnforce" ||
			slices.ContainsFunc(kernel.List(a, "notScopes"), func(excluded string) bool {
				return Covers(arm.ID(excluded), id)
			}) || s.exempted(id, assignment.ID) {
			continue
		}
		for _, m := range s.members(a) {
			if m.definition == nil {
				continue
			}
			rule := m.rule()
			request := policy.Request{Type: s.kernel.KindName(id), ID: id, Body: body}
			if rule.Effect() != strings.ToLower(effect) || !rule.Applies(request.Type) ||
				rule.Holds(request) != policy.Yes {
				continue
			}
			identifier, detail := violation(assignment, m.definition, rule)
			identifiers, more = append(identifiers, identifier), append(more, detail)
		}
	}
	if identifiers == nil {
		return nil
	}
	f := kernel.Fail(http.StatusForbidden, "RequestDisallowedByPolicy",
		"Resource '%s' was disallowed by policy. Policy identifiers: '%s'.", id.Name(),
		kernel.Encode(identifiers))
	// the text follows an error of the storage resource provider in an issue (AKS, CSI driver), but
	// leaves out which expressions were evaluated
	f.More = kernel.Object{"target": id.Name(), "additionalInfo": more}
	return f
}

func (m member) rule() policy.Rule {
	d := m.definition.Properties()
	return policy.Rule{Mode: kernel.Text(d, "mode"), If: kernel.ObjectAt(d, "policyRule", "if"),
		Then: kernel.ObjectAt(d, "policyRule", "then"), Parameters: m.parameters,
		Defaults: kernel.ObjectAt(d, "parameters")}
}

// violation describes a policy that refuses a request: in the message, and in its details.
func violation(assignment, definition *kernel.Resource, rule policy.Rule) (identifier,
	detail kernel.Object) {
	name := func(r *kernel.Resource) string {
		return cmp.Or(kernel.Text(r.Properties(), "displayName"), r.ID.Name())
	}
	shown, _ := rule.Value(rule.Then["effect"])
	identifier = kernel.Object{
		"policyAssignment": kernel.Object{"name": name(assignment), "id": string(assignment.ID)},
		"policyDefinition": kernel.Object{"name": name(definition), "id": string(definition.ID)},
	}
	return identifier, kernel.Object{"type": "PolicyViolation", "info": kernel.Object{
		"policyDefinitionId":          string(definition.ID),
		"policyDefinitionName":        definition.ID.Name(),
		"policyDefinitionDisplayName": name(definition),
		"policyDefinitionEffect":      shown,
		"policyAssignmentId":          string(assignment.ID),
		"policyAssignmentName":        assignment.ID.Name(),
		"policyAssignmentDisplayName": name(assignment),
		"policyAssignmentScope":       string(assignment.ID.Parent()),
		"policyExemptionIds":          []any{},
	}}
}
