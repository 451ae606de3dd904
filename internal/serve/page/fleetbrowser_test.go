//go:build chromium

package page_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

// listed is a row of the list of clusters, as a person sees it.
type listed struct {
	Name, Chip, Sentence string
	Badges               []string
	Top                  float64
}

// listOfClusters reads the rows that are visible.
const listOfClusters = `[...document.querySelectorAll(".list tbody tr")]
	.filter(r => r.checkVisibility()).map(r => ({
		name: r.querySelector("th a").textContent, chip: r.querySelector(".chip").textContent,
		sentence: r.querySelector(".sentence").textContent,
		badges: [...r.querySelectorAll(".badge")].map(b => b.textContent),
		top: r.getBoundingClientRect().top }))`

// TestFleetInBrowser: at the widths of a desktop, a laptop and a phone no page is wider than the
// screen or endless, the worst clusters stand first with the reason for their symbol, and badges,
// search and copying work.
func TestFleetInBrowser(t *testing.T) {
	t.Parallel()
	w := newFleet(t)
	b := open(t)
	for _, right := range []string{"clipboard-read", "clipboard-write"} {
		b.do(command(cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
			Permission: &cdpbrowser.PermissionDescriptor{Name: right},
			Setting:    cdpbrowser.PermissionSettingGranted}))
	}
	for width, screens := range map[int64]struct{ overview, cluster int }{
		1440: {5, 2}, 1280: {5, 2}, 390: {8, 3},
	} {
		if width == 1440 && os.Getenv("ROUTEKEEPER_FULL") == "" {
			continue // the page is 80 pixels wider than at 1280
		}
		const height = 900
		b.do(chromedp.EmulateViewport(width, height))
		for path, most := range map[string]int{"/clusters/huge-390": screens.cluster,
			"/": screens.overview} {
			b.do(chromedp.Navigate(w.URL + path))
			b.until(`document.querySelector(".hero") !== null`)
			wide := eval[int64](b, "document.documentElement.scrollWidth")
			tall := eval[int](b, "document.documentElement.scrollHeight")
			if wide > width || tall > most*height {
				t.Errorf("at %d pixels %s is %d wide and %d high", width, path, wide, tall)
			}
		}
		b.do(chromedp.Navigate(w.URL + "/"))
		b.until(`document.querySelector(".finding.error pre.command .copy") !== null`)
		b.list(width)
		b.copies(width)
		b.finds(width)
	}
	for _, width := range []int64{1280, 390} {
		b.do(chromedp.EmulateViewport(width, 900))
		for _, path := range []string{"/", "/clusters/huge-390?rows=all"} {
			b.do(chromedp.Navigate(w.URL + path))
			b.until(`document.querySelector(".hero") !== null`)
			b.tabs(fmt.Sprintf("%s at %d pixels", path, width))
		}
	}
	for name, width := range fleetPictures {
		if *update {
			path := "/?state=bad"
			if name == "page-large.png" {
				path = "/clusters/huge-390"
			}
			b.do(chromedp.EmulateViewport(width, 600), chromedp.Navigate(w.URL+path))
			b.until(`document.querySelector(".hero") !== null`)
			b.picture(name)
		}
	}
	b.do(chromedp.EmulateViewport(1440, 900))
	for path, scrolled := range map[string]string{"/": "window",
		"/clusters/huge-390?rows=all": "document.querySelector('.tables .scroll')"} {
		b.do(chromedp.Navigate(w.URL + path))
		b.until(`document.querySelector("thead") !== null`)
		// The table's own top is scrolled away, and its head stays.
		if off := eval[[2]float64](b, `(s => {
			const top = (e) => e.getBoundingClientRect().top;
			const edge = s === window ? 0 : top(s), table = document.querySelector("table");
			s.scrollBy(0, top(table) - edge + 200);
			return [edge - top(table), edge - top(table.querySelector("thead th"))];
		})(`+scrolled+`)`); off[0] < 150 || off[1] > 1 {
			t.Errorf("%s: the table is scrolled by %.0f pixels, its head by %.0f", path, off[0],
				off[1])
		}
	}
	b.quiet()
}

// list checks the order of the rows on the screen, their words, symbols and badges, and the
// counters.
func (b *browser) list(width int64) {
	b.t.Helper()
	all := eval[[]listed](b, listOfClusters)
	if len(all) != 9 || !slices.IsSortedFunc(all, func(a, b listed) int {
		return int(a.Top - b.Top)
	}) {
		b.t.Fatalf("at %d pixels: %d rows: %+v", width, len(all), all)
	}
	for i, want := range []listed{
		{"big-50", "✕", "its route table has no pod routes to its 50 nodes", nil, 0},
		{"shop-05", "✕", "subnet nodes has lost its route table", nil, 0},
		{"shop-06", "✕", "the packets do not reach their node", nil, 0},
		{"shop-07", "✕", "1 pod route missing", nil, 0},
		{"shop-28", "!", "could not be read", []string{"unreachable"}, 0},
		{"shop-09", "!", "subnet nodes has the wrong route table", nil, 0},
	} {
		if got := all[i]; got.Name != want.Name || got.Chip != want.Chip ||
			!strings.Contains(got.Sentence, want.Sentence) ||
			!slices.Equal(got.Badges, want.Badges) {
			b.t.Errorf("at %d pixels row %d is %+v, want %+v", width, i+1, got, want)
		}
	}
	want := []string{"✕ 4 broken", "! 4 at risk", "! 1 not read", "✓ 21 in sync", "1 migrating",
		"1 stopped", "1 unreachable"}
	if got := eval[[]string](b, `[...document.querySelectorAll(".counter")]
		.map(c => c.textContent.trim().replace(/\s+/g, " "))`); !slices.Equal(got, want) {
		b.t.Errorf("at %d pixels the counters are %q, want %q", width, got, want)
	}
}

// copies copies the next step of an error.
func (b *browser) copies(width int64) {
	b.t.Helper()
	// The clipboard wants a key or a mouse button, and a key is not missed when the page moves.
	eval[any](b, `document.querySelector(".finding.error pre.command .copy").focus()`)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector(".finding.error pre.command .copy").textContent === "Copied"`)
	want := eval[string](b, `document.querySelector(".finding.error pre.command code").textContent`)
	if got := ask(b, chromedp.Evaluate[string](`navigator.clipboard.readText()`,
		chromedp.EvalAwaitPromise)); got != want || !strings.HasPrefix(got, "az ") &&
		!strings.HasPrefix(got, "routekeeper ") {
		b.t.Errorf("at %d pixels %q was copied, not %q", width, got, want)
	}
}

// finds searches for a cluster, and selects others by their badge.
func (b *browser) finds(width int64) {
	b.t.Helper()
	names := func() (names []string) {
		for _, l := range eval[[]listed](b, listOfClusters) {
			names = append(names, l.Name)
		}
		return names
	}
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name="q"]`), "HOP-28"))
	b.until(`document.getElementById("said").textContent === "1 of 30 clusters" &&
		document.activeElement.name === "q" && document.activeElement.value === "HOP-28"`)
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name="q"]`), "\r"))
	b.until(`location.search.includes("q=HOP-28") &&
		document.querySelector("#all-clusters")?.textContent === "1 of 30 clusters"`)
	if got := names(); !slices.Equal(got, []string{"shop-28"}) {
		b.t.Errorf("at %d pixels the search finds %v", width, got)
	}
	// A newer page can have another element in the field's place: the rest of it is set up, too.
	if got := eval[bool](b, `(() => {
			document.querySelector('input[name="q"]').focus();
			const kind = 'type="search"';
			swap(document.documentElement.outerHTML.replace(kind, 'type="checkbox"'));
			return document.activeElement.type === "checkbox";
		})()`); !got {
		b.t.Errorf("at %d pixels the focus is lost", width)
	}
	b.do(chromedp.Navigate(b.origin()+"/"), click(`.counter[href$="state=migrating"]`))
	b.until(`location.search === "?state=migrating" && document.querySelector(".list") !== null`)
	if got := names(); !slices.Equal(got, []string{"shop-03"}) {
		b.t.Errorf("at %d pixels the badge selects %v", width, got)
	}
}

// origin is the address of the server of the page that is open.
func (b *browser) origin() string { return eval[string](b, "location.origin") }
