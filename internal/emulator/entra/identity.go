package entra

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Identity issues tokens and checks them.
type Identity struct {
	tenants []string // the options' first
	// Key signs tokens. It is made at its first use: that takes longer than the rest of a start.
	Key   func() *rsa.PrivateKey
	KeyID string

	mu         sync.Mutex
	principals []kernel.Principal            // the options' first, then managed identities
	verified   map[string]session            // verified tokens
	Issuers    map[string]jose.JSONWebKeySet // registered keys of external issuers
}

type session struct {
	who       kernel.Principal
	audiences []string
	expires   time.Time
}

func newIdentity(tenants []string, principals []kernel.Principal, key *rsa.PrivateKey) *Identity {
	i := &Identity{tenants: tenants, KeyID: uuid.NewString(), verified: map[string]session{},
		Key:     sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) }),
		Issuers: map[string]jose.JSONWebKeySet{}}
	if key != nil {
		i.setKey(key, i.KeyID)
	}
	for _, p := range principals {
		i.Add(p)
	}
	return i
}

func (i *Identity) setKey(key *rsa.PrivateKey, id string) {
	i.Key, i.KeyID = func() *rsa.PrivateKey { return key }, id
}

// Add adds a principal that can log in.
func (i *Identity) Add(p kernel.Principal) {
	if p.Tenant == "" {
		p.Tenant = i.tenants[0]
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.principals = append(slices.DeleteFunc(i.principals, client(p.ClientID)), p)
}

// Remove removes a principal, and its tokens become invalid.
func (i *Identity) Remove(p kernel.Principal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.principals = slices.DeleteFunc(i.principals, client(p.ClientID))
	maps.DeleteFunc(i.verified, func(_ string, s session) bool {
		return s.who.ClientID == p.ClientID
	})
}

// client selects the principal with a client ID.
func client(id string) func(kernel.Principal) bool {
	return func(p kernel.Principal) bool { return strings.EqualFold(p.ClientID, id) }
}

// Find returns the first matching principal of a tenant. The very first principal belongs to every
// tenant.
func (i *Identity) Find(tenant string, meant func(kernel.Principal) bool) (kernel.Principal, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, p := range i.principals {
		if meant(p) && (n == 0 || strings.EqualFold(p.Tenant, tenant)) {
			p.Tenant = tenant
			return p, true
		}
	}
	return kernel.Principal{}, false
}

// Has reports whether a principal still exists.
func (i *Identity) Has(who kernel.Principal) bool {
	_, known := i.Find(who.Tenant, client(who.ClientID))
	return known
}

// tenant returns the tenant that the first segment of a login path names.
func (i *Identity) tenant(name string) (string, bool) {
	switch strings.ToLower(name) {
	case "adfs", "common", "organizations":
		return i.tenants[0], true
	}
	n := slices.IndexFunc(i.tenants, func(t string) bool { return strings.EqualFold(t, name) })
	if n < 0 {
		return "", false
	}
	return i.tenants[n], true
}

// TokenLife is how long a token is valid.
const TokenLife = time.Hour

// Session lets a principal of the options call without a signed token, until end is called: to make
// the key takes a quarter of the time in which a scenario is built.
func (s *Entra) Session(p kernel.Principal) (token string, end func(), err error) {
	i := s.Identity
	who, known := i.Find(cmp.Or(p.Tenant, i.tenants[0]), client(p.ClientID))
	if !known {
		return "", nil, fmt.Errorf("no principal has the client ID %q", p.ClientID)
	}
	token = uuid.NewString()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.verified[token] = session{who: who, audiences: armAudiences,
		expires: time.Now().Add(TokenLife)}
	return token, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.verified, token)
	}, nil
}

// Token issues a token for a principal, as the login endpoints do.
func (i *Identity) Token(p kernel.Principal, audience string) (string, time.Time, error) {
	tenant := cmp.Or(p.Tenant, i.tenants[0])
	now := time.Now()
	expires := now.Add(TokenLife)
	claims := jwt.MapClaims{
		"aud": audience, "iss": IssuerOf(tenant), "idp": IssuerOf(tenant),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"oid": p.ObjectID, "sub": p.ObjectID, "tid": tenant, "appid": p.ClientID, "appidacr": "1",
		"idtyp": "app", "ver": "1.0",
	}
	if p.Resource != "" {
		claims["xms_mirid"] = p.Resource
		claims["appidacr"] = "2"
	}
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	t.Header["kid"] = i.KeyID
	t.Header["x5t"] = base64.RawURLEncoding.EncodeToString(i.thumbprint())
	signed, err := t.SignedString(i.Key())
	return signed, expires, err
}

func IssuerOf(tenant string) string { return "https://sts.windows.net/" + tenant + "/" }

// Authenticate checks the Authorization header of an ARM request that came to base.
func (s *Entra) Authenticate(header, base string) (kernel.Principal, *kernel.Failure) {
	i := s.Identity
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return kernel.Principal{}, kernel.Fail(http.StatusUnauthorized, "AuthenticationFailed",
			"Authentication failed. The 'Authorization' header is missing.")
	}
	i.mu.Lock()
	seen, known := i.verified[token]
	i.mu.Unlock()
	if !known || !seen.expires.After(time.Now()) {
		var f *kernel.Failure
		if seen, f = i.verify(token); f != nil {
			return kernel.Principal{}, f
		}
	}
	if !slices.ContainsFunc(seen.audiences, func(a string) bool { return isARM(a, base) }) {
		return kernel.Principal{},
			kernel.Fail(http.StatusUnauthorized, "InvalidAuthenticationTokenAudience",
				"The access token has been obtained for wrong audience or resource '%s'. It "+
					"should exactly match with one of the allowed audiences '%s'.",
				strings.Join(seen.audiences, ","), strings.Join(armAudiences, "','"))
	}
	return seen.who, nil
}

// UserFor returns the principal of a token for an audience.
func (i *Identity) UserFor(token, audience string) (kernel.Principal, bool) {
	s, f := i.verify(token)
	return s.who, f == nil && slices.Contains(s.audiences, audience)
}

// verify checks a token that was issued here, and caches the result.
func (i *Identity) verify(token string) (session, *kernel.Failure) {
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) {
		return &i.Key().PublicKey, nil
	},
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(
			time.Now))
	if errors.Is(err, jwt.ErrTokenExpired) {
		const layout = "1/2/2006 3:04:05 PM"
		// the claims were parsed, because they show that the token has expired
		expired, _ := claims.GetExpirationTime()
		return session{}, kernel.Fail(http.StatusUnauthorized, "ExpiredAuthenticationToken",
			"The access token expiry UTC time '%s' is earlier than current UTC time '%s'.",
			expired.UTC().Format(layout), time.Now().UTC().Format(layout))
	}
	if err != nil {
		return session{}, kernel.Fail(http.StatusUnauthorized, "InvalidAuthenticationToken",
			"The access token is invalid: %v.", err)
	}
	appID, _ := claims["appid"].(string)
	tenant, _ := claims["tid"].(string)
	who, known := i.Find(tenant, client(appID))
	if !known {
		return session{}, kernel.Fail(http.StatusUnauthorized, "InvalidAuthenticationToken",
			"The access token is invalid: no principal in the tenant %q has the client ID %q.",
			tenant, appID)
	}
	audiences, _ := claims.GetAudience()     // without audiences, the token matches none
	expires, _ := claims.GetExpirationTime() // required above
	s := session{who: who, audiences: audiences, expires: expires.Time}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.verified) > 1000 {
		clear(i.verified)
	}
	i.verified[token] = s
	return s, nil
}

// armAudiences are Azure's own for Resource Manager. A client may also use the address that it
// calls.
var armAudiences = []string{"https://management.core.windows.net/",
	"https://management.core.windows.net", "https://management.azure.com/",
	"https://management.azure.com"}

func isARM(audience, base string) bool {
	if slices.Contains(armAudiences, audience) || strings.TrimRight(audience, "/") == base {
		return true
	}
	u, err := url.Parse(audience)
	return err == nil &&
		(u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1")
}

// thumbprint stands in for the SHA-1 thumbprint of Entra ID's certificate. Clients check its
// length.
func (i *Identity) thumbprint() []byte {
	sum := sha1.Sum(x509.MarshalPKCS1PublicKey(&i.Key().PublicKey))
	return sum[:]
}

// Keys returns the keys that verify the tokens.
func (i *Identity) Keys() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.Key().PublicKey, KeyID: i.KeyID,
		Use: "sig", Algorithm: "RS256", CertificateThumbprintSHA1: i.thumbprint()}}}
}

// newKey makes a key for signing tokens.
func newKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err) // the size is valid, and the system's random numbers never fail
	}
	return key
}

// SharedKey is one key for all emulators of a process. Tests make hundreds of them, and generating
// a key takes longer than all the rest. It is for tests only: an emulator that shares a key accepts
// the tokens of the others. It is short, because a signature then takes a fifth of the time.
var SharedKey = sync.OnceValue(func() *rsa.PrivateKey { return newKey(1024) })
