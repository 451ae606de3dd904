//go:build chromium

package page_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestRemovedWhileOpen: the page of a cluster that is no longer managed says so, and shows the
// cluster when it is back.
func TestRemovedWhileOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{interval: time.Hour})
	made := newSeen(t)
	made.cluster(0, "blue", "kubenet", 3)
	made.cluster(1, "green", "kubenet", 3)
	board := page.NewBoard()
	board.Record(made.result(time.Now()))
	var mode atomic.Value
	mode.Store("")
	w.serve(board, page.Options{Mode: func() string { return mode.Load().(string) }})
	b := open(t)
	b.do(chromedp.Navigate(w.URL+"/clusters/green"), shows(".hero.good"))
	both := made.configs
	made.configs = both[:1]
	board.Record(made.result(time.Now()))
	b.until(`document.querySelector("h1").textContent.includes("No managed cluster has the name green")`)
	if heard := eval[string](b, "said.textContent"); !strings.Contains(heard,
		"No managed cluster has the name green") {
		t.Errorf("a screen reader says %q", heard)
	}
	made.configs = both
	mode.Store("paused")
	board.Record(made.result(time.Now()))
	b.until(`document.querySelector("h1").textContent.includes("all 6 pod routes are correct")`)
	if !eval[bool](b, `mode.checkVisibility() && mode.textContent === "paused"`) {
		t.Error("the page does not say that the keeper is paused by now")
	}
	// A hidden page needs no connection. When it is visible again, it is up to date.
	eval[bool](b, `Object.defineProperty(document, "hidden", { value: true, configurable: true });
		document.dispatchEvent(new Event("visibilitychange"))`)
	if !eval[bool](b, "stream === null") {
		t.Error("a hidden page keeps its connection")
	}
	made.subnet(subnetID("vnet", "green-nodes"), "10.1.0.0/16", "")
	board.Record(made.result(time.Now()))
	eval[bool](b, `delete document.hidden; document.dispatchEvent(new Event("visibilitychange"))`)
	b.until(`document.querySelector(".hero.bad") !== null`)
	// Without the keeper, the page shows nothing as known.
	if err := w.server.Close(); err != nil {
		t.Fatal(err)
	}
	b.until(`document.body.classList.contains("lost") &&
		getComputedStyle(main).filter !== "none" &&
		said.textContent === "no connection to the keeper"`)
}
