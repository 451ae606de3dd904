package entra

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// AssertionType is the one supported type of client assertion.
const AssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// checkAssertion checks the token of another issuer, such as a cluster's, with which an identity
// logs in: one of its federated credentials must name the issuer, the subject and the audience, all
// compared with case, and the issuer's key must have signed it.
func (s *Entra) checkAssertion(c *kernel.Call, who kernel.Principal, kind,
	assertion string) *kernel.Reply {
	refuse := func(code int, format string, args ...any) *kernel.Reply {
		r := refusedLogin(c, http.StatusUnauthorized, "invalid_client", code, format, args...)
		return &r
	}
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(assertion, claims); kind != AssertionType ||
		err != nil {
		return refuse(50027, "JWT token is invalid or malformed.")
	}
	issuer, _ := claims.GetIssuer()
	subject, _ := claims.GetSubject()
	audiences, _ := claims.GetAudience()
	s.kernel.Mu.RLock()
	var trusted []kernel.Object
	if who.Resource != "" {
		for _, r := range s.kernel.Store.List(TypeFederatedCredential, arm.ID(who.Resource)) {
			trusted = append(trusted, r.Properties())
		}
	}
	s.kernel.Mu.RUnlock()
	// Each test filters the credentials; the one after which none is left decides the error.
	for _, test := range []struct {
		code        int
		what, value string
		matches     func(kernel.Object) bool
	}{
		{700211, "issuer", issuer, func(p kernel.Object) bool {
			return kernel.Text(p, "issuer") == issuer
		}},
		{700213, "subject", subject, func(p kernel.Object) bool {
			return kernel.Text(p, "subject") == subject
		}},
		{700212, "audience", strings.Join(audiences, ","), func(p kernel.Object) bool {
			return slices.ContainsFunc(kernel.List(p, "audiences"), func(a string) bool {
				return slices.Contains(audiences, a)
			})
		}},
	} {
		trusted = slices.DeleteFunc(trusted, func(p kernel.Object) bool { return !test.matches(p) })
		if len(trusted) == 0 {
			return refuse(test.code, "No matching federated identity record found for presented "+
				"assertion %s '%s'. Please check your federated identity credential Subject, "+
				"Audience and Issuer against the presented assertion. "+
				"https://learn.microsoft.com/entra/workload-id/workload-identity-federation",
				test.what, test.value)
		}
	}
	keys, ours, err := s.Issuers.KeysOf(issuer)
	if !ours {
		keys, err = s.Identity.keysOf(issuer)
	}
	if err != nil {
		return refuse(50166, "Request to External OIDC endpoint failed: %v.", err)
	}
	_, err = jwt.Parse(assertion, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		var set jwt.VerificationKeySet
		for _, k := range keys {
			if key := k.Key(); key != nil && (id == "" || k.KeyID == id) {
				set.Keys = append(set.Keys, key)
			}
		}
		return set, nil
	}, jwt.WithValidMethods([]string{"RS256", "ES256"}), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(time.Now))
	if err != nil && strings.Contains(err.Error(), "expired") {
		return refuse(700024, "Client assertion is not within its valid time range: %v.", err)
	}
	if err != nil {
		return refuse(50013, "Assertion failed signature validation: %v.", err)
	}
	return nil
}

// JWK is a public key as issuers publish it.
type JWK struct {
	Type  string `json:"kty"`
	KeyID string `json:"kid"`
	N     string `json:"n"`
	E     string `json:"e"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

// Key returns the key that verifies signatures, or nil for an unsupported type.
func (k JWK) Key() any {
	number := func(s string) *big.Int {
		raw, _ := base64.RawURLEncoding.DecodeString(s) // a wrong key verifies nothing
		return new(big.Int).SetBytes(raw)
	}
	switch {
	case k.Type == "RSA" && k.N != "" && k.E != "" && number(k.E).IsInt64():
		return &rsa.PublicKey{N: number(k.N), E: int(number(k.E).Int64())}
	case k.Type == "EC" && k.Curve == "P-256" &&
		max(number(k.X).BitLen(), number(k.Y).BitLen()) <= 256:
		point := []byte{4} // uncompressed: both coordinates, 32 bytes each
		for _, coordinate := range []string{k.X, k.Y} {
			point = append(point, number(coordinate).FillBytes(make([]byte, 32))...)
		}
		if key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err == nil {
			return key
		}
	}
	return nil
}

// RegisterIssuer registers the keys of an issuer that publishes none, as a JSON Web Key Set.
func (s *Entra) RegisterIssuer(issuer string, keySet []byte) error {
	var set struct {
		Keys []JWK `json:"keys"`
	}
	if err := json.Unmarshal(keySet, &set); err != nil {
		return fmt.Errorf("the keys of %s: %w", issuer, err)
	}
	if issuer == "" || !slices.ContainsFunc(set.Keys, func(k JWK) bool { return k.Key() != nil }) {
		return fmt.Errorf("the issuer %q needs a name and at least one RSA or P-256 key", issuer)
	}
	defer s.kernel.Lock()()
	s.Identity.mu.Lock()
	defer s.Identity.mu.Unlock()
	s.Identity.Issuers[issuer] = set.Keys
	return nil
}

// KeysOf returns the keys of an issuer: the registered ones, or the published ones.
func (i *Identity) keysOf(issuer string) ([]JWK, error) {
	i.mu.Lock()
	keys, registered := i.Issuers[issuer]
	i.mu.Unlock()
	if registered {
		return keys, nil
	}
	var configuration struct {
		KeysAt string `json:"jwks_uri"`
	}
	if err := fetch(strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration",
		&configuration); err != nil {
		return nil, err
	}
	var set struct {
		Keys []JWK `json:"keys"`
	}
	err := fetch(configuration.KeysAt, &set)
	return set.Keys, err
}

// fetch reads a JSON document of an issuer.
func fetch(url string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, answer.Status)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, kernel.MaxBody)).Decode(into)
}
