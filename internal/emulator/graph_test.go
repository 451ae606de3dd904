package emulator

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func TestGraph(t *testing.T) {
	b := newBench(t, Options{})
	b.put(uai, `{"location":"westeurope"}`)
	who := entra.IdentityOf(b.e.kernel.Store.Get(uai))
	ask := func(method, path, body string) (int, kernel.Object) {
		t.Helper()
		r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := &recorder{header: http.Header{}}
		b.e.Public().ServeHTTP(w, r)
		doc, f := kernel.DecodeObject(w.body.Bytes())
		if f != nil {
			t.Fatalf("%s: %s", path, w.body.String())
		}
		return w.status, doc
	}
	for filter, want := range map[string]string{
		"servicePrincipalNames/any(c:c eq '" + who.ClientID + "')": who.ObjectID,
		"displayName eq '" + uai.Name() + "'":                      who.ObjectID,
		"appId eq '" + DefaultPrincipal.ClientID + "'":             DefaultPrincipal.ObjectID,
		"displayName eq 'nothing'":                                 "",
	} {
		_, doc := ask(
			http.MethodGet,
			"/v1.0/servicePrincipals?$filter="+url.QueryEscape(filter),
			"",
		)
		got := ""
		for _, p := range kernel.ListAt(doc, "value") {
			got += kernel.Text(p, "id")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
	if status, doc := ask(http.MethodGet, "/v1.0/servicePrincipals?$filter=x+ne+1",
		""); status != 400 {
		t.Errorf("a filter that is not known: %d %v", status, doc)
	}
	if _, doc := ask(http.MethodPost, "/v1.0/directoryObjects/getByIds", `{"ids":["`+who.ObjectID+
		`","none"]}`); len(
		kernel.ListAt(doc, "value"),
	) != 1 ||
		kernel.Text(kernel.ListAt(doc, "value")[0], "servicePrincipalType") != "ManagedIdentity" {
		t.Errorf("%v", doc)
	}
	if status, doc := ask(http.MethodGet, "/v1.0/servicePrincipals/"+who.ObjectID,
		""); status != 200 ||
		kernel.Text(doc, "appId") != who.ClientID {
		t.Errorf("%d %v", status, doc)
	}
	if status, doc := ask(http.MethodGet, "/v1.0/users/x", ""); status != 404 ||
		kernel.Text(doc, "error", "code") != "Request_ResourceNotFound" {
		t.Errorf("%d %v", status, doc)
	}
	if status, _ := ask(http.MethodPost, "/v1.0/servicePrincipals", "{}"); status != 501 {
		t.Errorf("a write: %d", status)
	}
}

func TestFeatures(t *testing.T) {
	b := newBench(t, Options{})
	feature := "/subscriptions/" + sub +
		"/providers/Microsoft.Features/providers/Microsoft.ContainerService/features/Preview"
	state := func(method, path string) string {
		status, raw := b.c.Do(method, arm.ID(path), "2021-07-01", nil)
		doc, f := kernel.DecodeObject(raw)
		if f != nil || status != 200 {
			t.Fatalf("%s: %d %s", path, status, raw)
		}
		return kernel.Text(doc, "properties", "state")
	}
	for _, step := range []struct{ method, path, want string }{
		{http.MethodGet, feature, "NotRegistered"},
		{http.MethodPost, feature + "/register", "Registering"},
		{http.MethodGet, strings.ToLower(feature), "Registered"},
		{http.MethodPost, feature + "/unregister", "Unregistering"},
		{http.MethodGet, feature, "Unregistered"},
	} {
		if got := state(step.method, step.path); got != step.want {
			t.Errorf("%s %s: %s, want %s", step.method, step.path, got, step.want)
		}
	}
}

// TestBuiltInRoles checks that the roles that az and azurerm look up by name exist once each.
func TestBuiltInRoles(t *testing.T) {
	names, guids := map[string]bool{}, map[string]bool{}
	for _, r := range authorization.BuiltInRoles {
		if names[r.Name] || guids[r.Guid] || !authorization.IsGUID(r.Guid) || r.Description == "" ||
			len(r.Permissions) == 0 {
			t.Errorf("%+v", r)
		}
		names[r.Name], guids[r.Guid] = true, true
	}
	for _, name := range []string{"Network Contributor", "Managed Identity Contributor",
		"Monitoring Reader", "Private DNS Zone Contributor",
		"Azure Kubernetes Service RBAC Writer"} {
		if !names[name] {
			t.Errorf("no %s", name)
		}
	}
}

// TestRoleDefinitionID checks that a custom role belongs to the subscription, at whatever scope it
// was written.
func TestRoleDefinitionID(t *testing.T) {
	b := newBench(t, Options{})
	const guid = "/providers/Microsoft.Authorization/roleDefinitions/11111111-0000-4000-8000-000000000001"
	b.put(group+guid, `{"properties":{"roleName":"r","permissions":[{"actions":["*/read"]}],"assignableScopes":["`+string(group)+`"]}}`)
	for _, at := range []arm.ID{group + guid, "/subscriptions/" + sub + guid} {
		doc := b.get(at)
		if kernel.Text(doc, "id") != "/subscriptions/"+sub+guid ||
			!strings.Contains(asJSON(doc), `"dataActions":[]`) {
			t.Errorf("%s: %s", at, asJSON(doc))
		}
	}
	if status, _ := b.try(http.MethodDelete, group+guid, api, ""); status >= 300 ||
		b.is("/subscriptions/"+sub+guid) {
		t.Errorf("deleted: %d", status)
	}
}
