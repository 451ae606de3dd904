package azure_test

import (
	"io"
	"net/http"
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

// TestBuiltInPolicy: the definition of an assigned policy that Azure ships is above all
// subscriptions, and is in none of their lists.
func TestBuiltInPolicy(t *testing.T) {
	const builtIn = "/providers/Microsoft.Authorization/policyDefinitions/" +
		"7bca8353-aa3b-429b-904a-9229c4385837"
	e := emulatortest.New(t, emulator.Options{})
	scope := arm.SubscriptionID(sub)
	c := emulatortest.ClientOver(t, policyAnswers{
		string(scope) + "/providers/Microsoft.Authorization/policyAssignments": `{"value":[{"id":"` +
			string(scope) + `/providers/Microsoft.Authorization/policyAssignments/private",` +
			`"properties":{"scope":"` + string(scope) + `","policyDefinitionId":"` + builtIn +
			`"}}]}`,
		string(scope) + "/providers/Microsoft.Authorization/policyDefinitions": `{"value":[]}`,
		string(scope) + "/providers/Microsoft.Authorization/policyExemptions":  `{"value":[]}`,
		builtIn: `{"id":"` + builtIn + `","properties":{"displayName":"Subnets should be private",` +
			`"policyRule":{"if":{"field":"type","equals":` +
			`"Microsoft.Network/virtualNetworks/subnets"},"then":{"effect":"deny"}}}}`,
	}, e, emulatortest.Keeper)
	s := inventory.NewSnapshot()
	s.Listed = []arm.ID{scope}
	if err := azure.ReadPolicies(t.Context(), c, s); err != nil {
		t.Fatal(err)
	}
	if len(s.Policies) != 1 || s.Policies[0].Name != "Subnets should be private" ||
		len(s.Unread) > 0 {
		t.Errorf("%+v %v", s.Policies, s.Unread)
	}
}
