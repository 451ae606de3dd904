package keeper

import (
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// twin notices another keeper with the same config, which this one cannot see directly. The sign is
// that exactly the changes it is about to write are already in place, again and again. A single
// such check can be a person who was quicker.
type twin struct{ seen []time.Time }

const (
	twinTimes = 3
	twinSpan  = time.Hour
	// staleFor is how long a read can show the state before this keeper's own write.
	staleFor = 5 * time.Minute
)

// note notes a check whose changes another writer had already made.
func (t *twin) note(now time.Time) { t.seen = append(t.seen, now) }

func (t *twin) findings(now time.Time) []finding.Finding {
	t.seen = slices.DeleteFunc(t.seen, func(at time.Time) bool { return now.Sub(at) > twinSpan })
	if len(t.seen) < twinTimes {
		return nil
	}
	return []finding.Finding{finding.New(finding.AnotherKeeper, "", "", "another writer made the "+
		"changes that this keeper was about to make, in several checks within an hour: another "+
		"keeper seems to have the same config").
		WithAdvice("stop one of the two; the activity log of a repaired resource shows where the " +
			"other one runs")}
}

// anticipated reports whether another writer made a change of a check before the check could.
func (w *worker) anticipated(c *check, r *Result) bool {
	return slices.ContainsFunc(r.Changes, func(o plan.Outcome) bool {
		if o.State != plan.Obsolete || o.Verb == plan.Delete || c.outdated[o.Resource.Key()] {
			return false
		}
		mine := w.mem.conflicts[placeOf(o.Change)]
		if mine != nil && mine.matches(o.Change) && time.Since(mine.made) < staleFor {
			return false // it was planned on an old read
		}
		made, _ := o.InPlace(r.Seen.Snapshot)
		return made
	})
}

// ownFindings returns the findings about this program, which every check reports.
func (k *Keeper) ownFindings(c *check, w *worker, r *Result) []finding.Finding {
	var all []finding.Finding
	if k.opts.Own != nil {
		all = k.opts.Own()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if w.anticipated(c, r) {
		k.twin.note(now)
	}
	return slices.Concat(all, k.twin.findings(now))
}
