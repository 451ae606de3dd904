package page_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestWeight: a page with 100 rows and everything that it loads is small when compressed.
func TestWeight(t *testing.T) {
	const most = 60 << 10
	var static strings.Builder
	files, err := filepath.Glob("static/*")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		static.Write(raw)
	}
	w := newSeen(t)
	for i := range 100 {
		w.cluster(i%70, fmt.Sprintf("shop-%02d", i), "kubenet", 3)
		// every second one has lost a route, which is a row with a finding and a change
		if i%2 == 0 {
			w.table(tableID(fmt.Sprintf("shop-%02d-gw-rt", i)),
				[]arm.ID{subnetID("vnet", fmt.Sprintf("shop-%02d-gw", i))})
		}
	}
	w.cluster(75, "large", "kubenet", 100)
	file := filepath.Join(t.TempDir(), "routes"+history.Extension)
	past := history.Open(file, history.Options{})
	for i := range 100 {
		change := plan.Change{Verb: plan.Associate, Cluster: "large", Why: "it was lost",
			Resource: subnetID("vnet", "large-nodes"),
			New:      &plan.Value{RouteTable: tableID("large-rt")}}
		r := keeper.Result{Started: time.Now(), Managed: []string{"large"}, Complete: true,
			Serial: int64(i), Woke: keeper.Cause{By: keeper.ByPoll},
			Changes: []plan.Outcome{{Change: change, State: plan.Done}}}
		past.Intend(r, []plan.Change{change})
		past.Settle(r.Changes)
		past.Record(r, w.s.Snapshot)
	}
	if err := past.Close(); err != nil {
		t.Fatal(err)
	}
	board := page.NewBoard()
	board.Record(w.result(time.Now()))
	h := page.New(board, nil, page.Options{Log: slog.New(slog.DiscardHandler), History: file})
	for path, rows := range map[string]struct {
		what string
		n    int
	}{
		"/": {`class="sentence"`, 40}, "/history?limit=100": {`<details id="r-`, 100},
		"/clusters/large?rows=all": {`node-below"`, 50},
	} {
		a := get(h, path)
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write([]byte(static.String() + a.body))
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(a.body, rows.what); a.status != http.StatusOK || n != rows.n {
			t.Errorf("%s: %d, %d rows", path, a.status, n)
		}
		t.Logf("%s: %d bytes, compressed %d", path, len(a.body)+static.Len(), packed.Len())
		if err != nil || packed.Len() > most {
			t.Errorf("%s takes %d bytes, want %d at most", path, packed.Len(), most)
		}
	}
}
