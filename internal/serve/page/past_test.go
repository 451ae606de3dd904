package page_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestPastWords: the words about recorded checks fit what was recorded and what was asked for.
func TestPastWords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "routes"+history.Extension)
	past := history.Open(file, history.Options{})
	w := newSeen(t)
	w.cluster(0, "blue", "kubenet", 3)
	w.cluster(1, "green", "kubenet", 3)
	past.Record(keeper.Result{Started: time.Now(), Managed: []string{"blue", "green"},
		Complete: true, Woke: keeper.Cause{By: keeper.ByPoll}, Findings: []finding.Finding{
			finding.New(finding.SurgeShort, "blue", string(subnetID("vnet", "blue-nodes")),
				"no room")}, Observed: []keeper.Observation{
			{Resource: subnetID("vnet", "blue-nodes")}}}, w.s.Snapshot)
	if err := past.Close(); err != nil {
		t.Fatal(err)
	}
	board := page.NewBoard()
	board.Record(w.result(time.Now()))
	h := page.New(board, nil, page.Options{Log: slog.New(slog.DiscardHandler), History: file})
	for path, c := range map[string]struct{ has, not string }{
		"/history/1":             {"<h3>What was read</h3>", "Before the changes"},
		"/history":               {"surge-does-not-fit", "Show all"},
		"/history?kind=repair":   {">Show all</a>", "surge-does-not-fit"},
		"/history?cluster=green": {"No check matches.", "Nothing was changed"},
		"/clusters/green":        {"Nothing was changed or refused.", "No check matches"},
	} {
		if body := get(h, path).body; !strings.Contains(body, c.has) ||
			strings.Contains(body, c.not) {
			t.Errorf("%s lacks %q, or has %q: %s", path, c.has, c.not, body)
		}
	}
}
