package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	leaseFor = 15 * time.Second
	leaseAt  = "/apis/coordination.k8s.io/v1/namespaces/team/leases/routekeeper"
)

// member is a replica in an election.
type member struct {
	*lease
	way
	log lines
	end func() // releases the lease
}

// newMember starts a replica.
func newMember(t *testing.T, f *fakeAPI, identity string) *member {
	m := &member{way: way{fakeAPI: f}}
	o := testOptions()
	o.Identity, o.Lease = identity, leaseFor
	o.Daemon.Log = slog.New(slog.NewTextHandler(&m.log, nil))
	m.lease = newLease(m.way.client(t), o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		m.elect(ctx)
		close(done)
	}()
	m.end = func() {
		cancel()
		<-done
	}
	t.Cleanup(m.end)
	return m
}

// spec returns the spec of the Lease.
func spec(f *fakeAPI) map[string]any { return f.stored("leases")[0]["spec"].(map[string]any) }

// leader waits until one replica may write and returns its number. At no moment may two.
func leader(t *testing.T, within time.Duration, members ...*member) int {
	t.Helper()
	for began := time.Now(); time.Since(began) <= within; time.Sleep(100 * time.Millisecond) {
		if i := holder(t, members...); i >= 0 {
			return i
		}
	}
	t.Fatalf("after %s no replica has the lease", within)
	return -1
}

func holder(t *testing.T, members ...*member) int {
	t.Helper()
	has := -1
	for i, m := range members {
		if valid, _ := m.holds(); valid {
			if has >= 0 {
				t.Fatalf("replicas %d and %d have the lease", has, i)
			}
			has = i
		}
	}
	return has
}

// remains checks for a time that one replica has the lease; -1: none.
func remains(t *testing.T, want int, d time.Duration, members ...*member) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(100 * time.Millisecond) {
		if has := holder(t, members...); has != want {
			t.Fatalf("after %s, replica %d has the lease, want %d", time.Since(began), has, want)
		}
	}
}

// TestElection: of three replicas one has the lease, and keeps it. One that releases it is replaced
// at once, one that dies after the lease's duration, and one that loses the API server stops
// writing before another may begin.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI()
		all := []*member{newMember(t, f, "a"), newMember(t, f, "b"), newMember(t, f, "c")}
		first := leader(t, time.Second, all...)
		remains(t, first, 10*time.Minute, all...)
		all[first].end()
		released := spec(f)
		if released["holderIdentity"] != "" || released["leaseDurationSeconds"] != float64(1) {
			t.Errorf("released: %v", released)
		}
		second := leader(t, leaseFor/4, all...)
		if second == first {
			t.Fatal("the replica that ended has the lease again")
		}
		remains(t, second, time.Minute, all...)
		all[second].cutOff(true)
		time.Sleep(validOf(leaseFor) + time.Millisecond)
		if has := holder(t, all...); has >= 0 {
			t.Fatalf("%d writes although it has not renewed the lease in time", has)
		}
		third := leader(t, leaseFor, all...)
		if third == first || third == second {
			t.Fatalf("%d has the lease after %d and %d", third, first, second)
		}
		all[second].cutOff(false) // it sees that another one has it
		remains(t, third, time.Minute, all...)
		if !all[second].elsewhere() || all[third].elsewhere() {
			t.Error("the replica that was away does not see that another one has the lease")
		}
		if n := spec(f)["leaseTransitions"]; n != float64(2) {
			t.Errorf("%v transitions, want 2", n)
		}
	})
}

// TestElectionWithoutAPI: the only replica has the lease again as soon as the API server answers,
// and no other one's in between. acquireTime and leaseTransitions stay.
func TestElectionWithoutAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI()
		m := newMember(t, f, "a")
		leader(t, time.Second, m)
		before := spec(f)
		m.way.cutOff(true)
		remains(t, 0, validOf(leaseFor)-2*time.Second, m)
		time.Sleep(time.Hour)
		if holder(t, m) >= 0 || m.elsewhere() {
			t.Error("it has the lease, or another one has")
		}
		m.way.cutOff(false)
		leader(t, leaseFor/4, m)
		after := spec(f)
		if before["acquireTime"] != after["acquireTime"] || before["renewTime"] ==
			after["renewTime"] || after["leaseTransitions"] != float64(0) {
			t.Errorf("%v, then %v", before, after)
		}
	})
}

// TestLeaseOfOthers: a Lease of a replica with client-go's leaderelection is taken when it has not
// changed for its own duration, whatever the other's clock says, and at once if it is released.
func TestLeaseOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		renewed, holder string
		seconds         int
		wait            time.Duration
	}{
		"fast clock": {"2999-01-01T00:00:00.000000Z", "old_1", 15, 15 * time.Second},
		"slow clock": {"1999-01-01T00:00:00.000000Z", "old_1", 15, 15 * time.Second},
		"longer":     {"2026-01-01T00:00:00.000000Z", "old_1", 60, time.Minute},
		"released":   {"2026-01-01T00:00:00.000000Z", "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeAPI()
				f.put(leaseAt, map[string]any{"apiVersion": "coordination.k8s.io/v1",
					"kind": "Lease", "metadata": map[string]any{"name": "routekeeper",
						"namespace": "team", "labels": map[string]any{"kept": "yes"}},
					"spec": map[string]any{"holderIdentity": c.holder,
						"leaseDurationSeconds": float64(c.seconds), "leaseTransitions": float64(4),
						"renewTime": c.renewed, "acquireTime": c.renewed}}, "ADDED")
				began := time.Now()
				m := newMember(t, f, "new_1")
				leader(t, c.wait+leaseFor/3, m)
				if waited := time.Since(began); waited < c.wait {
					t.Errorf("it is taken after %s", waited)
				}
				is, spec := unstructured.Unstructured{Object: f.stored("leases")[0]}, spec(f)
				for _, field := range []string{"renewTime", "acquireTime"} {
					if _, err := time.Parse("2006-01-02T15:04:05.000000Z",
						fmt.Sprint(spec[field])); err != nil {
						t.Errorf("%s: %v", field, err)
					}
				}
				if spec["holderIdentity"] != "new_1" || spec["leaseTransitions"] != float64(5) ||
					spec["leaseDurationSeconds"] != float64(15) ||
					is.GetLabels()["kept"] != "yes" || is.GetKind() != "Lease" {
					t.Errorf("%v", is.Object)
				}
			})
		})
	}
}

// TestLeaseConflict: if another replica writes the Lease between a read and a write, the write is
// refused, and the other one has it. The same if it creates it.
func TestLeaseConflict(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeAPI()
				theirs := func(holder string) {
					f.put(leaseAt, map[string]any{"apiVersion": "coordination.k8s.io/v1",
						"kind": "Lease", "metadata": map[string]any{"name": "routekeeper"},
						"spec": map[string]any{"holderIdentity": holder,
							"leaseDurationSeconds": float64(15)}}, "ADDED")
				}
				if method == http.MethodPut {
					theirs("")
				}
				once := false
				f.received = func(r *http.Request) error {
					if r.Method == method && !once {
						once = true
						theirs("other")
					}
					return nil
				}
				m := newMember(t, f, "me")
				remains(t, -1, leaseFor-time.Second, m)
				if !once || !m.elsewhere() {
					t.Errorf("written %v, elsewhere %v", once, m.elsewhere())
				}
				if m.log.has("level=") {
					t.Errorf("that is logged: %s", &m.log.text)
				}
			})
		})
	}
}

// TestLease: a replica may write while its own last renewal is recent, and not a moment longer.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI()
		w := &way{fakeAPI: f}
		o := testOptions()
		o.Identity, o.Lease = "me", leaseFor
		l := newLease(w.client(t), o)
		expect := func(holds, elsewhere bool) {
			t.Helper()
			if got, _ := l.holds(); got != holds || l.elsewhere() != elsewhere {
				t.Errorf("holds %v, elsewhere %v, want %v, %v", got, l.elsewhere(), holds,
					elsewhere)
			}
		}
		expect(false, false)
		if err := l.try(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(true, false)
		f.received = func(r *http.Request) error { // the answer takes a while
			if r.Method == http.MethodPut {
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		time.Sleep(5 * time.Second)
		if err := l.try(t.Context()); err != nil { // renewed 5 s after the start, ends at 8 s
			t.Fatal(err)
		}
		time.Sleep(7*time.Second - time.Millisecond)
		expect(true, false)
		time.Sleep(time.Millisecond)
		expect(false, false)
		f.received = nil
		if err := l.try(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(true, false)
		spec(f)["holderIdentity"] = "other"
		if err := l.try(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(false, true)
		l.renewed, l.other = time.Now(), false
		w.cutOff(true) // a release counts although it does not arrive
		l.release(t.Context())
		expect(false, false)
	})
}
