package assess

import (
	"encoding/json"
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prevent"
)

// Refused returns the function for iac.Known.Refused. It says which policies refuse a value that
// code gives a subnet: assigned policies, and those of rules, which are not assigned yet.
func Refused(s *inventory.Snapshot, rules []prevent.Rule) func(arm.ID, inventory.Property,
	arm.ID) []string {
	return func(id arm.ID, p inventory.Property, value arm.ID) (lines []string) {
		if subnet := s.Subnet(id); subnet != nil {
			for _, by := range prevent.Refusing(s.Policies, id, withValue(subnet.Raw, p, value)) {
				lines = append(lines, refuses(by))
			}
		}
		for _, r := range rules {
			if r.Property != p { // the subnet's other properties are unknown
				continue
			}
			for _, by := range prevent.Refusing(prevent.Assigned([]prevent.Rule{r}), id,
				withValue(nil, p, value)) {
				lines = append(lines, refuses(by))
			}
		}
		return lines
	}
}

// refuses says that a policy refuses a write.
func refuses(p inventory.AssignedPolicy) string {
	if p.Assignment == "" {
		return "the policy " + p.Name + " that routekeeper prevent writes would refuse this write"
	}
	return fmt.Sprintf("policy %s, assigned to %s, refuses this write", p.Name, p.Scope)
}

// RefuseTables adds the policies that refuse the code's table to findings about route tables, and
// about subnets with them.
func RefuseTables(found []finding.Finding, readings []*iac.Reading, live *inventory.Snapshot,
	policies []inventory.AssignedPolicy) ([]finding.Finding, error) {
	if live == nil || len(policies) == 0 {
		return found, nil
	}
	for _, r := range readings {
		for key, after := range r.Overlay(live).Tables {
			before := live.Tables[key]
			if before == nil || before == after {
				continue
			}
			body, err := inventory.SetRoutes(before.Raw, after.Routes())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", after.ID, err)
			}
			for _, by := range prevent.Refusing(policies, after.ID, body) {
				for i, f := range found {
					if after.ID.Equal(arm.ID(f.Resource)) || slices.Contains(aboutRoutes, f.Code) &&
						slices.ContainsFunc(after.Subnets, arm.ID(f.Resource).Equal) {
						found[i] = f.With(refuses(by))
					}
				}
			}
		}
	}
	return found, nil
}

// aboutRoutes has findings about subnets whose table lost its default route.
var aboutRoutes = []finding.Code{finding.EgressBypassed, finding.EgressRouteMissing,
	finding.EgressDropped}

// withValue returns the body of a write that gives a subnet another value of a property, or none.
func withValue(subnet []byte, p inventory.Property, value arm.ID) []byte {
	var body map[string]any
	_ = json.Unmarshal(subnet, &body) // nil: only the property is known
	properties, _ := body["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
	}
	delete(properties, string(p))
	if value != "" {
		properties[string(p)] = arm.Link(value)
	}
	raw, _ := json.Marshal(map[string]any{"properties": properties})
	return raw
}
