package kernel

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// Bucket is a token bucket: how many calls at once, and how many more each second.
type Bucket struct{ Size, PerSecond float64 }

// Buckets are ARM's limits for each subscription and principal, and AKS's own for GETs of a cluster
// (AZURE.md). A bucket of size 0 has Azure's size.
type Buckets struct{ Reads, Writes, Deletes, Clusters Bucket }

var azureBuckets = Buckets{Reads: Bucket{250, 25}, Writes: Bucket{200, 10},
	Deletes: Bucket{200, 10}, Clusters: Bucket{60, 1}}

// buckets are the remaining tokens.
type buckets struct {
	Limits Buckets
	mu     sync.Mutex
	left   map[string]*rate.Limiter
	lifted bool
}

// Lift lifts the limits, or puts them in force.
func (b *buckets) Lift(lifted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lifted = lifted
}

func newBuckets(l Buckets) *buckets {
	return &buckets{left: map[string]*rate.Limiter{}, Limits: Buckets{
		Reads: cmp.Or(l.Reads, azureBuckets.Reads), Writes: cmp.Or(l.Writes, azureBuckets.Writes),
		Deletes:  cmp.Or(l.Deletes, azureBuckets.Deletes),
		Clusters: cmp.Or(l.Clusters, azureBuckets.Clusters)}}
}

// OwnBucket is a bucket for the GETs of each resource of a service.
type OwnBucket struct {
	Limit   Bucket
	Refusal string
}

// take takes a token for a call, and returns the header with the remaining number, or the refusal.
func (b *buckets) take(c *Call, own *OwnBucket) (map[string]string, *Failure) {
	kind, limit := "reads", b.Limits.Reads
	switch c.Method {
	case http.MethodPut, http.MethodPost, http.MethodPatch:
		kind, limit = "writes", b.Limits.Writes
	case http.MethodDelete:
		kind, limit = "deletes", b.Limits.Deletes
	}
	subscription := ""
	if len(c.Path) > 1 {
		subscription = strings.ToLower(c.Path[1])
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	name := "x-ms-ratelimit-remaining-subscription-" + kind
	left, wait := b.takeOne(subscription+" "+c.Who.ClientID+" "+kind, limit)
	if wait > 0 {
		f := Fail(http.StatusTooManyRequests, "SubscriptionRequestsThrottled",
			"Number of '%s' requests for subscription '%s' exceeded. Please try again after the "+
				"time in the Retry-After header.", kind, subscription)
		f.RetryAfter = wait
		return map[string]string{name: "0"}, f
	}
	remaining := map[string]string{name: strconv.Itoa(left)}
	if c.Method == http.MethodGet && own != nil {
		// Throttled for each resource, for all callers together [U].
		if _, wait := b.takeOne(c.Key(), own.Limit); wait > 0 {
			f := Fail(http.StatusTooManyRequests, "TooManyRequests", "%s", own.Refusal)
			f.RetryAfter = wait
			return remaining, f
		}
	}
	return remaining, nil
}

// takeOne takes a token from a bucket and returns how many remain, or the seconds until the next
// one.
func (b *buckets) takeOne(key string, limit Bucket) (left, wait int) {
	l := b.left[key]
	if l == nil {
		l = rate.NewLimiter(rate.Limit(limit.PerSecond), int(limit.Size))
		b.left[key] = l
	}
	if !b.lifted && !l.Allow() {
		return 0, max(1, int(math.Ceil((1-l.Tokens())/limit.PerSecond)))
	}
	return int(l.Tokens()), 0
}
