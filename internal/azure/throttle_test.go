package azure_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestYielding: if few tokens are left, a read that yields waits, and one that does not goes out at
// once and finds tokens. Nothing is throttled.
func TestYielding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{Buckets: emulator.Buckets{
			Reads: emulator.Bucket{Size: 250, PerSecond: 25}, Writes: emulator.Bucket{Size: 1e6,
				PerSecond: 1},
		}})
		ids := tables(t, e, 12, 40, 40)
		if _, err := e.Inject(emulator.Fault{Path: "routeTables$", Status: 403,
			Code: "AuthorizationFailed", Count: -1,
			Principal: emulatortest.Keeper.Name}); err != nil {
			t.Fatal(err)
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		read := func(yield bool, ids ...arm.ID) time.Duration {
			start, s := time.Now(), inventory.NewSnapshot()
			if err := c.Read(t.Context(), s, inventory.Wanted{Tables: ids},
				azure.ReadOptions{Poll: yield}); err != nil || len(s.Tables) != len(ids) {
				t.Errorf("%d tables of %d, %v", len(s.Tables), len(ids), err)
			}
			return time.Since(start)
		}
		since := e.LastRequest()
		var polls sync.WaitGroup
		polls.Go(func() { read(true, ids...) })
		time.Sleep(5 * time.Second)
		for range 20 {
			if took := read(false, ids[0]); took > 100*time.Millisecond {
				t.Errorf("a read that does not yield took %s", took)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if took := read(true, ids[0]); took < 500*time.Millisecond {
			t.Errorf("one that yields went before the others: it took %s", took)
		}
		polls.Wait()
		for _, r := range e.Requests(since) {
			if r.Status == 429 {
				t.Fatalf("ran into the limit at request %d", r.N)
			}
		}
	})
}

// TestWithin: a call without an answer in time is given up, and its resource is late. The others
// are read.
func TestWithin(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"hangs": {Hold: "before"}, "fails": {Status: 503, Code: "ServiceUnavailable"},
		"is put off": {Status: 429, Code: "SubscriptionRequestsThrottled", RetryAfter: 30},
		"is cut":     {Cut: "before"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{Buckets: emulator.Buckets{
					Writes: emulator.Bucket{Size: 1e6, PerSecond: 1}}})
				ids := tables(t, e, 2, 1, 1)
				fault.Path, fault.Count, fault.Principal = string(ids[0])+
					"$", -1, emulatortest.Keeper.Name
				if _, err := e.Inject(fault); err != nil {
					t.Fatal(err)
				}
				if _, err := e.Inject(emulator.Fault{Path: "routeTables$", Status: 403,
					Code: "AuthorizationFailed", Count: -1,
					Principal: emulatortest.Keeper.Name}); err != nil {
					t.Fatal(err)
				}
				c := emulatortest.Client(t, e, emulatortest.Keeper)
				start, s := time.Now(), inventory.NewSnapshot()
				if err := c.Read(t.Context(), s, inventory.Wanted{Tables: ids},
					azure.ReadOptions{Wait: 3 * time.Second}); err != nil {
					t.Fatal(err)
				}
				u := s.Unread[ids[0].Key()]
				if took := time.Since(start); took > 3*time.Second+50*time.Millisecond ||
					u.Late != (name == "hangs") || name != "hangs" && u.Status != fault.Status ||
					s.Table(ids[0]) != nil {
					t.Errorf("it took %s: %+v", took, u)
				}
				if name != "is put off" && s.Table(ids[1]) == nil {
					t.Errorf("the other one is not read: %+v", s.Unread)
				}
			})
		})
	}
}

// TestWithinList: a list without an answer counts from when it goes out, as a call for one resource
// does. It does not hold up what else is read.
func TestWithinList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		demo, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range []string{"routeTables", "managedClusters"} {
			if _, err := e.Inject(emulator.Fault{Method: "GET", Path: list + "$", Hold: "before",
				Count: -1, Principal: emulatortest.Keeper.Name}); err != nil {
				t.Fatal(err)
			}
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		start, s := time.Now(), inventory.NewSnapshot()
		if err := c.Read(t.Context(), s, inventory.Wanted{
			Clusters: []arm.ID{demo.Cluster, demo.Cluster + "2"},
			Tables:   []arm.ID{demo.ClusterTable, demo.GatewayTable},
			Subnets:  []arm.ID{demo.NodeSubnet},
		}, azure.ReadOptions{Wait: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 3*time.Second+50*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		for _, id := range []arm.ID{demo.Cluster, demo.ClusterTable, demo.GatewayTable} {
			if !s.Unread[id.Key()].Late {
				t.Errorf("%s is not late: %+v", id.Short(), s.Unread[id.Key()])
			}
		}
		if s.Subnet(demo.NodeSubnet) == nil {
			t.Errorf("the subnet is not read: %+v", s.Unread)
		}
	})
}

// refusing answers some calls itself: a number of the first calls with a matching method and path.
type refusing struct {
	method, suffix string
	status, count  int
	header         map[string]string
	body           string
	next           http.RoundTripper
	mu             sync.Mutex
	matched        []time.Time
}

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	matches := request.Method == r.method && strings.HasSuffix(request.URL.Path, r.suffix)
	if matches {
		r.matched = append(r.matched, time.Now())
	}
	n := len(r.matched)
	r.mu.Unlock()
	if !matches || n > r.count {
		return r.next.RoundTrip(request)
	}
	response := &http.Response{StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Request: request,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(r.body))}
	for name, value := range r.header {
		response.Header.Set(name, value)
	}
	return response, nil
}

// TestProviderThrottled: a 429 holds calls to the resource provider that throttles, and to no
// other. A 429 with ARM's code, or without remaining tokens, holds the subscription. A 429 about a
// busy resource holds nothing.
func TestProviderThrottled(t *testing.T) {
	const aks = `{"code":"TooManyRequests","message":"The request is being throttled as the limit has been reached for operation type - get managed cluster."}`
	held := 30 * time.Second // and then a probe goes out
	for name, tt := range map[string]struct {
		body, left string
		// how long reads of a table, another cluster and another subscription take
		table, other, inNext time.Duration
	}{
		"provider":         {aks, "", 0, held, 0},
		"tokens remain":    {aks, "11998", 0, held, 0},
		"no tokens remain": {aks, "0", held, held, 0},
		"ARM's code": {
			`{"error":{"code":"SubscriptionRequestsThrottled","message":"Number of 'read' requests for subscription"}}`, "", held, held, 0},
		"a busy resource": {
			`{"error":{"code":"RetryableError","message":"A retryable error occurred."}}`, "", 0, 0,
			0},
		"busy, in details": {
			`{"error":{"code":"TooBusy","details":[{"code":"RetryableErrorDueToAnotherOperation","message":"Operation"}]}}`, "", 0, 0, 0},
		"no body, no words": {"", "", 0, held, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{})
				table := tables(t, e, 1, 1, 1)[0]
				cluster := arm.ResourceID(sub, "g0", arm.TypeCluster, "shop")
				throttled := &refusing{method: "GET", suffix: string(cluster), status: 429,
					count: 1, body: tt.body, header: map[string]string{"Retry-After": "60"},
					next: emulatortest.Transport(t, e)}
				if tt.left != "" {
					throttled.header["x-ms-ratelimit-remaining-subscription-global-reads"] = tt.left
				}
				c := emulatortest.ClientOver(t, throttled, e, emulatortest.Keeper)
				read := func(w inventory.Wanted) time.Duration {
					start := time.Now()
					if err := c.Read(t.Context(), inventory.NewSnapshot(), w,
						azure.ReadOptions{}); err != nil {
						t.Error(err)
					}
					return time.Since(start)
				}
				var reads sync.WaitGroup
				defer reads.Wait()
				reads.Go(func() { read(inventory.Wanted{Clusters: []arm.ID{cluster}}) })
				time.Sleep(time.Millisecond)
				check := func(what string, want time.Duration, w inventory.Wanted) {
					reads.Go(func() {
						if took := read(w); took > want+time.Second || took < want-time.Second {
							t.Errorf("%s: took %s, want %s", what, took, want)
						}
					})
				}
				other := arm.ResourceID(sub, "g1", arm.TypeCluster, "play")
				elsewhere := arm.ResourceID("00000000-0000-4000-8000-00000000000e", "g1",
					arm.TypeCluster, "play")
				check("a table", tt.table, inventory.Wanted{Tables: []arm.ID{table}})
				check("another cluster", tt.other, inventory.Wanted{Clusters: []arm.ID{other}})
				check("another subscription", tt.inNext,
					inventory.Wanted{Clusters: []arm.ID{elsewhere}})
			})
		})
	}
}

// TestProbe: Azure throttles for a day, and one call goes out each half minute. Calls that do not
// yield go first. The first answer other than 429 lets all of them out.
func TestProbe(t *testing.T) {
	for _, code := range []string{"SubscriptionRequestsThrottled", "TooManyRequests"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{})
				ids := tables(t, e, 6, 1, 1)
				c := emulatortest.Client(t, e, emulatortest.Keeper)
				fix, err := e.Inject(emulator.Fault{Method: "GET", Count: -1, Status: 429,
					Code: code, RetryAfter: 86400})
				if err != nil {
					t.Fatal(err)
				}
				read := func(poll bool, id arm.ID) (took time.Duration, read bool) {
					start, s := time.Now(), inventory.NewSnapshot()
					if err := c.Read(t.Context(), s, inventory.Wanted{Tables: []arm.ID{id}},
						azure.ReadOptions{Poll: poll}); err != nil {
						t.Error(err)
					}
					return time.Since(start), s.Table(id) != nil
				}
				start, since := time.Now(), e.LastRequest()
				var reads sync.WaitGroup
				var mu sync.Mutex
				var order []arm.ID
				for i, id := range ids {
					reads.Go(func() {
						took, read := read(i < 5, id)
						if !read || took > 61*time.Second {
							t.Errorf("%s after %s: read %t", id.Name(), took, read)
						}
						mu.Lock()
						defer mu.Unlock()
						order = append(order, id)
					})
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(40*time.Second - time.Since(start))
				if sent := e.Requests(since); len(sent) != 2 ||
					sent[1].Time.Sub(sent[0].Time) != 30*time.Second ||
					!ids[5].Equal(arm.ID(sent[1].Path)) {
					t.Errorf("%d calls, want the first one and the probe of the one that does "+
						"not yield", len(sent))
				}
				s := inventory.NewSnapshot()
				if err := c.Read(t.Context(), s, inventory.Wanted{Tables: ids[:1]},
					azure.ReadOptions{Wait: time.Second}); err != nil {
					t.Error(err)
				}
				if u := s.Unread[ids[0].Key()]; u.Code != code ||
					!strings.HasSuffix(u.Message, ", for another 4m50s") {
					t.Errorf("put off: %+v", u) // five minutes from the probe on, not a day
				}
				fix()
				reads.Wait()
				if took := time.Since(start); took > 61*time.Second {
					t.Errorf("blind for %s", took)
				}
				if took, _ := read(true, ids[0]); took > 0 {
					t.Errorf("still held, for %s", took)
				}
			})
		})
	}
}

// TestGlobalTokens: if ARM reports only the tokens of the whole subscription, they count.
func TestGlobalTokens(t *testing.T) {
	for left, want := range map[string]time.Duration{"3000": 0, "10": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			e := emulatortest.New(t, emulator.Options{})
			answers := &refusing{method: "GET", status: 404, count: 1000,
				body:   `{"error":{"code":"NotFound"}}`,
				header: map[string]string{"x-ms-ratelimit-remaining-subscription-global-reads": left}}
			c := emulatortest.ClientOver(t, answers, e, emulatortest.Keeper)
			start := time.Now()
			for i := range 27 { // one goes at once, and one more after ARM's answer
				id := arm.ResourceID(sub, "g", arm.TypeRouteTable, fmt.Sprint("t", i))
				if err := c.Read(t.Context(), inventory.NewSnapshot(),
					inventory.Wanted{Tables: []arm.ID{id}}, azure.ReadOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(start); took != want {
				t.Errorf("%s tokens left: 27 reads took %s, want %s", left, took, want)
			}
		})
	}
}
