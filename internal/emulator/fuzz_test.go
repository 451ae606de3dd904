package emulator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzRequests: every request gets an answer, with any content and from any caller.
func FuzzRequests(f *testing.F) {
	for _, path := range []string{
		"/", "/providers", "/providers/Microsoft.Authorization/roleDefinitions", "/subscriptions/" +
			sub + "/providers/x/register", string(rt) +
			"/providers/Microsoft.Authorization/locks/l",
		string(group) + "/providers/Microsoft.Authorization/policyAssignments/a", string(group) +
			"/providers/Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-000000000001",
		string(uai), string(uai) + "/federatedIdentityCredentials/f", "/msi/token", "/" +
			DefaultTenant + "/oauth2/token", "/metadata/endpoints", string(vnet), string(aksID),
	} {
		f.Add("PUT", path, "",
			`{"location":"westeurope","properties":{"subnets":[{"name":"a","properties":{"routeTable":{"id":5}}}]}}`)
		f.Add("GET", path, "$filter=atScope()", `grant_type=client_credentials`)
	}
	for _, field := range []string{"field", "unknown"} {
		f.Add("PUT", string(group)+"/providers/Microsoft.Authorization/policyDefinitions/a", "",
			`{"properties":{"policyRule":{"if":{"allOf":[{"`+field+`":"tags","in":5}]},`+
				`"then":{"effect":"deny"}}}}`)
	}
	f.Add("PUT", string(uai), "",
		`{"location":"westeurope","identity":{"userAssignedIdentities":{"x":{}}}}`)
	e, err := New(Options{Principals: []Principal{DefaultPrincipal, guest}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(e.Close)
	owner, err := e.Client(DefaultPrincipal)
	if err != nil {
		f.Fatal(err)
	}
	owner.Do(http.MethodPut, group, api, []byte(`{"location":"westeurope"}`))
	visitor, err := e.Client(guest)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		for _, c := range []*Client{owner, visitor} {
			r, err := http.NewRequest(method, "http://h", strings.NewReader(body))
			if err != nil {
				return
			}
			r.URL.Path, r.URL.RawQuery = path, "api-version="+api+"&"+query
			r.Header.Set("Authorization", "Bearer "+c.token)
			w := httptest.NewRecorder()
			e.Public().ServeHTTP(w, r)
			// 501 names what the emulator does not do, as an operator of a policy rule.
			if w.Code == 0 || w.Code >= 500 && w.Code != http.StatusNotImplemented {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	})
}
