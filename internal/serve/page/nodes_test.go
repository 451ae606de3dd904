package page_test

import (
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

var (
	drawn  = regexp.MustCompile(`(?s)<svg class="wide".*?</svg>`)
	texts  = regexp.MustCompile(`<text class="([a-z -]+)"[^>]*>([^<]*)`)
	routes = regexp.MustCompile(`<path class="route [a-z]+`)
)

// TestPools: the drawing of many nodes sums them up by pool and table, and singles out what is
// broken in a pool that otherwise works.
func TestPools(t *testing.T) {
	target, gateway := tableID("shop-gw-rt"), subnetID("vnet", "shop-gw")
	for name, c := range map[string]struct {
		nodes   int
		missing int
		want    []string // texts in the drawing
		lines   int
	}{
		"few":        {12, 1, []string{"pool 9"}, 24},
		"all right":  {400, 0, []string{"pool: 400 nodes", "400 of 400"}, 2},
		"one broken": {400, 1, []string{"399 of 400 work", "400 of 400", "pool 0"}, 4},
		"many":       {400, 20, []string{"380 of 400 work", "and 12 more, none working"}, 2 + 16},
		"all broken": {400, 400, []string{"0 of 400 work", "400 of 400"}, 2},
	} {
		w := newSeen(t)
		all := w.cluster(0, "shop", "kubenet", c.nodes)
		w.table(target, []arm.ID{gateway}, all[c.missing:]...)
		board := page.NewBoard()
		board.Record(w.result(time.Now()))
		picture := drawn.FindString(get(pages(board), "/clusters/shop").body)
		var said []string
		for _, m := range texts.FindAllStringSubmatch(picture, -1) {
			said = append(said, m[2])
		}
		for _, want := range c.want {
			if !slices.Contains(said, want) {
				t.Errorf("%s: %q is not in %q", name, want, said)
			}
		}
		if n := len(routes.FindAllString(picture, -1)); n != c.lines {
			t.Errorf("%s: %d lines, want %d", name, n, c.lines)
		}
	}
}

// TestBadges: what is special about a cluster is a badge in its row and a counter that selects it.
func TestBadges(t *testing.T) {
	w := newSeen(t)
	for i, name := range []string{"plain", "stopped", "migrating", "unreachable", "silent"} {
		w.cluster(i, name, "kubenet", 2)
	}
	w.s.Clusters[clusterID("stopped").Key()].Stopped = true
	w.s.Clusters[clusterID("migrating").Key()].Migrating = true
	w.unread(clusterID("unreachable"), 503)
	board := page.NewBoard()
	r := w.result(time.Now())
	r.Findings = append(r.Findings,
		finding.New(finding.AzureUnreachable, "silent", "", "Azure does not answer for silent"))
	board.Record(r)
	h := pages(board)
	for badge, want := range map[string][]string{"stopped": {"stopped"}, "paused": nil,
		"migrating": {"migrating"}, "unreachable": {"silent", "unreachable"}} {
		got := rows(get(h, "/?sort=name&state="+badge).body)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", badge, got, want)
		}
		if counted := strings.Contains(get(h, "/").body,
			`href="/?state=`+badge+`"`); counted != (want != nil) {
			t.Errorf("%s has a counter: %t", badge, counted)
		}
	}
	for _, name := range []string{"stopped", "migrating", "unreachable"} {
		if !strings.Contains(get(h, "/clusters/"+name).body,
			`<span class="badge">`+name+`</span>`) {
			t.Errorf("the page of %s has no badge", name)
		}
	}
	if got := rows(get(pausedPages(board), "/?state=paused").body); len(got) != 5 {
		t.Errorf("during a pause: %q", got)
	}
}

// pausedPages are the pages of a keeper that is paused.
func pausedPages(board *page.Board) http.Handler {
	return page.New(board, nil, page.Options{Log: slog.New(slog.DiscardHandler),
		Mode: func() string { return "paused until tomorrow" }})
}
