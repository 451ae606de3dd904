//go:build chromium

package page_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/silence"
)

// axeFile is where .ci/axe installs axe-core.
func axeFile(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("ROUTEKEEPER_AXE")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(cache, "routekeeper", "axe")
	}
	file := filepath.Join(folder, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("ROUTEKEEPER_NEED_AXE") != "" {
			t.Fatalf("%v: .ci/axe installs it", err)
		}
		t.Skip("NOT RUN: axe-core is not installed, so the pages were not tested with it: .ci/axe")
	}
	return file
}

// violation is what axe-core finds wrong.
type violation struct {
	ID, Help string
	Nodes    []struct {
		HTML           string
		FailureSummary string
	}
}

func (v violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.ID, v.Help)
	for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
		fmt.Fprintf(&b, "\n  %.160s\n  %s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", " "))
	}
	return b.String()
}

// axe runs axe-core on the page that is open: one rule, or all. It comes through the browser's
// debugger, so the page's Content-Security-Policy stays as it is.
func (b *browser) axe(source, name, rule string) {
	b.t.Helper()
	eval[bool](b, source+"; true")
	only, least := "", 15
	if rule != "" {
		only, least = fmt.Sprintf(", runOnly: %q", rule), 1
	}
	raw := ask(b, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]`+only+
		`}).then((r) => JSON.stringify(r))`, chromedp.EvalAwaitPromise))
	var found struct {
		Violations []violation
		Passes     []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(raw), &found); err != nil {
		b.t.Fatal(err)
	}
	if len(found.Passes) < least {
		b.t.Errorf("%s: axe-core checked only %d rules", name, len(found.Passes))
	}
	for _, v := range found.Violations {
		b.t.Errorf("%s: %s", name, v)
	}
}

// TestAccessible: axe-core finds nothing on any kind of page, in dark either, where only colours
// differ, and with print styles.
func TestAccessible(t *testing.T) {
	if testing.Short() {
		t.Skip("it checks finished pages, for most of a minute")
	}
	t.Parallel()
	source, err := os.ReadFile(axeFile(t))
	if err != nil {
		t.Fatal(err)
	}
	fleet := newFleet(t)
	starts := *fleet
	waiting := page.NewBoard()
	waiting.Configure(fleet.configs)
	store := silence.Open(filepath.Join(t.TempDir(), "routes.silences"), nil)
	starts.serve(waiting, page.Options{Scenes: []string{"A redeploy"}, Play: func(int) {},
		Keeper: fleet.keeps, Actions: true, Silences: store})
	small := newWorld(t, options{page: page.Options{Actions: true, Silences: store}})
	small.settled()
	small.strip(small.demo.NodeSubnet)
	small.until("the repair is in the history", func() bool {
		return strings.Contains(small.get("/history.json?kind=repair").body, `"done"`)
	})
	small.silences(store)
	b := open(t)
	for name, c := range map[string]struct{ address, has string }{
		"overview of a fleet":   {fleet.URL + "/", ".list tbody tr"},
		"broken cluster":        {fleet.URL + "/clusters/big-50", ".finding"},
		"many nodes":            {fleet.URL + "/clusters/huge-390?rows=all", ".tables .pages"},
		"nothing matches":       {fleet.URL + "/?q=nothing", "#all-clusters ~ p"},
		"starting":              {starts.URL + "/", ".hero"},
		"small":                 {small.URL + "/", ".drawing"},
		"cluster":               {small.URL + "/clusters/shop", ".drawing"},
		"history":               {small.URL + "/history", ".checks details"},
		"a check":               {small.URL + "/history/1", ".check"},
		"preview":               {small.URL + "/actions/repair?cluster=shop", ".changes li"},
		"error":                 {small.URL + "/clusters/none", ".hero.unseen"},
		"silences":              {small.URL + "/actions/silence", ".choices li"},
		"silences of a cluster": {small.URL + "/actions/silence?cluster=shop", ".entries li"},
		"pause": {starts.URL + "/actions/silence?cluster=shop-01",
			`[action="/actions/pause"]`},
	} {
		b.scheme("light")
		b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(c.address))
		b.until(fmt.Sprintf("document.querySelector(%q) !== null", "main "+c.has))
		eval[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true); true`)
		b.axe(string(source), name, "")
		b.scheme("dark")
		b.axe(string(source), name+", dark", "color-contrast")
		if name == "small" || name == "overview of a fleet" || name == "many nodes" {
			b.printed(name)
		}
		// At 200 % zoom, a window of 1280 pixels has 640.
		b.do(chromedp.EmulateViewport(640, 450))
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 640 {
			t.Errorf("%s at 200 %%: %d pixels wide", name, wide)
		}
	}
}

// silences silences one lost association, and leaves another one open: the cluster is paused.
func (w *world) silences(store *silence.Store) {
	w.Helper()
	entry := func(e silence.Entry) {
		e.Reason, e.By, e.From, e.Until = "ticket 4711", "ada", "a test", time.Now().Add(time.Hour)
		if err := store.Add(e); err != nil {
			w.Fatal(err)
		}
	}
	entry(silence.Entry{Kind: silence.Pause, Cluster: "shop"})
	w.strip(w.demo.NodeSubnet)
	w.strip(w.demo.GatewaySubnet)
	lost := func() (all []finding.Finding) {
		for _, f := range w.overview().Findings {
			if f.Code == finding.AssociationLost && f.Silenced == nil {
				all = append(all, f)
			}
		}
		return all
	}
	w.until("two associations are lost", func() bool { return len(lost()) == 2 })
	entry(silence.Of(lost()[0]))
	w.until("one is silenced", func() bool { return len(lost()) == 1 })
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}))
}

// printed checks what a page looks like on paper: nothing that can only be pressed, and no table
// that is cut off.
func (b *browser) printed(name string) {
	b.t.Helper()
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
	if shown := eval[[]string](b,
		`[...document.querySelectorAll("button, .button, input, select, nav a[href], footer")]
		.filter(e => e.checkVisibility() && !e.closest(".counters")).map(e => e.textContent)`); len(
		shown) > 0 {
		b.t.Errorf("%s prints %q", name, shown)
	}
	if cut := eval[int](b, `[...document.querySelectorAll(".scroll")]
		.filter(e => e.scrollHeight > e.clientHeight + 1).length`); cut > 0 {
		b.t.Errorf("%s: %d tables are cut off on paper", name, cut)
	}
	// A large card that must stay whole begins a new page, and leaves the one before it empty.
	if whole := eval[int](b, `[...document.querySelectorAll(".card")]
		.filter(e => getComputedStyle(e).breakInside !== "auto").length`); whole > 0 {
		b.t.Errorf("%s: %d cards cannot be divided between sheets", name, whole)
	}
	if at := eval[string](b,
		`getComputedStyle(document.querySelector("[data-checked] time"), "::after").content`,
	); !strings.Contains(at, "20") {
		b.t.Errorf("%s: the paper does not say when the check was: %s", name, at)
	}
	if dir := os.Getenv("ROUTEKEEPER_SCREENSHOTS"); dir != "" {
		png := ask(b, chromedp.FullScreenshot(100))
		if err := os.WriteFile(filepath.Join(dir, "print-"+name+".png"), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}))
}
