package emulator

import (
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// identity issues tokens and checks them.
type identity struct {
	tenants []string // the options' own first
	key     *rsa.PrivateKey
	keyID   string

	mu         sync.Mutex
	principals []Principal        // the options' first, then managed identities
	seen       map[string]session // verified tokens
	issuers    map[string][]jwk   // keys of foreign issuers that were registered
}

type session struct {
	who       Principal
	audiences []string
	expires   time.Time
}

func newIdentity(tenants []string, principals []Principal, key *rsa.PrivateKey) (*identity, error) {
	if key == nil {
		var err error
		if key, err = newKey(); err != nil {
			return nil, err
		}
	}
	i := &identity{tenants: tenants, key: key, keyID: uuid.NewString(), seen: map[string]session{},
		issuers: map[string][]jwk{}}
	for _, p := range principals {
		i.add(p)
	}
	return i, nil
}

// add lets a further principal in.
func (i *identity) add(p Principal) {
	if p.Tenant == "" {
		p.Tenant = i.tenants[0]
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.principals = append(slices.DeleteFunc(i.principals, func(have Principal) bool {
		return have.ClientID == p.ClientID
	}), p)
}

// remove locks a principal out, with the tokens it has.
func (i *identity) remove(p Principal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.principals = slices.DeleteFunc(i.principals, func(have Principal) bool {
		return have.ClientID == p.ClientID
	})
	clear(i.seen)
}

// find returns the first principal that is meant, as seen from a tenant: the first of all is at
// home in each.
func (i *identity) find(tenant string, meant func(Principal) bool) (Principal, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, p := range i.principals {
		if meant(p) && (n == 0 || strings.EqualFold(p.Tenant, tenant)) {
			p.Tenant = tenant
			return p, true
		}
	}
	return Principal{}, false
}

// has reports whether a principal is still there.
func (i *identity) has(who Principal) bool {
	_, known := i.find(who.Tenant, func(p Principal) bool { return p.ClientID == who.ClientID })
	return known
}

// tenant returns the tenant that the first segment of a login path names.
func (i *identity) tenant(name string) (string, bool) {
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

// authenticate says whose token a call carries.
func (s *entra) authenticate(header, base string) (Principal, *failure) {
	return s.identity.authenticate(header, base)
}

// tokenLife is how long a token is valid.
const tokenLife = time.Hour

// Token issues a token for a principal of the options, as the login endpoints do.
func (s *entra) Token(p Principal, audience string) (token string, expires time.Time,
	err error) {
	return s.identity.issue(p, audience)
}

func (i *identity) issue(p Principal, audience string) (string, time.Time, error) {
	tenant := p.Tenant
	if tenant == "" {
		tenant = i.tenants[0]
	}
	now := time.Now()
	expires := now.Add(tokenLife)
	claims := jwt.MapClaims{
		"aud": audience, "iss": issuerOf(tenant), "idp": issuerOf(tenant),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"oid": p.ObjectID, "sub": p.ObjectID, "tid": tenant, "appid": p.ClientID, "appidacr": "1",
		"idtyp": "app", "ver": "1.0",
	}
	if p.Resource != "" {
		claims["xms_mirid"] = p.Resource
		claims["appidacr"] = "2"
	}
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	t.Header["kid"], t.Header["x5t"] = i.keyID, i.thumbprint()
	signed, err := t.SignedString(i.key)
	return signed, expires, err
}

func issuerOf(tenant string) string { return "https://sts.windows.net/" + tenant + "/" }

// authenticate checks the Authorization header of an ARM request that came to base.
func (i *identity) authenticate(header, base string) (Principal, *failure) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Principal{}, fail(http.StatusUnauthorized, "AuthenticationFailed",
			"Authentication failed. The 'Authorization' header is missing.")
	}
	i.mu.Lock()
	s, known := i.seen[token]
	i.mu.Unlock()
	if !known || !s.expires.After(time.Now()) {
		var f *failure
		if s, f = i.verify(token); f != nil {
			return Principal{}, f
		}
	}
	if !slices.ContainsFunc(s.audiences, func(a string) bool { return isARM(a, base) }) {
		return Principal{}, fail(http.StatusUnauthorized, "InvalidAuthenticationTokenAudience",
			"The access token has been obtained for wrong audience or resource '%s'. It should "+
				"exactly match with one of the allowed audiences '%s'.", strings.Join(s.audiences,
				","), strings.Join(armAudiences, "','"))
	}
	return s.who, nil
}

// userFor is who a token for an audience names.
func (i *identity) userFor(token, audience string) (Principal, bool) {
	s, f := i.verify(token)
	return s.who, f == nil && slices.Contains(s.audiences, audience)
}

// verify reads a token that was issued here, and remembers it.
func (i *identity) verify(token string) (session, *failure) {
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) {
		return &i.key.PublicKey, nil
	},
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(
			time.Now))
	if errors.Is(err, jwt.ErrTokenExpired) {
		const layout = "1/2/2006 3:04:05 PM"
		expired, _ := claims.GetExpirationTime() // read, or it would not be known to be over
		return session{}, fail(http.StatusUnauthorized, "ExpiredAuthenticationToken",
			"The access token expiry UTC time '%s' is earlier than current UTC time '%s'.",
			expired.UTC().Format(layout), time.Now().UTC().Format(layout))
	}
	if err != nil {
		return session{}, fail(http.StatusUnauthorized, "InvalidAuthenticationToken",
			"The access token is invalid: %v.", err)
	}
	client, _ := claims["appid"].(string)
	tenant, _ := claims["tid"].(string)
	who, known := i.find(tenant, func(p Principal) bool { return p.ClientID == client })
	if !known {
		return session{}, fail(http.StatusUnauthorized, "InvalidAuthenticationToken",
			"The access token is invalid: nobody in the tenant %q has the client ID %q.", tenant,
			client)
	}
	audiences, _ := claims.GetAudience()     // none is the wrong one
	expires, _ := claims.GetExpirationTime() // required above
	s := session{who: who, audiences: audiences, expires: expires.Time}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.seen) > 1000 {
		clear(i.seen)
	}
	i.seen[token] = s
	return s, nil
}

// armAudiences are Azure's own for Resource Manager. A client may also name the address it calls.
var armAudiences = []string{"https://management.core.windows.net/",
	"https://management.core.windows.net", "https://management.azure.com/",
	"https://management.azure.com"}

func isARM(audience, base string) bool {
	if slices.Contains(armAudiences, audience) || strings.TrimRight(audience, "/") == base {
		return true
	}
	u, err := url.Parse(audience)
	return err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" ||
		u.Hostname() == "::1")
}

// thumbprint stands where Entra ID has the SHA-1 of its key's certificate: clients look at its
// length.
func (i *identity) thumbprint() string {
	sum := sha1.Sum(x509.MarshalPKCS1PublicKey(&i.key.PublicKey))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (i *identity) keys() object {
	pub := i.key.PublicKey
	return object{"keys": []object{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": i.keyID, "x5t": i.thumbprint(),
		"n": base64.RawURLEncoding.EncodeToString(pub.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(pub.E)).Bytes()),
	}}}
}
