package keeper

import (
	"encoding/json"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestAge: a state is as old as its first check. An outage, a restart, or both do not make it
// younger; another state in between does.
func TestAge(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var j judged
	var stored *verdict.Before
	for minute, step := range []struct {
		state   verdict.State
		restart bool
		since   int // the minute
	}{
		{verdict.InSync, false, 0},
		{verdict.Broken, false, 1},
		{verdict.Broken, false, 1},
		{verdict.Unknown, false, 3},
		{verdict.Broken, false, 1},
		{verdict.Broken, true, 1},
		{verdict.Unknown, false, 6},
		{verdict.Unknown, true, 6},
		{verdict.Broken, false, 1},
		{verdict.InSync, false, 9},
		{verdict.Broken, false, 10},
		{verdict.Unknown, false, 11},
		{verdict.InSync, false, 12},
	} {
		if step.restart {
			last := verdict.Verdict{State: j.last.state, Since: j.last.since, Before: stored}
			raw, err := json.Marshal(Lasting{Verdict: &last})
			if err != nil {
				t.Fatal(err)
			}
			var l Lasting
			if err := json.Unmarshal(raw, &l); err != nil {
				t.Fatal(err)
			}
			j = recallJudged(l)
		}
		now := start.Add(time.Duration(minute) * time.Minute)
		v := j.age(verdict.Verdict{State: step.state}, now)
		if want := start.Add(time.Duration(step.since) * time.Minute); !v.Since.Equal(want) {
			t.Errorf("minute %d, %s: since %s, want %s", minute, step.state, v.Since, want)
		}
		j.note(v)
		stored = v.Before
	}
}
