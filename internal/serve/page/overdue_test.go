package page_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestCheckedIsTheOldest: the check of one cluster says nothing about the others.
func TestCheckedIsTheOldest(t *testing.T) {
	w := newSeen(t)
	w.cluster(0, "blue", "kubenet", 3)
	w.cluster(1, "green", "kubenet", 3)
	board := page.NewBoard()
	first := time.Now().Add(-time.Hour)
	board.Record(w.result(first))
	part := w.result(time.Now())
	part.Of = []string{"green"}
	board.Record(part)
	var o page.Overview
	decode(t, get(pages(board), "/index.json"), &o)
	if !o.Checked.Equal(first) || o.Clusters[1].Checked.Equal(first) {
		t.Errorf("checked at %s and %s, and blue was at %s", o.Checked, o.Clusters[1].Checked,
			first)
	}
}

// TestOverdue: while no check ends, the page no longer says that anything is correct, and open
// pages are notified.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSeen(t)
		w.cluster(0, "blue", "kubenet", 3)
		w.cluster(1, "green", "kubenet", 3)
		board := page.NewBoard()
		board.Expect(10 * time.Second)
		show := func() (o page.Overview) {
			decode(t, get(pages(board), "/index.json"), &o)
			return o
		}
		board.Record(w.result(time.Now()))
		time.Sleep(59 * time.Second)
		before := show()
		if before.State != page.Good {
			t.Errorf("within a minute: %s %q", before.State, before.Sentence)
		}
		part := w.result(time.Now())
		part.Of = []string{"green"}
		board.Record(part)
		time.Sleep(2 * time.Second)
		after := show()
		if want := "blue: last checked more than 1 min ago; at that time: all 6 pod routes are " +
			"correct"; after.Sentence != want || after.State != page.Unseen ||
			after.Version == before.Version {
			t.Errorf("%s %q, version %d after %d; want %q", after.State, after.Sentence,
				after.Version, before.Version, want)
		}
		part = w.result(time.Now())
		part.Of = []string{"blue"}
		board.Record(part)
		if o := show(); o.State != page.Good || o.Version == after.Version {
			t.Errorf("checked again: %s %q, version %d after %d", o.State, o.Sentence, o.Version,
				after.Version)
		}
		ctx, cancel := context.WithCancel(t.Context())
		live := httptest.NewRecorder()
		go pages(board).ServeHTTP(live, httptest.NewRequest(http.MethodGet, "/live",
			nil).WithContext(ctx))
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait()
		if n := strings.Count(live.Body.String(), "event: board"); n != 2 {
			t.Errorf("an open page got %d versions, want 2: the first one, and the one "+
				"in which both are overdue", n)
		}
		if o := show(); !strings.HasPrefix(o.Sentence,
			"2 of 2 clusters need attention; blue: last checked") {
			t.Errorf("after an hour: %q", o.Sentence)
		}
	})
}

// TestCheckAtHeartbeat: an open page gets each check, also one that ends when its stream sends the
// heartbeat.
func TestCheckAtHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSeen(t)
		w.cluster(0, "blue", "kubenet", 3)
		board := page.NewBoard()
		board.Expect(10 * time.Second)
		board.Record(w.result(time.Now()))
		ctx, cancel := context.WithCancel(t.Context())
		live := httptest.NewRecorder()
		go pages(board).ServeHTTP(live, httptest.NewRequest(http.MethodGet, "/live",
			nil).WithContext(ctx))
		const checks = 40
		for range checks {
			time.Sleep(10 * time.Second) // the stream sends something every 10 seconds
			board.Record(w.result(time.Now()))
		}
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		if n := strings.Count(live.Body.String(), "event: board"); n != checks+1 {
			t.Errorf("it got %d checks, want %d", n-1, checks)
		}
	})
}
