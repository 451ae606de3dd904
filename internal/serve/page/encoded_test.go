package page_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestEncoded: the JSON of the first page is made once for callers that ask at once, and again when
// something visible changes or after a second. It is compressed only for callers that accept that.
func TestEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSeen(t)
		w.cluster(0, "shop", "kubenet", 3)
		board := page.NewBoard()
		board.Record(w.result(time.Now()))
		handler := pages(board)
		ask := func(encoding string) (o page.Overview, zipped bool) {
			t.Helper()
			r := httptest.NewRequest(http.MethodGet, "/index.json", nil)
			r.Header.Set("Accept-Encoding", encoding)
			a := httptest.NewRecorder()
			handler.ServeHTTP(a, r)
			var in io.Reader = a.Body
			zipped = a.Header().Get("Content-Encoding") == "gzip"
			if zipped {
				z, err := gzip.NewReader(bytes.NewReader(a.Body.Bytes()))
				if err != nil {
					t.Fatal(err)
				}
				in = z
			}
			if err := json.NewDecoder(in).Decode(&o); err != nil {
				t.Fatal(err)
			}
			if vary := strings.Join(a.Header().Values("Vary"), ","); !strings.Contains(vary,
				"Accept-Encoding") || !strings.Contains(vary, "Accept,") {
				t.Errorf("Vary: %s", vary)
			}
			return o, zipped
		}
		first := time.Now()
		for encoding, want := range map[string]bool{"": false, "br": false, "gzip": true,
			"br, GZIP;q=0.1": true, "gzip;q=0": false, "gzip; q=0.0, br": false} {
			if o, zipped := ask(encoding); zipped != want || len(o.Clusters) != 1 ||
				!o.Checked.Equal(first) {
				t.Errorf("%q: compressed %t, %+v", encoding, zipped, o.Counts)
			}
		}
		// A check that shows nothing new is seen after a second.
		time.Sleep(time.Second / 2)
		board.Record(w.result(time.Now()))
		if o, _ := ask(""); !o.Checked.Equal(first) {
			t.Error("it was made twice within a second")
		}
		time.Sleep(time.Second / 2)
		if o, _ := ask("gzip"); o.Checked.Equal(first) {
			t.Error("it is older than a second")
		}
		// What is visible is seen at once.
		board.Say("news")
		if o, _ := ask("gzip"); o.Notice != "news" {
			t.Error("it does not show what is new")
		}
	})
}
