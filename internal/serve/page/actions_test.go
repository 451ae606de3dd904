package page_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

func paused() string { return "until tomorrow" }

// TestDryRunPreviews: on a dry run the buttons preview, and no request makes the changes, not even
// one with the seal that a keeper without --dry-run would accept.
func TestDryRunPreviews(t *testing.T) {
	w := newWorld(t, options{keeper: keeper.Options{DryRun: true},
		page: page.Options{Actions: true, DryRun: true}})
	w.until("it was checked", func() bool { return len(w.overview().Clusters) == 1 })
	preview := proposalOf(t, w.get("/actions/sync.json?cluster=shop"))
	if len(preview.Changes) != 3 || preview.Confirm != "" ||
		preview.Note != "This keeper runs with --dry-run: it changes nothing." {
		t.Errorf("the preview: %+v", preview)
	}
	if html := w.get("/actions/sync?cluster=shop").body; strings.Contains(html,
		"<button type=\"submit\" class=\"primary\"") ||
		!strings.Contains(html, "The changes below would be made.") {
		t.Errorf("the page offers to make the changes: %s", html)
	}
	for _, body := range []string{"cluster=shop", "cluster=shop&confirm=" + url.QueryEscape(
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+".AAAA")} {
		a := w.send(http.MethodPost, "/actions/sync", body, "Accept", "application/json")
		if p := proposalOf(t, a); p.Done || len(p.Changes) != 3 ||
			p.Changes[0]["state"] != "planned" {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	w.send(http.MethodPost, "/actions/look", "cluster=shop")
	if o := w.overview(); o.Routes.Correct != 3 {
		t.Errorf("a dry run wrote: %+v", o.Routes)
	}
	var past struct{ Checks []history.Entry }
	decode(t, w.get("/history.json"), &past)
	if len(past.Checks) != 0 {
		t.Errorf("a dry run is in the history: %+v", past.Checks)
	}
}

// TestObservedButtons: where the config says Observe, a button does not promise changes, and its
// preview says why there are none.
func TestObservedButtons(t *testing.T) {
	w := newWorld(t, options{observe: true, page: page.Options{Actions: true}})
	w.until("missing routes are reported", func() bool {
		return strings.Contains(w.overview().Sentence, "it would add 3 routes")
	})
	if html := w.get("/clusters/shop").body; !strings.Contains(html, ">Sync…</a>") {
		t.Errorf("the button counts what it does not change: %s", html)
	}
	if html := w.get("/clusters/shop").body; strings.Contains(html, "Repair") {
		t.Error("a button leads to nothing")
	}
	html := w.get("/actions/sync?cluster=shop").body
	if !strings.Contains(html, "The config says Observe: it would add 3 routes.") ||
		strings.Contains(html, "nothing to change") || strings.Contains(html, "<button") {
		t.Errorf("the preview: %s", html)
	}
	html = w.get("/actions/repair?cluster=shop").body
	if strings.Contains(html, "Observe") || !strings.Contains(html, "There is nothing to change.") {
		t.Errorf("the preview of a repair: %s", html)
	}
}

type proposal struct {
	Changes []map[string]any
	Done    bool
	Confirm string
	Note    string
}

func proposalOf(t *testing.T, a answer) (p proposal) {
	t.Helper()
	decode(t, a, &p)
	return p
}

// TestActionsAreConfirmed: only changes of a recent preview are made: by this program, for this
// action and cluster, and not for a page of another site.
func TestActionsAreConfirmed(t *testing.T) {
	w := newWorld(t, options{keeper: keeper.Options{Paused: paused},
		page: page.Options{Actions: true, Mode: func() string { return "paused" }}})
	w.until("it was checked", func() bool { return len(w.overview().Clusters) == 1 })
	preview := proposalOf(t, w.get("/actions/sync.json?cluster=shop"))
	if len(preview.Changes) != 3 || preview.Done || preview.Confirm == "" {
		t.Fatalf("the preview: %+v", preview)
	}
	confirm := func(action, cluster, seal string, headers ...string) answer {
		return w.send(http.MethodPost, "/actions/"+action,
			url.Values{"cluster": {cluster}, "confirm": {seal}}.Encode(), append(headers, "Accept",
				"application/json")...)
	}
	for what, a := range map[string]answer{
		"nothing is confirmed": confirm("sync", "shop", ""),
		"another word":         confirm("sync", "shop", preview.Confirm+"A"),
		"all clusters":         confirm("sync", "", preview.Confirm),
		"another action":       confirm("repair", "shop", preview.Confirm),
	} {
		if p := proposalOf(t, a); p.Done || p.Note == "" {
			t.Errorf("%s: %s", what, a.body)
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "same-site"}} {
		for _, path := range []string{"sync", "look"} {
			if a := confirm(path, "shop", preview.Confirm,
				headers...); a.status != http.StatusForbidden {
				t.Errorf("%s from %v: %d %s", path, headers, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/actions/sync?cluster=shop",
		"/actions/repair.json?cluster=shop"} {
		if a := w.get(path, "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden {
			t.Errorf("%s, which has the keeper look, from another site: %d", path, a.status)
		}
		if a := w.get(path, "Sec-Fetch-Site", "same-origin"); a.status != http.StatusOK ||
			strings.Contains(a.body, "refresh") {
			t.Errorf("%s: %d, or it loads itself again: %s", path, a.status, a.body)
		}
	}
	if a := w.get("/actions/look"); a.status != http.StatusMethodNotAllowed &&
		a.status != http.StatusNotFound {
		t.Errorf("looking by a link: %d", a.status)
	}
	// By now, other changes are needed.
	w.strip(w.demo.NodeSubnet)
	if p := proposalOf(t, w.get("/actions/repair.json?cluster=shop")); len(p.Changes) != 1 {
		t.Errorf("the other preview: %+v", p)
	}
	if w.overview().Routes.Wrong() != 6 {
		t.Errorf("something was changed: %+v", w.overview().Routes)
	}
	if p := proposalOf(t, confirm("sync", "shop", preview.Confirm)); !p.Done ||
		len(p.Changes) != 3 || p.Changes[0]["state"] != "done" {
		t.Errorf("confirmed: %+v", p)
	}
	if p := proposalOf(t, confirm("sync", "shop", preview.Confirm)); p.Done || len(p.Changes) != 0 {
		t.Errorf("confirmed twice: %+v", p)
	}
	if o := w.overview(); o.Clusters[0].Broken() != 1 {
		t.Errorf("the association was repaired without a request: %+v", o.Clusters[0].Subnets)
	}
	if a := confirm("sync", "missing", ""); a.status != http.StatusServiceUnavailable ||
		!strings.Contains(a.body, "missing") {
		t.Errorf("an unknown cluster: %d %s", a.status, a.body)
	}
}

// TestPreviewIsGoodOnce: a preview can be confirmed once, by the person who was shown it.
func TestPreviewIsGoodOnce(t *testing.T) {
	var log lockedBuffer
	w := newWorld(t, options{keeper: keeper.Options{Paused: paused},
		page: page.Options{Actions: true}, log: slog.New(slog.NewTextHandler(&log, nil)),
		auth: serve.Auth{UsersFile: usersFile(t, "ada", "eve", "bob"),
			Act: serve.Callers{Users: []string{"ada", "eve"}}, Look: serve.Callers{
				Users: []string{serve.Everyone}}}})
	as := func(name string) string { return basic(name, "password of "+name) }
	w.until("it was checked", func() bool {
		var o page.Overview
		return json.Unmarshal([]byte(w.get("/index.json", "Authorization", as("ada")).body), &o) ==
			nil && len(o.Clusters) == 1
	})
	preview := func(name string) string {
		return proposalOf(t,
			w.get("/actions/repair.json?cluster=shop", "Authorization", as(name))).Confirm
	}
	confirm := func(name, token string) proposal {
		return proposalOf(t, w.send(http.MethodPost, "/actions/repair",
			url.Values{"cluster": {"shop"}, "confirm": {token}}.Encode(), "Authorization",
			as(name), "Accept", "application/json"))
	}
	w.strip(w.demo.NodeSubnet)
	token := preview("ada")
	if p := confirm("eve", token); p.Done || p.Note == "" {
		t.Errorf("confirmed by another person: %+v", p)
	}
	if p := confirm("ada", token); !p.Done || len(p.Changes) != 1 {
		t.Errorf("confirmed by the person who was shown it: %+v", p)
	}
	w.strip(w.demo.NodeSubnet) // so the same change is needed again
	if p := confirm("ada", token); p.Done || len(p.Changes) != 1 {
		t.Errorf("confirmed a second time: %+v", p)
	}
	// Who may only look sees no buttons that change something, and cannot press them.
	if a := w.get("/", "Authorization", as("bob")); strings.Contains(a.body, "/actions/repair") ||
		!strings.Contains(a.body, "/actions/look") {
		t.Errorf("bob's page: %d %s", a.status, a.body)
	}
	if a := w.get("/", "Authorization", as("eve")); !strings.Contains(a.body, "/actions/repair") {
		t.Error("eve has no buttons")
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if a := w.send(method, "/actions/repair?cluster=shop", "", "Authorization",
			as("bob")); a.status != http.StatusForbidden {
			t.Errorf("bob's %s: %d", method, a.status)
		}
	}
	if n := strings.Count(log.String(), `msg="a person acts" who=ada from=`); n != 1 {
		t.Errorf("%d lines about ada's act, want 1:\n%s", n, log.String())
	}
}
