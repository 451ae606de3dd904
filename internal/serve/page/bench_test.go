package page_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// BenchmarkPages renders the first page, its JSON and the page of one cluster, for 1,000 clusters
// with 20 nodes each, after a check of all of them.
func BenchmarkPages(b *testing.B) {
	w := newSeen(b)
	for i := range 1000 {
		w.cluster(i%70, fmt.Sprintf("shop%d", i), "kubenet", 20)
	}
	board := page.NewBoard()
	result := w.result(time.Now())
	board.Record(result)
	handler := pages(board)
	for _, path := range []string{"/", "/index.json", "/clusters/shop7"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				a := get(handler, path)
				if a.status != http.StatusOK {
					b.Fatal(a.body)
				}
				b.ReportMetric(float64(len(a.body)), "bytes")
			}
		})
	}
	// many callers that ask at once, as monitoring does
	for name, again := range map[string]bool{"encoded again": true, "reused": false} {
		b.Run("/index.json "+name, func(b *testing.B) {
			for b.Loop() {
				if again {
					handler = pages(board)
				}
				get(handler, "/index.json")
			}
		})
	}
	b.Run("record", func(b *testing.B) {
		for b.Loop() {
			board.Record(result)
		}
	})
}
