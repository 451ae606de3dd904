package emulator

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// knock makes a call without a token, as clients do to find the login endpoint.
func knock(t *testing.T, e http.Handler, method, path string, form url.Values,
	headers ...string) (int, kernel.Object) {
	t.Helper()
	r, err := http.NewRequest(method, "http://local:8443"+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := &recorder{header: http.Header{}}
	e.ServeHTTP(w, r)
	doc, f := kernel.DecodeObject(w.body.Bytes())
	if f != nil {
		doc = kernel.Object{"list": w.body.String()}
	}
	return w.status, doc
}

// claimsOf reads a token without verifying it.
func claimsOf(t *testing.T, token string) jwt.MapClaims {
	t.Helper()
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		t.Fatalf("token %q: %v", token, err)
	}
	return claims
}

func TestEndpoints(t *testing.T) {
	b := newBench(t, Options{})
	_, doc := knock(t, b.e, http.MethodGet, "/metadata/endpoints?api-version=2022-09-01", nil)
	if kernel.Text(doc, "resourceManager") != "http://local:8443" ||
		kernel.Text(doc, "authentication", "loginEndpoint") != "http://local:8443" ||
		kernel.Text(doc, "authentication", "identityProvider") != "AAD" || kernel.Text(doc,
		"suffixes", "keyVaultDns") == "" || kernel.Text(doc, "suffixes", "storage") == "" ||
		kernel.Text(doc, "microsoftGraphResourceId") == "" ||
		len(kernel.List(doc, "authentication", "audiences")) == 0 {
		t.Errorf("%s", kernel.Encode(doc))
	}
	if _, doc := knock(t, b.e, http.MethodGet, "/metadata/endpoints?api-version=2019-05-01",
		nil); !strings.HasPrefix(kernel.Text(doc, "list"), `[{`) {
		t.Errorf("the old form: %s", kernel.Encode(doc))
	}
	for path, token := range map[string]string{
		"/" + DefaultTenant + "/v2.0": "http://local:8443/" + DefaultTenant +
			"/oauth2/v2.0/token", "/adfs": "http://local:8443/adfs/oauth2/token",
	} {
		status, doc := knock(t, b.e, http.MethodGet, path+"/.well-known/openid-configuration", nil)
		if status != 200 || kernel.Text(doc, "token_endpoint") != token {
			t.Errorf("%s: %s", path, kernel.Encode(doc))
		}
		for _, field := range []string{"issuer", "authorization_endpoint",
			"device_authorization_endpoint", "jwks_uri", "response_types_supported",
			"subject_types_supported", "id_token_signing_alg_values_supported"} {
			if doc[field] == nil {
				t.Errorf("%s has no %s", path, field)
			}
		}
		// The keys verify the tokens.
		_, keys := knock(t, b.e, http.MethodGet,
			strings.TrimPrefix(kernel.Text(doc, "jwks_uri"), "http://local:8443"), nil)
		if err := b.e.RegisterIssuer("itself", kernel.Encode(keys)); err != nil {
			t.Fatal(err)
		}
		if _, err := jwt.Parse(b.c.token, func(*jwt.Token) (any, error) {
			return b.e.entra.Identity.Issuers["itself"].Keys[0].Key, nil
		}); err != nil {
			t.Errorf("the keys at %s: %v", path, err)
		}
	}
}

func TestTokens(t *testing.T) {
	b, _ := withGuest(t, Options{})
	form := func(pairs ...string) url.Values {
		v := url.Values{"grant_type": {"client_credentials"}, "client_id": {guest.ClientID},
			"client_secret": {guest.Secret}, "scope": {"https://management.azure.com//.default"}}
		for i := 0; i+1 < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	for _, path := range []string{"/" + DefaultTenant + "/oauth2/v2.0/token", "/" + DefaultTenant +
		"/oauth2/token", "/adfs/oauth2/token"} {
		status, doc := knock(t, b.e, http.MethodPost, path, form())
		if status != 200 {
			t.Fatalf("%s: %d %v", path, status, doc)
		}
		for _, field := range []string{"token_type", "expires_in", "ext_expires_in", "expires_on",
			"not_before", "resource"} {
			if doc[field] == nil {
				t.Errorf("%s: no %s", path, field)
			}
		}
		claims := claimsOf(t, kernel.Text(doc, "access_token"))
		for claim, want := range map[string]string{"aud": "https://management.azure.com/",
			"oid": guest.ObjectID, "sub": guest.ObjectID, "appid": guest.ClientID,
			"tid": DefaultTenant, "iss": "https://sts.windows.net/" + DefaultTenant + "/"} {
			if claims[claim] != want {
				t.Errorf("%s: %s is %v, want %s", path, claim, claims[claim], want)
			}
		}
	}
	for _, tt := range []struct {
		tenant string
		form   url.Values
		status int
		name   string
		code   string
	}{
		{DefaultTenant, form("client_secret", "x"), 401, "invalid_client", "7000215"},
		{DefaultTenant, form("client_secret", ""), 401, "invalid_client", "7000216"},
		{DefaultTenant, form("client_id", "5"), 400, "unauthorized_client", "700016"},
		{"7e4a0000-0000-4000-8000-00000000000f", form(), 400, "invalid_request", "90002"},
		{DefaultTenant, form("grant_type", "password"), 400, "unsupported_grant_type", "70003"},
		{DefaultTenant, form("scope", "https://management.azure.com/x"), 400, "invalid_scope",
			"1002012"},
		{DefaultTenant, form("client_assertion", "x", "client_secret", ""), 401, "invalid_client",
			"50027"},
	} {
		status, doc := knock(t, b.e, http.MethodPost, "/"+tt.tenant+"/oauth2/v2.0/token", tt.form)
		if status != tt.status || kernel.Text(doc, "error") != tt.name ||
			string(kernel.Encode(doc["error_codes"])) != "["+tt.code+"]" ||
			!strings.HasPrefix(kernel.Text(doc, "error_description"), "AADSTS"+tt.code+": ") {
			t.Errorf("%v: %d %s, want %d %s %s", tt.form, status, kernel.Encode(doc), tt.status,
				tt.name,
				tt.code)
		}
	}
	// A token for another audience is refused here.
	_, doc := knock(t, b.e, http.MethodPost, "/"+DefaultTenant+"/oauth2/v2.0/token",
		form("scope", "https://vault.azure.net/.default"))
	if status, doc := knock(t, b.e, http.MethodGet, "/subscriptions?api-version="+api, nil,
		"Authorization", "Bearer "+kernel.Text(doc, "access_token")); status != 401 ||
		kernel.Text(doc, "error", "code") != "InvalidAuthenticationTokenAudience" {
		t.Errorf("%d %v", status, doc)
	}
}

// TestManagedIdentity: a user-assigned identity keeps its IDs, gets tokens in every way, is named
// in the log of its calls, and is locked out once it is deleted.
func TestManagedIdentity(t *testing.T) {
	b := newBench(t, Options{})
	b.put(uai, `{"location":"westeurope"}`)
	p := kernel.ObjectAt(b.get(uai), "properties")
	b.put(uai, `{"location":"westeurope","tags":{"a":"b"},"properties":{"clientId":"mine"}}`)
	if again := kernel.ObjectAt(b.get(uai), "properties"); string(kernel.Encode(again)) != string(
		kernel.Encode(p)) ||
		kernel.Text(p, "tenantId") != DefaultTenant ||
		kernel.Text(p, "principalId") == kernel.Text(p, "clientId") {
		t.Errorf("%s, then %s", kernel.Encode(p), kernel.Encode(again))
	}
	const resource = "resource=https://management.azure.com/"
	var token string
	for _, tt := range []struct{ path, want string }{
		{"/msi/token?api-version=2019-08-01&" + resource, DefaultPrincipal.ObjectID},
		{"/msi/token/?api-version=2017-09-01&" + resource, DefaultPrincipal.ObjectID},
		{"/msi/token?client_id=" + kernel.Text(p, "clientId") + "&" + resource,
			kernel.Text(p, "principalId")},
		{"/msi/token?clientid=" + kernel.Text(p, "clientId") + "&" + resource,
			kernel.Text(p, "principalId")},
		{"/msi/token?object_id=" + kernel.Text(p, "principalId") + "&" + resource,
			kernel.Text(p, "principalId")},
		{"/metadata/identity/oauth2/token?mi_res_id=" + strings.ToUpper(string(uai)) + "&" +
			resource, kernel.Text(p, "principalId")},
	} {
		status, doc := knock(t, b.e, http.MethodGet, tt.path, nil, "Metadata", "true")
		if status != 200 || kernel.Text(doc, "token_type") != "Bearer" ||
			kernel.Text(doc, "expires_on") == "" ||
			kernel.Text(doc, "expires_in") != "3600" ||
			kernel.Text(doc, "resource") != "https://management.azure.com/" {
			t.Fatalf("%s: %d %s", tt.path, status, kernel.Encode(doc))
		}
		token = kernel.Text(doc, "access_token")
		claims := claimsOf(t, token)
		if claims["oid"] != tt.want ||
			(claims["xms_mirid"] == string(uai)) != (tt.want != DefaultPrincipal.ObjectID) {
			t.Errorf("%s: %v", tt.path, claims)
		}
	}
	for _, path := range []string{"/msi/token", "/msi/token?client_id=other&" + resource,
		"/metadata/identity/oauth2/token?" + resource} {
		if status, doc := knock(t, b.e, http.MethodGet, path, nil); status != 400 {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
	mine := &bench{t, b.e, withToken(b.e, token)}
	mine.refused(http.MethodPut, rt, `{"location":"westeurope"}`, 403, "AuthorizationFailed")
	b.grant(1, group, kernel.Text(p, "principalId"), "Network Contributor")
	mine.put(rt, `{"location":"westeurope"}`)
	log := b.activity()
	if r := log[0]; kernel.Text(r, "caller") != kernel.Text(p, "principalId") ||
		kernel.ObjectAt(r, "claims")["xms_mirid"] != string(uai) {
		t.Errorf("%s", kernel.Encode(r))
	}
	if status, code := b.try(http.MethodDelete, uai, api, ""); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	mine.refused(http.MethodGet, rt, "", 401, "InvalidAuthenticationToken")
	b.put(uai, `{"location":"westeurope"}`)
	if kernel.Text(b.get(uai), "properties", "principalId") == kernel.Text(p, "principalId") {
		t.Error("the new identity is the old one")
	}
}

// TestFederation: a workload's token of another issuer logs its identity in, if a credential and
// the issuer's key match.
func TestFederation(t *testing.T) {
	b := newBench(t, Options{})
	b.put(uai, `{"location":"westeurope"}`)
	who := entra.IdentityOf(b.e.kernel.Store.Get(uai))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keySet := kernel.Encode((&entra.Identity{Key: func() *rsa.PrivateKey { return key },
		KeyID: "k1"}).Keys())
	var issuer *httptest.Server
	var endless atomic.Int64 // bytes of an answer without an end
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/keys":
			_, _ = w.Write(keySet)
			return
		case strings.HasPrefix(r.URL.Path, "/endless/"):
			blanks := bytes.Repeat([]byte(" "), 1<<20)
			for n, err := w.Write(blanks); err == nil; n, err = w.Write(blanks) {
				endless.Add(int64(n))
			}
			return
		case strings.HasPrefix(r.URL.Path, "/keyless/"):
			_, _ = w.Write(kernel.Encode(kernel.Object{"jwks_uri": issuer.URL + "/endless/"}))
			return
		}
		_, _ = w.Write(kernel.Encode(kernel.Object{"issuer": issuer.URL,
			"jwks_uri": issuer.URL + "/keys"}))
	}))
	defer issuer.Close()
	const subject, audience = "system:serviceaccount:ns:sa", "api://AzureADTokenExchange"
	credential := func(name, from string) {
		b.put(uai.Child("federatedIdentityCredentials", name),
			string(kernel.Encode(kernel.Object{"properties": kernel.Object{"issuer": from,
				"subject":   subject,
				"audiences": []string{audience}}})))
	}
	credential("served", issuer.URL)
	credential("endless", issuer.URL+"/endless")
	credential("keyless", issuer.URL+"/keyless")
	credential("registered", "https://registered.example/")
	b.refused(http.MethodPut, uai.Child("federatedIdentityCredentials", "x"),
		`{"properties":{"issuer":"i","subject":"s"}}`, 400, "BadRequest")
	if err := b.e.RegisterIssuer("https://registered.example/", keySet); err != nil {
		t.Fatal(err)
	}
	login := func(signer *rsa.PrivateKey, claims jwt.MapClaims) (int, string) {
		t.Helper()
		token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
		token.Header["kid"] = "k1"
		signed, err := token.SignedString(signer)
		if err != nil {
			t.Fatal(err)
		}
		status, doc := knock(t, b.e, http.MethodPost, "/"+DefaultTenant+"/oauth2/v2.0/token",
			url.Values{
				"grant_type": {"client_credentials"}, "client_id": {who.ClientID}, "scope": {
					"https://management.azure.com/.default"},
				"client_assertion_type": {entra.AssertionType}, "client_assertion": {signed},
			})
		if status == 200 {
			return status, claimsOf(t, kernel.Text(doc, "access_token"))["oid"].(string)
		}
		return status, string(kernel.Encode(doc["error_codes"]))
	}
	claims := func(issuer, subject, audience string, life time.Duration) jwt.MapClaims {
		return jwt.MapClaims{"iss": issuer, "sub": subject, "aud": []string{audience},
			"exp": time.Now().Add(life).Unix()}
	}
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		signer *rsa.PrivateKey
		claims jwt.MapClaims
		status int
		want   string
	}{
		{"keys served by the issuer", key, claims(issuer.URL, subject, audience, time.Hour), 200,
			who.ObjectID},
		{"keys registered", key,
			claims("https://registered.example/", subject, audience, time.Hour), 200, who.ObjectID},
		{"an answer without an end", key,
			claims(issuer.URL+"/endless", subject, audience, time.Hour), 401, "[50166]"},
		{"keys without an end", key,
			claims(issuer.URL+"/keyless", subject, audience, time.Hour), 401, "[50166]"},
		{"another issuer", key, claims("https://registered.example", subject, audience, time.Hour),
			401, "[700211]"},
		{"another subject", key, claims(issuer.URL, "System:serviceaccount:ns:sa", audience,
			time.Hour), 401, "[700213]"},
		{"another audience", key, claims(issuer.URL, subject, "api://other", time.Hour), 401,
			"[700212]"},
		{"too old", key, claims(issuer.URL, subject, audience, -time.Hour), 401, "[700024]"},
		{"another key", stranger, claims(issuer.URL, subject, audience, time.Hour), 401, "[50013]"},
	} {
		if status, got := login(tt.signer, tt.claims); status != tt.status || got != tt.want {
			t.Errorf("%s: %d %s, want %d %s", tt.name, status, got, tt.status, tt.want)
		}
	}
	if status, code := b.try(http.MethodDelete, uai.Child("federatedIdentityCredentials", "served"),
		api, ""); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	if status, got := login(key,
		claims(issuer.URL, subject, audience, time.Hour)); got != "[700211]" {
		t.Errorf("without the credential: %d %s", status, got)
	}
	if n := endless.Load(); n > 16*kernel.MaxBody {
		t.Errorf("%d bytes of answers without an end were sent, and only %d are read of each", n,
			kernel.MaxBody)
	}
}

// TestTenants: a token is valid only for the subscriptions of its own tenant.
func TestTenants(t *testing.T) {
	const there, abroad = "5ab00000-0000-4000-8000-00000000000b",
		"7e4a0000-0000-4000-8000-00000000000b"
	native := Principal{Name: "native", ClientID: "b1", Secret: "s",
		ObjectID: "b0000000-0000-4000-8000-00000000000b", Tenant: abroad}
	b := newBench(t, Options{
		Subscriptions: []string{sub, there}, Tenants: map[string]string{there: abroad},
		Principals: []Principal{DefaultPrincipal, guest, native},
	})
	far := "/subscriptions/" + arm.ID(there)
	b.says(http.MethodGet, far, "", 401, "InvalidAuthenticationTokenTenant",
		"The access token is from the wrong issuer 'https://sts.windows.net/"+DefaultTenant+
			"/'. It must match the tenant 'https://sts.windows.net/"+abroad+"/' associated with "+
			"this subscription. Please use the authority (URL) 'https://login.windows.net/"+abroad+
			"' to get the token. Note, if the subscription is transferred to another tenant "+
			"there is no impact to the services, but information about new tenant could take "+
			"time to propagate (up to an hour). If you just transferred your subscription and "+
			"see this error message, please try back later.")
	if _, headers := b.knockAt(far); headers.Get(
		"WWW-Authenticate") != `Bearer authorization_uri="http://h/`+abroad+
		`", error="invalid_token", error_description="The access token is missing or invalid."` {
		t.Errorf("the challenge: %v", headers)
	}
	atHome := func(b *bench, tenant string, subscriptions ...string) {
		t.Helper()
		var got []string
		for _, s := range kernel.ListAt(b.get("/subscriptions"), "value") {
			got = append(got, kernel.Text(s, "subscriptionId"))
		}
		if tenants := kernel.ListAt(b.get("/tenants"), "value"); !slices.Equal(got,
			subscriptions) ||
			len(tenants) != 1 || kernel.Text(tenants[0], "tenantId") != tenant {
			t.Errorf("sees %v in %v", got, tenants)
		}
	}
	atHome(b, DefaultTenant, sub)
	atHome(b.as(guest), DefaultTenant)
	atHome(b.as(native), abroad, there)
	visiting := DefaultPrincipal
	visiting.Tenant = abroad
	b.as(visiting).put(far+"/resourceGroups/g", `{"location":"westeurope"}`)
	b.as(visiting).says(http.MethodPut,
		far+"/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v",
		`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[{"name":"a","properties":{"addressPrefix":"10.0.0.0/24","routeTable":{"id":"`+string(rt)+`"}}}]}}`,
		403, "LinkedAuthorizationFailed", "The client '"+visiting.ClientID+"' with object id '"+
			visiting.ObjectID+"' has permission to perform action "+
			"'Microsoft.Network/virtualNetworks/write' on scope '"+string(far)+
			"/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v'; however, the "+
			"current tenant '"+abroad+"' is not authorized to access linked subscription '"+sub+
			"'.")
	b.as(native).refused(http.MethodGet, group, "", 401, "InvalidAuthenticationTokenTenant")
	if status, doc := knock(t, b.e, http.MethodPost, "/"+DefaultTenant+"/oauth2/token",
		url.Values{"grant_type": {"client_credentials"}, "client_id": {"b1"},
			"client_secret": {"s"}, "resource": {
				"https://management.azure.com/"}}); status != 400 ||
		kernel.Text(doc, "error") != "unauthorized_client" {
		t.Errorf("in the wrong tenant: %d %v", status, doc)
	}
}

// knockAt calls without a token.
func (b *bench) knockAt(id arm.ID) (int, http.Header) {
	w := httptest.NewRecorder()
	b.e.ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "http://h"+string(id)+"?api-version="+api, nil))
	return w.Code, w.Header()
}

func TestProviders(t *testing.T) {
	b := newBench(t, Options{PageSize: 3})
	scope := "/subscriptions/" + arm.ID(sub)
	doc := b.get(scope + "/providers/microsoft.network")
	types := names(nil)
	for _, r := range kernel.ListAt(doc, "resourceTypes") {
		types = append(types, kernel.Text(r, "resourceType"))
		if len(kernel.List(r, "apiVersions")) == 0 {
			t.Errorf("%s has no api-versions", kernel.Text(r, "resourceType"))
		}
	}
	if kernel.Text(doc, "registrationState") != "Registered" ||
		!slices.Contains(types, "routeTables") ||
		!slices.Contains(types, "virtualNetworks/subnets") {
		t.Errorf("%s", kernel.Encode(doc))
	}
	for verb, want := range map[string]string{"unregister": "Unregistered",
		"register": "Registered"} {
		if _, doc := b.request(http.MethodPost, string(scope)+"/providers/Microsoft.Network/"+verb,
			nil, ""); kernel.Text(doc, "registrationState") != want {
			t.Errorf("%s: %s", verb, kernel.Encode(doc))
		}
		if got := kernel.Text(b.get(scope+"/providers/Microsoft.Network"),
			"registrationState"); got != want {
			t.Errorf("after %s: %s", verb, got)
		}
	}
	if doc := b.get(scope + "/providers/Microsoft.Storage"); doc["registrationState"] !=
		"Registered" || doc["registrationPolicy"] != "RegistrationRequired" ||
		doc["resourceTypes"] == nil {
		t.Errorf("%s", kernel.Encode(doc))
	}
	b.refused(http.MethodGet, scope+"/providers/Microsoft.Nothing", "", 404,
		"InvalidResourceNamespace")
	if doc := b.get(scope + "/providers"); len(kernel.ListAt(doc, "value")) != 3 ||
		kernel.Text(doc, "nextLink") == "" {
		t.Errorf("%s", kernel.Encode(doc))
	}
	if doc := b.get(scope + "/locations"); kernel.Text(kernel.ListAt(doc, "value")[0],
		"name") != "westeurope" {
		t.Errorf("%s", kernel.Encode(doc))
	}
}

// TestIdentityStays: a managed identity can log in while its document is written again, because
// logins do not wait for the kernel's lock.
func TestIdentityStays(t *testing.T) {
	b := newBench(t, Options{})
	b.put(uai, `{"location":"westeurope"}`)
	who := entra.IdentityOf(b.e.kernel.Store.Get(uai))
	var written atomic.Bool
	var missing atomic.Int64
	var logins sync.WaitGroup
	for range 8 { // they wait for the lock of the identities, so one follows each change
		logins.Go(func() {
			for !written.Load() {
				if !b.e.entra.Identity.Has(who) {
					missing.Add(1)
				}
			}
		})
	}
	for range 100 {
		b.put(uai, `{"location":"westeurope"}`)
	}
	written.Store(true)
	logins.Wait()
	if n := missing.Load(); n > 0 {
		t.Errorf("it was missing %d times", n)
	}
}
