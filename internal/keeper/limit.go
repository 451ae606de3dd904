package keeper

import (
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// limiter limits the changes to routes per minute, over all clusters. If a mistake makes many
// routes look wrong at once, the keeper changes only some of them, and people can notice before it
// changes all.
//
// How it works. Before a table is written, its changes are counted against the limit. A table is
// written completely or not at all. If its changes exceed the rest of the limit, the table waits
// for a later check of its group. Tables take turns in the order in which they began to wait, and
// leave enough for the tables before them. A table with more changes than the limit is written once
// nothing was counted for a minute. It then counts for as many minutes as its changes take.
// Associations are never counted: while one is lost, pods are unreachable. A token bucket of the
// same size would let twice as many changes through in one minute.
type limiter struct {
	perMinute int

	mu      sync.Mutex
	counted []counted      // the ones that still count
	waiting []waitingTable // in the order in which they began to wait
}

// counted is a number of changes, with the time until which they count.
type counted struct {
	changes int
	until   time.Time
}

// waitingTable is a table whose changes were not made.
type waitingTable struct {
	id      arm.ID
	changes int
	asked   time.Time // when a check last wanted to write it
}

// forgetWaiting is how long a table keeps its place after the last check that wanted to write it.
const forgetWaiting = 2 * time.Minute

// newLimiter returns a limiter. For 0 it returns nil, which limits nothing.
func newLimiter(perMinute int) *limiter {
	if perMinute <= 0 {
		return nil
	}
	return &limiter{perMinute: perMinute}
}

// allow reports whether the changes of a table may be made now, and counts them if so.
func (l *limiter) allow(table arm.ID, changes int, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted = slices.DeleteFunc(l.counted, func(d counted) bool { return !now.Before(d.until) })
	l.waiting = slices.DeleteFunc(l.waiting, func(w waitingTable) bool {
		return now.Sub(w.asked) > forgetWaiting && !w.id.Equal(table)
	})
	left := l.perMinute
	for _, d := range l.counted {
		left -= d.changes
	}
	place := slices.IndexFunc(l.waiting, func(w waitingTable) bool { return w.id.Equal(table) })
	if place < 0 {
		place = len(l.waiting)
		l.waiting = append(l.waiting, waitingTable{id: table})
	}
	for _, w := range l.waiting[:place] {
		left -= w.changes
	}
	first := place == 0 && len(l.counted) == 0 // it may be of any size
	if !first && left < changes {
		l.waiting[place].changes, l.waiting[place].asked = changes, now
		return false
	}
	l.waiting = slices.Delete(l.waiting, place, place+1)
	counts := time.Minute * time.Duration(max(changes, l.perMinute)) / time.Duration(l.perMinute)
	l.counted = append(l.counted, counted{changes, now.Add(counts)})
	return true
}

// withinLimit returns the changes that may be made now, and reports the others, which wait for a
// later check. Changes that a person requests are not limited or counted, because the person has
// seen them.
func (c *check) withinLimit(s *inventory.Snapshot, changes []plan.Change) []plan.Change {
	l := c.k.limit
	if l == nil || c.request != nil {
		return changes
	}
	byTable := map[string][]plan.Change{}
	var tables []arm.ID
	for _, change := range changes {
		if change.Verb == plan.Associate {
			continue
		}
		key := change.Resource.Key()
		if byTable[key] == nil {
			tables = append(tables, change.Resource)
		}
		byTable[key] = append(byTable[key], change)
	}
	// Tables that lack routes go first: a missing route does more harm than a leftover one.
	deletes := func(id arm.ID) bool {
		return !slices.ContainsFunc(byTable[id.Key()], func(change plan.Change) bool {
			return change.Verb != plan.Delete
		})
	}
	slices.SortStableFunc(tables, func(a, b arm.ID) int {
		switch {
		case deletes(a) == deletes(b):
			return 0
		case deletes(a):
			return 1
		}
		return -1
	})
	wait := map[string]bool{}
	for _, id := range tables {
		planned := byTable[id.Key()]
		_, _, refused := c.mem.refused[id.Key()].repeat(planned, etagOf(s, id))
		// a refused write is not sent, so its changes are not counted
		wait[id.Key()] = !refused && !l.allow(id, len(planned), time.Now())
	}
	c.reportWaiting(l, changes, wait)
	return slices.DeleteFunc(slices.Clone(changes), func(change plan.Change) bool {
		return wait[change.Resource.Key()]
	})
}

// reportWaiting reports, for each cluster, the changes that wait, and schedules the next check.
func (c *check) reportWaiting(l *limiter, changes []plan.Change, wait map[string]bool) {
	for _, config := range c.configs {
		name, waits, tables := config.Metadata.Name, 0, map[string]bool{}
		for _, change := range changes {
			if change.Cluster == name && wait[change.Resource.Key()] {
				waits++
				tables[change.Resource.Key()] = true
			}
		}
		if waits == 0 {
			continue
		}
		found := finding.New(finding.ChangesLimited, name, config.Spec.ClusterID,
			"%d changes to %d tables wait: the limit of %d changes per minute is used up",
			waits, len(tables), l.perMinute)
		c.mem.planned = append(c.mem.planned,
			found.WithAdvice("check whether the changes are intended; routekeeper run "+
				"--max-changes-per-minute sets the limit"))
		c.mem.retry(c.k.interval)
	}
}
