package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"routekeeper.dev/routekeeper/internal/openfiles"
)

// Auth says who may call. The zero value admits everyone, and works on loopback only.
type Auth struct {
	// SecretFile holds the secret that senders of events append to /events/, or use as a bearer
	// token; "" for none. It is reloaded when it changes.
	SecretFile string
	// Tenant is the tenant whose Entra ID tokens are accepted, "" for none. A token must be for one
	// of Audiences, and its application or one of its roles must have the permission: any
	// application in a tenant can get a token for any other.
	Tenant    string
	Audiences []string
	// UsersFile has the names and passwords of people, as htpasswd -B writes them; "" for none. It
	// is reloaded when it changes.
	UsersFile string
	// Token is what the buttons require if nothing else is set, because every user of this machine
	// can call a loopback address. "" means that the buttons require nothing.
	Token string
	// Send, Look and Act list who has these permissions. Callers with the secret may send, too.
	Send, Look, Act Callers
	// Authority is Entra ID's address, such as https://login.microsoftonline.com. LegacyIssuer is
	// the beginning of the issuer of its version 1.0 tokens, such as https://sts.windows.net/.
	Authority, LegacyIssuer string
	// Client fetches keys. Nil: the default one.
	Client *http.Client
}

func (a Auth) none() bool { return a.SecretFile == "" && a.Tenant == "" && a.UsersFile == "" }

func (a Auth) check() error {
	if a.Tenant != "" && len(a.Audiences) == 0 {
		return errors.New("tokens of Entra ID need an audience: the application ID URI or the " +
			"client ID of this listener's application")
	}
	if a.Tenant != "" && !a.Send.tokens() && !a.Look.tokens() && !a.Act.tokens() {
		return errors.New("tokens of Entra ID need an application or role that may do something: " +
			"any application in a tenant can get a token for any other")
	}
	return nil
}

// gate authenticates callers.
type gate struct {
	Auth
	log    *slog.Logger
	client *http.Client
	secret *reloaded[string] // nil: none
	users  *users            // nil: none

	mu        sync.Mutex
	verifiers []*oidc.IDTokenVerifier // for each issuer and audience
	tried     time.Time
}

func newGate(a Auth, log *slog.Logger, open *openfiles.Watch) (*gate, error) {
	if len(a.Look.Users)+len(a.Act.Users) == 0 {
		a.Look.Users = []string{Everyone} // a users file exists to give people access
	}
	g := &gate{Auth: a, log: log}
	under := http.DefaultTransport
	if a.Client != nil && a.Client.Transport != nil {
		under = a.Client.Transport
	}
	g.client = &http.Client{Transport: &limitedFetches{under: under, last: map[string]time.Time{}},
		Timeout: 10 * time.Second}
	var err error
	if a.SecretFile != "" {
		read := func() (string, error) { return ReadSecret(a.SecretFile) }
		if g.secret, err = newReloaded("the event secret", log, open, read,
			a.SecretFile); err != nil {
			return nil, err
		}
	}
	if a.UsersFile != "" {
		if g.users, err = newUsers(a.UsersFile, log, open); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Reasons why a caller is not admitted. Others are errBusy, errSlow and errKeys.
var (
	errNobody = errors.New("this call is not authorized: it needs a token, a secret or a login")
	errWrong  = fmt.Errorf("%w; the one it has is wrong", errNobody)
)

// admits returns who a caller is, or why it is not admitted. secret is the one in the call's path.
func (g *gate) admits(r *http.Request, secret string) (who caller, err error) {
	if g.none() {
		return caller{may: [...]bool{true, true, true, g.Token == "" || g.hasToken(r)}}, nil
	}
	token, isBearer := bearer(r)
	if g.isSecret(secret) || isBearer && g.isSecret(token) {
		who.bySecret, who.may[toSend], who.may[toMeasure] = true, true, true
		return who, nil
	}
	if name, password, given := r.BasicAuth(); given && g.users != nil {
		known, err := g.users.know(r.Context(), addressOf(r.RemoteAddr), name, password)
		switch {
		case err != nil:
			return caller{name: name}, err
		case !known:
			return caller{name: name}, errWrong
		}
		who.name = name
		who.grant(func(c Callers) bool { return c.user(name) }, g.Auth)
		return who, nil
	}
	switch {
	case isBearer && g.Tenant != "":
		who, err := g.verify(r.Context(), token)
		if err != nil {
			g.log.Debug("a token was refused", "from", r.RemoteAddr, "why", err.Error())
			if !errors.Is(err, errKeys) {
				err = errWrong
			}
		}
		return who, err
	case isBearer || secret != "" || r.Header.Get("Authorization") != "":
		return who, errWrong
	}
	return who, errNobody
}

// isSecret reports whether a caller's secret is the one of senders.
func (g *gate) isSecret(of string) bool {
	return g.secret != nil && of != "" && equalSecrets(of, g.secret.get())
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

// equalSecrets reports whether two secrets are equal. Its duration reveals neither their content
// nor their length.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// errKeys is wrapped by the errors about tokens that could not be checked.
var errKeys = errors.New("tokens cannot be checked at the moment: Entra ID does not answer")

// verify checks a token: signature, issuer, audience and expiry. It returns the person or
// application, with its permissions.
func (g *gate) verify(ctx context.Context, raw string) (who caller, err error) {
	verifiers, err := g.issuers()
	if err != nil {
		return who, fmt.Errorf("%w: %w", errKeys, err)
	}
	// the library also reads signatures in JSON, which are no tokens
	if strings.Contains(raw, "{") {
		return who, errors.New("it is not a JWT of three parts")
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
		return who, errors.Join(refused...)
	}
	var claims struct {
		Name  string   `json:"preferred_username"`
		UPN   string   `json:"upn"`
		AppID string   `json:"appid"` // version 1.0
		AZP   string   `json:"azp"`   // version 2.0
		Roles []string `json:"roles"`
	}
	if err := token.Claims(&claims); err != nil {
		return who, err
	}
	app := cmp.Or(claims.AppID, claims.AZP)
	who.name = cmp.Or(claims.Name, claims.UPN, app, token.Subject)
	who.grant(func(c Callers) bool { return c.token(app, claims.Roles) }, g.Auth)
	if who.may == (caller{}).may {
		return who, fmt.Errorf("the application %q with the roles %q has no right here", app,
			claims.Roles)
	}
	return who, nil
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
	var discovered struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&discovered); err != nil {
		return nil, err
	}
	keys := oidc.NewRemoteKeySet(ctx, discovered.Keys)
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

// limitedFetches limits how often each address is fetched.
type limitedFetches struct {
	under http.RoundTripper
	mu    sync.Mutex
	last  map[string]time.Time
}

func (s *limitedFetches) RoundTrip(r *http.Request) (*http.Response, error) {
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

// errNoToken answers a pressed button if the request lacks the token.
var errNoToken = errors.New("the buttons need the address with the token that the keeper logs " +
	"when it starts")

// cookieOf names the cookie with the token. Browsers send a cookie to all ports of a host.
func cookieOf(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "routekeeper-" + port
}

// hasToken reports whether a request has the token: in a browser's cookie, or as a bearer token.
func (g *gate) hasToken(r *http.Request) bool {
	if token, is := bearer(r); is {
		return equalSecrets(token, g.Token)
	}
	cookie, err := r.Cookie(cookieOf(r))
	return err == nil && equalSecrets(cookie.Value, g.Token)
}

// takeToken moves the token of an address into a cookie, so that it is not in the browser's history
// of the pages, and loads the page again. It reports whether it answered.
func (g *gate) takeToken(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	if g.Token == "" || r.Method != http.MethodGet || !equalSecrets(query.Get("token"), g.Token) {
		return false
	}
	http.SetCookie(w, &http.Cookie{Name: cookieOf(r), Value: g.Token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	query.Del("token")
	at := *r.URL
	at.RawQuery = query.Encode()
	http.Redirect(w, r, at.RequestURI(), http.StatusSeeOther)
	return true
}
