package azure

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"golang.org/x/time/rate"
)

// throttle keeps calls within Azure's limits.
//
// How it works. Azure limits calls at two levels: Azure Resource Manager (ARM) limits each
// subscription, the resource provider limits its own operations ("Understand how Azure Resource
// Manager throttles requests"). So each call draws on two buckets, ARM's and the provider's, each
// for one subscription and one kind: reads, writes or deletes.
//
//	answer to a call                                  | what follows
//	--------------------------------------------------|------------------------------------------
//	429, ARM's own: its code, or no tokens remain     | ARM's bucket is held
//	429, a busy resource: RetryableError, …           | only this call waits
//	429, anything else                                | the provider's bucket is held
//	any answer: the buckets that let the call through | are held no longer
//	few tokens remain                                 | calls go no faster than ARM refills
//
// A held bucket lets no call out before its Retry-After ends, or maxHold has passed. Every
// probeEvery one call goes out nevertheless, to find out whether Azure still throttles. Urgent
// calls go first. They never queue behind calls that yield: those slow down earlier and take half
// of the refill.
type throttle struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

// bucket is one of Azure's limits.
type bucket struct {
	name  string
	since time.Time     // the 429 that holds it
	until time.Time     // the end of its Retry-After
	probe time.Time     // when one call may go out anyway
	code  string        // what the 429 said
	ended chan struct{} // closed when an answer ends the hold

	waiting            int // pressing calls
	pressing, yielding *rate.Limiter
}

const (
	reserve      = 20 // the tokens that stay for others with the same identity
	yieldReserve = 60 // the tokens that stay for urgent calls

	maxHold    = 5 * time.Minute
	probeEvery = 30 * time.Second
	rereads    = 3 // of a GET that gets a 429
)

// refill is how many tokens ARM adds in a second ("Understand how Azure Resource Manager throttles
// requests").
var refill = map[string]rate.Limit{"reads": 25, "writes": 10, "deletes": 10}

// patience is how long a call waits until it may go out, and how long a write may take with all its
// attempts. Longer writes are left to the next check, so that one resource does not delay others.
const patience = 2 * time.Minute

func newThrottle() *throttle { return &throttle{buckets: map[string]*bucket{}} }

// bucketsOf returns the buckets that a call draws on.
func (t *throttle) bucketsOf(method, path string) (arm, provider *bucket) {
	limit := callKind(method) + " of subscription " + subscriptionOf(path)
	return t.bucket(limit), t.bucket(limit + " at " + providerOf(path))
}

func (t *throttle) bucket(name string) *bucket {
	b := t.buckets[name]
	if b == nil {
		b = &bucket{name: name,
			pressing: rate.NewLimiter(rate.Inf, 1), yielding: rate.NewLimiter(rate.Inf, 1)}
		t.buckets[name] = b
	}
	return b
}

// wait waits until a call may go out. If Azure throttles for longer, it returns an error.
func (t *throttle) wait(ctx context.Context, method, path string) error {
	most := patience
	if turn := mannerOf(ctx).turn; turn > 0 {
		most = turn
	}
	return t.waitAtMost(ctx, most, method, path)
}

func (t *throttle) waitAtMost(ctx context.Context, most time.Duration, method, path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	arm, provider := t.bucketsOf(method, path)
	deadline := time.Now().Add(most)
	probes, err := t.waitForHolds(ctx, deadline, arm, provider)
	if err == nil && !probes {
		limiter := arm.pressing
		if yields(ctx) {
			limiter = arm.yielding
		}
		if turn := limiter.Reserve(); turn.Delay() > 0 {
			if err = t.sleep(ctx, turn.Delay(), nil); err != nil {
				turn.Cancel()
				return err
			}
			// a 429 may have arrived meanwhile
			_, err = t.waitForHolds(ctx, deadline, arm, provider)
		}
	}
	if throttled, ok := err.(*Error); ok {
		throttled.Method, throttled.ID = method, idOf(path)
	}
	return err
}

// waitForHolds waits until no bucket is held, or until the call may probe the held ones.
func (t *throttle) waitForHolds(
	ctx context.Context, deadline time.Time, buckets ...*bucket,
) (probes bool, err error) {
	yields := yields(ctx)
	if !yields {
		for _, b := range buckets {
			b.waiting++
			defer func() { b.waiting-- }()
		}
	}
	for {
		now := time.Now()
		at, last := now, buckets[0]
		for _, b := range buckets {
			if free := b.freeAt(now, yields); free.After(at) {
				at, last = free, b
			}
		}
		if at.Equal(now) {
			for _, b := range buckets {
				if now.Before(b.until) {
					b.probe, probes = now.Add(probeEvery), true
				}
			}
			return probes, nil
		}
		if at.After(deadline) {
			return false, last.err(now)
		}
		if err := t.sleep(ctx, at.Sub(now), last.ended); err != nil {
			return false, err
		}
	}
}

// freeAt returns when a bucket lets the next call out, as far as is known now.
func (b *bucket) freeAt(now time.Time, yields bool) time.Time {
	probe := b.probe
	if yields && b.waiting > 0 && !probe.After(now) {
		probe = now.Add(probeEvery) // an urgent call takes this one
	}
	switch {
	case !now.Before(b.until), !probe.After(now):
		return now
	case probe.Before(b.until):
		return probe
	}
	return b.until
}

// err returns the error of a call that stopped waiting.
func (b *bucket) err(now time.Time) *Error {
	left := b.until.Sub(now)
	return &Error{
		Status: http.StatusTooManyRequests, Code: b.code, RetryAfter: left, late: left <= patience,
		Message: fmt.Sprintf("Azure throttles %s, for another %s", b.name, left.Round(time.Second)),
	}
}

// sleep releases the lock for some time, or until ended is closed.
func (t *throttle) sleep(ctx context.Context, d time.Duration, ended <-chan struct{}) error {
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-time.After(d):
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Do sends a call and learns from its answer. It repeats a GET after a 429 once it may go out: the
// SDK would sleep through a hold that a probe ends.
func (t *throttle) Do(r *policy.Request) (*http.Response, error) {
	for try := 0; ; try++ {
		sent := time.Now()
		response, err := r.Next()
		if err != nil {
			return response, err
		}
		held := t.note(r.Raw(), sent, response)
		again := response.StatusCode == http.StatusTooManyRequests &&
			r.Raw().Method == http.MethodGet &&
			mannerOf(r.Raw().Context()).answer == 0 // otherwise the next check reads it again
		if !again || try == rereads {
			return response, nil
		}
		if err := t.waitAgain(r.Raw(), held,
			cmp.Or(retryAfter(response), backoff<<try)); err != nil {
			return response, r.Raw().Context().Err()
		}
		runtime.Drain(response)
	}
}

// waitAgain waits until a call may be repeated after a 429, if that is soon.
func (t *throttle) waitAgain(r *http.Request, held bool, asked time.Duration) error {
	switch ctx := r.Context(); {
	case held:
		return t.waitAtMost(ctx, patience, r.Method, r.URL.Path)
	case asked > patience:
		return context.DeadlineExceeded
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.sleep(ctx, asked, nil)
	}
}

// note learns from an answer, and reports whether it holds a bucket.
func (t *throttle) note(r *http.Request, sent time.Time, response *http.Response) (held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	arm, provider := t.bucketsOf(r.Method, r.URL.Path)
	now, kind, code := time.Now(), callKind(r.Method), ""
	var holds *bucket
	if response.StatusCode == http.StatusTooManyRequests {
		said, byARM := throttledBy(response)
		switch code = said.Code; {
		case byARM:
			holds = arm
		case !said.Busy():
			holds = provider
		}
	}
	for _, b := range []*bucket{arm, provider} {
		switch {
		case b == holds:
			b.since, b.probe, b.code = now, now.Add(probeEvery), code
			if until := now.Add(min(retryAfter(response), maxHold)); until.After(b.until) {
				b.until = until
			}
			if b.ended == nil {
				b.ended = make(chan struct{})
			}
		case b.ended != nil && sent.After(b.since):
			close(b.ended)
			b.until, b.ended = time.Time{}, nil
		}
	}
	if left, told := remaining(response, kind); told {
		pressing, yielding := rate.Inf, rate.Inf
		if left < reserve {
			pressing = refill[kind]
		}
		if left < yieldReserve {
			yielding = refill[kind] / 2
		}
		arm.pressing.SetLimit(pressing)
		arm.yielding.SetLimit(yielding)
	}
	return holds != nil && now.Before(holds.until)
}
