package history

import (
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestStory: what is known of a repair makes one line. A first repair is no story, because nothing
// says when that was lost.
func TestStory(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 14, 2, 0, time.Local)
	after := func(d time.Duration) *time.Time { then := at.Add(d); return &then }
	strip := Change{Outcome: done(associate())[0], Settled: after(1200 * time.Millisecond),
		Correct: after(-time.Minute)}
	entry := Entry{Started: *after(450 * time.Millisecond), Woke: keeper.Cause{By: keeper.ByEvent,
		Event: &keeper.Event{Received: *after(400 * time.Millisecond), At: at, Caller: "a pipeline",
			Operation: "Microsoft.Network/virtualNetworks/subnets/write",
			Resources: []arm.ID{nodes}}}}
	const by = "09:14:02 stripped by a pipeline through " +
		"Microsoft.Network/virtualNetworks/subnets/write, seen 0.4 s later, restored in 1.2 s"
	polled := Entry{Started: at}
	elsewhere := entry
	elsewhere.Woke.Event = &keeper.Event{Caller: "another", Resources: []arm.ID{target}}
	logged, first, failed := strip, strip, strip
	logged.ChangedBy = &Writer{Name: "Ann Example", At: *after(-time.Second), Operation: "x/write"}
	first.Correct = nil
	failed.State = plan.Failed
	for name, c := range map[string]struct {
		entry  Entry
		change Change
		want   string
	}{
		"by an event": {entry, strip, by},
		"by a check": {polled, strip, "09:14:02 stripped, restored in 1.2 s; who did " +
			"it is not known"},
		"event of another": {elsewhere, strip, "09:14:02 stripped, restored in 0.8 s; who " +
			"did it is not known"},
		"the log knows better": {polled, logged, "09:14:01 stripped by Ann Example through " +
			"x/write, seen 1.0 s later, restored in 2.2 s"},
		"never seen in place": {entry, first, ""},
		"not restored":        {entry, failed, ""},
	} {
		got := ""
		if s, is := c.entry.Story(c.change); is {
			got = s.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRepairs: the time to repair counts from the change of the other writer, where that is known.
// The event is in the file, too.
func TestRepairs(t *testing.T) {
	p := newPast(t)
	p.change(create(1)) // no repair
	p.change(associate())
	for i := range 20 {
		r := p.start()
		r.Woke = keeper.Cause{By: keeper.ByEvent, Event: &keeper.Event{Received: r.Started,
			At:     r.Started.Add(-time.Duration(i+1) * time.Second),
			Caller: "a pipeline", Format: "Event Grid", Resources: []arm.ID{nodes}}}
		p.Intend(r, []plan.Change{associate()})
		r.Changes, r.Complete = done(associate()), true
		p.Settle(r.Changes)
		p.Record(r, seenWith(table))
	}
	reader, err := Read(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	sum, err := reader.Repairs("", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	near := func(ms, seconds int64) bool { return ms >= seconds*1000 && ms < seconds*1000+900 }
	// the first one has not been seen in place before
	if sum.Count != 19 || !near(sum.P50Ms, 11) || !near(sum.P95Ms, 20) || !near(sum.MaxMs, 20) {
		t.Errorf("%+v", sum)
	}
	if of, err := reader.Repairs("other", time.Now()); err != nil || of.Count != 0 ||
		of.String() != "" {
		t.Errorf("of another cluster: %+v, %v", of, err)
	}
	if of, err := reader.Repairs("", time.Now().AddDate(0, 0, RepairDays+1)); err != nil ||
		of.Count != 0 {
		t.Errorf("a month later: %+v, %v", of, err)
	}
	repaired := read(t, p.path, Query{Kind: KindRepair})
	if len(repaired) != 19 || repaired[0].Kind() != KindRepair ||
		repaired[0].Woke.Event.Format != "Event Grid" ||
		!strings.Contains(sum.String(), "(repairs: 19)") {
		t.Errorf("%d checks; %+v; %s", len(repaired), repaired[0].Woke.Event, sum)
	}
}

// TestKind: a change that is only planned, in a pause or on a dry run, is observed. A check is
// interrupted only if it did not end.
func TestKind(t *testing.T) {
	ended := new(int64)
	of := func(elapsed *int64, states ...plan.OutcomeState) string {
		e := Entry{ElapsedMs: elapsed}
		for _, state := range states {
			e.Changes = append(e.Changes, Change{Outcome: plan.Outcome{State: state}})
		}
		return e.Kind()
	}
	for _, c := range []struct{ got, want string }{
		{of(ended, plan.Planned), KindObserved}, {of(ended, plan.Observed), KindObserved},
		{of(ended, plan.Obsolete), ""}, {of(nil), KindInterrupted},
		{of(ended, plan.Planned, plan.Skipped), KindRefusal},
	} {
		if c.got != c.want {
			t.Errorf("kind %q, want %q", c.got, c.want)
		}
	}
}
