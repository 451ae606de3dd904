package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Story is how a repair went: who broke what, when the keeper saw it, and when it was correct
// again.
type Story struct {
	// What happened to the resource, such as "stripped".
	What string
	// At is when it happened, By who did it, Operation how. They are known from the event or, some
	// minutes later, from the activity log. Until then they are zero.
	At            time.Time
	By, Operation string
	// Seen is when the event arrived, or when the check began. Restored is when the repair ended.
	Seen, Restored time.Time
}

// Took returns the time to repair: since it happened or, if that is not known, since it was seen.
func (s Story) Took() time.Duration { return max(0, s.Restored.Sub(s.began())) }

// began returns when it happened, as far as known.
func (s Story) began() time.Time {
	if s.At.IsZero() || s.At.After(s.Seen) {
		return s.Seen
	}
	return s.At
}

// String returns the story on one line.
func (s Story) String() string {
	line := s.began().Local().Format(time.TimeOnly) + " " + s.What
	if s.By != "" {
		line += " by " + s.By
	}
	if s.Operation != "" {
		line += " through " + s.Operation
	}
	if !s.At.IsZero() {
		line += ", seen " + seconds(s.Seen.Sub(s.began())) + " later"
	}
	line += ", restored in " + seconds(s.Took())
	if s.By == "" {
		line += "; who did it is not known"
	}
	return line
}

func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Story returns how a change repaired something. It returns false for other changes. It also does
// for a first repair of what no check has seen in place, because nothing says when that was lost.
func (e Entry) Story(c Change) (Story, bool) {
	if !c.Repair && (c.Verb != plan.Associate || c.Correct == nil) || c.State != plan.Done ||
		c.Settled == nil {
		return Story{}, false
	}
	s := Story{What: happened(c.Change), Seen: e.Started, Restored: *c.Settled}
	if event := e.Woke.Event; event != nil && concerns(*event, c) {
		s.Seen = event.Received
		s.At, s.By, s.Operation = event.At, event.Caller, event.Operation
	}
	if w := c.ChangedBy; w != nil && !w.At.IsZero() {
		s.At, s.Operation = w.At, w.Operation
		s.By = cmp.Or(w.Name, s.By, w.Caller)
	}
	return s, true
}

// happened says what another writer did to the resource that a change repairs.
func happened(c plan.Change) string {
	switch {
	case c.Verb == plan.Associate && c.Old == nil:
		return "stripped"
	case c.Verb == plan.Associate:
		property, _ := c.New.Associated()
		return "given another " + property.Name()
	case c.Verb == plan.Create:
		return "route deleted"
	case c.Verb == plan.Delete:
		return "route added"
	}
	return "route changed"
}

// concerns reports whether an event is about the resource of a change: the resource itself,
// something in it, or the network of a subnet. An event from before the resource was last seen
// correct did not break it.
func concerns(e keeper.Event, c Change) bool {
	if c.Correct != nil && !e.At.IsZero() && e.At.Before(c.Correct.Add(-earlier)) {
		return false
	}
	return slices.ContainsFunc(e.Resources, func(id arm.ID) bool {
		return id.Equal(c.Resource) || id.Parent().Equal(c.Resource) ||
			c.Resource.Is(arm.TypeSubnet) && id.Equal(c.Resource.Parent())
	})
}

// isRepair selects the rows of changes that repaired something. Searching the text is faster than
// reading the JSON of thousands of changes.
const isRepair = "c.state = 'done' AND (c.change LIKE '%\"repair\":true%' OR " +
	"c.true_at IS NOT NULL AND c.change LIKE '{\"verb\":\"associate\"%')"

// Repairs sums up how long repairs took.
type Repairs struct {
	Days  int   `json:"days"` // over how many days
	Count int   `json:"count"`
	P50Ms int64 `json:"p50Ms"`
	P95Ms int64 `json:"p95Ms"`
	MaxMs int64 `json:"maxMs"`
}

// RepairDays is over how many days Repairs are summed up.
const RepairDays = 30

// mostRepairs limits how many are read: the newest.
const mostRepairs = 10000

// Repairs sums up the repairs of the last days, of one cluster or, with "", of all.
func (r *Reader) Repairs(cluster string, now time.Time) (Repairs, error) {
	sum := Repairs{Days: RepairDays}
	var took []int64
	err := each(r.db, func(scan scanner) error {
		var started int64
		var settled, correct *int64
		e, c := Entry{}, Change{}
		err := scan(&started, kept{&e.Woke.Event}, kept{&c.Change}, &settled, kept{&c.ChangedBy},
			&correct)
		e.Started = time.UnixMilli(started)
		if err != nil || settled == nil {
			return err
		}
		c.State, c.Settled, c.Correct = plan.Done, moment(settled), moment(correct)
		if s, is := e.Story(c); is {
			took = append(took, s.Took().Milliseconds())
		}
		return nil
	}, "SELECT r.started, r.event, c.change, c.settled, c.writer, c.true_at FROM checks r JOIN "+
		"changes c ON c.check_id = r.id WHERE r.started >= ?1 AND (?2 = '' OR c.cluster = ?2) AND "+
		isRepair+" ORDER BY r.id DESC LIMIT ?3",
		now.AddDate(0, 0, -RepairDays).UnixMilli(), cluster, mostRepairs)
	if slices.Sort(took); len(took) > 0 {
		at := func(percent int) int64 { return took[(len(took)*percent+99)/100-1] }
		sum.Count, sum.P50Ms, sum.P95Ms, sum.MaxMs = len(took), at(50), at(95), at(100)
	}
	return sum, err
}

// String returns the sum on one line, "" if there was no repair.
func (r Repairs) String() string {
	if r.Count == 0 {
		return ""
	}
	of := func(ms int64) string { return seconds(time.Duration(ms) * time.Millisecond) }
	return fmt.Sprintf("Time to repair over %d days: p50 %s, p95 %s, max %s (repairs: %d).", r.Days,
		of(r.P50Ms), of(r.P95Ms), of(r.MaxMs), r.Count)
}

// Kind returns the kind of a check that says most about it.
func (e Entry) Kind() string {
	is := map[string]bool{KindFinding: len(e.Findings) > 0}
	for _, c := range e.Changes {
		switch c.State {
		case plan.Done:
			_, repair := e.Story(c)
			is[KindRepair] = is[KindRepair] || repair
			is[KindChange] = true
		case plan.Failed, plan.Skipped:
			is[KindRefusal] = true
		case plan.Observed, plan.Planned:
			is[KindObserved] = true
		case Intended, Found: // under way, or made by a program that was killed
			is[KindChange] = true
		case Interrupted:
			is[KindInterrupted] = true
		case plan.Obsolete: // says nothing
		}
	}
	for _, kind := range []string{KindRefusal, KindRepair, KindChange, KindInterrupted,
		KindObserved, KindFinding} {
		if is[kind] {
			return kind
		}
	}
	if e.ElapsedMs == nil {
		return KindInterrupted
	}
	return "" // what it found was no longer needed
}
