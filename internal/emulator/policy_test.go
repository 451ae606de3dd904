package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

const policies = "/subscriptions/" + sub + "/providers/Microsoft.Authorization/policyDefinitions/"

// TestPolicyRules: a rule that counts array elements in a parameter's loop, as the documentation's
// fifth example of a value count does.
func TestPolicyRules(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	rule := func(condition string) string {
		return `{"properties":{"mode":"All","parameters":{"subnets":{"type":"Array"}},"policyRule":{` +
			`"if":` + condition + `,"then":{"effect":"deny"}}}}`
	}
	const network = "Microsoft.Network/virtualNetworks"
	b.put(policies+"d", rule(`{"allOf":[{"field":"type","equals":"`+network+`"},
		{"count":{"value":"[parameters('subnets')]","name":"s","where":{"count":{"field":"`+
		network+`/subnets[*]","where":{"allOf":[
			{"field":"`+network+`/subnets[*].name","equals":"[current('s').name]"},
			{"anyOf":[{"field":"`+network+`/subnets[*].routeTable.id","exists":false},
				{"field":"`+network+`/subnets[*].routeTable.id","notEquals":"[current('s').table]"}]}
		]}},"greater":0}},"greater":0}]}`))
	assignment := group + "/providers/Microsoft.Authorization/policyAssignments/a"
	b.put(assignment, fmt.Sprintf(`{"properties":{"policyDefinitionId":"%sd","parameters":{`+
		`"subnets":{"value":[{"name":"A","table":%q},{"name":"missing","table":"x"}]}}}}`, policies,
		strings.ToUpper(string(rt))))
	const space = `"addressSpace":{"addressPrefixes":["10.0.0.0/16"]}`
	subnets := func(more string) string {
		return `{"location":"westeurope","properties":{` + space + `,"subnets":[` +
			`{"name":"b","properties":{"addressPrefix":"10.0.2.0/24"}},` +
			`{"name":"a","properties":{"addressPrefix":"10.0.1.0/24"` + more + `}}]}}`
	}
	b.refused(http.MethodPut, vnet, subnets(""), 403, "RequestDisallowedByPolicy")
	b.refused(http.MethodPut, vnet, subnets(`,"routeTable":{"id":"`+string(rt)+`x"}`), 403,
		"RequestDisallowedByPolicy")
	b.refused(http.MethodPut, vnet, subnets(`,"routeTable":null`), 403, "RequestDisallowedByPolicy")
	b.put(vnet, subnets(`,"routeTable":{"id":"`+string(rt)+`"}`))
	b.put(vnet, `{"location":"westeurope","properties":{`+space+`}}`)
}

// TestPolicyNotSupported: a definition that could deny, and that the emulator cannot evaluate, is
// refused. So is an alias that does not exist.
func TestPolicyNotSupported(t *testing.T) {
	b := newBench(t, Options{})
	for condition, code := range map[string]string{
		`{"field":"name","match":"###"}`:                                                     "PolicyRuleNotSupported",
		`{"value":"[length(field('tags'))]","equals":1}`:                                     "PolicyRuleNotSupported",
		`{"field":"name","equals":"a","like":"b"}`:                                           "PolicyRuleNotSupported",
		`{"field":"name"}`:                                                                   "PolicyRuleNotSupported",
		`{"allOf":[{"field":"name","equals":"a"}],"not":{"field":"kind","in":["a"]}}`:        "PolicyRuleNotSupported",
		`{"count":{"value":[1]},"equals":1}`:                                                 "PolicyRuleNotSupported",
		`{"field":"Microsoft.Network/virtualNetworks/subnets/natGateway.id","exists":false}`: "InvalidPolicyAlias",
		`{"not":{"count":{"field":"Microsoft.Network/virtualNetworks/subnets[*]","where":{"field":"Microsoft.Network/virtualNetworks/subnets[*].natGateway.id","exists":true}},"less":1}}`: "InvalidPolicyAlias",
	} {
		for _, effect := range []string{"Deny", "[parameters('effect')]"} {
			body := `{"properties":{"policyRule":{"if":` + condition + `,"then":{"effect":"` + effect +
				`"}}}}`
			status, got := b.try(http.MethodPut, policies+"d", api, body)
			if got != code {
				t.Errorf("%s %s: %d %s, expected %s", effect, condition, status, got, code)
			}
		}
	}
	b.put(policies+"d", `{"properties":{"policyRule":{"if":{"field":"name","match":"#"},"then":{"effect":"audit"}}}}`)
}

// TestPolicyExemption: it frees what is below it, from its assignment only, until it expires.
func TestPolicyExemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.put(rt, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		b.put(policies+"d", `{"properties":{"mode":"All","policyRule":{"if":{"field":"type","equals":"Microsoft.Network/virtualNetworks/subnets"},"then":{"effect":"deny"}}}}`)
		assignment := group + "/providers/Microsoft.Authorization/policyAssignments/a"
		b.put(assignment, `{"properties":{"policyDefinitionId":"`+policies+`d"}}`)
		exemption := vnet + "/providers/Microsoft.Authorization/policyExemptions/e"
		const bare = `{"properties":{"addressPrefix":"10.0.1.0/24"}}`
		blocked := func() {
			t.Helper()
			b.refused(http.MethodPut, vnet.Child("subnets", "a"), bare, 403,
				"RequestDisallowedByPolicy")
		}
		body := func(until string) string {
			return fmt.Sprintf(`{"properties":{"policyAssignmentId":%q,"exemptionCategory":"Waiver","expiresOn":%q}}`,
				assignment, until)
		}
		blocked()
		b.refused(http.MethodPut, exemption, body("tomorrow"), 400, "InvalidPolicyExemption")
		b.refused(http.MethodPut, exemption, strings.Replace(body("2099-01-01T00:00:00Z"),
			"policyAssignments/a", "policyAssignments/b", 1), 404, "PolicyAssignmentNotFound")
		b.put(exemption, body(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
		b.put(vnet.Child("subnets", "a"), bare)
		time.Sleep(time.Hour)
		blocked()
	})
}

// TestPolicyDenyAction: a delete of the resource itself is refused, a delete of its parent is not.
func TestPolicyDenyAction(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope","properties":{"routes":[{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"Internet"}},{"name":"other","properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"None"}}]}}`)
	b.put(policies+"d", `{"properties":{"mode":"All","policyRule":{"if":{"allOf":[{"field":"type","equals":"Microsoft.Network/routeTables/routes"},{"field":"Microsoft.Network/routeTables/routes/addressPrefix","equals":"0.0.0.0/0"}]},"then":{"effect":"denyAction","details":{"actionNames":["delete"]}}}}}`)
	b.put(group+"/providers/Microsoft.Authorization/policyAssignments/a",
		`{"properties":{"policyDefinitionId":"`+policies+`d"}}`)
	b.refused(http.MethodDelete, rt.Child("routes", "egress"), "", 403, "RequestDisallowedByPolicy")
	for _, id := range []arm.ID{rt.Child("routes", "other"), rt} {
		if status, code := b.try(http.MethodDelete, id, api, ""); status >= 400 {
			t.Errorf("DELETE %s: %d %s", id, status, code)
		}
	}
}
