package entra

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
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
	token, _, err := jwt.NewParser().ParseUnverified(assertion, claims)
	if kind != AssertionType || err != nil {
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	keys, err := s.keysOf(ctx, issuer)
	if err != nil {
		return refuse(50166, "Request to External OIDC endpoint failed: %v.", err)
	}
	signers := &oidc.StaticKeySet{}
	for _, k := range keys {
		if id, _ := token.Header["kid"].(string); id == "" || k.KeyID == id {
			signers.PublicKeys = append(signers.PublicKeys, k.Key)
		}
	}
	_, err = oidc.NewVerifier(issuer, signers, &oidc.Config{SkipClientIDCheck: true,
		SupportedSigningAlgs: []string{oidc.RS256, oidc.ES256}}).Verify(ctx, assertion)
	if expired := new(oidc.TokenExpiredError); errors.As(err, &expired) {
		return refuse(700024, "Client assertion is not within its valid time range: %v.", err)
	}
	if err != nil {
		return refuse(50013, "Assertion failed signature validation: %v.", err)
	}
	return nil
}

// RegisterIssuer registers the keys of an issuer that publishes none, as a JSON Web Key Set.
func (s *Entra) RegisterIssuer(issuer string, keySet []byte) error {
	var set keys
	if err := json.Unmarshal(keySet, &set); err != nil {
		return fmt.Errorf("the keys of %s: %w", issuer, err)
	}
	if issuer == "" || len(set) == 0 {
		return fmt.Errorf("the issuer %q needs a name and at least one RSA or P-256 key", issuer)
	}
	defer s.kernel.Lock()()
	s.Identity.mu.Lock()
	defer s.Identity.mu.Unlock()
	s.Identity.Issuers[issuer] = jose.JSONWebKeySet{Keys: set}
	return nil
}

// keys are the keys of a JSON Web Key Set that can verify an assertion. A set may have others.
type keys []jose.JSONWebKey

// UnmarshalJSON implements json.Unmarshaler.
func (k *keys) UnmarshalJSON(text []byte) error {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return err
	}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && verifies(key) {
			*k = append(*k, key)
		}
	}
	return nil
}

// verifies reports whether a key is of a kind that can verify an assertion.
func verifies(k jose.JSONWebKey) bool {
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return key.N.Sign() > 0
	case *ecdsa.PublicKey:
		return key.Curve == elliptic.P256()
	}
	return false
}

// keysOf returns the keys of an issuer: the emulator's own key for a cluster, the registered keys,
// or the published ones.
func (s *Entra) keysOf(ctx context.Context, issuer string) (keys, error) {
	if s.Issuers.IsIssuer(issuer) {
		return s.Identity.Keys().Keys, nil
	}
	s.Identity.mu.Lock()
	set, registered := s.Identity.Issuers[issuer]
	s.Identity.mu.Unlock()
	if registered {
		return set.Keys, nil
	}
	var configuration struct {
		KeysAt string `json:"jwks_uri"`
	}
	if err := fetch(ctx, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration",
		&configuration); err != nil {
		return nil, err
	}
	var published keys
	err := fetch(ctx, configuration.KeysAt, &published)
	return published, err
}

// fetch reads a JSON document of an issuer, which can be hostile: at most kernel.MaxBody bytes.
func fetch(ctx context.Context, url string, into any) error {
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
