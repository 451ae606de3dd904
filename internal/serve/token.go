package serve

import (
	"errors"
	"net"
	"net/http"
)

// errNoToken is the answer to a button without the token.
var errNoToken = errors.New("the buttons need the address with the token that the keeper logs " +
	"when it starts")

// cookieOf names the cookie with the token. Browsers send a cookie to all ports of a host.
func cookieOf(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "routekeeper-" + port
}

// held reports whether a request has the token: in a browser's cookie, or as a bearer token.
func (g *gate) held(r *http.Request) bool {
	if token, is := bearer(r); is {
		return same(token, g.Token)
	}
	cookie, err := r.Cookie(cookieOf(r))
	return err == nil && same(cookie.Value, g.Token)
}

// takeToken moves the token of an address into a cookie, so that it is not in the browser's history
// of the pages, and loads the page again. It reports whether it answered.
func (g *gate) takeToken(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	if g.Token == "" || r.Method != http.MethodGet || !same(query.Get("token"), g.Token) {
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
