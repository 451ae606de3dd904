package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Auth says who may call. The zero value admits everyone, and works on loopback only.
type Auth struct {
	// Secret is in the path after /events/, or is the bearer token. "": no secret.
	Secret string
	// Tenant is the tenant whose Entra ID tokens are accepted, "" for none. A token must be for one
	// of Audiences, and from an application in Apps or with one of Roles: any application in a
	// tenant can get a token for any other.
	Tenant                 string
	Audiences, Apps, Roles []string
	// UsersFile has the names and passwords of people, as htpasswd -B writes them; "" for none. It
	// is reloaded when it changes.
	UsersFile string
	// Authority is Entra ID's address, such as https://login.microsoftonline.com. LegacyIssuer is
	// the beginning of the issuer of its version 1.0 tokens, such as https://sts.windows.net/.
	Authority, LegacyIssuer string
	// Client fetches keys. Nil: the default one.
	Client *http.Client
}

func (a Auth) none() bool { return a.Secret == "" && a.Tenant == "" && a.UsersFile == "" }

func (a Auth) check() error {
	if a.Tenant != "" && len(a.Audiences) == 0 {
		return errors.New("tokens of Entra ID need an audience: the application ID URI or the " +
			"client ID of this listener's application")
	}
	if a.Tenant != "" && len(a.Apps)+len(a.Roles) == 0 {
		return errors.New("tokens of Entra ID need an allowed application or role: any " +
			"application in a tenant can get a token for any other")
	}
	return nil
}

// gate authenticates callers.
type gate struct {
	Auth
	log    *slog.Logger
	client *http.Client
	users  *users // nil: none

	mu        sync.Mutex
	verifiers []*oidc.IDTokenVerifier // for each issuer and audience
	tried     time.Time
}

func newGate(a Auth, log *slog.Logger) *gate {
	g := &gate{Auth: a, log: log}
	under := http.DefaultTransport
	if a.Client != nil && a.Client.Transport != nil {
		under = a.Client.Transport
	}
	g.client = &http.Client{Transport: &seldom{under: under, last: map[string]time.Time{}},
		Timeout: 10 * time.Second}
	return g
}

// caller is an authenticated caller.
type caller struct {
	name     string
	bySecret bool // with the secret that every sender of events knows
}

// admits reports whether a call may be answered, and who the caller is. secret is the one in its
// path.
func (g *gate) admits(r *http.Request, secret string) (caller, bool) {
	if g.none() {
		return caller{}, true
	}
	token, isBearer := bearer(r)
	if g.Secret != "" && (same(secret, g.Secret) || isBearer && same(token, g.Secret)) {
		return caller{bySecret: true}, true
	}
	if name, password, given := r.BasicAuth(); given && g.users != nil {
		return caller{name: name}, g.users.know(r.Context(), name, password)
	}
	if g.Tenant == "" || !isBearer {
		return caller{}, false
	}
	name, err := g.verify(r.Context(), token)
	if err != nil {
		g.log.Debug("a token was refused", "from", r.RemoteAddr, "why", err.Error())
		return caller{}, false
	}
	return caller{name: name}, true
}

// challenge tells the caller how to authenticate.
func (g *gate) challenge(h http.Header) {
	if g.users != nil {
		h.Add("WWW-Authenticate", `Basic realm="routekeeper", charset="UTF-8"`)
	}
	if g.Tenant != "" {
		h.Add("WWW-Authenticate", "Bearer")
	}
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), found && strings.EqualFold(scheme, "Bearer")
}

// same compares in constant time and does not reveal the length.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// verify checks a token: signature, issuer, audience, expiry and owner. It returns the name of the
// person or application.
func (g *gate) verify(ctx context.Context, raw string) (name string, err error) {
	verifiers, err := g.issuers()
	if err != nil {
		return "", err
	}
	var token *oidc.IDToken
	var refused []error
	for _, v := range verifiers {
		t, err := v.Verify(ctx, raw)
		if err == nil {
			token = t
			break
		}
		refused = append(refused, err)
	}
	if token == nil {
		return "", errors.Join(refused...)
	}
	var claims struct {
		Name  string   `json:"preferred_username"`
		UPN   string   `json:"upn"`
		AppID string   `json:"appid"` // version 1.0
		AZP   string   `json:"azp"`   // version 2.0
		Roles []string `json:"roles"`
	}
	if err := token.Claims(&claims); err != nil {
		return "", err
	}
	app := cmp.Or(claims.AppID, claims.AZP)
	name = cmp.Or(claims.Name, claims.UPN, app, token.Subject)
	if app != "" && slices.ContainsFunc(g.Apps, func(a string) bool {
		return strings.EqualFold(a, app)
	}) {
		return name, nil
	}
	if slices.ContainsFunc(claims.Roles, func(r string) bool {
		return slices.Contains(g.Roles, r)
	}) {
		return name, nil
	}
	return "", fmt.Errorf("the application %q with the roles %q is not allowed to call", app,
		claims.Roles)
}

// issuers returns the verifiers. It creates them on first use, so that an unreachable Entra ID does
// not block the start. Keys are fetched when a token has an unknown one, and cached.
func (g *gate) issuers() ([]*oidc.IDTokenVerifier, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.verifiers != nil {
		return g.verifiers, nil
	}
	if time.Since(g.tried) < keysEvery {
		return nil, errors.New("no answer from Entra ID a moment ago")
	}
	g.tried = time.Now()
	ctx := oidc.ClientContext(context.Background(), g.client)
	issuer := strings.TrimSuffix(g.Authority, "/") + "/" + g.Tenant + "/v2.0"
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return nil, err
	}
	var where struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&where); err != nil {
		return nil, err
	}
	keys := oidc.NewRemoteKeySet(ctx, where.Keys)
	var made []*oidc.IDTokenVerifier
	for _, issuer := range []string{issuer, g.LegacyIssuer + g.Tenant + "/"} {
		for _, audience := range g.Audiences {
			made = append(made,
				oidc.NewVerifier(issuer, keys,
					&oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{oidc.RS256}}))
		}
	}
	g.verifiers = made
	return made, nil
}

// keysEvery is the shortest time between two fetches of keys, so that forged tokens cannot trigger
// more.
const keysEvery = 10 * time.Second

// seldom limits how often each address is fetched.
type seldom struct {
	under http.RoundTripper
	mu    sync.Mutex
	last  map[string]time.Time
}

func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	at := r.URL.String()
	wait := time.Until(s.last[at].Add(keysEvery))
	if wait <= 0 {
		s.last[at] = time.Now()
	}
	s.mu.Unlock()
	if wait > 0 {
		return nil, fmt.Errorf(
			"the keys were fetched a moment ago; they can be fetched again in %s", wait.Round(
				time.Second))
	}
	return s.under.RoundTrip(r)
}
