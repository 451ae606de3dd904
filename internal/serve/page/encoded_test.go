package page_test

import (
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestEncoded: the JSON of the first page is made once for callers that ask at once, and again when
// something visible changes or after a second.
func TestEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSeen(t)
		w.cluster(0, "shop", "kubenet", 3)
		board := page.NewBoard()
		board.Record(w.result(time.Now()))
		handler := pages(board)
		ask := func() (o page.Overview) {
			t.Helper()
			decode(t, get(handler, "/index.json"), &o)
			return o
		}
		first := time.Now()
		if o := ask(); len(o.Clusters) != 1 || !o.Checked.Equal(first) {
			t.Errorf("%+v", o.Counts)
		}
		// A check that shows nothing new is seen after a second.
		time.Sleep(time.Second / 2)
		board.Record(w.result(time.Now()))
		if o := ask(); !o.Checked.Equal(first) {
			t.Error("it was made twice within a second")
		}
		time.Sleep(time.Second / 2)
		if o := ask(); o.Checked.Equal(first) {
			t.Error("it is older than a second")
		}
		// What is visible is seen at once.
		board.Say("news")
		if o := ask(); o.Notice != "news" {
			t.Error("it does not show what is new")
		}
	})
}
