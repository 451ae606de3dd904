package prevent

import (
	"encoding/json"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/policy"
)

// Refused returns what a request lacks, so that rules would refuse it. Each element of the rules'
// parameters is evaluated by itself. ok is false if the body is no document.
func Refused(rules []Rule, id arm.ID, body []byte) (lacks []string, ok bool) {
	request := policy.Request{Type: id.Type(), ID: id}
	if json.Unmarshal(body, &request.Body) != nil {
		return nil, false
	}
	for _, r := range rules {
		parameter, _ := r.Parameter()
		rule := policy.Rule{If: r.Condition()}
		for _, a := range r.Assignments() {
			for i, element := range a.Value {
				rule.Parameters = object{parameter: object{"value": []any{element}}}
				if r.Effect != "deny" || rule.Holds(request) != policy.Yes {
					continue
				}
				lack := "route " + defaultRoute
				if r.Property != "" {
					lack = r.Property.Name() + " of " + a.about[i].Name()
				}
				lacks = append(lacks, lack)
			}
		}
	}
	return lacks, true
}

// Usual returns the aliases that Azure Policy is assumed to have when they were not read: all that
// rules use, except those of NAT gateways.
func Usual() (all []string) {
	for _, r := range candidates(nil, nil) {
		if r.Property != inventory.PropertyNAT {
			all = append(all, r.aliases()...)
		}
	}
	return all
}

// Assigned returns rules as if they were assigned to all resources.
func Assigned(rules []Rule) (all []inventory.AssignedPolicy) {
	for _, r := range rules {
		parameter, _ := r.Parameter()
		for _, a := range r.Assignments() {
			all = append(all, inventory.AssignedPolicy{Name: a.Name, Rule: object{
				"if": r.Condition(), "then": object{"effect": r.Effect}},
				Parameters: object{parameter: object{"value": a.Value}}})
		}
	}
	return all
}

// Refusing returns the policies that refuse a request for certain.
func Refusing(policies []inventory.AssignedPolicy, id arm.ID,
	body []byte) (all []inventory.AssignedPolicy) {
	request := policy.Request{Type: id.Type(), ID: id}
	if json.Unmarshal(body, &request.Body) != nil {
		return nil
	}
	for _, p := range policies {
		if rule := ruleOf(p); p.AppliesTo(id) && rule.Effect() == "deny" &&
			rule.Applies(request.Type) && rule.Holds(request) == policy.Yes {
			all = append(all, p)
		}
	}
	return all
}
