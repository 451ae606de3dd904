package serve

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/keeper"
)

const (
	// patience is how long a group of clusters may go without the end of a check. Reads are given
	// up after seconds, and no check waits for a write, so after a minute the keeper is stuck.
	patience = time.Minute
	// firstPatience is for the first check, which can read thousands of clusters.
	firstPatience = 10 * time.Minute
)

// Health says whether a keeper makes progress. It answers /livez, /readyz and systemd's watchdog.
//
// Every check that ends counts as progress, even with an error, because a restart does not fix an
// outage of Azure. A success is what routekeeper_cluster_last_success_timestamp_seconds counts, for
// any cluster.
type Health struct {
	limit time.Duration

	mu        sync.Mutex
	progress  time.Time // since when the group that has waited longest waits for a check to end
	allowed   time.Duration
	succeeded time.Time // zero: never
}

// NewHealth makes the health of a keeper that was just started and checks once per interval.
func NewHealth(interval time.Duration) *Health {
	limit := max(3*interval, patience)
	return &Health{limit: limit, progress: time.Now(), allowed: max(limit, firstPatience)}
}

// Progress notes that a check ended, and when the last check of the group that has waited longest
// ended.
func (h *Health) Progress(oldest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress, h.allowed = oldest, h.limit
}

// Record notes the result of a check.
func (h *Health) Record(r keeper.Result) {
	for _, cluster := range r.CheckedNames() {
		if successful(r, cluster) {
			h.mu.Lock()
			h.succeeded = time.Now()
			h.mu.Unlock()
			return
		}
	}
}

// Live says in one line why the keeper is stuck, or nil.
func (h *Health) Live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if quiet := time.Since(h.progress); quiet > h.allowed {
		return fmt.Errorf("no check has ended for %s; expected one within %s",
			quiet.Round(time.Second), h.allowed)
	}
	return nil
}

// Ready says in one line why the keeper currently does not do its work, or nil.
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
