package serve

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// inProcess is a connection to a handler inside the bubble.
type inProcess struct{ h http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, r)
	return w.Result(), nil
}

// woken records the triggered resources. It knows only the fixture's table.
type woken struct {
	mu  sync.Mutex
	ids []arm.ID
}

func (w *woken) Wake(e keeper.Event, ids ...arm.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids = append(w.ids, ids...)
	known := 0
	for _, id := range ids {
		if id.Key() == fixtureTable {
			known = 1
		}
	}
	return known
}

func (w *woken) seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

func start(t testing.TB, o Options) (*Server, *woken) {
	t.Helper()
	w := &woken{}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	o.Log, o.Metrics = slog.New(slog.DiscardHandler), NewMetrics()
	s, err := Start(o, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, w
}

// call makes one call to a server.
func call(t testing.TB, s *Server, method, path, contentType string, body io.Reader,
	header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Address()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// TestEvents: a posted event triggers a check. A wrong one is refused in one line, counted, and
// triggers nothing.
func TestEvents(t *testing.T) {
	s, w := start(t, Options{})
	const asJSON = "application/json; charset=utf-8"
	for _, c := range []struct {
		name, kind string
		body       []byte
		status     int
		woke       int
	}{
		{"common alert", asJSON, fixture(t, "alert-common-schema.json"), 200, 2},
		{"legacy alert", asJSON, fixture(t, "alert-legacy-schema.json"), 200, 2},
		{"Event Grid", "application/json", fixture(t, "resource-write-success.json"), 200, 3},
		{"cloud event", "application/cloudevents+json; charset=utf-8", []byte(cloudEvent), 200, 2},
		{"cloud events", "application/cloudevents-batch+json", []byte("[" + cloudEvent + "]"), 200,
			2},
		{"no JSON", asJSON, []byte("hello"), 400, 0},
		{"no event", asJSON, []byte("{}"), 400, 0},
		{"a form", "application/x-www-form-urlencoded", []byte("a=b"), 415, 0},
		{"no type", "", []byte("{}"), 415, 0},
		{"too large", asJSON, bytes.Repeat([]byte(" "), largestBody+1), 413, 0},
		{"as large as can be", asJSON,
			append(bytes.Repeat([]byte(" "), largestBody-len(cloudEvent)), cloudEvent...), 200, 2},
		{"nested", asJSON, bytes.Repeat([]byte("["), 100000), 400, 0},
	} {
		before := w.seen()
		status, text, _ := call(t, s, http.MethodPost, "/events", c.kind, bytes.NewReader(c.body))
		if status != c.status || w.seen()-before != c.woke ||
			status >= 400 && strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %d %q, %d resources, want %d and %d", c.name, status, text,
				w.seen()-before, c.status, c.woke)
		}
	}
	status, text, header := call(t, s, http.MethodPost, "/events", asJSON,
		bytes.NewReader(fixture(t, "subscription-validation.json")))
	if status != 200 || text != `{"validationResponse":"512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}`+
		"\n" || header.Get("Content-Type") != "application/json" {
		t.Errorf("the handshake of Event Grid: %d %q", status, text)
	}
	status, _, header = call(t, s, http.MethodOptions, "/events", "", nil, "WebHook-Request-Origin",
		"eventgrid.azure.net", "WebHook-Request-Callback", "http://127.0.0.1:1/never")
	if status != 200 || header.Get("WebHook-Allowed-Origin") != "eventgrid.azure.net" ||
		header.Get("WebHook-Allowed-Rate") == "" {
		t.Errorf("the handshake of CloudEvents: %d %v", status, header)
	}
	if status, _, _ := call(t, s, http.MethodOptions, "/events", "", nil); status != 400 {
		t.Errorf("a handshake without authentication: %d", status)
	}
	if status, _, _ := call(t, s, http.MethodGet, "/events", "", nil); status != 405 {
		t.Errorf("GET: %d", status)
	}
	_, text, _ = call(t, s, http.MethodGet, "/metrics", "", nil)
	for _, line := range []string{
		`routekeeper_events_total{result="woke"} 2`, `routekeeper_events_total{result="unknown"} 4`,
		`routekeeper_events_total{result="malformed"} 6`,
		`routekeeper_events_total{result="large"} 1`,
		`routekeeper_events_total{result="handshake"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// TestWhoMayCall: which callers may use which paths.
func TestWhoMayCall(t *testing.T) {
	const secret = "a-long-enough-secret"
	health := NewHealth(time.Minute)
	s, w := start(t, Options{Address: "0.0.0.0:0", Auth: Auth{SecretFile: secretFile(t, secret)},
		Health: health})
	alert := fixture(t, "alert-common-schema.json")
	for _, c := range []struct {
		method, path, bearer string
		status               int
	}{
		{http.MethodPost, "/events/" + secret, "", 200}, {http.MethodPost, "/events", secret,
			200}, {http.MethodPost, "/events", "", 401},
		{http.MethodPost, "/events/another", "", 401}, {http.MethodPost, "/events", "another",
			401}, {http.MethodPost, "/events/" + secret + "/more", "", 404},
		{http.MethodGet, "/metrics", "", 401}, {http.MethodGet, "/metrics", secret, 200}, {
			http.MethodGet, "/livez", "", 200}, {http.MethodGet, "/readyz", "", 503},
		{http.MethodOptions, "/events/another", "", 401}, {http.MethodOptions, "/events/" + secret,
			"", 200},
	} {
		header := []string{"WebHook-Request-Origin", "x"}
		if c.bearer != "" {
			header = append(header, "Authorization", "Bearer "+c.bearer)
		}
		before := w.seen()
		if status, _, _ := call(t, s, c.method, c.path, "application/json", bytes.NewReader(alert),
			header...); status != c.status || status != 200 && w.seen() > before {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.path, c.bearer, status, c.status)
		}
	}
	// A caller who asks for metrics or a page sends no events: a browser does so without a password
	// first.
	if _, text, _ := call(t, s, http.MethodGet, "/metrics", "", nil, "Authorization", "Bearer "+
		secret); !strings.Contains(text, `routekeeper_events_total{result="unauthorized"} 4`+"\n") {
		t.Errorf("want 4 events refused:\n%s", text)
	}
	health.Record(keeper.Result{Managed: []string{"shop"}})
	if status, text, _ := call(t, s, http.MethodGet, "/readyz", "", nil); status != 200 ||
		text != "ok\n" {
		t.Errorf("after the first check: %d %q", status, text)
	}
}

// TestLoopback: without authentication, the server listens on loopback only.
func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "nonsense": false} {
		s, err := Start(Options{Address: address, Metrics: NewMetrics(),
			Log: slog.New(slog.DiscardHandler)}, &woken{})
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
		if s != nil {
			s.Close()
		}
	}
	for _, a := range []Auth{{Tenant: tenant, Audiences: []string{"x"}},
		{Tenant: tenant, Send: Callers{Apps: []string{"x"}}}} {
		if _, err := Start(Options{Address: "127.0.0.1:0", Auth: a, Metrics: NewMetrics(),
			Log: slog.New(slog.DiscardHandler)}, &woken{}); err == nil {
			t.Errorf("%+v is taken for enough", a)
		}
	}
}

// TestClose: an open request is answered before the end.
func TestClose(t *testing.T) {
	s, w := start(t, Options{})
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s", len(cloudEvent), cloudEvent[:100])
	time.Sleep(100 * time.Millisecond)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	time.Sleep(100 * time.Millisecond)
	fmt.Fprint(c, cloudEvent[100:])
	answer := make([]byte, 15)
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "HTTP/1.1 200 OK" ||
		w.seen() == 0 {
		t.Errorf("%q, %v", answer, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err, open := <-s.Ended(); open {
		t.Error(err)
	}
}

// TestMetrics: the metrics of checks and calls.
func TestMetrics(t *testing.T) {
	s, _ := start(t, Options{})
	m := s.opts.Metrics
	at := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	change := func(verb plan.Verb, state plan.OutcomeState) plan.Outcome {
		c := plan.Change{Verb: verb, Cluster: "shop"}
		if verb != plan.Delete {
			c.New = &plan.Value{}
		}
		return plan.Outcome{Change: c, State: state}
	}
	m.Record(keeper.Result{Managed: []string{"shop", "play"}, Started: at, Elapsed: 2 * time.Second,
		Findings: []finding.Finding{finding.New(finding.ReadFailed, "play", "x", ""),
			finding.New(finding.SourceHop, "shop", "y", "")}})
	m.Record(keeper.Result{Managed: []string{"shop", "play"}, Started: at, Elapsed: 4 * time.Second,
		Asked: at.Add(-time.Second), Of: []string{"shop"},
		Changes: []plan.Outcome{change(plan.Associate, plan.Done),
			change(plan.Create, plan.Done), change(plan.Create, plan.Done), change(plan.Delete,
				plan.Failed)},
		OnlyObserved: []plan.Outcome{change(plan.Create, plan.Observed),
			change(plan.Create, plan.Observed), change(plan.Delete, plan.Observed)},
		Findings: []finding.Finding{finding.New(finding.ReadFailed, "play", "x", "")},
		Tables: []keeper.Fill{{Table: "/subscriptions/s/A", Routes: 7, Limit: 400},
			{Table: "/subscriptions/s/b", Routes: 3}},
	})
	m.Call(azure.Call{Method: "GET", Status: 200, Subscription: "s", Kind: "reads", Remaining: 11})
	m.Call(azure.Call{Method: "PUT", Remaining: -1})
	_, text, _ := call(t, s, http.MethodGet, "/metrics", "", nil)
	for _, line := range []string{
		`routekeeper_findings{cluster="play",code="read-failed",severity="error"} 1`,
		`routekeeper_changes_total{cluster="shop",outcome="done",verb="create"} 2`,
		`routekeeper_changes_total{cluster="shop",outcome="failed",verb="delete"} 1`,
		`routekeeper_repair_seconds_sum{kind="node-subnet"} 5`,
		`routekeeper_repair_seconds_count{kind="guarded-subnet"} 0`,
		`routekeeper_node_routed_seconds_count 2`,
		`routekeeper_checks_total{cause="event"} 1`, `routekeeper_checks_total{cause="poll"} 1`,
		`routekeeper_cluster_last_success_timestamp_seconds{cluster="shop"} 1.767225614e+09`,
		`routekeeper_cluster_last_success_timestamp_seconds{cluster="play"} 0`,
		`routekeeper_table_routes{table="/subscriptions/s/a"} 7`,
		`routekeeper_table_routes_limit{table="/subscriptions/s/a"} 400`,
		`routekeeper_arm_calls_total{method="GET",status="200"} 1`,
		`routekeeper_arm_calls_total{method="PUT",status="0"} 1`,
		`routekeeper_changes_unmade{cluster="shop",verb="delete"} 1`,
		`routekeeper_changes_observed{cluster="shop",verb="create"} 2`,
		`routekeeper_changes_observed{cluster="shop",verb="delete"} 1`,
		`routekeeper_arm_tokens_remaining{kind="reads",subscription="s"} 11`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	for _, part := range []string{`code="source-hop"`, `unmade{cluster="shop",verb="create"`,
		`outcome="observed"`, `limit{table="/subscriptions/s/b"}`} {
		if strings.Contains(text, part) {
			t.Errorf("the metrics have %s", part)
		}
	}
	if !strings.Contains(text, "routekeeper_kubenet_retirement_days ") {
		t.Error("the metrics lack the days to retirement")
	}
	m.Record(keeper.Result{Managed: []string{"shop", "play"}, Started: at,
		Findings: []finding.Finding{finding.New(finding.ReadFailed, "shop", "x", "")}})
	if _, text, _ = call(t, s, http.MethodGet, "/metrics", "", nil); !strings.Contains(text,
		`routekeeper_changes_unmade{cluster="shop",verb="delete"} 1`) {
		t.Error("what was left unmade is forgotten when it cannot be seen")
	}
	m.Record(keeper.Result{Managed: []string{"play"}, Started: at, Complete: true,
		Tables: []keeper.Fill{{Table: "/subscriptions/s/b", Routes: 4}}})
	_, text, _ = call(t, s, http.MethodGet, "/metrics", "", nil)
	if strings.Contains(text, `cluster="shop"`) ||
		strings.Contains(text, `table="/subscriptions/s/a"`) ||
		!strings.Contains(text, `table="/subscriptions/s/b"} 4`) {
		t.Errorf("what left the config is still told of:\n%s", text)
	}
	// A check that was writing when its cluster left the config ends later, as a check of none.
	m.Record(keeper.Result{Managed: []string{"play"}, Of: []string{}, Started: at,
		Changes: []plan.Outcome{change(plan.Associate, plan.Failed)}})
	if _, text, _ = call(t, s, http.MethodGet, "/metrics", "", nil); strings.Contains(text,
		`cluster="shop"`) {
		t.Errorf("a removed cluster has metrics again:\n%s", text)
	}
}

// TestMetricsFade: remaining tokens are exported for two minutes only, because the next write may
// be far away. The number of routes in a table that is no longer checked is exported for an hour,
// if checks never read everything. Limits are exported for targets only.
func TestMetricsFade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics()
		told := func() string {
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return w.Body.String()
		}
		fill := func(tables ...keeper.Fill) {
			m.Record(keeper.Result{Managed: []string{"shop", "ill"}, Of: []string{"shop"},
				Started: time.Now(), Tables: tables})
		}
		m.Call(azure.Call{Method: "PUT", Status: 200, Subscription: "s", Kind: "writes",
			Remaining: 3})
		fill(keeper.Fill{Table: "/subscriptions/s/a", Routes: 399, Limit: 400},
			keeper.Fill{Table: "/subscriptions/s/b", Routes: 399, Limit: 400})
		time.Sleep(time.Minute)
		fill(keeper.Fill{Table: "/subscriptions/s/b", Routes: 399})
		if text := told(); !strings.Contains(text, `kind="writes",subscription="s"} 3`) ||
			!strings.Contains(text, `limit{table="/subscriptions/s/a"} 400`) ||
			strings.Contains(text, `limit{table="/subscriptions/s/b"}`) {
			t.Errorf("after a minute:\n%s", text)
		}
		time.Sleep(time.Hour)
		fill(keeper.Fill{Table: "/subscriptions/s/b", Routes: 398})
		if text := told(); strings.Contains(text, "tokens_remaining{") ||
			strings.Contains(text, `"/subscriptions/s/a"`) ||
			!strings.Contains(text, `routes{table="/subscriptions/s/b"} 398`) {
			t.Errorf("after an hour:\n%s", text)
		}
	})
}

// TestOwn: a change that the keeper made itself triggers nothing. A change by another call, or by
// an unknown caller, does.
func TestOwn(t *testing.T) {
	own := func(call string, identities []string, id arm.ID) bool {
		return call == "55555555-5555-5555-5555-555555555555" &&
			slices.Contains(identities, "44444444-4444-4444-4444-444444444444")
	}
	for _, name := range []string{"alert-common-schema.json", "alert-legacy-schema.json",
		"resource-write-success.json"} {
		body := string(fixture(t, name))
		for what, c := range map[string]struct {
			body string
			woke bool
		}{
			"its own":        {body, false},
			"another call":   {strings.ReplaceAll(body, "55555555-", "5555aaaa-"), true},
			"another caller": {strings.ReplaceAll(body, "44444444-", "4444aaaa-"), true},
			"not told which": {strings.ReplaceAll(body, "correlationId", "correlation"), true},
		} {
			s, w := start(t, Options{Wrote: own})
			if status, _, _ := call(t, s, http.MethodPost, "/events", "application/json",
				strings.NewReader(c.body)); status != http.StatusOK || (w.seen() > 0) != c.woke {
				t.Errorf("%s, %s: HTTP %d, %d resources", name, what, status, w.seen())
			}
		}
	}
}
