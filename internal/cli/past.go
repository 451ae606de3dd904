package cli

import (
	"time"

	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/report"
)

func pastReport(e history.Entry) report.Past {
	p := report.Past{ID: e.ID, Started: e.Started, By: e.Woke.By, Caller: e.Woke.Caller,
		Event: eventRows(e.Woke.Event),
		ARM:   report.Calls{Reads: e.Reads, Writes: e.Writes, Polls: e.Polls}}
	if e.ElapsedMs != nil {
		elapsed := time.Duration(*e.ElapsedMs) * time.Millisecond
		p.Elapsed = &elapsed
	}
	for _, o := range e.Observed {
		p.Observed = append(p.Observed, []string{o.Resource.Short(), report.Plain(o.Read)})
	}
	for _, c := range e.Changes {
		change := report.PastChange{Outcome: c.Outcome, Note: c.Note,
			Open: c.State == history.Intended, Lost: c.State == history.Interrupted,
			Found: c.State == history.Found}
		if c.Settled != nil {
			change.Settled = *c.Settled
		}
		if story, is := e.Story(c); is {
			change.Story = story.String()
		}
		if c.ChangedBy != nil {
			change.ChangedBy = c.ChangedBy.Line
		}
		p.Changes = append(p.Changes, change)
	}
	for _, f := range e.Findings {
		p.Findings = append(p.Findings,
			report.PastFinding{News: f.News, Finding: f.Finding, New: f.Existed()})
	}
	return p
}

// eventRows returns the fields of an event that the history keeps.
func eventRows(e *keeper.Event) (rows [][]string) {
	if e == nil {
		return nil
	}
	const local = "2006-01-02 15:04:05.000"
	rows = append(rows, []string{"received", e.Received.Local().Format(local)})
	if !e.At.IsZero() {
		rows = append(rows, []string{"of", e.At.Local().Format(local)})
	}
	for _, row := range [][]string{{"format", e.Format}, {"caller", e.Caller},
		{"operation", e.Operation}, {"status", e.Status}, {"correlation", e.Correlation}} {
		if row[1] != "" {
			rows = append(rows, []string{row[0], report.Plain(row[1])})
		}
	}
	for _, id := range e.Resources {
		rows = append(rows, []string{"resource", report.Plain(string(id))})
	}
	return rows
}
