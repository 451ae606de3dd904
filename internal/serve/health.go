package serve

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/keeper"
)

const (
	// patience is how long a group of clusters may go without the end of a check. Reads are given up
	// after seconds, and nothing waits for a write, so a minute without an end is a keeper that is stuck.
	patience = time.Minute
	// firstPatience is for the first check, which can read thousands of clusters.
	firstPatience = 10 * time.Minute
)

// Health says whether a keeper makes progress. It answers /livez and /readyz, and systemd's
// watchdog.
//
// A check that ends is progress, also one that ends in an error: a restart does not cure an outage
// of Azure. A success is what routekeeper_cluster_last_success_timestamp_seconds counts, of any
// cluster.
type Health struct {
	limit time.Duration

	mu        sync.Mutex
	progress  time.Time // since when the group that waits longest has waited for the end of a check
	allowed   time.Duration
	succeeded time.Time // zero: never
}

// NewHealth begins with a keeper that has just been started, and that checks once in an interval.
func NewHealth(interval time.Duration) *Health {
	limit := max(3*interval, patience)
	return &Health{limit: limit, progress: time.Now(), allowed: max(limit, firstPatience)}
}

// Progress notes that a check ended, in whatever way, and when that of the group was which waits longest
// for its next one.
func (h *Health) Progress(oldest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress, h.allowed = oldest, h.limit
}

// Round notes what a check led to.
func (h *Health) Round(r keeper.Round) {
	for _, cluster := range checked(r) {
		if successful(r, cluster) {
			h.mu.Lock()
			h.succeeded = time.Now()
			h.mu.Unlock()
			return
		}
	}
}

// Live says in one line why the keeper counts as stuck, nil while it does not.
func (h *Health) Live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if quiet := time.Since(h.progress); quiet > h.allowed {
		return fmt.Errorf("no check has ended for %s; expected one within %s",
			quiet.Round(time.Second), h.allowed)
	}
	return nil
}

// Ready says in one line why the keeper does not do its work at the moment, nil while it does.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.succeeded.IsZero() {
		return errors.New("no check has succeeded yet")
	}
	if old := time.Since(h.succeeded); old > h.limit {
		return fmt.Errorf("no check has succeeded for %s; expected one within %s",
			old.Round(time.Second), h.limit)
	}
	return nil
}
