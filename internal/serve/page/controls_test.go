//go:build chromium

package page_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/silence"
)

// controls are all elements that a person can press, choose or fill in.
const controls = `[...document.querySelectorAll(
	"a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]
	.filter(e => e.checkVisibility())`

// focused describes the element that has the focus: its place in controls, its name, whether the
// focus can be seen, and where it is.
type focused struct {
	Index                    int
	Name                     string
	Seen                     bool
	Left, Top, Right, Bottom float64
}

const focus = `(() => { const e = document.activeElement, s = getComputedStyle(e),
	r = e.getBoundingClientRect(), all = ` + controls + `; return {
	index: all.indexOf(e), name: (e.getAttribute("aria-label") || e.name || e.textContent).trim(),
	seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.width > 0 &&
		r.left >= 0 && r.right <= innerWidth && (r.height > innerHeight ?
			r.top < innerHeight && r.bottom > 0 : r.top >= -1 && r.bottom <= innerHeight + 1),
	left: r.left, top: r.top + scrollY, right: r.right, bottom: r.bottom + scrollY }; })()`

// tabs presses Tab through the whole page: it reaches each control once, from left to right and
// from top to bottom, the focus is visible, and after the last one it leaves the page.
func (b *browser) tabs(name string) {
	b.t.Helper()
	total := eval[int](b, controls+".length")
	var last focused
	for i := range total {
		b.do(chromedp.KeyEvent("\t"))
		now := eval[focused](b, focus)
		switch {
		case now.Index != i:
			b.t.Errorf("%s: Tab %d reaches control %d, %q after %q", name, i+1, now.Index, now.Name,
				last.Name)
			return
		case !now.Seen:
			b.t.Errorf("%s: the focus on %q cannot be seen: %+v", name, now.Name, now)
		// it may begin another column
		case i > 1 && now.Bottom <= last.Top && now.Left < last.Right:
			b.t.Errorf("%s: Tab goes back from %+v to %+v", name, last, now)
		}
		last = now
	}
	b.do(chromedp.KeyEvent("\t"))
	if now := eval[focused](b, focus); now.Index > 0 {
		b.t.Errorf("%s: Tab is caught in %q", name, now.Name)
	}
}

// to presses Tab until a control has the focus.
func (b *browser) to(control string) {
	b.t.Helper()
	for range 40 {
		b.do(chromedp.KeyEvent("\t"))
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", control)) {
			return
		}
	}
	b.t.Fatalf("Tab does not reach %s", control)
}

// TestKeyboardForms: people silence, pause, resume, play a scene and filter the history with the
// keyboard only.
func TestKeyboardForms(t *testing.T) {
	t.Parallel()
	store := silence.Open(filepath.Join(t.TempDir(), "routes.silences"), nil)
	w := newWorld(t, options{page: page.Options{Actions: true, Silences: store}})
	w.settled()
	b := open(t)
	b.do(chromedp.EmulateViewport(1280, 900))

	visit := func(path string) {
		t.Helper()
		b.do(chromedp.Navigate(w.URL + path))
		b.until(`document.readyState === "complete" && document.querySelector("main h1") !== null`)
	}
	path := "/actions/silence?cluster=shop"
	visit(path)
	b.tabs("pause a cluster")
	visit(path)
	b.to(`input[name="reason"]`)
	b.do(chromedp.KeyEvent("work\r"))
	b.until(`document.querySelector(".entries")?.textContent.includes("End pause 1") === true`)
	w.strip(w.demo.NodeSubnet)
	w.until("the lost association is reported", func() bool {
		return w.overview().State == page.Bad
	})
	visit(path)
	b.tabs("silence")
	visit(path)
	b.to(`input[name="finding"]`)
	b.do(chromedp.KeyEvent(" "))
	b.to(`input[name="reason"]`)
	b.do(chromedp.KeyEvent("known\r"))
	b.until(`document.querySelector(".entries")?.textContent.includes("End silence 2") === true`)
	b.to(`.entry button`)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector(".entries")?.textContent.includes("End pause 1") === false`)
	if all := store.Current(); len(all) != 1 || all[0].Reason != "known" || all[0].ID != 2 {
		t.Errorf("the store: %+v", all)
	}
	w.settled()                                           // it was resumed
	w.until("the history shows the repair", func() bool { // it is stored a moment later
		return strings.Contains(w.get("/history?kind=repair").body, `class="kind"`)
	})

	visit("/history")
	b.tabs("history")
	visit("/history")
	b.to(`select[name="kind"]`)
	b.do(chromedp.KeyEvent("rep"))
	b.to(`.filter button`)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`location.search.includes("kind=repair") && document.querySelector(".checks") !== null`)
	if kinds := eval[[]string](b, `[...document.querySelectorAll(".checks .kind")]
		.map(k => k.textContent)`); len(kinds) == 0 || strings.Join(kinds, "") !=
		strings.Repeat("repair", len(kinds)) {
		t.Errorf("the history of repairs shows %q", kinds)
	}

	played := make(chan int, 9)
	demo := *w
	demo.serve(page.NewBoard(), page.Options{Keeper: w.keeps,
		Scenes: []string{"A redeploy", "A new node", "Scale down"},
		Play:   func(scene int) { played <- scene }})
	w.URL = demo.URL
	visit("/")
	b.tabs("demo")
	visit("/")
	b.to(`[aria-label^="Play scene 2"]`)
	b.do(chromedp.KeyEvent("\r"))
	if scene := <-played; scene != 2 {
		t.Errorf("scene %d is played", scene)
	}
	b.quiet()
}

// TestButtons: in a pause nothing is done until a person has seen the preview and confirmed it.
func TestButtons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{keeper: keeper.Options{Paused: paused},
		page: page.Options{Actions: true, Mode: func() string { return "paused" }}})
	w.until("it was checked", func() bool { return len(w.overview().Clusters) == 1 })
	b := open(t)
	b.do(chromedp.Navigate(w.URL), shows(".hero.bad"))
	b.until(`document.querySelector("h1").textContent === "shop: 3 pod routes missing; packets from subnet appgw to pods on 3 nodes are dropped; 3 changes planned, not made" && document.querySelector(".mode").textContent === "paused"`)
	if past := w.get("/history").body; !strings.Contains(past, "3 routes to create") {
		t.Errorf("the history does not say what is planned, as the command does: %s", past)
	}
	b.do(click(`a[href^="/actions/sync"]`), shows("button.primary"))
	b.shoot("preview")
	if got := eval[string](b,
		`document.querySelector("button.primary").textContent + "|" + document.querySelectorAll("ul.changes li").length`); got != "Make 3 changes|3" {
		t.Errorf("the preview: %s", got)
	}
	b.do(click("button.primary"), shows(".hero.good"))
	b.shoot("done")
	if o := w.overview(); o.Routes != (picture.Counted{All: 6, Correct: 6}) {
		t.Errorf("afterwards: %+v", o.Routes)
	}
	b.do(chromedp.Navigate(w.URL+"/history"), shows(".checks summary"))
	b.shoot("history")
	if got := eval[string](b,
		`document.querySelector(".checks summary").textContent`); !strings.Contains(
		got, "3 routes created") || !strings.Contains(got, "request from") {
		t.Errorf("the history: %s", got)
	}
	b.quiet()
}

// TestPressed: a page that changes between press and release of a mouse waits for the release,
// because a browser makes no click if the element is gone by then.
func TestPressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	w.settled()
	b := open(t)
	b.do(chromedp.Navigate(w.URL), shows(".hero.good"))
	// The keeper reports a change while a button is down. A page that waits for longer than two
	// seconds is swapped, so on a slow machine it is tried again.
	waits := eval[bool](b, `(async () => {
		for (;;) {
			while (loading) await new Promise((next) => setTimeout(next, 20));
			const began = performance.now();
			dispatchEvent(new PointerEvent("pointerdown"));
			await load();
			const waits = newer !== null;
			const took = performance.now() - began;
			dispatchEvent(new PointerEvent("pointerup"));
			if (waits || took < 1500) return waits;
		}
	})()`, chromedp.EvalAwaitPromise)
	if !waits {
		t.Error("the page was swapped under the mouse")
	}
	b.until("newer === null") // swapped after the release
	b.quiet()
}
