package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: nothing for a second, then one line that is redrawn only when it changes, and
// disappears.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		p := &progress{w: &screen, terminal: true, doing: "looking", start: time.Now(),
			stopped: make(chan struct{})}
		go p.run(ctx)
		shown := func() string {
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			defer screen.Reset()
			return screen.String()
		}
		time.Sleep(900 * time.Millisecond)
		if got := shown(); got != "" {
			t.Errorf("too early: %q", got)
		}
		time.Sleep(700 * time.Millisecond)
		if got := shown(); got != "\r\x1b[Klooking … 1.0 s" {
			t.Errorf("after a second: %q", got)
		}
		w := &waiting{}
		p.mu.Lock()
		p.waiting = w
		p.mu.Unlock()
		ends := w.begins("GET", "/subscriptions/s/resourceGroups/g/providers/x/routeTables/t")
		w.read(12, 30, "clusters")
		time.Sleep(1100 * time.Millisecond)
		if got := shown(); !strings.HasSuffix(got,
			"looking, 12 of 30 clusters, waiting for GET routeTables/t (1 s) … 2.0 s") {
			t.Errorf("a slow call: %q", got)
		}
		w.read(30, 30, "clusters")
		ends()
		p.logger().With("in", "shop").Debug("writing", "resource", "shop-vnet/nodes\nx")
		time.Sleep(200 * time.Millisecond)
		if got := shown(); got != "\r\x1b[Kwriting shop shop-vnet/nodes x … 2.0 s" {
			t.Errorf("what goes on now: %q", got)
		}
		cancel()
		if got := shown(); !strings.Contains(got, leaving) {
			t.Errorf("interrupted: %q", got)
		}
		p.logger().Info("waiting")
		time.Sleep(time.Second)
		if got := shown(); !strings.Contains(got, leaving) {
			t.Errorf("later: %q", got)
		}
		p.stop()
		p.stop()
		if got := shown(); got != "\r\x1b[K" {
			t.Errorf("at the end: %q", got)
		}
	})
	// Elsewhere only important lines.
	var out bytes.Buffer
	p := (&app{err: &out}).progress(t.Context(), "looking")
	p.logger().Info("nothing of note")
	p.logger().Warn("waiting", "for", "30s")
	p.stop()
	if out.String() != "routekeeper: waiting 30s\n" {
		t.Errorf("off a terminal: %q", out.String())
	}
}
