package page_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestJSON: every page answers as JSON, by its name and by the Accept header.
func TestJSON(t *testing.T) {
	w := newWorld(t, options{})
	o := w.settled()
	if o.Sentence != "All 6 pod routes are correct on 1 cluster" ||
		o.Routes != (picture.Counted{All: 6, Correct: 6}) || len(o.Clusters) != 1 ||
		o.Clusters[0].Name != "shop" {
		t.Errorf("the overview: %+v", o)
	}
	var again page.Overview
	decode(t, w.get("/", "Accept", "application/json"), &again)
	if again.Sentence != o.Sentence {
		t.Errorf("by Accept: %+v", again)
	}
	var cluster struct {
		page.Cluster
		Checks []history.Entry `json:"checks"`
	}
	for _, a := range []answer{w.get("/clusters/shop.json"),
		w.get("/clusters/shop", "Accept", "application/json")} {
		decode(t, a, &cluster)
		if cluster.Sentence != "all 6 pod routes are correct" || len(cluster.Checks) != 1 ||
			len(cluster.Checks[0].Changes) != 3 || len(cluster.Cluster.Cluster.Tables) != 2 {
			t.Errorf("the cluster: %s", a.body)
		}
	}
	var past struct{ Checks []history.Entry }
	decode(t, w.get("/history.json?cluster=shop&kind=change"), &past)
	if len(past.Checks) != 1 || past.Checks[0].Woke.By != keeper.ByPoll {
		t.Errorf("the history: %+v", past)
	}
	decode(t, w.get("/history.json?cluster=play"), &past)
	if len(past.Checks) != 0 {
		t.Errorf("the history of another cluster: %+v", past)
	}
	var result history.Entry
	decode(t, w.get("/history/1.json"), &result)
	if len(result.Changes) != 3 || len(result.Observed) == 0 {
		t.Errorf("the check: %+v", result)
	}
	for path, want := range map[string]int{"/clusters/play.json": 404, "/history/99.json": 404,
		"/history/x.json": 404, "/nothing.json": 404,
		"/history.json?limit=0": 400, "/history.json?limit=x": 400, "/history.json?kind=odd": 400} {
		a := w.get(path)
		var f struct{ Error string }
		if err := json.Unmarshal([]byte(a.body), &f); err != nil || a.status != want ||
			f.Error == "" {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.body, want)
		}
	}
}

// TestHTML: each page is complete, and needs nothing that the policy forbids.
func TestHTML(t *testing.T) {
	w := newWorld(t, options{page: page.Options{Actions: true}})
	w.settled()
	inline := regexp.MustCompile(
		`(?i)<script(?:>|\s[^>]*[^>]>[^<])|<style|\sstyle=|\son[a-z]+=|javascript:`)
	if a := w.get("/"); strings.Contains(a.body, "with pod routes") {
		t.Errorf("all nodes have routes: %s", a.body)
	}
	for path, want := range map[string]string{
		"/": "All 6 pod routes are correct on 1 cluster", "/clusters/shop": "kubenet",
		"/history": "3 routes created", "/history/1": "new in the cluster&#39;s table",
		"/actions/sync?cluster=shop": "There is nothing to change", "/nothing": "This page does " +
			"not exist",
	} {
		a := w.get(path, "Accept", "text/html")
		if !strings.Contains(a.body, want) ||
			!strings.HasSuffix(strings.TrimSpace(a.body), "</html>") {
			t.Errorf("%s: no %q in %s", path, want, a.body)
		}
		if found := inline.FindString(a.body); found != "" {
			t.Errorf("%s has %q in it", path, found)
		}
		policy := a.header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
			a.header.Get("X-Content-Type-Options") != "nosniff" ||
			a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	for _, file := range []string{"style.css", "live.js", "icon.svg"} {
		if a := w.get("/static/" + file); a.status != http.StatusOK || a.body == "" {
			t.Errorf("%s: %d", file, a.status)
		}
	}
}

// TestTextFromAzure: text from Azure is displayed as text, and never becomes markup.
func TestTextFromAzure(t *testing.T) {
	const bad = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	w := newWorld(t, options{interval: time.Hour})
	w.settled()
	f := finding.New(finding.WriteRefused, "shop", "/subscriptions/x/"+bad, "%s",
		bad).With(bad).WithFix("az %s", bad).About(bad)
	o := w.overview()
	w.board.Record(keeper.Result{Started: time.Now(), Configs: w.configs,
		Findings: []finding.Finding{f}})
	w.until("it is shown", func() bool { return w.overview().Version > o.Version })
	for _, path := range []string{"/", "/clusters/shop", "/history?cluster=" + url.QueryEscape(bad),
		"/clusters/" + url.PathEscape(bad)} {
		if a := w.get(path, "Accept", "text/html"); strings.Contains(a.body, "<script>alert") ||
			strings.Contains(a.body, "<img src=x") || !strings.Contains(a.body, "alert(1)") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

// TestOnlyForThisMachine: without authentication, only requests that name this machine are
// answered. So a page of another site, whose name resolves to this machine, sees nothing.
func TestOnlyForThisMachine(t *testing.T) {
	w := newWorld(t, options{})
	w.settled()
	for host, want := range map[string]int{"localhost:80": 200, "127.0.0.1": 200, "[::1]:9": 200,
		"evil.example": 421, "127.0.0.1.evil.example:80": 421, "10.0.0.1": 421} {
		for _, path := range []string{"/index.json", "/metrics", "/live"} {
			if path == "/live" && want == 200 {
				continue
			}
			if got := w.get(path, "Host", host); got.status != want {
				t.Errorf("%s%s: %d, want %d", host, path, got.status, want)
			}
		}
	}
}

// usersFile writes a file of users, as htpasswd -B does.
func usersFile(t *testing.T, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte("password of "+name), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s:%s\n", name, hash)
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// secretFile writes the secret of events.
func secretFile(t *testing.T, secret string) string {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func basic(name, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(name, password)
	return r.Header.Get("Authorization")
}

// TestWhoMaySeePages: people log in with passwords, the secret of events opens no page, and the
// history shows whose button it was.
func TestWhoMaySeePages(t *testing.T) {
	const secret = "a-secret-of-events"
	w := newWorld(t, options{keeper: keeper.Options{Paused: paused},
		page: page.Options{Actions: true},
		auth: serve.Auth{UsersFile: usersFile(t, "ada"), SecretFile: secretFile(t, secret),
			Act: serve.Callers{Users: []string{"ada"}}}})
	ada := basic("ada", "password of ada")
	for what, want := range map[string]int{"": 401, ada: 200, basic("ada", "password of eve"): 401,
		basic("eve", "password of ada"): 401, basic("", ""): 401, "Bearer " + secret: 401} {
		a := w.get("/", "Authorization", what, "Host", "keeper.example")
		if a.status != want {
			t.Errorf("%q: %d, want %d", what, a.status, want)
		}
		if want == 401 && (!strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") ||
			strings.Contains(a.body, "shop")) {
			t.Errorf("%q: %v %s", what, a.header, a.body)
		}
	}
	if a := w.get("/metrics", "Authorization", "Bearer "+secret); a.status != 200 {
		t.Errorf("metrics by the secret: %d", a.status)
	}
	for _, path := range []string{"/live", "/history", "/static/live.js", "/clusters/shop.json",
		"/actions/sync"} {
		if a := w.get(path); a.status != 401 {
			t.Errorf("%s without a login: %d", path, a.status)
		}
	}
	w.until("it was checked", func() bool {
		var o page.Overview
		return json.Unmarshal([]byte(w.get("/index.json", "Authorization", ada).body), &o) == nil &&
			len(o.Clusters) == 1
	})
	preview := proposalOf(t, w.get("/actions/sync.json?cluster=shop", "Authorization", ada))
	done := w.send(http.MethodPost, "/actions/sync",
		url.Values{"cluster": {"shop"}, "confirm": {preview.Confirm}}.Encode(), "Authorization",
		ada, "Accept", "application/json")
	if p := proposalOf(t, done); !p.Done || len(p.Changes) != 3 {
		t.Errorf("done: %s", done.body)
	}
	var past struct{ Checks []history.Entry }
	decode(t, w.get("/history.json", "Authorization", ada), &past)
	if len(past.Checks) != 2 || // the other one is the first check of the pause
		past.Checks[0].Woke != (keeper.Cause{By: keeper.ByPerson, Caller: "ada"}) {
		t.Errorf("the history: %+v", past.Checks)
	}
}

// TestNoActions: without --allow-actions there are no actions, and the page has no buttons for
// them.
func TestNoActions(t *testing.T) {
	w := newWorld(t, options{})
	w.settled()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if a := w.send(method, "/actions/sync", "cluster=shop"); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", method, a.status)
		}
	}
	if a := w.get("/"); strings.Contains(a.body, "/actions/sync") ||
		!strings.Contains(a.body, "/actions/look") {
		t.Errorf("the page: %s", a.body)
	}
	if a := w.send(http.MethodPost, "/actions/look",
		"cluster=shop"); a.status != http.StatusSeeOther ||
		a.header.Get("Location") != "/clusters/shop" {
		t.Errorf("looking: %d %v", a.status, a.header)
	}
}

// TestCheckNowRepairs: the button Check now repairs what a scheduled check would repair, long
// before the interval ends.
func TestCheckNowRepairs(t *testing.T) {
	w := newWorld(t, options{interval: time.Hour})
	w.settled()
	w.strip(w.demo.NodeSubnet)
	if a := w.send(http.MethodPost, "/actions/look", ""); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.body)
	}
	if o := w.settled(); o.Clusters[0].Broken() != 0 {
		t.Errorf("%+v", o)
	}
}

// TestLive: a stream sends the state of the board at once and at every check, and ends with the
// listener.
func TestLive(t *testing.T) {
	w := newWorld(t, options{interval: time.Hour})
	w.settled()
	response, err := http.Get(w.URL + "/live?cluster=shop")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func() (version uint64) {
		t.Helper()
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				var message struct {
					Version uint64
					Checked time.Time
				}
				if err := json.Unmarshal([]byte(data), &message); err != nil ||
					time.Since(message.Checked) > time.Minute {
					t.Fatalf("%s: %v", data, err)
				}
				return message.Version
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return 0
	}
	first := next()
	w.strip(w.demo.NodeSubnet)
	w.keeps.Wake(keeper.Event{}, w.demo.NodeSubnet)
	for next() == first {
	}
	if err := w.server.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	for lines.Scan() {
	}
	// Close cuts answers that do not end by themselves.
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end by itself: %v", err)
	}
}

// TestHistoryInTrouble: the page reports a history that cannot be read, and shows everything else.
func TestHistoryInTrouble(t *testing.T) {
	w := newWorld(t, options{interval: time.Hour})
	w.settled()
	board, file := w.board, filepath.Join(t.TempDir(), "odd.history.db")
	if err := os.WriteFile(file, []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.serve(board, page.Options{History: file})
	if a := w.get("/"); a.status != 200 ||
		!strings.Contains(a.body, "The history cannot be read") ||
		!strings.Contains(a.body, "All 6 pod routes are correct") {
		t.Errorf("%d: %s", a.status, a.body)
	}
	if a := w.get("/history/1.json"); a.status != http.StatusServiceUnavailable {
		t.Errorf("a check: %d", a.status)
	}
	// an empty list would look as if nothing had happened
	for _, path := range []string{"/history.json", "/clusters/shop.json"} {
		var past struct{ Trouble string }
		if decode(t, w.get(path), &past); !strings.Contains(past.Trouble, "not a database") {
			t.Errorf("%s: %+v", path, past)
		}
	}
	w.serve(board, page.Options{})
	if a := w.get("/history"); a.status != 200 || !strings.Contains(a.body, "The history is off") {
		t.Errorf("%d: %s", a.status, a.body)
	}
}

// TestUnread: resources that could not be read are reported, do not count as broken, and what is
// known of the rest stays.
func TestUnread(t *testing.T) {
	w := newWorld(t, options{})
	w.settled()
	seen := inventory.NewSnapshot()
	seen.Unread[arm.ID(w.demo.Cluster).Key()] = inventory.Unread{ID: w.demo.Cluster, Status: 403,
		Code: "AuthorizationFailed"}
	b := page.NewBoard()
	facts := plan.Facts{Snapshot: seen}
	b.Record(keeper.Result{Started: time.Now(), Configs: w.configs, Seen: facts,
		Verdicts: verdict.Of(facts, w.configs, w.configs, plan.TakenBy(w.configs), nil)})
	w.serve(b, page.Options{})
	if o := w.overview(); o.State != page.Unseen ||
		o.Sentence != "shop: cannot be read: AuthorizationFailed" || !o.Clusters[0].Seen.IsZero() {
		t.Errorf("%+v", o)
	}
	if a := w.get("/clusters/shop"); a.status != 200 ||
		!strings.Contains(a.body, "cannot be read: AuthorizationFailed") {
		t.Errorf("%s", a.body)
	}
}

// TestContrast: all text is readable, light and dark: a contrast of 4.5 to 1 or more (WCAG 2.2,
// 1.4.3).
func TestContrast(t *testing.T) {
	raw, err := os.ReadFile("static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(string(raw), -1)
	if len(schemes) != 2 {
		t.Fatalf("%d colour schemes, want light and dark", len(schemes))
	}
	colours := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6})`)
	for i, scheme := range schemes {
		value := map[string]float64{}
		for _, m := range colours.FindAllStringSubmatch(scheme[1], -1) {
			value[m[1]] = luminance(t, m[2])
		}
		for _, pair := range [][2]string{{"text", "ground"}, {"text", "card"}, {"dim", "ground"},
			{"dim", "card"}, {"dim", "vnet"}, {"dim", "busy-soft"}, {"dim", "bad-soft"},
			{"dim", "good-soft"}, {"link", "card"}, {"link", "ground"}, {"card", "link"},
			{"good", "card"}, {"good", "good-soft"}, {"good", "busy-soft"}, {"bad", "card"},
			{"bad", "bad-soft"}, {"bad", "busy-soft"}, {"warn", "card"}, {"warn", "warn-soft"},
			{"busy", "busy-soft"}, {"text", "bad-soft"}, {"text", "good-soft"}} {
			a, b := value[pair[0]], value[pair[1]]
			if ratio := (max(a, b) + .05) / (min(a, b) + .05); ratio < 4.5 {
				t.Errorf("scheme %d: %s on %s is %.2f to 1", i, pair[0], pair[1], ratio)
			}
		}
	}
}

// luminance is WCAG's relative luminance of a colour.
func luminance(t *testing.T, colour string) float64 {
	n, err := strconv.ParseUint(colour[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	part := func(shift int) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
}
