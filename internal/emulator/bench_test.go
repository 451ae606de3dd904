package emulator

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// What the emulator must manage on two cores: a kubenet cluster of 400 nodes in 2 s, 1,000 clusters
// of 20 nodes in 1 GiB, and 2,000 GETs of a table of 400 routes per second. Run with
//
//	go test ./internal/emulator -run xxx -bench . -benchtime 1x

const unlimited = 1e9

func quickBench(b testing.TB) *bench {
	e, err := New(withSharedKey(b, Options{
		LogBodies: 100, Buckets: Buckets{Reads: Bucket{Size: unlimited, PerSecond: 1},
			Writes:   Bucket{Size: unlimited, PerSecond: 1},
			Clusters: Bucket{Size: unlimited, PerSecond: 1}},
	}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	c, err := e.Client(DefaultPrincipal)
	if err != nil {
		b.Fatal(err)
	}
	return &bench{e: e, c: c}
}

// must makes a call that has to succeed.
func (b *bench) must(t testing.TB, method string, id arm.ID, body string) {
	if status, answer := b.c.Do(method, id, api, []byte(body)); status >= 300 {
		t.Fatalf("%s %s: %d %.300s", method, id, status, answer)
	}
}

// full makes a kubenet cluster of 400 nodes with a network and returns its table.
func (b *bench) full(t testing.TB) arm.ID {
	b.must(t, http.MethodPut, group, `{"location":"westeurope"}`)
	b.must(t, http.MethodPut, aksID,
		`{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet","podCidr":"10.240.0.0/13","serviceCidr":"172.16.0.0/16"},"agentPoolProfiles":[{"name":"np","mode":"System","count":400}]}}`)
	return b.e.aks.Clusters[aksID.Key()].Table
}

func BenchmarkClusterOf400Nodes(b *testing.B) {
	for b.Loop() {
		full := quickBench(b)
		if table := full.full(b); len(
			kernel.ListAt(full.e.kernel.Store.Get(table).Properties(), "routes")) != 400 {
			b.Fatal("not every node has a route")
		}
	}
	b.ReportMetric(float64(400*b.N)/b.Elapsed().Seconds(), "nodes/s")
}

func BenchmarkThousandClusters(b *testing.B) {
	for b.Loop() {
		many := quickBench(b)
		before := heap()
		many.must(b, http.MethodPut, group, `{"location":"westeurope"}`)
		for i := range 1000 {
			id := arm.ID(fmt.Sprintf("%s%d", aksID, i))
			many.must(b, http.MethodPut, id,
				`{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"np","mode":"System","count":20}]}}`)
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		runtime.KeepAlive(many)
	}
	b.ReportMetric(float64(1000*20*b.N)/b.Elapsed().Seconds(), "nodes/s")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkReadTableOf400Routes(b *testing.B) {
	full := quickBench(b)
	table := full.full(b)
	server := httptest.NewServer(full.e.Public())
	b.Cleanup(server.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	b.Cleanup(transport.CloseIdleConnections)
	const reads = 4000
	var size atomic.Int64
	b.ResetTimer()
	for b.Loop() {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range reads / 8 {
					r, err := http.NewRequest(http.MethodGet, server.URL+string(table)+
						"?api-version="+api, nil)
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Authorization", "Bearer "+full.c.token)
					answer, err := transport.RoundTrip(r)
					if err != nil {
						b.Error(err)
						return
					}
					n, err := io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					if err != nil || answer.StatusCode != http.StatusOK {
						b.Errorf("%d %v", answer.StatusCode, err)
						return
					}
					size.Store(n)
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(reads*b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(size.Load())/(1<<10), "KiB/answer")
}
