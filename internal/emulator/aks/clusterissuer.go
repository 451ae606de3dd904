package aks

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// A cluster with an OIDC issuer signs the tokens of its service accounts. A federated credential
// with its issuer URL accepts them as a managed identity's login. All clusters sign with the
// emulator's key.

const issuerPath = "_oidc" // followed by the tenant, and a GUID for the cluster

// issuerURL returns the URL of a cluster's issuer, "" without one. An emulator that does not listen
// returns the URL that Azure would use.
func (s *APIServers) issuerURL(r *kernel.Resource) string {
	if kernel.ObjectAt(r.Body, "properties", "oidcIssuerProfile")["enabled"] != true {
		return ""
	}
	host := "https://" + kernel.Text(r.Body, "location") + ".oic.prod-aks.azure.com"
	if at := s.kernel.Server.ListensAt(); at != "" {
		host = at + "/" + issuerPath
	}
	guid := uuid.NewSHA1(uuid.Nil, []byte(r.ID.Key()+" "+r.Created.UTC().Format(time.RFC3339Nano)))
	return host + "/" + s.kernel.Opts.TenantOf(r.ID.Subscription()) + "/" + guid.String() + "/"
}

// showIssuer adds the issuer's URL to a cluster's document.
func (s *APIServers) showIssuer(r *kernel.Resource, properties kernel.Object) {
	if issuer := s.issuerURL(r); issuer != "" {
		kernel.ObjectAt(properties, "oidcIssuerProfile")["issuerURL"] = issuer
	}
}

// clusterOfIssuer returns the cluster with an issuer, or nil.
func (s *APIServers) clusterOfIssuer(issuer string) *kernel.Resource {
	for _, r := range s.kernel.Store.List(arm.TypeCluster, "") {
		if issuer != "" && s.issuerURL(r) == issuer {
			return r
		}
	}
	return nil
}

// IsIssuer reports whether an issuer belongs to a cluster.
func (s *APIServers) IsIssuer(issuer string) bool {
	s.kernel.Mu.RLock()
	defer s.kernel.Mu.RUnlock()
	return s.clusterOfIssuer(issuer) != nil
}

// IssuerDocument answers for the OIDC documents of an issuer.
func (s *APIServers) IssuerDocument(c *kernel.Call) (kernel.Reply, bool) {
	if len(c.Path) < 5 || c.Path[0] != issuerPath || c.Method != http.MethodGet {
		return kernel.Reply{}, false
	}
	s.kernel.Mu.RLock()
	defer s.kernel.Mu.RUnlock()
	issuer := s.kernel.Server.ListensAt() + "/" + strings.Join(c.Path[:3], "/") + "/"
	if s.clusterOfIssuer(issuer) == nil {
		return kernel.NotFound(c).Reply(), true
	}
	switch strings.Join(c.Path[3:], "/") {
	case ".well-known/openid-configuration":
		return kernel.OK(kernel.Object{
			"issuer": issuer, "jwks_uri": issuer +
				"openid/v1/jwks", "response_types_supported": []string{"id_token"},
			"subject_types_supported": []string{
				"public",
			}, "id_token_signing_alg_values_supported": []string{"RS256"},
		}), true
	case "openid/v1/jwks":
		return kernel.OK(s.entra.Identity.Keys()), true
	}
	return kernel.NotFound(c).Reply(), true
}

// tokenRequest answers the API server's call for a service account's token (kubectl create token).
// Every name of a service account is accepted: the emulator stores none.
func (s *APIServers) tokenRequest(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	p := c.Path[4:] // api/v1/namespaces/NAMESPACE/serviceaccounts/NAME/token
	if c.Method != http.MethodPost || len(p) != 7 || p[0] != "api" || p[2] != "namespaces" ||
		p[4] != "serviceaccounts" || p[6] != "token" {
		return kernel.Reply{}, nil, false
	}
	defer s.kernel.Lock()()
	_, r, f := s.called(c)
	if f != nil {
		return kernel.Reply{}, f, true
	}
	if f := s.admitKubernetes(c.Who, r, "create", "serviceaccounts/token", p[3]); f != nil {
		return kernel.Reply{}, f, true
	}
	sent, f := kernel.DecodeObject(c.Body)
	if f != nil {
		return kernel.Reply{}, f, true
	}
	issuer := s.issuerURL(r)
	audiences := kernel.List(sent, "spec", "audiences")
	if issuer == "" {
		issuer = "https://" + r.ID.Name() + "." + apiServerDomain
	}
	if len(audiences) == 0 {
		audiences = []string{issuer}
	}
	life := time.Hour
	if n, is := kernel.ObjectAt(sent, "spec")["expirationSeconds"].(json.Number); is {
		if seconds, err := n.Int64(); err == nil && seconds >= 600 {
			life = min(time.Duration(seconds)*time.Second, 24*time.Hour)
		}
	}
	expires := time.Now().Add(life)
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": issuer, "sub": "system:serviceaccount:" + p[3] + ":" +
			p[5], "aud": slices.Clone(audiences), "jti": uuid.NewString(),
		"iat": time.Now().Unix(), "nbf": time.Now().Unix(), "exp": expires.Unix(),
		"kubernetes.io": kernel.Object{
			"namespace": p[3],
			"serviceaccount": kernel.Object{
				"name": p[5],
				"uid":  uuid.NewSHA1(uuid.Nil, []byte(r.ID.Key()+p[3]+"/"+p[5])).String(),
			},
		},
	})
	token.Header["kid"] = s.entra.Identity.KeyID
	signed, err := token.SignedString(s.entra.Identity.Key())
	if err != nil {
		return kernel.Reply{}, kernel.Fail(http.StatusInternalServerError, "InternalError", "%v",
			err), true
	}
	answer := kernel.OK(kernel.Object{
		"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": kernel.Object{
			"name": p[5], "namespace": p[3]},
		"spec": kernel.Object{"audiences": audiences, "expirationSeconds": int(life.Seconds())},
		"status": kernel.Object{
			"token":               signed,
			"expirationTimestamp": expires.UTC().Format(time.RFC3339),
		},
	})
	answer.Status = http.StatusCreated
	return answer, nil, true
}
