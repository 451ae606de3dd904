package keeper

import (
	"context"
	"maps"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Refused deletes. How it works: people remove a route table, a NAT gateway or a group from its
// subnets before they delete it. The keeper puts it back, and Azure refuses the delete, because a
// subnet uses it. So after a repair the keeper queries the activity log for such a delete, several
// times, because the log is minutes late. For a day, a finding names who tried to delete it. A
// restart forgets it.

// repaired is a resource that was put back on a subnet, and who tried to delete it.
type repaired struct {
	cluster  string // ID.Key()
	change   plan.Change
	from, at time.Time // when the check that first repaired it began, and the last repair
	asked    time.Time
	tried    *azure.RefusedDelete
}

// deleteDelays are the times after a repair at which the activity log is queried.
var deleteDelays = []time.Duration{2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	20 * time.Minute, 30 * time.Minute}

// triedFor is how long a refused delete is reported.
const triedFor = 24 * time.Hour

// noteRepaired notes that a change put something back on a subnet, and schedules the queries. They
// need no check.
func (w *worker) noteRepaired(c *check, cluster string, change plan.Change) {
	if change.Verb != plan.Associate || !w.k.runs() {
		return
	}
	_, id := change.New.Associated()
	r := w.mem.repaired[id.Key()]
	if r == nil {
		r = &repaired{from: c.began}
		w.mem.repaired[id.Key()] = r
	}
	r.cluster, r.change, r.at = cluster, change, time.Now()
	for _, delay := range deleteDelays {
		time.AfterFunc(delay, func() {
			if c.life.Err() == nil {
				w.post(cluster, func(w *worker) { w.askDeleted(id) })
			}
		})
	}
}

// forgetReleased forgets the resources that the configs no longer require.
func (c *check) forgetReleased(planner *plan.Planner) {
	maps.DeleteFunc(c.mem.repaired, func(_ string, r *repaired) bool {
		return !planner.Requires(r.change)
	})
}

// refusedDeletes returns a finding for each delete that Azure refused.
func (w *worker) refusedDeletes() (found []finding.Finding) {
	for key, r := range w.mem.repaired {
		switch {
		case r.tried != nil && time.Since(r.tried.At) <= triedFor:
			found = append(found, r.finding(w.nameOf(r.cluster)))
		case time.Since(r.at) > triedFor:
			delete(w.mem.repaired, key)
		}
	}
	return found
}

// askDeleted queries the activity log. The answer is posted to the worker, which then checks.
func (w *worker) askDeleted(id arm.ID) {
	r := w.mem.repaired[id.Key()]
	if r == nil || time.Since(r.asked) < time.Minute {
		return
	}
	r.asked = time.Now()
	from, cluster := r.from, r.cluster
	w.k.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, askFor)
		defer cancel()
		tried, known, err := w.k.azure.RefusedDelete(ctx, from, id)
		if err != nil {
			w.k.log.Info("the activity log does not show who tried to delete a resource",
				"resource", string(id), "error", err.Error())
		}
		if !known {
			return
		}
		w.post(cluster, func(w *worker) {
			if r := w.mem.repaired[id.Key()]; r != nil &&
				(r.tried == nil || r.tried.At.Before(tried.At)) {
				r.tried = &tried
				w.mem.checkAgain(time.Now())
			}
		})
	})
}

// finding says who tried to delete what the config requires.
func (r *repaired) finding(cluster string) finding.Finding {
	property, id := r.change.New.Associated()
	return finding.New(finding.DeleteRefused, cluster, string(id),
		"Azure refused to delete %s %s, because a subnet has it; the config of %s requires it on "+
			"%s, where it was put back at %s; %s", property.Name(), id.Short(), cluster,
		r.change.Resource.Short(), r.at.UTC().Format("2006-01-02 15:04:05 UTC"), r.tried).
		WithAdvice("if it is removed on purpose, first take it out of the config of %s, or pause "+
			"the cluster", cluster).
		WithFix("routekeeper pause %s --for 1h%s", cluster, finding.Config())
}
