package serve

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	tenant   = "77777777-7777-7777-7777-777777777777"
	audience = "api://routekeeper"
	monitor  = "461e8683-5575-4561-ac7f-899cc907d62a" // the application ID of secure webhooks
)

// keyServer serves what verifying needs of Entra ID: discovery and keys.
type keyServer struct {
	URL     string
	handler http.Handler
	fetched atomic.Int32 // how often the keys were fetched

	mu   sync.Mutex
	keys map[string]*rsa.PrivateKey
}

func newKeyServer(t testing.TB) *keyServer {
	k := &keyServer{URL: "http://login.invalid", keys: map[string]*rsa.PrivateKey{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration",
		func(w http.ResponseWriter, r *http.Request) {
			at := k.URL + "/" + r.PathValue("tenant")
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": at + "/v2.0", "jwks_uri": at +
				"/keys", "id_token_signing_alg_values_supported": []string{"RS256", "HS256",
				"none"}})
		})
	mux.HandleFunc("GET /{tenant}/keys", func(w http.ResponseWriter, _ *http.Request) {
		k.fetched.Add(1)
		k.mu.Lock()
		defer k.mu.Unlock()
		var keys []map[string]string
		for id, key := range k.keys {
			keys = append(keys, map[string]string{"kty": "RSA", "use": "sig", "alg": "RS256",
				"kid": id,
				"n":   base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
				"e":   base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	})
	k.handler = mux
	k.rotate(t, "first")
	return k
}

// listen serves over the network.
func (k *keyServer) listen(t testing.TB) {
	server := httptest.NewServer(k.handler)
	t.Cleanup(server.Close)
	k.URL = server.URL
}

// rotate replaces the keys by a new one.
func (k *keyServer) rotate(t testing.TB, id string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = map[string]*rsa.PrivateKey{id: key}
}

// token signs the claims of a valid token, with changes.
func (k *keyServer) token(t testing.TB, changes jwt.MapClaims) string {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, key := range k.keys {
		return sign(t, jwt.SigningMethodRS256, key, id, k.claims(changes))
	}
	return ""
}

func (k *keyServer) claims(changes jwt.MapClaims) jwt.MapClaims {
	now := time.Now()
	claims := jwt.MapClaims{"iss": k.URL + "/" + tenant + "/v2.0", "aud": audience, "sub": "s",
		"azp": monitor, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range changes {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

func sign(t testing.TB, method jwt.SigningMethod, key any, id string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = id
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func (k *keyServer) auth() Auth {
	return Auth{Tenant: tenant, Audiences: []string{"other", audience},
		Send: Callers{Apps: []string{strings.ToUpper(monitor)},
			Roles: []string{"ActionGroupsSecureWebhook"}},
		Authority: k.URL + "/", LegacyIssuer: "https://sts.windows.net/"}
}

func (g *gate) admitsToken(token string) bool {
	r := httptest.NewRequest(http.MethodPost, "/events", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	who, err := g.admits(r, "")
	return err == nil && who.may[toSend]
}

// gateOf makes a gate that must be possible.
func gateOf(t testing.TB, a Auth) *gate {
	t.Helper()
	g, err := newGate(a, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// secretFile writes a secret.
func secretFile(t testing.TB, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTokens: a token is accepted only if everything in it is right.
func TestTokens(t *testing.T) {
	k := newKeyServer(t)
	k.listen(t)
	g := gateOf(t, k.auth())
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	public, err := json.Marshal(k.keys["first"].PublicKey)
	k.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	good := k.token(t, nil)
	parts := strings.Split(good, ".")
	other, err := json.Marshal(
		k.claims(jwt.MapClaims{"azp": "x", "roles": []string{"ActionGroupsSecureWebhook"}}))
	if err != nil {
		t.Fatal(err)
	}
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"good": {good, true},
		"of version 1.0": {
			k.token(t, jwt.MapClaims{"iss": "https://sts.windows.net/" + tenant + "/", "azp": nil,
				"appid": monitor}), true},
		"by its role": {
			k.token(t, jwt.MapClaims{"azp": "another",
				"roles": []string{"x", "ActionGroupsSecureWebhook"}}), true},
		"several audiences": {
			k.token(t, jwt.MapClaims{"aud": []string{"x", audience}}), true},
		"forged": {sign(t, jwt.SigningMethodRS256, stranger, "first", k.claims(nil)), false},
		"forged, with a new key": {sign(t, jwt.SigningMethodRS256, stranger,
			"second", k.claims(nil)), false},
		"claims exchanged": {parts[0] + "." +
			base64.RawURLEncoding.EncodeToString(other) + "." + parts[2], false},
		"without signature": {parts[0] + "." + parts[1] + ".", false},
		"alg none": {
			sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "first",
				k.claims(nil)), false},
		"signed with the public key as a secret": {sign(t, jwt.SigningMethodHS256, public, "first",
			k.claims(nil)), false},
		"right, as JSON": {`{"protected":"` + parts[0] + `","payload":"` + parts[1] +
			`","signature":"` + parts[2] + `"}`, false},
		"expired": {
			k.token(t, jwt.MapClaims{"exp": ago(time.Second)}), false},
		"never expires": {k.token(t, jwt.MapClaims{"exp": nil}), false},
		"not yet valid": {
			k.token(t, jwt.MapClaims{"nbf": ago(-time.Hour)}), false},
		"for another audience": {
			k.token(t, jwt.MapClaims{"aud": "https://management.azure.com/"}), false},
		"for no audience": {k.token(t, jwt.MapClaims{"aud": nil}), false},
		"of another issuer": {
			k.token(t, jwt.MapClaims{
				"iss": "https://sts.windows.net/11111111-7777-7777-7777-777777777777/"}), false},
		"of another tenant": {
			k.token(t, jwt.MapClaims{"iss": k.URL + "/11111111-7777-7777-7777-777777777777/v2.0"}),
			false},
		"of another application": {
			k.token(t, jwt.MapClaims{"azp": "c11e0000-0000-4000-8000-000000000001"}), false},
		"of no application": {k.token(t, jwt.MapClaims{"azp": nil}), false},
		"with another role": {
			k.token(t, jwt.MapClaims{"azp": "x", "roles": []string{"Reader"}}), false},
		"with claims of the wrong type": {k.token(t, jwt.MapClaims{"roles": 7}), false},
		"not a token":                   {"hello", false},
		"nothing":                       {"", false},
		"three dots and nothing":        {"..", false},
		"a great deal":                  {strings.Repeat("a.", 10000), false},
	} {
		if got := g.admitsToken(c.token); got != c.want {
			t.Errorf("a token that is %s: let in %v, want %v", name, got, c.want)
		}
	}
}

// TestRotation: keys are cached. A new key is fetched for the first token that it signed, and from
// then on tokens of the old key are refused. Forged tokens do not cause more calls.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyServer(t)
		auth := k.auth()
		auth.Client = &http.Client{Transport: inProcess{k.handler}}
		g := gateOf(t, auth)
		old := k.token(t, nil)
		for range 50 {
			if !g.admitsToken(old) {
				t.Fatal("a good token was refused")
			}
		}
		if n := k.fetched.Load(); n != 1 {
			t.Errorf("the keys were fetched %d times", n)
		}
		time.Sleep(time.Minute)
		k.rotate(t, "second")
		if !g.admitsToken(k.token(t, nil)) {
			t.Error("a token of the new key was refused")
		}
		// go-oidc returns the new keys before it has stored them
		synctest.Wait()
		if g.admitsToken(old) {
			t.Error("a token of the key that is gone was let in")
		}
		time.Sleep(time.Minute)
		before := k.fetched.Load()
		stranger, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		forged := sign(t, jwt.SigningMethodRS256, stranger, "third", k.claims(nil))
		for range 60 {
			if g.admitsToken(forged) {
				t.Fatal("a forged token was let in")
			}
			time.Sleep(time.Second / 2)
		}
		if n := k.fetched.Load() - before; n > 4 {
			t.Errorf("forged tokens led to %d calls in half a minute", n)
		}
	})
}

// TestKeysLater: while the keys cannot be fetched, no caller is admitted. Afterwards callers are.
func TestKeysLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyServer(t)
		var down atomic.Bool
		down.Store(true)
		auth := k.auth()
		auth.Client = &http.Client{
			Transport: inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if down.Load() {
					http.Error(w, "down", http.StatusServiceUnavailable)
					return
				}
				k.handler.ServeHTTP(w, r)
			})}}
		g := gateOf(t, auth)
		if g.admitsToken(k.token(t, nil)) {
			t.Error("let in without keys")
		}
		down.Store(false)
		time.Sleep(11 * time.Second)
		if !g.admitsToken(k.token(t, nil)) {
			t.Error("refused for good")
		}
	})
}

func TestSecret(t *testing.T) {
	g := gateOf(t, Auth{SecretFile: secretFile(t, "a-long-enough-secret")})
	for secret, want := range map[string]bool{"a-long-enough-secret": true,
		"a-long-enough-secreT": false, "a-long-enough": false, "": false,
		"a-long-enough-secret1": false} {
		r := httptest.NewRequest(http.MethodPost, "/events", nil)
		if _, err := g.admits(r, secret); (err == nil) != want {
			t.Errorf("%q in the path: %v", secret, err)
		}
		if got := g.admitsToken(secret); got != want {
			t.Errorf("%q as bearer token: %v", secret, got)
		}
	}
}
