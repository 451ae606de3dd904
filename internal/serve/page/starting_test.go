package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestStarting: before the first check the page says only what it waits for, afterwards what was
// seen.
func TestStarting(t *testing.T) {
	w := newSeen(t)
	for i := range 25 {
		w.cluster(i, fmt.Sprintf("shop-%02d", i), "kubenet", 2)
	}
	board := page.NewBoard()
	board.Configure(w.configs)
	body := get(pages(board), "/").body
	if !strings.Contains(body, "The first check of 25 clusters is under way") ||
		strings.Contains(body, "not checked yet") || strings.Contains(body, "shop-00") {
		t.Error(body)
	}
	board.Record(w.result(time.Now()))
	if body := get(pages(board), "/").body; strings.Contains(body, "is under way") {
		t.Error("the page still waits")
	}
}
