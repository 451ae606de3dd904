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
// refilled, so that the rest is there for others with the same identity.
type pace struct {
	mu    sync.Mutex
	until map[string]time.Time // when the next call may go out
}

const (
	reserve      = 20                     // remaining tokens from which on to go slowly
	readsRefill  = time.Second / 25       // one token
	writesRefill = 100 * time.Millisecond // one token
)

// patience is how long a call waits for its turn, and how long a write with all its attempts may take: what takes longer
// is left to the next round, so that one resource does not keep the others waiting.
const patience = 2 * time.Minute

func newPace() *pace { return &pace{until: map[string]time.Time{}} }

// bucket names the bucket a call is paid from, and how fast that is refilled.
func bucket(method, path string) (kind, key string, refill time.Duration) {
	kind, refill = "writes", writesRefill
	if method == http.MethodGet {
		kind, refill = "reads", readsRefill
	}
	return kind, subscriptionOf(path) + " " + kind, refill
}

// wait waits until a call may go out. Where that takes too long, it says so instead.
func (p *pace) wait(ctx context.Context, method, path string) error {
	_, key, refill := bucket(method, path)
	wait := p.turn(key, refill)
	if wait <= 0 {
		return nil
	}
	if wait > patience {
		return &Error{Method: method, ID: idOf(path), Status: http.StatusTooManyRequests, Code: "SubscriptionRequestsThrottled", RetryAfter: wait,
			Message: fmt.Sprintf("Azure asked to wait, for another %s", wait.Round(time.Second))}
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turn returns how long to wait. Calls that wait for the same moment go out one refill apart.
func (p *pace) turn(key string, refill time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.until[key]
	wait := time.Until(at)
	if wait > 0 && wait <= patience {
		p.until[key] = at.Add(refill)
	}
	return wait
}

// Do notes what each answer says of the next calls.
func (p *pace) Do(r *policy.Request) (*http.Response, error) {
	kind, key, refill := bucket(r.Raw().Method, r.Raw().URL.Path)
	response, err := r.Next()
	if err != nil {
		return response, err
	}
	if response.StatusCode == http.StatusTooManyRequests && subscriptionThrottled(response) {
		p.hold(key, retryAfter(response))
	}
	if left, err := remaining(response, kind); err == nil && left < reserve {
		p.hold(key, refill)
	}
	return response, err
}

// remaining are the tokens that an answer says are left.
func remaining(response *http.Response, kind string) (int, error) {
	return strconv.Atoi(response.Header.Get("x-ms-ratelimit-remaining-subscription-" + kind))
}

// hold lets nothing out before d is over.
func (p *pace) hold(key string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := time.Now().Add(d); at.After(p.until[key]) {
		p.until[key] = at
	}
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
