package serve

import (
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestToken: without authentication, every user of the machine sees the pages, and only who has the
// token can use the buttons.
func TestToken(t *testing.T) {
	const token = "correct-horse"
	s, _ := start(t, Options{Auth: Auth{Token: token}, Board: page.NewBoard(),
		Page: page.Options{Actions: true}})
	if want := "http://" + s.Address() + "/?token=" + token; s.Buttons() != want {
		t.Errorf("the address is %q, want %q", s.Buttons(), want)
	}
	for _, c := range []struct {
		path   string
		header []string
		status int
	}{
		{"/", nil, 200},
		{"/?token=wrong", nil, 200},
		{"/actions/sync", nil, 403},
		{"/actions/silence", nil, 403},
		{"/actions/sync?token=wrong", nil, 403},
		{"/actions/sync", []string{"Authorization", "Bearer wrong"}, 403},
		{"/actions/sync", []string{"Cookie", cookieAt(s) + "=wrong"}, 403},
		{"/actions/sync", []string{"Cookie", "routekeeper-1=" + token}, 403}, // another keeper's
		{"/actions/sync", []string{"Authorization", "Bearer " + token}, 404}, // no keeper here
		{"/actions/sync", []string{"Cookie", cookieAt(s) + "=" + token}, 404},
	} {
		status, text, _ := call(t, s, http.MethodGet, c.path, "", nil, c.header...)
		if status != c.status || (status == 403) != (text == errNoToken.Error()+"\n") {
			t.Errorf("%s with %q: %d %.200s", c.path, c.header, status, text)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	for _, c := range []struct {
		path, end string
		status    int
	}{
		{"/history?limit=3&token=" + token, "/history?limit=3", 200},
		{"/actions/sync?cluster=a", "/actions/sync?cluster=a", 404}, // it has the cookie
	} {
		response, err := browser.Get("http://" + s.Address() + c.path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if end := response.Request.URL.RequestURI(); end != c.end ||
			response.StatusCode != c.status {
			t.Errorf("%s: %d at %s", c.path, response.StatusCode, end)
		}
	}
}

func cookieAt(s *Server) string {
	return "routekeeper-" + s.Address()[strings.LastIndex(s.Address(), ":")+1:]
}
