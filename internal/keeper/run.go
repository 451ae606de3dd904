package keeper

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
)

const (
	// breath is the time between two rounds of a cluster that events lead to.
	breath = time.Second
	// restFirst and restMost are how long clusters are left alone that have kept a round waiting, at first and at most. Where the interval
	// is longer it may be that, but not longer than restLongest.
	restFirst, restMost, restLongest = 10 * time.Second, time.Minute, 5 * time.Minute
)

// Run makes rounds until the context ends, and hands each to tell, one at a time: one of all clusters after every interval, and between
// them those of the clusters that Wake names, at once, and within a second at most two. Clusters that Azure gives no answer for in time,
// or that are being written, go on in rounds of their own, and others do not wait for them; after trouble they are looked at after ever
// longer waits.
//
// The error is nil when the context ended it. A first round that fails ends it too: what is wrong then is the set-up. Later ones
// are logged and tried again.
func (k *Keeper) Run(ctx context.Context, interval time.Duration, tell func(Round)) error {
	a := &agenda{Keeper: k, interval: interval, tell: tell, woken: map[string]time.Time{}, busy: map[string]bool{}, missed: map[string]bool{}, looks: map[*turn]context.CancelFunc{}}
	defer k.bell.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	for a.failed == nil && ctx.Err() == nil {
		a.reload()
		wait := time.Hour
		for a.fresh == nil && ctx.Err() == nil {
			var t *turn
			if t, wait = a.next(time.Now()); t == nil {
				break
			}
			a.begin(ctx, t)
		}
		k.unlocked(func() {
			select {
			case <-ctx.Done():
			case <-k.bell.rang:
			case <-time.After(wait):
			}
		})
	}
	k.unlocked(a.turns.Wait)
	for _, q := range a.asked {
		q.end(errOver)
	}
	return a.failed
}

// judge notes which clusters of a round kept it waiting: calls for them were answered with trouble that calls are tried again for.
func (t *turn) judge(round Round, err error, interval time.Duration) {
	for _, c := range t.part {
		m := t.memory[keyOf(c)]
		waited := err != nil || m.slow || slices.ContainsFunc(round.Findings, func(f finding.Finding) bool {
			return f.Code == finding.WriteFailed && f.Cluster == c.Metadata.Name
		})
		if !waited {
			m.troubled, m.rest = 0, time.Time{}
			continue
		}
		wait := min(min(interval, restFirst)<<min(m.troubled, 12), min(max(restMost, interval), restLongest))
		m.troubled++
		m.rest = time.Now().Add(wait - wait/5 + rand.N(wait*2/5+1))
	}
}

// slowed reports whether one of the resources that a cluster rests on could not be read, after calls that were tried again.
func slowed(s *network.Snapshot, cluster network.ID, rests []string) bool {
	return slices.ContainsFunc(append(slices.Clone(rests), cluster.Key()), func(key string) bool {
		u, unread := s.Unread[key]
		status := u.Status
		return unread && (u.Late || status == 0 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500)
	})
}
