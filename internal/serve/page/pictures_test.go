package page_test

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/internal/keeper"
)

var pictures = flag.Bool("pictures", false, "make the pictures in docs/images again")

// TestPictures: the pictures of the page in the documents are there, at the widths of a desktop and
// a phone. go test ./internal/serve/page -run Pictures -pictures makes them: of a cluster whose
// node subnet has lost its route table.
func TestPictures(t *testing.T) {
	sizes := map[string]int64{"page-bad.png": 1280, "page-bad-phone.png": 360}
	dir := filepath.FromSlash("../../../docs/images")
	if *pictures {
		// Slow operations leave the time to look before the table is back.
		w := newWorld(t, options{operation: 8 * time.Second, keeper: keeper.Options{}})
		b := open(t)
		b.do(chromedp.Navigate(w.URL))
		b.until(`document.querySelector(".hero.good") !== null`)
		w.strip(w.demo.NodeSubnet)
		b.until(`document.querySelector("h1").textContent.includes("repair under way")`)
		for name, width := range sizes {
			b.do(chromedp.EmulateViewport(width, 600))
			shot := ask(b, chromedp.FullScreenshot(100))
			if err := os.WriteFile(filepath.Join(dir, name), shot, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if state := eval[string](b,
			`document.querySelector(".hero").className`); state != "hero bad" {
			t.Errorf("the pictures came too late: %s", state)
		}
	}
	for name, width := range sizes {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size, err := png.DecodeConfig(bytes.NewReader(raw))
		if err != nil || int64(size.Width) != width {
			t.Errorf("%s is %d pixels wide, want %d: %v", name, size.Width, width, err)
		}
	}
}
