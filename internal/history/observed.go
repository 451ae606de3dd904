package history

import (
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Changes that a config only observes stay current until they are made or the config changes. They
// are recorded twice: when they are new, and when they are no longer needed.

// unneeded returns the observed changes that a check found to be no longer needed. The other
// changes stay: a change that only lacks its proof this time is not news.
func (l *Log) unneeded(r keeper.Result, s *inventory.Snapshot,
	left map[string]unmade) []plan.Outcome {
	now := map[string]bool{}
	for _, o := range r.Changes { // the config enforces it now
		now[keyOf(o.Change)] = true
	}
	var gone []plan.Outcome
	for key, c := range l.unmade {
		if _, stays := left[key]; stays || c.State != plan.Observed || now[key] {
			continue
		}
		made, checked := c.InPlace(s)
		if checked && (made || c.Verb == plan.Create || c.Verb == plan.Associate) {
			gone = append(gone, plan.Outcome{Change: c.Change, State: plan.Obsolete})
		} else {
			left[key] = c
		}
	}
	slices.SortFunc(gone, func(a, b plan.Outcome) int {
		return strings.Compare(keyOf(a.Change), keyOf(b.Change))
	})
	return gone
}

// readObserved reads the observed changes that are still current, so that a new program does not
// report them as new.
func readObserved(q querier) (map[string]unmade, error) {
	all := map[string]unmade{}
	err := each(q, func(scan scanner) error {
		var key string
		var correctAt *int64
		c := unmade{Outcome: plan.Outcome{State: plan.Observed}}
		err := scan(&key, kept{&c.Change}, &correctAt)
		if correctAt != nil {
			c.correctAt = time.UnixMilli(*correctAt)
		}
		all[key] = c
		return err
	}, "SELECT key, change, true_at FROM changes WHERE state = 'observed' AND id IN "+
		"(SELECT max(id) FROM changes GROUP BY key)")
	return all, err
}
