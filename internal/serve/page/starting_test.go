package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestStarting: before the first check the page says what is configured and what it waits for,
// afterwards what was seen.
func TestStarting(t *testing.T) {
	w := newSeen(t)
	for i := range 25 {
		w.cluster(i, fmt.Sprintf("shop-%02d", i), "kubenet", 2)
	}
	board := page.NewBoard()
	board.Expect(10 * time.Second)
	board.Configure(w.configs)
	body := get(pages(board), "/").body
	for _, want := range []string{"The first check of 25 clusters is under way",
		"Waiting for Azure", "every 10s", ">shop-00<", ">shop-19<", "and 5 more",
		">shop-00-gw-rt<", "are repaired", "the node subnets and 1 more"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if strings.Contains(body, "not checked yet") || strings.Contains(body, ">shop-20<") {
		t.Errorf("the page is too long: %s", body)
	}
	board.Record(w.result(time.Now()))
	if body := get(pages(board), "/").body; strings.Contains(body, "Waiting for Azure") {
		t.Error("the page still waits")
	}
}
