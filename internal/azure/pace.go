package azure

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// pace keeps to what ARM says of its token buckets (AZURE.md), for each subscription and for reads and writes apart: after
// a 429 nothing is sent before its Retry-After is over, and when few tokens remain calls go out no faster than they are
// refilled, so that the rest is there for others with the same identity. Calls that yield slow down earlier, and take half of
// what is refilled at most: the others do not queue behind them, and find tokens.
type pace struct {
	mu      sync.Mutex
	buckets map[string]*tokens
}

// tokens are when the next calls may go out.
type tokens struct {
	held            time.Time // any: Azure said so
	pressing, yield time.Time // where few tokens are left
}

const (
	reserve      = 20                     // remaining tokens from which on to go slowly
	yieldReserve = 60                     // and those from which on calls do that yield
	readsRefill  = time.Second / 25       // one token
	writesRefill = 100 * time.Millisecond // one token
)

// patience is how long a call waits for its turn, and how long a write with all its attempts may take: what takes longer
// is left to the next round, so that one resource does not keep the others waiting.
const patience = 2 * time.Minute

func newPace() *pace { return &pace{buckets: map[string]*tokens{}} }

// bucket names the bucket a call is paid from, and how fast that is refilled.
func bucket(method, path string) (kind, key string, refill time.Duration) {
	kind, refill = "writes", writesRefill
	if method == http.MethodGet {
		kind, refill = "reads", readsRefill
	}
	return kind, subscriptionOf(path) + " " + kind, refill
}

// wait waits until a call may go out. Where Azure put that off for too long, it says so instead.
func (p *pace) wait(ctx context.Context, method, path string) error {
	_, key, refill := bucket(method, path)
	most := patience
	if turn := within(ctx).turn; turn > 0 {
		most = turn
	}
	for {
		held, wait := p.turn(key, refill, yields(ctx), most)
		if wait <= 0 {
			return nil
		}
		if held > most {
			return &Error{Method: method, ID: idOf(path), Status: http.StatusTooManyRequests, Code: "SubscriptionRequestsThrottled", RetryAfter: held,
				Message: fmt.Sprintf("Azure asked to wait, for another %s", held.Round(time.Second)), late: held <= patience}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		if !p.isHeld(key) { // it can have been put off meanwhile
			return nil
		}
	}
}

func (p *pace) isHeld(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.of(key).held) > 0
}

// turn returns for how long Azure holds calls back, and for how long this one has to wait. Calls that wait for the same moment go out one
// after the other.
func (p *pace) turn(key string, refill time.Duration, yields bool, most time.Duration) (held, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.of(key)
	held = time.Until(b.held)
	if held > most {
		return held, held
	}
	next := &b.pressing
	if yields {
		next, refill = &b.yield, 2*refill
	}
	at := b.held
	if next.After(at) {
		at = *next
	}
	if wait = time.Until(at); wait > 0 {
		*next = at.Add(refill)
	}
	return held, wait
}

// of returns the tokens of a bucket.
func (p *pace) of(key string) *tokens {
	if p.buckets[key] == nil {
		p.buckets[key] = &tokens{}
	}
	return p.buckets[key]
}

// Do notes what each answer says of the next calls.
func (p *pace) Do(r *policy.Request) (*http.Response, error) {
	kind, key, refill := bucket(r.Raw().Method, r.Raw().URL.Path)
	response, err := r.Next()
	if err != nil {
		return response, err
	}
	throttled := response.StatusCode == http.StatusTooManyRequests && subscriptionThrottled(response)
	p.mu.Lock()
	defer p.mu.Unlock()
	b, now := p.of(key), time.Now()
	if throttled {
		b.held = later(b.held, now.Add(retryAfter(response)))
	}
	if left, err := remaining(response, kind); err == nil {
		if left < reserve {
			b.pressing = later(b.pressing, now.Add(refill))
		}
		if left < yieldReserve {
			b.yield = later(b.yield, now.Add(2*refill))
		}
	}
	return response, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// remaining are the tokens that an answer says are left.
func remaining(response *http.Response, kind string) (int, error) {
	return strconv.Atoi(response.Header.Get("x-ms-ratelimit-remaining-subscription-" + kind))
}

// subscriptionThrottled tells ARM's own throttling from a resource that is busy, which concerns that resource only.
func subscriptionThrottled(response *http.Response) bool {
	payload, err := runtime.Payload(response)
	if err != nil {
		return false
	}
	code, _ := errorCode(payload)
	return !strings.HasPrefix(code, "Retryable") && code != "ReferencedResourceNotProvisioned"
}

// retryAfter reads the header in both of its forms, seconds and a date; 0 where it says nothing.
func retryAfter(response *http.Response) time.Duration {
	text := response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

func subscriptionOf(path string) string {
	parts := strings.SplitN(strings.ToLower(path), "/", 4)
	if len(parts) > 2 && parts[1] == "subscriptions" {
		return parts[2]
	}
	return ""
}
