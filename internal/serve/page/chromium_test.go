package page_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// TestMain lets tests run side by side: they wait for the browser, and for pages that poll.
func TestMain(m *testing.M) {
	emulatortest.Overlap(4)
	code := m.Run()
	closeChromium()
	os.Exit(code)
}

// browser is a page in headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // its errors and warnings
}

// chromium is one browser for all tests: a start takes a second of the processor. Each test has a
// window with cookies and permissions of its own.
var (
	chromium = sync.OnceValues(func() (context.Context, error) {
		path := ""
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
			if found, err := exec.LookPath(name); err == nil && path == "" {
				path = found
			}
		}
		if path == "" {
			return nil, exec.ErrNotFound
		}
		options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
			chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true))
		ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
		closeChromium = end
		ctx, cancel := chromedp.NewContext(ctx)
		closeChromium = func() { cancel(); end() }
		return ctx, chromedp.Do(ctx)
	})
	closeChromium = func() {}
)

// open opens a browser window. If no browser is installed, the test is skipped, or fails if
// ROUTEKEEPER_NEED_CHROMIUM is set.
func open(t *testing.T) *browser {
	t.Helper()
	ctx, err := chromium()
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("ROUTEKEEPER_NEED_CHROMIUM") == "":
		t.Skip("NOT RUN: Chromium is not installed, so the pages were not tested: apt-get " +
			"install chromium")
	default:
		t.Fatalf("Chromium does not start: %v: apt-get install chromium", err)
	}
	b := &browser{t: t}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext(),
		chromedp.WithListener(func(event any) {
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
	// the window lives as long as the context that opens it
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	b.ctx, cancel = context.WithTimeout(ctx, 6*time.Minute)
	t.Cleanup(cancel)
	b.do(command(emulation.SetFocusEmulationEnabled, // several windows cannot have the focus
		emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	return b
}
