package azure_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/network"
)

// TestYielding: where few tokens are left, a read that yields waits for its turn among many, and one that does not goes at once, and finds
// tokens. Nothing runs into the limit.
func TestYielding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{Buckets: emulator.Buckets{
			Reads: emulator.Bucket{Size: 250, PerSecond: 25}, Writes: emulator.Bucket{Size: 1e6, PerSecond: 1},
		}})
		ids := tables(t, e, 12, 40, 40)
		if _, err := e.Inject(emulator.Fault{Path: "routeTables$", Status: 403, Code: "AuthorizationFailed", Count: -1, Principal: emulatortest.Keeper.Name}); err != nil {
			t.Fatal(err)
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		read := func(yield bool, ids ...network.ID) time.Duration {
			ctx := t.Context()
			if yield {
				ctx = azure.Yielding(ctx)
			}
			start, s := time.Now(), network.NewSnapshot()
			if err := c.Read(ctx, s, network.Wanted{Tables: ids}); err != nil || len(s.Tables) != len(ids) {
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

// TestWithin: a call that is not answered in time is given up, and what it was to read is late; the others are read.
func TestWithin(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"hangs": {Hold: "before"}, "fails": {Status: 503, Code: "ServiceUnavailable"}, "is put off": {Status: 429, Code: "SubscriptionRequestsThrottled", RetryAfter: 30},
		"is cut": {Cut: "before"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{Buckets: emulator.Buckets{Writes: emulator.Bucket{Size: 1e6, PerSecond: 1}}})
				ids := tables(t, e, 2, 1, 1)
				fault.Path, fault.Count, fault.Principal = string(ids[0])+"$", -1, emulatortest.Keeper.Name
				if _, err := e.Inject(fault); err != nil {
					t.Fatal(err)
				}
				if _, err := e.Inject(emulator.Fault{Path: "routeTables$", Status: 403, Code: "AuthorizationFailed", Count: -1, Principal: emulatortest.Keeper.Name}); err != nil {
					t.Fatal(err)
				}
				c := emulatortest.Client(t, e, emulatortest.Keeper)
				start, s := time.Now(), network.NewSnapshot()
				if err := c.Read(azure.Within(t.Context(), 3*time.Second, 3*time.Second), s, network.Wanted{Tables: ids}); err != nil {
					t.Fatal(err)
				}
				u := s.Unread[ids[0].Key()]
				if took := time.Since(start); took > 3*time.Second+50*time.Millisecond || !u.Late || u.Status != fault.Status || s.Table(ids[0]) != nil {
					t.Errorf("it took %s: %+v", took, u)
				}
				if name != "is put off" && s.Table(ids[1]) == nil {
					t.Errorf("the other one is not read: %+v", s.Unread)
				}
			})
		})
	}
}
