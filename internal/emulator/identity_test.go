package emulator

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		b.put(rt, `{"location":"westeurope"}`) // writes have a bucket of their own
		time.Sleep(time.Second)
		b.get(rt)
		b.get(rt)
		b.refused(http.MethodGet, rt, "", 429, "SubscriptionRequestsThrottled")
	})
}
