//go:build chromium

package page_test

import (
	"bytes"
	"flag"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/internal/keeper"
)

var update = flag.Bool("update", false, "make the pictures in docs/images again")

var images = filepath.FromSlash("../../../docs/images")

// fleetPictures are the widths of the pictures that TestFleetInBrowser makes.
var fleetPictures = map[string]int64{"page-fleet.png": 1280, "page-large.png": 1280}

// picture makes a picture for the documents of the whole page.
func (b *browser) picture(name string) {
	b.t.Helper()
	shot := ask(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(images, name), shot, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// TestPictures: the pictures of the page in the documents are there, at the widths of a desktop and
// a phone. go test -tags chromium ./internal/serve/page -run 'Pictures|Fleet' -update makes them:
// of a cluster whose node subnet has lost its route table, and of the fleet scenario
// (TestFleetInBrowser).
func TestPictures(t *testing.T) {
	bad := map[string]int64{"page-bad.png": 1280, "page-bad-phone.png": 360}
	if *update {
		// Slow operations leave the time to look before the table is back.
		w := newWorld(t, options{operation: 8 * time.Second, keeper: keeper.Options{}})
		b := open(t)
		b.do(chromedp.Navigate(w.URL))
		b.until(`document.querySelector(".hero.good") !== null &&
			document.querySelector(".checks").textContent.includes("3 routes created")`)
		w.strip(w.demo.NodeSubnet)
		b.until(`document.querySelector("h1").textContent.includes("repair under way")`)
		for name, width := range bad {
			b.do(chromedp.EmulateViewport(width, 600))
			b.picture(name)
		}
		if state := eval[string](b,
			`document.querySelector(".hero").className`); state != "hero bad" {
			t.Errorf("the pictures came too late: %s", state)
		}
	}
	maps.Copy(bad, fleetPictures)
	for name, width := range bad {
		raw, err := os.ReadFile(filepath.Join(images, name))
		if err != nil {
			t.Fatal(err)
		}
		size, err := png.DecodeConfig(bytes.NewReader(raw))
		if err != nil || int64(size.Width) != width {
			t.Errorf("%s is %d pixels wide, want %d: %v", name, size.Width, width, err)
		}
	}
}
