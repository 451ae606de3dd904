package diagnose

import (
	"encoding/json"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const policyPath = "/providers/Microsoft.Management/managementGroups/corp/providers/" +
	"Microsoft.Authorization/"

// assigned adds custom policies with these rules, each assigned to the management group above.
func assigned(t *testing.T, w *world, mode, rules string) *world {
	var rule map[string]any
	if err := json.Unmarshal([]byte(rules), &rule); err != nil {
		t.Fatal(err)
	}
	d := &inventory.PolicyDefinition{ID: policyPath + "policyDefinitions/d", Name: "d"}
	d.Properties.Mode, d.Properties.PolicyRule = mode, rule
	a := inventory.PolicyAssignment{ID: policyPath + "policyAssignments/a"}
	a.Properties.Definition = d.ID
	a.Properties.Scope = "/providers/Microsoft.Management/managementGroups/corp"
	w.change = append(w.change, func(s *inventory.Snapshot) {
		s.Policies = inventory.AssignPolicies([]inventory.PolicyAssignment{a},
			map[string]*inventory.PolicyDefinition{policyPathLower + "policydefinitions/d": d})
	})
	return w
}

const policyPathLower = "/providers/microsoft.management/managementgroups/corp/providers/" +
	"microsoft.authorization/"

const (
	subnetType  = `{"field":"type","equals":"Microsoft.Network/virtualNetworks/subnets"}`
	subnetTable = `"Microsoft.Network/virtualNetworks/subnets/routeTable.id"`
)

func TestPolicyOpposes(t *testing.T) {
	guard := func(then, condition string) *world {
		return assigned(t, healthy(t), "All", `{"if":{"allOf":[`+subnetType+`,`+condition+
			`]},"then":`+then+`}`)
	}
	deny := `{"effect":"deny"}`
	other := `{"field":` + subnetTable + `,"notEquals":"/subscriptions/x/routeTables/hub"}`
	f := guard(deny, other).finds(finding.PolicyOpposes)
	says(t, f, "policy d, assigned to /providers/Microsoft.Management/managementGroups/corp, "+
		"opposes the guard of shop: deny refuses each write of it, with all that it must "+
		"have", "deny on shop-vnet/appgw: refuses", "deny on shop-vnet/nodes: refuses",
		"az policy exemption create --name routekeeper --policy-assignment "+policyPath+
			"policyAssignments/a --exemption-category Waiver --scope "+string(vnet))
	initiative := guard(deny, other)
	initiative.change = append(initiative.change, func(s *inventory.Snapshot) {
		s.Policies[0].Reference = "subnets"
	})
	says(t, initiative.finds(finding.PolicyOpposes), "--policy-definition-reference-ids subnets ")
	// A rule that the repaired subnet satisfies is no obstacle, nor is one for another type.
	guard(deny, `{"field":`+subnetTable+`,"exists":false}`).finds()
	guard(deny, `{"field":"Microsoft.Network/virtualNetworks/subnets/natGateway.id",`+
		`"exists":true}`).finds()
	assigned(t, healthy(t), "Indexed", `{"if":{"allOf":[`+subnetType+`,`+other+
		`]},"then":`+deny+`}`).finds() // subnets have no tags, so the mode leaves them out
	// What cannot be evaluated is said only if it is about what is guarded.
	unknown := `{"field":` + subnetTable + `,"notEquals":"[concat('/x', resourceGroup().name)]"}`
	if f := guard(deny, unknown).finds(finding.PolicyOpposes); f.Severity != finding.Info {
		t.Errorf("severity %s of a rule that is not evaluated", f.Severity)
	}
	guard(deny, `{"field":"name","equals":"[concat('x')]"}`).finds()

	modify := func(operation, value string) string {
		return `{"effect":"modify","details":{"operations":[{"operation":"` + operation +
			`","field":` + subnetTable + `,"value":"` + value + `"}]}}`
	}
	all := `{"field":"name","like":"*"}`
	says(t, guard(modify("addOrReplace", "/subscriptions/x/routeTables/hub"), all).finds(
		finding.PolicyOpposes), "modify sets the route table to /subscriptions/x/routeTables/hub")
	guard(modify("add", "/subscriptions/x/routeTables/hub"), all).finds()
	// One that sets what the subnets must have helps.
	one := guard(modify("addOrReplace", string(shopTable)), `{"field":"name","equals":"nodes"}`)
	one.c.Configs[0].Spec.Guard.Subnets = nil
	one.finds()

	deploy := `{"effect":"deployIfNotExists","details":{"type":"Microsoft.Network/virtualNetworks` +
		`/subnets","deployment":{"properties":{"template":{"resources":[{"type":` +
		`"Microsoft.Network/virtualNetworks/subnets","properties":{"routeTable":{}}}]}}}}}`
	f = guard(deploy, all).finds(finding.PolicyOpposes)
	says(t, f, "may oppose the guard", "deployifnotexists deploys a template that names a route "+
		"table")

	// Tables that get routes.
	says(t, assigned(t, healthy(t), "Indexed", `{"if":{"allOf":[{"field":"type","equals":`+
		`"Microsoft.Network/routeTables"},{"field":"tags['owner']","exists":false}]},"then":`+deny+
		`}`).finds(finding.PolicyOpposes), "deny on appgw-rt: refuses")
	off := guard(deny, other)
	off.c.Configs[0].Spec.Guard.Mode = v1alpha1.GuardOff
	off.finds()
}
