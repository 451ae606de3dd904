package page_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/silence"
)

// TestSilencePage: people pause a cluster and silence a finding with forms that need no script. A
// silenced finding stays on the page and in the JSON, but is not counted; a new one is.
func TestSilencePage(t *testing.T) {
	store := silence.Open(filepath.Join(t.TempDir(), "routes.silences"), nil)
	w := newWorld(t, options{page: page.Options{Actions: true, Silences: store}})
	w.settled()
	title := func() string {
		return regexp.MustCompile("<title>.*</title>").FindString(w.get("/").body)
	}
	// post sends a form, and expects the way back to the page.
	post := func(path string, form url.Values, status int) string {
		t.Helper()
		a := w.send(http.MethodPost, "/actions/"+path, form.Encode())
		if a.status != status {
			t.Fatalf("%s %v: %d, want %d: %s", path, form, a.status, status, a.body)
		}
		return a.body
	}
	why := url.Values{"cluster": {"shop"}, "reason": {"<b>work</b>"}, "for": {"8h0m0s"}}
	post("pause", url.Values{"cluster": {"nope"}, "reason": {"x"}, "for": {"1h"}}, 400)
	post("pause", url.Values{"cluster": {"shop"}, "for": {"1h"}}, 400)
	post("pause", url.Values{"cluster": {"shop"}, "reason": {"x"}, "for": {"200h"}}, 400)
	post("pause", why, http.StatusSeeOther)
	html := w.get("/clusters/shop").body
	if !strings.Contains(html, "nothing is changed for shop until") ||
		!strings.Contains(html, "&lt;b&gt;work&lt;/b&gt;") || strings.Contains(html, "<b>work") {
		t.Errorf("the page does not say the pause, or not safely: %s", html)
	}
	w.strip(w.demo.NodeSubnet)
	w.until("the lost association is reported", func() bool {
		return w.overview().State == page.Bad
	})
	if got := title(); !strings.Contains(got, "1 broken") {
		t.Errorf("the title %s", got)
	}

	// The form offers the finding.
	form := w.get("/actions/silence?cluster=shop").body
	ids := regexp.MustCompile(`name="finding" value="([0-9a-f]+)"`).FindAllStringSubmatch(form, -1)
	if len(ids) != 1 || !strings.Contains(form, "for=") && !strings.Contains(form, `name="for"`) {
		t.Fatalf("the form offers %v: %s", ids, form)
	}
	// state is what the form says of the cluster: its verdict.
	state := func() string {
		return regexp.MustCompile(`(?s)<p class="now .*?</p>`).FindString(
			w.get("/actions/silence?cluster=shop").body)
	}
	if now := state(); !strings.Contains(now, "chip bad") ||
		!strings.Contains(now, "shop:\nsubnet nodes has lost its route table") {
		t.Errorf("the form says of the cluster %q", now)
	}
	with := func(id string) url.Values {
		return url.Values{"cluster": {"shop"}, "finding": {id}, "reason": {"known"},
			"for": {"1h0m0s"}}
	}
	post("silence", with("abc"), 400)
	if a := w.send(http.MethodPost, "/actions/silence", with(ids[0][1]).Encode(), "Sec-Fetch-Site",
		"cross-site"); a.status != http.StatusForbidden {
		t.Errorf("a form of another site: %d", a.status)
	}
	post("silence", with(ids[0][1]), http.StatusSeeOther)
	o := w.overview()
	silenced := func(o page.Overview) int {
		return len(slices.DeleteFunc(slices.Clone(o.Findings), func(f finding.Finding) bool {
			return f.Silenced == nil || f.Silenced.Reason != "known" || f.Silenced.By == ""
		}))
	}
	if now := state(); !strings.Contains(now, "chip noted") {
		t.Errorf("the form says of the cluster with a silenced loss %q", now)
	}
	if o.State != page.Noted || o.Counts.Broken != 0 || silenced(o) != 1 ||
		!strings.Contains(o.Sentence, "has lost its route table") {
		t.Errorf("silenced: %s, %+v, %d silenced, %s", o.State, o.Counts, silenced(o), o.Sentence)
	}
	if got := title(); strings.Contains(got, "broken") {
		t.Errorf("the title counts a silenced finding: %s", got)
	}
	html = w.get("/").body
	if !strings.Contains(html, `id="silenced"><summary>1 finding silenced</summary>`) ||
		!strings.Contains(html, "association-lost") {
		t.Errorf("the silenced finding is not on the page: %s", html)
	}

	// Another subnet is news.
	w.strip(w.demo.GatewaySubnet)
	w.until("the new finding is reported", func() bool { return w.overview().State == page.Bad })
	if got := title(); !strings.Contains(got, "1 broken") {
		t.Errorf("the title %s", got)
	}

	// The pause ends; everything is repaired, the silenced subnet, too.
	all := store.Current()
	if len(all) != 2 || all[0].Kind != silence.Pause || all[0].By != "the page" ||
		!strings.HasPrefix(all[0].From, "the page, 127.0.0.1") {
		t.Errorf("the store: %+v", all)
	}
	post("silence/end", url.Values{"id": {"1"}, "cluster": {"shop"}}, http.StatusSeeOther)
	w.settled()
	if html := w.get("/actions/silence").body; !strings.Contains(html, "End silence 2") ||
		strings.Contains(html, "End pause") {
		t.Errorf("the page of silences: %s", html)
	}
	if !slices.ContainsFunc(w.overview().Findings, func(f finding.Finding) bool {
		return f.Code == finding.SilenceEnded &&
			strings.HasPrefix(f.Message, "the page ended the pause of shop at ") &&
			strings.HasPrefix(f.Evidence[0], "from the page")
	}) {
		t.Errorf("who ended the pause is not said: %v", w.overview().Findings)
	}
}
