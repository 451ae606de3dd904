package history

import (
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// check is the row of a check, as far as it has progressed.
type check struct {
	number  *int64
	started time.Time
	woke    keeper.Cause
	ended   *keeper.Result
	changes map[string]*change // by key
}

// change adds a change to the check.
func (r *check) change(o plan.Outcome, correctAt time.Time) *change {
	c := &change{number: new(int64), of: r, outcome: o, begun: time.Now(), correctAt: correctAt}
	if o.State != Intended {
		c.settled = c.begun
	}
	r.changes[keyOf(o.Change)] = c
	return c
}

// writeStep returns the step that writes the row in its current state.
func (r *check) writeStep() step { c := *r; return &c }

func (r *check) write(b *batch) error {
	var elapsed any
	var end keeper.Result
	if r.ended != nil {
		end, elapsed = *r.ended, r.ended.Elapsed.Milliseconds()
	}
	if end.Observed == nil {
		end.Observed = []keeper.Observation{}
	}
	event := ""
	if r.woke.Event != nil {
		event = document(r.woke.Event)
	}
	return b.insert(r.number, "checks", "started, elapsed_ms, woke_by, caller, event, complete, "+
		"observed, reads, writes, polls",
		r.started.UnixMilli(), elapsed, r.woke.By, r.woke.Caller, event, end.Complete,
		document(end.Observed), end.Reads, end.Writes, end.Polls)
}

// change is the row of a change.
type change struct {
	number         *int64
	of             *check
	outcome        plan.Outcome
	begun, settled time.Time
	correctAt      time.Time // when the resource was last seen correct, or zero
}

func (c *change) writeStep() step { copied := *c; return &copied }

func (c *change) write(b *batch) error {
	if err := b.ensure(c.of); err != nil {
		return err
	}
	asked := noMoreQueries
	if repairs(c.outcome.Change) {
		asked = 0
	}
	return b.insert(c.number, "changes", "asked, check_id, key, cluster, change, state, error, "+
		"note, intended, settled, true_at",
		asked, *c.of.number, keyOf(c.outcome.Change), c.outcome.Cluster, document(c.outcome.Change),
		string(c.outcome.State), c.outcome.Error, "", c.begun.UnixMilli(), orNull(c.settled),
		orNull(c.correctAt))
}

func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// ensure makes sure that a check is in the file, which may be a new one after damage or removal.
func (b *batch) ensure(r *check) error {
	if b.present[r.number] {
		return nil
	}
	there := 0
	if *r.number != 0 {
		if err := b.QueryRow("SELECT count(*) FROM checks WHERE id = ?",
			*r.number).Scan(&there); err != nil {
			return err
		}
	}
	if there == 0 {
		if err := r.write(b); err != nil {
			return err
		}
	}
	b.present[r.number] = true
	return nil
}

// News about a finding compared to the last check: it is new, more or less severe, has other words,
// is resolved, is covered by the finding that its repair failed, or is no longer checked.
const (
	New        = "new"
	Worse      = "worse"
	Milder     = "milder"
	Reworded   = "changed"
	Resolved   = "resolved"
	Unrepaired = "not repaired"
	Hidden     = "not checked"
)

// findingRow is the row of a finding that changed.
type findingRow struct {
	of      *check
	news    string
	finding finding.Finding
}

func (t *findingRow) write(b *batch) error {
	if err := b.ensure(t.of); err != nil {
		return err
	}
	return b.insert(new(int64), "findings", "check_id, news, cluster, finding", *t.of.number,
		t.news,
		t.finding.Cluster, document(t.finding))
}

// tell adds findings that changed.
func (r *check) tell(j *journal, news string, findings []finding.Finding) {
	for _, f := range findings {
		j.add(&findingRow{r, news, f})
	}
}
