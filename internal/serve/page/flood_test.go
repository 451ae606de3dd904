package page_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/keeper"
)

// TestFlood: 300 pages are open, and 10,000 events (with -short, 2,000) arrive, or more until the
// repair. A route table that another writer takes off a subnet meanwhile is back while they arrive,
// and the pages show it.
func TestFlood(t *testing.T) {
	t.Parallel()
	const pages, senders = 300, 8
	events := int64(10_000)
	if testing.Short() {
		events = 2_000
	}
	const interval = 2 * time.Second
	w := newWorld(t, options{interval: interval, keeper: keeper.Options{}})
	w.settled()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: pages}}
	t.Cleanup(client.CloseIdleConnections)
	var told atomic.Int64 // board events with a version of after the strip
	var after atomic.Uint64
	after.Store(1 << 60)
	opened := make(chan error, pages)
	for range pages {
		go func() {
			answer, err := client.Get(w.URL + "/live?cluster=")
			if err != nil || answer.StatusCode != http.StatusOK {
				opened <- fmt.Errorf("a page could not be opened: %v", err)
				return
			}
			opened <- nil
			defer answer.Body.Close()
			seen := false
			for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
				data, is := strings.CutPrefix(lines.Text(), "data: ")
				var board struct{ Version uint64 }
				if is && json.Unmarshal([]byte(data), &board) == nil &&
					board.Version >= after.Load() && !seen {
					seen = true
					told.Add(1)
				}
			}
		}()
	}
	for range pages {
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	}
	var sent atomic.Int64
	var senderErrors atomic.Int64
	var repaired atomic.Bool // or given up
	defer repaired.Store(true)
	var flood sync.WaitGroup
	for n := range senders {
		flood.Go(func() {
			subject := w.demo.NodeSubnet // of the cluster, or of another one
			if n%2 == 1 {
				subject = w.demo.NodeSubnet.Parent().Child("subnets", "other")
			}
			event := `{"specversion":"1.0","type":"Microsoft.Resources.ResourceWriteSuccess",` +
				`"source":"/","id":"1","subject":"` + string(subject) +
				`","data":{"caller":"flood"}}`
			for sent.Load() < events || !repaired.Load() {
				answer, err := client.Post(w.URL+"/events", "application/cloudevents+json",
					strings.NewReader(event))
				if err != nil || answer.StatusCode >= 300 {
					senderErrors.Add(1)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				sent.Add(1)
			}
		})
	}
	w.until("the flood has begun", func() bool { return sent.Load() > events/20 })
	after.Store(w.overview().Version + 1)
	began := time.Now()
	w.strip(w.demo.NodeSubnet)
	var doc struct {
		Properties struct{ RouteTable *struct{ ID string } }
	}
	for doc.Properties.RouteTable == nil {
		// on a machine that is not busy it takes less than two seconds longer than an interval
		if took := time.Since(began); took > interval+time.Minute {
			t.Fatalf("not repaired after %s, and %d events", took, sent.Load())
		}
		time.Sleep(10 * time.Millisecond)
		w.arm(http.MethodGet, w.demo.NodeSubnet, nil, &doc)
	}
	t.Logf("repaired in %s, after %d events", time.Since(began).Round(time.Millisecond),
		sent.Load())
	repaired.Store(true)
	flood.Wait()
	if n := senderErrors.Load(); n > 0 {
		t.Errorf("%d events were refused", n)
	}
	w.until("all pages know", func() bool { return told.Load() == pages })
}
