package azure_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// policyAnswers answers calls whose path ends with a key.
type policyAnswers map[string]string

func (p policyAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusNotFound, Request: r, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(`{"error":{"code":"NotFound"}}`))}
	for end, body := range p {
		if strings.HasSuffix(r.URL.Path, end) {
			answer.StatusCode, answer.Body = http.StatusOK, io.NopCloser(strings.NewReader(body))
		}
	}
	return answer, nil
}

// TestBuiltInPolicies: what Azure ships is above all subscriptions, and is in none of their lists.
// Of its initiatives, the members that can refuse or change a write are read.
func TestBuiltInPolicies(t *testing.T) {
	e := emulatortest.New(t, emulator.Options{})
	scope := string(arm.SubscriptionID(sub))
	const at = "/providers/Microsoft.Authorization/"
	rule := func(effect string) string {
		return `"parameters":{"effect":{"defaultValue":"Audit"}},"policyRule":{"if":{"field":` +
			`"type","equals":"Microsoft.Network/virtualNetworks/subnets"},"then":{"effect":"` +
			effect + `","details":{"deployment":{"natGateway":{},"type":` +
			`"Microsoft.Network/virtualNetworks"}}}}`
	}
	assign := func(name, of string) string {
		return `{"id":"` + scope + at + `policyAssignments/` + name + `","properties":{"scope":"` +
			scope + `","policyDefinitionId":"` + of + `","parameters":{"asked":{"value":"Deny"}}}}`
	}
	member := func(name, effect string) string {
		parameters := `{}`
		if effect != "" {
			parameters = `{"effect":{"value":"` + effect + `"}}`
		}
		return `{"policyDefinitionId":"` + at + `policyDefinitions/` + name +
			`","policyDefinitionReferenceId":"` + name + `","parameters":` + parameters + `}`
	}
	answers := policyAnswers{
		scope + at + "policyAssignments": `{"value":[` + assign("one",
			at+"policyDefinitions/alone") + "," + assign("shipped", at+"policySetDefinitions/set") +
			"," + assign("own", scope+at+"policySetDefinitions/own") + `]}`,
		scope + at + "policyDefinitions": `{"value":[]}`,
		scope + at + "policyExemptions":  `{"value":[]}`,
		scope + at + "policySetDefinitions/own": `{"properties":{"policyDefinitions":[` +
			member("alone", "") + `]}}`,
		at + "policySetDefinitions/set": `{"properties":{"parameters":{"asked":{"defaultValue":` +
			`"Audit"},"kept":{"defaultValue":"AuditIfNotExists"}},"policyDefinitions":[` +
			member("asked", "[parameters('asked')]") + "," +
			member("kept", "[parameters('kept')]") + "," + member("off", "Disabled") + "," +
			member("fixed", "") + `]}}`,
	}
	for name, effect := range map[string]string{"alone": "Deny", "asked": "[parameters('effect')]",
		"kept": "[parameters('effect')]", "off": "[parameters('effect')]", "fixed": "Modify"} {
		answers[at+"policyDefinitions/"+name] = `{"properties":{"displayName":"` + name + `",` +
			rule(effect) + `}}`
	}
	s := inventory.NewSnapshot()
	s.Listed = []arm.ID{arm.ID(scope)}
	if err := azure.ReadPolicies(t.Context(), emulatortest.ClientOver(t, answers, e,
		emulatortest.Keeper), s); err != nil || len(s.Unread) > 0 {
		t.Fatal(err, s.Unread)
	}
	var got []string
	for _, p := range s.Policies {
		got = append(got, p.Name+" "+p.Reference)
		if len(p.Deploys) != 1 { // the second assignment of a definition, too
			t.Errorf("%+v", p)
		}
	}
	if want := []string{"alone ", "asked asked", "fixed fixed", "alone alone"}; !slices.Equal(got,
		want) {
		t.Errorf("%q", got)
	}

	// A definition that cannot be decoded takes away only itself.
	answers[at+"policyDefinitions/alone"] = `{"properties":[]}`
	s = inventory.NewSnapshot()
	s.Listed = []arm.ID{arm.ID(scope)}
	if err := azure.ReadPolicies(t.Context(), emulatortest.ClientOver(t, answers, e,
		emulatortest.Keeper), s); err != nil || len(s.Policies) != 2 || len(s.Unread) != 1 {
		t.Error(err, s.Policies, s.Unread)
	}
}
