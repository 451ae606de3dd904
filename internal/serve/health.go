package serve

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/keeper"
)

const (
	// patience is how long a keeper may go without the end of a check. After trouble it may wait a
	// minute and some before it checks again, and then needs time to find Azure silent.
	patience = 2 * time.Minute
	// longPatience is for the first check, which can read thousands of clusters, and for checks
	// that write: one operation may take two minutes, and those of one virtual network follow each
	// other.
	longPatience = 10 * time.Minute
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
	progress  time.Time // when the last check ended, or began to write; at first the start
	allowed   time.Duration
	succeeded time.Time // zero: never
}

// NewHealth begins with a keeper that has just been started, and that checks once in an interval.
func NewHealth(interval time.Duration) *Health {
	limit := max(3*interval, patience)
	return &Health{limit: limit, progress: time.Now(), allowed: max(limit, longPatience)}
}

// Progress notes that a check ended, in whatever way.
func (h *Health) Progress() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress, h.allowed = time.Now(), h.limit
}

// Writing notes that a check is about to write.
func (h *Health) Writing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress, h.allowed = time.Now(), max(h.limit, longPatience)
}

// Round notes what a check led to.
func (h *Health) Round(r keeper.Round) {
	h.Progress()
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
