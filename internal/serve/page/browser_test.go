//go:build chromium

package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// browser is a page in headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // its errors and warnings
}

// open opens a browser.
func open(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Fatal("Chromium is not installed: apt-get install chromium")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	b := &browser{t: t}
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(func(event any) {
		text := ""
		switch e := event.(type) {
		case *cdpruntime.EventExceptionThrown:
			text = fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *cdplog.EventEntryAdded: // includes what the Content-Security-Policy prevents
			if e.Entry.Level == cdplog.EntryLevelError ||
				e.Entry.Level == cdplog.EntryLevelWarning {
				text = e.Entry.Text + " " + e.Entry.URL
			}
		}
		if text != "" {
			b.mu.Lock()
			b.wrong = append(b.wrong, text)
			b.mu.Unlock()
		}
	}))
	t.Cleanup(cancel)
	// the browser lives as long as the context that starts it
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	b.ctx, cancel = context.WithTimeout(ctx, 6*time.Minute)
	t.Cleanup(cancel)
	return b
}

type step = chromedp.Action[chromedp.Void]

// do performs steps. A live page can remove an element between finding and clicking it, as it can
// for a person: the step is then repeated.
func (b *browser) do(steps ...step) {
	b.t.Helper()
	for _, s := range steps {
		err := chromedp.Do(b.ctx, s)
		for tries := 0; tries < 5 && err != nil &&
			strings.Contains(err.Error(), "Could not find node"); tries++ {
			err = chromedp.Do(b.ctx, s)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// reading makes an action that only reads the page go on if the browser leaves the page meanwhile.
func reading[T any](action chromedp.Action[T]) chromedp.Action[T] {
	return func(ctx context.Context, t *chromedp.Target) (value T, err error) {
		for range 20 {
			if value, err = action(ctx, t); err == nil ||
				!strings.Contains(err.Error(), "Inspected target navigated or closed") {
				break
			}
		}
		return value, err
	}
}

// ask returns the result of an action that only reads the page.
func ask[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, reading(action))
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	return ask(b, chromedp.Evaluate[T](expression, options...))
}

// command is a step that chromedp has no name for.
func command[P, R any](c cdp.Command[P, R], parameters P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, parameters)
		return err
	})
}

func shows(selector string) step { return reading(chromedp.WaitVisible(chromedp.CSS(selector))) }

// click clicks an element once it can be seen, wherever a live page moves it meanwhile.
func click(selector string) step {
	gesture := func(p *cdpruntime.EvaluateParams) { p.UserGesture = new(true) }
	expression := fmt.Sprintf("(e => !!e?.checkVisibility() && (e.click(), true))("+
		"document.querySelector(%q))", selector)
	return func(ctx context.Context, t *chromedp.Target) (done chromedp.Void, err error) {
		for clicked := false; err == nil && !clicked; {
			clicked, err = reading(chromedp.Evaluate[bool](expression, gesture))(ctx, t)
			if err == nil && !clicked {
				_, err = chromedp.Sleep(30*time.Millisecond)(ctx, t)
			}
		}
		return done, err
	}
}

// quiet checks that the browser has reported no errors.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) > 0 {
		b.t.Errorf("the browser says: %s", strings.Join(b.wrong, "\n"))
	}
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !eval[bool](b,
		expression); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not within a minute: %s; the page says %q", expression,
				eval[string](b, "document.body.innerText"))
		}
	}
}

// shoot takes a screenshot of the whole page in the folder of ROUTEKEEPER_SCREENSHOTS, if it is
// set: at the widths of a desktop and of a phone, light and dark. It checks each for content that
// sticks out.
func (b *browser) shoot(name string) {
	b.t.Helper()
	for _, size := range []struct {
		name  string
		width int64
	}{{"desktop", 1280}, {"phone", 360}} {
		for _, scheme := range []string{"light", "dark"} {
			b.do(chromedp.EmulateViewport(size.width, 800),
				command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{
						{Name: "prefers-color-scheme", Value: scheme}}}))
			if over := eval[int](b,
				"document.documentElement.scrollWidth - "+
					"document.documentElement.clientWidth"); over > 0 {
				b.t.Errorf("%s sticks out by %d pixels at a width of %d: %s", name, over,
					size.width,
					eval[string](b, `[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll, svg")).map(e => e.tagName + "." + e.className).join(", ")`))
			}
			if dir := os.Getenv("ROUTEKEEPER_SCREENSHOTS"); dir != "" {
				png := ask(b, chromedp.FullScreenshot(100))
				if err := os.WriteFile(filepath.Join(dir,
					fmt.Sprintf("%s-%s-%s.png", name, size.name, scheme)), png, 0o644); err != nil {
					b.t.Fatal(err)
				}
			}
		}
	}
	b.do(chromedp.EmulateViewport(1280, 800))
}

// watch makes the page record everything that it shows, and that it was not loaded again in
// between.
const watch = `
window.story = [];
window.note = () => {
  const now = { notice: document.querySelector(".notice")?.textContent || "", findings: [...document.querySelectorAll(".finding .about code")].map(e => e.textContent), state: document.querySelector(".hero").classList[1], sentence: document.querySelector("h1").textContent,
    lost: document.querySelectorAll("svg.wide path.association.lost").length, carry: document.querySelectorAll("svg.wide path.route.works").length,
    broken: document.querySelectorAll("svg.wide path.route:not(.works)").length, rows: document.querySelectorAll(".compare tbody tr").length };
  const text = JSON.stringify(now);
  if (text !== window.last) { window.last = text; window.story.push(now); }
};
new MutationObserver(window.note).observe(document.getElementById("main"), { childList: true, subtree: true, characterData: true });
window.note();
true`

// moment is what the page showed at one time.
type moment struct {
	Notice, State, Sentence   string
	Findings                  []string
	Lost, Carry, Broken, Rows int
}

// TestStory: the page stays open while a cluster changes. A strip turns it red, and the repair
// green again, without a reload.
func TestStory(t *testing.T) {
	// The repair waits until the page has shown what is wrong, however slow this machine is.
	var stripped atomic.Bool
	seen := make(chan struct{})
	w := newWorld(t, options{keeper: keeper.Options{}, planned: func() {
		if stripped.Load() {
			select {
			case <-seen:
			case <-t.Context().Done():
			}
		}
	}})
	w.settled()
	b := open(t)
	b.do(chromedp.Navigate(w.URL), shows(".hero.good"))
	b.shoot("good")
	eval[bool](b, watch)
	story := func() []moment {
		var all []moment
		raw := eval[string](b, "JSON.stringify(window.story)")
		// a reloaded page has lost its record
		if err := json.Unmarshal([]byte(raw), &all); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		return all
	}
	if now := story()[0]; now.Sentence != "All 6 pod routes are correct on 1 cluster" ||
		now.Carry != 6 || now.Broken+now.Lost != 0 {
		t.Errorf("at first: %+v", now)
	}
	stripped.Store(true)
	w.strip(w.demo.NodeSubnet)
	b.until(`window.story.some(m => m.state === "bad")`)
	b.shoot("bad")
	close(seen)
	b.until(`window.story.at(-1).state === "good"`)
	bad := slices.IndexFunc(story(), func(m moment) bool { return m.State == page.Bad })
	if m := story()[bad]; m.Lost != 1 || m.Carry != 3 || m.Broken != 3 ||
		m.Sentence != "shop: subnet nodes has lost its route table; packets from nodes and pods "+
			"to pods on 3 nodes are dropped; egress of subnet nodes: dropped, it must go "+
			"by 10.42.3.4; repair under way" {
		t.Errorf("while it was stripped: %+v", m)
	}
	if m := story()[len(story())-1]; m.Carry != 6 || m.Broken+m.Lost != 0 {
		t.Errorf("afterwards: %+v", m)
	}
	b.until(`document.querySelector(".checks summary").textContent.includes("1 subnet associated")`)
	b.quiet()
}

// upToDate waits until the page shows the latest version of a board. It gives up after a minute.
func (b *browser) upToDate(w *world) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(
		30 * time.Millisecond) {
		shown, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("main.dataset.version"))
		if err != nil || shown == fmt.Sprint(w.overview().Version) {
			return
		}
	}
}

// shownKeeper reports the checks of a demo to a board. A check with other findings waits until the
// page shows them: the scene goes on without a change.
type shownKeeper struct {
	*keeper.Keeper
	board *page.Board
	shown func()
	found []finding.Code
}

func (k *shownKeeper) Reconcile(ctx context.Context) (keeper.Result, error) {
	r, err := k.Keeper.Reconcile(ctx)
	if err != nil {
		return r, err
	}
	k.board.Record(r)
	var found []finding.Code
	for _, f := range r.Findings {
		found = append(found, f.Code)
	}
	if !slices.Equal(found, k.found) {
		k.found = found
		k.shown()
	}
	return r, nil
}

// TestDemo: a page that is opened once shows the whole demo.
func TestDemo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{interval: time.Hour})
	board := page.NewBoard()
	w.serve(board, page.Options{})
	b := open(t)
	b.do(chromedp.Navigate(w.URL), shows(".hero.unseen"))
	eval[bool](b, watch)
	var seen [10][]moment // by scene
	note := func() {
		var all []moment
		if err := json.Unmarshal([]byte(eval[string](b, "JSON.stringify(window.story.splice(0))")),
			&all); err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			n := 0
			if _, err := fmt.Sscanf(m.Notice, "Scene %d", &n); err == nil {
				seen[n] = append(seen[n], m)
			}
		}
	}
	ok, err := demo.Run(b.ctx, demo.Options{
		Dir: t.TempDir(), RouteBatch: 300 * time.Millisecond,
		Patience: func(string) time.Duration { return 2 * time.Minute },
		NewKeeper: func(info emulator.Info, configs []v1alpha1.ClusterRoutes) (demo.Keeper, error) {
			client, err := emulatortest.Connect(info)
			if err != nil {
				return nil, err
			}
			planned := func(r keeper.Result) { // the changes wait until the page shows them
				board.Planned(r)
				b.upToDate(w)
			}
			return &shownKeeper{board: board, shown: func() { b.upToDate(w) },
				Keeper: keeper.New(client, configs, keeper.Options{Planned: planned})}, nil
		},
		Playing: func(s demo.Scene, n, of int) {
			b.upToDate(w)
			note()
			board.Say(fmt.Sprintf("Scene %d of %d: %s.", n, of, s.Title))
		},
	})
	if err != nil || !ok {
		t.Fatalf("the demo: %v, %v", ok, err)
	}
	b.upToDate(w)
	note()
	for n, want := range map[int]struct {
		carry int    // at the end of the scene
		wrong string // the sentence in between
		find  string // a finding in between
	}{
		1: {6, "3 pod routes missing", ""}, 2: {12, "pod route", ""}, 3: {12, "subnets nodes and " +
			"appgw have lost their route tables; packets from nodes, pods and subnet", ""},
		4: {12, "1 pod route wrong", ""}, 5: {14, "1 pod route missing", ""}, 6: {
			4, "5 pod routes stale", ""}, 7: {4, "no pod routes to its 2 nodes; 2 routes to them " +
			"in other tables stay", "deletes-withheld"},
		8: {4, "egress of subnet nodes: bypasses 10.50.3.4 by default outbound access", ""},
		9: {4, "", ""},
	} {
		story := seen[n]
		if len(story) == 0 {
			t.Errorf("scene %d was not seen", n)
			continue
		}
		if last := story[len(story)-1]; last.State != page.Good || last.Carry != want.carry ||
			last.Broken+last.Lost != 0 {
			t.Errorf("scene %d ends with %+v", n, last)
		}
		if slices.ContainsFunc(story, func(m moment) bool {
			return strings.HasPrefix(m.Sentence, "2 of 2 clusters") // each scene changes one
		}) {
			t.Errorf("scene %d: %+v", n, story)
		}
		repaired := n == 6 || n == 8 // nothing is broken
		if !slices.ContainsFunc(story, func(m moment) bool {
			return strings.Contains(m.Sentence, want.wrong) &&
				(want.wrong == "" || m.State == page.Bad || repaired && m.State == page.Busy) &&
				(want.find == "" || slices.Contains(m.Findings, want.find))
		}) {
			t.Errorf("scene %d: %q %s was not seen in %+v", n, want.wrong, want.find, story)
		}
	}
	b.quiet()
}

// TestOpenStaysOpen: opened and focused elements stay so when the page changes.
func TestOpenStaysOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	w.settled()
	b := open(t)
	b.do(chromedp.Navigate(w.URL), shows(".hero.good"),
		click(".checks summary"), shows(".checks details[open] .check"),
		chromedp.Focus(chromedp.CSS(".cluster h2 a")))
	if lined := eval[int](b, `[...document.querySelectorAll(".check li")].filter(
		e => getComputedStyle(e).borderBottomWidth !== "0px").length`); lined > 0 {
		t.Errorf("%d lines between the parts of a check look like lines between checks", lined)
	}
	opened := eval[string](b, `document.querySelector(".checks details[open]").id`)
	version := eval[string](b, "main.dataset.version")
	w.strip(w.demo.GatewaySubnet)
	b.until(fmt.Sprintf("main.dataset.version !== %q && document.querySelectorAll('.checks > "+
		"li').length > 1 && document.querySelector('.hero.good') !== null", version))
	if !eval[bool](b, fmt.Sprintf("document.getElementById(%q).open", opened)) {
		t.Errorf("%s has closed", opened)
	}
	if got := eval[string](b, "document.activeElement.textContent"); got != "shop" {
		t.Errorf("the focus is on %q", got)
	}
	b.quiet()
}

// TestKeyboard: everything can be reached by keyboard and has a name for a screen reader.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{page: page.Options{Actions: true}})
	w.settled()
	b := open(t)
	b.do(chromedp.Navigate(w.URL), shows(".hero.good"))
	// times change
	const name = `(e.textContent.trim() || e.getAttribute("aria-label")).replace(/now|\d+ s ago/, "")`
	want := eval[[]string](b,
		`[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")].filter(e => e.checkVisibility()).map(e => `+name+`)`)
	var got []string
	for range want {
		b.do(chromedp.KeyEvent("\t"))
		got = append(got, eval[string](b, `(e => `+name+`)(document.activeElement)`))
	}
	if !slices.Equal(got, want) || len(got) < 10 {
		t.Errorf("by Tab one comes to %q, and not to %q", got, want)
	}
	// only links and buttons are named by their text
	if nameless := eval[[]string](b, `[...document.querySelectorAll(
		"a, button, input:not([type=hidden]), select, svg, section, [role=region]")]
		.filter(e => !(e.matches("a, button") && e.textContent.trim()) && !e.labels?.length &&
			!e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby") &&
			!e.classList.contains("hero")).map(e => e.outerHTML.slice(0, 80))`); len(nameless) > 0 {
		t.Errorf("without a name: %q", nameless)
	}
	if label := eval[string](b,
		`document.querySelector("svg").getAttribute("aria-label")`); !strings.Contains(
		label, "route table appgw-rt with 3 pod routes working") {
		t.Errorf("the drawing is called %q", label)
	}
	b.quiet()
}

// TestWithoutScript: the pages show the same without a script, and reload by themselves.
func TestWithoutScript(t *testing.T) {
	var log lockedBuffer
	w := newWorld(t, options{log: slog.New(slog.NewTextHandler(&log, nil))})
	w.settled()
	b := open(t)
	b.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{
		Value: true}), chromedp.Navigate(w.URL), shows(".hero.good"),
		chromedp.WaitReady(chromedp.CSS("noscript meta[http-equiv=refresh]")))
	text := ask(b, chromedp.Text(chromedp.CSS("main")))
	for _, want := range []string{"All 6 pod routes are correct on 1 cluster", "10.244.2.0/24",
		"10.42.1.6", "shop-rt", "3 routes created"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page: %s", want, text)
		}
	}
	// A button works, too.
	b.do(click(".hero button"))
	w.until("a check is requested", func() bool {
		return strings.Contains(log.String(), `action="check now"`)
	})
	b.do(shows(".hero.good"))
	b.quiet()
}
