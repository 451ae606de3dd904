package emulator

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func TestIdentity(t *testing.T) {
	b := newBench(t, Options{})
	do := func(method, path, authorization, body string) (int, http.Header, kernel.Object) {
		r, err := http.NewRequest(method, "https://h"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := &recorder{header: http.Header{}}
		b.e.ServeHTTP(w, r)
		doc, _ := kernel.DecodeObject(w.body.Bytes())
		return w.status, w.header, doc
	}
	for _, authorization := range []string{"", "Bearer", "Bearer x.y.z", "Basic abc", "Bearer " +
		b.c.token + "x"} {
		status, header, _ := do(http.MethodGet, string(rt)+"?api-version="+api, authorization, "")
		if status != http.StatusUnauthorized ||
			!strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%q: %d %v", authorization, status, header)
		}
	}
	form := url.Values{"grant_type": {"client_credentials"},
		"client_id": {DefaultPrincipal.ClientID}, "client_secret": {
			DefaultPrincipal.Secret}, "scope": {"https://management.core.windows.net//.default"}}
	status, _, doc := do(http.MethodPost, "/"+DefaultTenant+"/oauth2/v2.0/token", "", form.Encode())
	if status != 200 || kernel.Text(doc, "token_type") != "Bearer" {
		t.Fatalf("%d %v", status, doc)
	}
	if status, _, _ := do(http.MethodGet, string(group)+"?api-version="+api, "bearer "+
		kernel.Text(doc, "access_token"), ""); status != 200 {
		t.Errorf("with the token: %d", status)
	}
	form.Set("client_secret", "wrong")
	if status, _, doc := do(http.MethodPost, "/"+DefaultTenant+"/oauth2/token", "",
		form.Encode()); status != 401 || kernel.Text(doc, "error") != "invalid_client" {
		t.Errorf("wrong secret: %d %v", status, doc)
	}
	for _, r := range b.e.Requests(0) {
		if strings.Contains(r.Path, "oauth2") && (r.Body != nil || r.Answer != nil) {
			t.Error("the request log holds a secret or a token")
		}
	}
}

// TestSystemIdentity: a system-assigned identity is a principal, which can have roles, until its
// resource gives it up. Asked for again, it is another one.
func TestSystemIdentity(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(policies+"d", `{"properties":{"mode":"All","policyRule":{"if":{"field":"type","equals":`+
		`"x"},"then":{"effect":"audit"}}}}`)
	assignment := group + "/providers/Microsoft.Authorization/policyAssignments/a"
	set := strings.TrimPrefix(scaleSet("Standard_DS1_v2", "null", 1), "{")
	n := 0
	for id, body := range map[arm.ID]string{
		assignment: `"location":"westeurope","properties":{"policyDefinitionId":"` +
			string(policies) + `d"}}`,
		machines: set,
	} {
		principal := func(kind string) string {
			b.put(id, `{"identity":{"type":"`+kind+`"},`+body)
			return kernel.Text(b.get(id), "identity", "principalId")
		}
		assign := func(principal string) int {
			n++
			status, _ := b.try(http.MethodPut, group+arm.ID(fmt.Sprintf("/providers/"+
				"Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-%012d", n)),
				"2022-04-01", fmt.Sprintf(`{"properties":{"roleDefinitionId":%q,"principalId":%q}}`,
					authorization.RoleID(sub, roleNamed(t, "Reader")), principal))
			return status
		}
		first := principal("SystemAssigned")
		if again := principal("SystemAssigned"); first == "" || again != first {
			t.Errorf("%s: %q, then %q", id, first, again)
		}
		if status := assign(first); status != http.StatusCreated {
			t.Errorf("%s: a role for its identity: %d", id, status)
		}
		if shown := principal("None"); shown != "" {
			t.Errorf("%s: without an identity it shows %s", id, shown)
		}
		if status := assign(first); status != http.StatusBadRequest {
			t.Errorf("%s: a role for the identity that is gone: %d", id, status)
		}
		if second := principal("SystemAssigned"); second == "" || second == first {
			t.Errorf("%s: a second identity is %q, the first was %q", id, second, first)
		}
	}
}

func TestThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Buckets: Buckets{Reads: Bucket{Size: 5, PerSecond: 2}}})
		b.put(rt, `{"location":"westeurope"}`)
		for i := range 5 {
			if status, code := b.try(http.MethodGet, rt, api, ""); status != 200 {
				t.Fatalf("call %d: %d %s", i, status, code)
			}
		}
		b.refused(http.MethodGet, rt, "", 429, "SubscriptionRequestsThrottled")
		b.put(rt, `{"location":"westeurope"}`) // writes have their own bucket
		time.Sleep(time.Second)
		b.get(rt)
		b.get(rt)
		b.refused(http.MethodGet, rt, "", 429, "SubscriptionRequestsThrottled")
	})
}
