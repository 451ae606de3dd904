package emulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// A cluster with an OIDC issuer signs the tokens of its service accounts: a federated credential
// that names its issuer URL lets them in as a managed identity. All clusters sign with the
// emulator's key.

const issuerPath = "_oidc" // and the tenant, and a GUID for the cluster

// issuerURL is where the documents of a cluster's issuer are, "" where it has none. An emulator
// that does not listen gives the name that Azure would give.
func (s *aks) issuerURL(r *resource) string {
	if objectAt(r.body, "properties", "oidcIssuerProfile")["enabled"] != true {
		return ""
	}
	host := "https://" + text(r.body, "location") + ".oic.prod-aks.azure.com"
	if at := s.kernel.listensAt(); at != "" {
		host = at + "/" + issuerPath
	}
	guid := uuid.NewSHA1(uuid.Nil, []byte(r.id.Key()+" "+r.created.UTC().Format(time.RFC3339Nano)))
	return host + "/" + s.kernel.tenantOf(r.id.Subscription()) + "/" + guid.String() + "/"
}

// showIssuer adds the issuer's URL to a cluster's document.
func (s *aks) showIssuer(r *resource, properties object) {
	if issuer := s.issuerURL(r); issuer != "" {
		objectAt(properties, "oidcIssuerProfile")["issuerURL"] = issuer
	}
}

// ofIssuer is the cluster with an issuer, or nil.
func (s *aks) ofIssuer(issuer string) *resource {
	for _, r := range s.kernel.store.list(arm.TypeCluster, "") {
		if issuer != "" && s.issuerURL(r) == issuer {
			return r
		}
	}
	return nil
}

// keysOf returns the keys of an issuer, where it is a cluster's.
func (s *aks) keysOf(issuer string) (keys []jwk, ours bool, err error) {
	s.kernel.mu.RLock()
	ours = s.ofIssuer(issuer) != nil
	s.kernel.mu.RUnlock()
	if !ours {
		return nil, false, nil
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	err = json.Unmarshal(encode(s.entra.identity.keys()), &set)
	return set.Keys, true, err
}

// issuerDocument answers for what relying parties read of an issuer.
func (s *aks) issuerDocument(c *call) (reply, bool) {
	if len(c.path) < 5 || c.path[0] != issuerPath || c.method != http.MethodGet {
		return reply{}, false
	}
	s.kernel.mu.RLock()
	defer s.kernel.mu.RUnlock()
	issuer := s.kernel.listensAt() + "/" + strings.Join(c.path[:3], "/") + "/"
	if s.ofIssuer(issuer) == nil {
		return notFound(c).reply(), true
	}
	switch strings.Join(c.path[3:], "/") {
	case ".well-known/openid-configuration":
		return ok(object{
			"issuer": issuer, "jwks_uri": issuer +
				"openid/v1/jwks", "response_types_supported": []string{"id_token"},
			"subject_types_supported": []string{
				"public",
			}, "id_token_signing_alg_values_supported": []string{"RS256"},
		}), true
	case "openid/v1/jwks":
		return ok(s.entra.identity.keys()), true
	}
	return notFound(c).reply(), true
}

// tokenRequest answers the API server's call for a service account's token (kubectl create token).
// Any service account has one: the emulator keeps none.
func (s *aks) tokenRequest(c *call) (reply, *failure, bool) {
	p := c.path[4:] // api/v1/namespaces/NAMESPACE/serviceaccounts/NAME/token
	if c.method != http.MethodPost || len(p) != 7 || p[0] != "api" || p[2] != "namespaces" ||
		p[4] != "serviceaccounts" ||
		p[6] != "token" {
		return reply{}, nil, false
	}
	defer s.kernel.lock()()
	r := s.kernel.store.get(ofAPIServer(c))
	if r == nil {
		return reply{}, s.kernel.missing(ofAPIServer(c)), true
	}
	if f := s.admitKubernetes(c.who, r, "create", "serviceaccounts/token", p[3]); f != nil {
		return reply{}, f, true
	}
	sent, f := decodeObject(c.body)
	if f != nil {
		return reply{}, f, true
	}
	issuer := s.issuerURL(r)
	audiences := list(objectAt(sent, "spec"), "audiences")
	if issuer == "" {
		issuer = "https://" + r.id.Name() + "." + apiServerDomain
	}
	if len(audiences) == 0 {
		audiences = []string{issuer}
	}
	life := time.Hour
	if n, is := objectAt(sent, "spec")["expirationSeconds"].(json.Number); is {
		if seconds, err := n.Int64(); err == nil && seconds >= 600 {
			life = min(time.Duration(seconds)*time.Second, 24*time.Hour)
		}
	}
	expires := time.Now().Add(life)
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": issuer, "sub": "system:serviceaccount:" + p[3] + ":" +
			p[5], "aud": slices.Clone(audiences), "jti": uuid.NewString(),
		"iat": time.Now().Unix(), "nbf": time.Now().Unix(), "exp": expires.Unix(),
		"kubernetes.io": object{
			"namespace": p[3],
			"serviceaccount": object{
				"name": p[5],
				"uid":  uuid.NewSHA1(uuid.Nil, []byte(r.id.Key()+p[3]+"/"+p[5])).String(),
			},
		},
	})
	token.Header["kid"] = s.entra.identity.keyID
	signed, err := token.SignedString(s.entra.identity.key)
	if err != nil {
		return reply{}, fail(http.StatusInternalServerError, "InternalError", "%v", err), true
	}
	answer := ok(object{
		"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": object{
			"name": p[5], "namespace": p[3]},
		"spec": object{"audiences": audiences, "expirationSeconds": int(life.Seconds())},
		"status": object{
			"token":               signed,
			"expirationTimestamp": expires.UTC().Format(time.RFC3339),
		},
	})
	answer.status = http.StatusCreated
	return answer, nil, true
}
