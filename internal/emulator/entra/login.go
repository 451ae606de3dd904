package entra

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Login answers the endpoints that need no token.
func (s *Entra) Login(c *kernel.Call) (kernel.Reply, bool) {
	if document, ours := s.Issuers.IssuerDocument(c); ours {
		return document, true
	}
	path := strings.ToLower(strings.Join(c.Path, "/"))
	switch {
	case path == "metadata/endpoints":
		return kernel.OK(s.cloudMetadata(c)), true
	case path == "msi/token", path == "metadata/identity/oauth2/token":
		return s.managedIdentityToken(c, path != "msi/token"), true
	case strings.HasSuffix(path, "/.well-known/openid-configuration"):
		return s.openID(c), true
	case strings.HasSuffix(path, "discovery/v2.0/keys"), strings.HasSuffix(path, "discovery/keys"):
		return kernel.OK(s.Identity.Keys()), true
	case c.Method == http.MethodPost && len(c.Path) > 2 &&
		(strings.HasSuffix(path, "/oauth2/v2.0/token") || strings.HasSuffix(path, "/oauth2/token")):
		return s.clientCredentials(c), true
	}
	return kernel.Reply{}, false
}

// cloudMetadata lists the other endpoints. Before 2022-09-01 it is a list of clouds.
func (s *Entra) cloudMetadata(c *kernel.Call) any {
	cloud := kernel.Object{
		"name": "routekeeper-local", "portal": c.Base, "gallery": c.Base + "/", "graph": c.Base +
			"/", "graphAudience": c.Base + "/",
		"resourceManager": c.Base, "microsoftGraphResourceId": c.Base + "/", "batch": c.Base +
			"/", "media": c.Base,
		"authentication": kernel.Object{
			"loginEndpoint": c.Base, "audiences": []string{armAudiences[0],
				armAudiences[2]}, "tenant": "common", "identityProvider": "AAD",
		},
		"suffixes": kernel.Object{
			"storage": "core.localhost", "keyVaultDns": "vault.localhost",
			"acrLoginServer": "azurecr.localhost", "sqlServerHostname": "database.localhost",
		},
	}
	if c.Version < "2022-09-01" {
		return []kernel.Object{cloud}
	}
	return cloud
}

// openID returns the OpenID configuration of a tenant or, at the path adfs, that of an AD FS.
// Clients use AD FS to skip the lookup of an unknown cloud.
func (s *Entra) openID(c *kernel.Call) kernel.Reply {
	tenant, known := s.Identity.tenant(c.Path[0])
	if !known {
		return noTenant(c)
	}
	at := c.Base + "/" + tenant
	token, issuer := at+"/oauth2/v2.0/token", at+"/v2.0"
	if strings.EqualFold(c.Path[0], "adfs") {
		at = c.Base + "/adfs"
		token, issuer = at+"/oauth2/token", at
	}
	return kernel.OK(kernel.Object{
		"issuer": issuer, "token_endpoint": token,
		"authorization_endpoint":        at + "/oauth2/v2.0/authorize",
		"device_authorization_endpoint": at + "/oauth2/v2.0/devicecode",
		"jwks_uri":                      at + "/discovery/v2.0/keys",
		"response_types_supported": []string{"code", "id_token", "code id_token",
			"id_token token"},
		"response_modes_supported": []string{"query", "fragment", "form_post"},
		"subject_types_supported":  []string{"pairwise"},
		"scopes_supported":         []string{"openid", "profile", "email", "offline_access"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_post", "private_key_jwt",
			"client_secret_basic"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"tenant_region_scope":                   "EU", "cloud_instance_name": strings.TrimPrefix(
			strings.TrimPrefix(c.Base, "https://"), "http://"),
	})
}

// refusedLogin returns an error answer of Entra ID, which has its own format.
func refusedLogin(c *kernel.Call, status int, name string, code int, format string,
	args ...any) kernel.Reply {
	trace, now := uuid.NewString(), time.Now().UTC().Format("2006-01-02 15:04:05Z")
	return kernel.Reply{Status: status, Body: kernel.Encode(kernel.Object{
		"error": name,
		"error_description": fmt.Sprintf("AADSTS%d: %s Trace ID: %s Correlation ID: %s "+
			"Timestamp: %s", code, fmt.Sprintf(format, args...), trace, c.IDs[1], now),
		"error_codes": []int{code}, "timestamp": now, "trace_id": trace,
		"correlation_id": c.IDs[1],
		"error_uri":      c.Base + "/error?code=" + strconv.Itoa(code),
	})}
}

func noTenant(c *kernel.Call) kernel.Reply {
	return refusedLogin(c, http.StatusBadRequest, "invalid_request", 90002, "Tenant '%s' not "+
		"found. Check to make sure you have the correct tenant ID and are signing into the "+
		"correct cloud. Check with your subscription administrator, this may happen if there are "+
		"no active subscriptions for the tenant.", c.Path[0])
}

// clientCredentials answers the client credentials grant: with a client secret, or with a token of
// an issuer that a federated credential names.
func (s *Entra) clientCredentials(c *kernel.Call) kernel.Reply {
	form, err := url.ParseQuery(string(c.Body))
	if err != nil {
		return refusedLogin(c, http.StatusBadRequest, "invalid_request", 900144,
			"The request body cannot be read: %v.", err)
	}
	tenant, known := s.Identity.tenant(c.Path[0])
	if !known {
		return noTenant(c)
	}
	if grant := form.Get("grant_type"); grant != "client_credentials" {
		return refusedLogin(c, http.StatusBadRequest, "unsupported_grant_type", 70003,
			"The app requested an unsupported grant type '%s'.", grant)
	}
	audience := form.Get("resource")
	if scope := form.Get("scope"); audience == "" {
		for _, one := range strings.Fields(scope) { // Go's library adds openid and others
			if resource, isDefault := strings.CutSuffix(one, "/.default"); isDefault {
				audience = resource
			}
		}
		if audience == "" {
			return refusedLogin(c, http.StatusBadRequest, "invalid_scope", 1002012,
				"The provided value for scope %s is not valid. Client credential flows must have "+
					"a scope value with /.default suffixed to the resource identifier "+
					"(application ID URI).", scope)
		}
	}
	appID, secret := form.Get("client_id"), form.Get("client_secret")
	if appID == "" { // HTTP Basic is the other way to send it
		appID, secret, _ = (&http.Request{Header: c.Header}).BasicAuth()
	}
	who, known := s.Identity.Find(tenant, client(appID))
	switch assertion := form.Get("client_assertion"); {
	case !known:
		return refusedLogin(c, http.StatusBadRequest, "unauthorized_client", 700016,
			"Application with identifier '%s' was not found in the directory '%s'. This can "+
				"happen if the application has not been installed by the administrator of the "+
				"tenant or consented to by any user in the tenant. You may have sent your "+
				"authentication request to the wrong tenant.", appID, tenant)
	case assertion != "":
		if refusal := s.checkAssertion(c, who, form.Get("client_assertion_type"),
			assertion); refusal != nil {
			return *refusal
		}
	case secret == "":
		return refusedLogin(c, http.StatusUnauthorized, "invalid_client", 7000216,
			"'client_assertion', 'client_secret' or 'request' is required for the "+
				"'client_credentials' grant type.")
	case secret != who.Secret:
		return refusedLogin(c, http.StatusUnauthorized, "invalid_client", 7000215,
			"Invalid client secret provided. Ensure the secret being sent in the request is the "+
				"client secret value, not the client secret ID, for a secret added to app '%s'.",
			appID)
	}
	return s.grant(c, who, audience, false)
}

// grant answers with a token. The managed identity endpoints write numbers as strings, as the token
// endpoint of version 1 does; AD FS writes numbers.
func (s *Entra) grant(c *kernel.Call, who kernel.Principal, audience string,
	asText bool) kernel.Reply {
	token, expires, err := s.Identity.Token(who, audience)
	if err != nil {
		return refusedLogin(c, http.StatusInternalServerError, "server_error", 90033, "%v", err)
	}
	var seconds any = int(TokenLife.Seconds())
	if asText || !strings.Contains(c.Key(), "/v2.0/") && !strings.HasPrefix(c.Key(), "/adfs/") {
		seconds = strconv.Itoa(int(TokenLife.Seconds()))
	}
	return kernel.OK(kernel.Object{
		"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds,
		"expires_on": strconv.FormatInt(expires.Unix(), 10), "not_before": strconv.FormatInt(
			time.Now().Unix(), 10),
		"resource": audience, "access_token": token, "client_id": who.ClientID,
	})
}

// managedIdentityToken answers programs on an Azure machine: App Service's endpoint
// (IDENTITY_ENDPOINT, MSI_ENDPOINT), and the instance metadata service, which requires a header. A
// call that names no identity gets the first principal, as if it were the machine's system-assigned
// identity.
func (s *Entra) managedIdentityToken(c *kernel.Call, instanceMetadata bool) kernel.Reply {
	refuse := func(name, message string) kernel.Reply {
		return kernel.Reply{Status: http.StatusBadRequest,
			Body: kernel.Encode(kernel.Object{"error": name, "error_description": message,
				"statusCode": 400,
				"message":    message})}
	}
	if instanceMetadata && c.Header.Get("Metadata") == "" {
		return refuse("invalid_request", "Required metadata header not specified")
	}
	form, err := url.ParseQuery(string(c.Body))
	if err != nil {
		return refuse("invalid_request", err.Error())
	}
	param := func(names ...string) string {
		for _, name := range names {
			if value := c.Param(name); value != "" {
				return value
			}
			if value := form.Get(name); value != "" {
				return value
			}
		}
		return ""
	}
	audience := strings.TrimSuffix(param("resource", "scope"), "/.default")
	if audience == "" {
		return refuse("invalid_resource", "The resource parameter is missing.")
	}
	client, object, resource := param("client_id", "clientid"), param("object_id",
		"principal_id"), param("mi_res_id", "msi_res_id")
	meant := func(p kernel.Principal) bool {
		return (client == "" || strings.EqualFold(p.ClientID, client)) &&
			(object == "" || strings.EqualFold(p.ObjectID, object)) &&
			(resource == "" || strings.EqualFold(p.Resource, resource))
	}
	for _, tenant := range s.Identity.tenants {
		who, known := s.Identity.Find(tenant, meant)
		if known && (who.Resource != "" || who.ClientID == s.kernel.Opts.Principals[0].ClientID) {
			return s.grant(c, who, audience, true)
		}
	}
	return refuse("invalid_request", "No User Assigned or Delegated Managed Identity found for "+
		"specified ClientId/ResourceId/PrincipalId.")
}
