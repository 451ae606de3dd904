package cli

import (
	"time"

	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/report"
)

// pastReport makes a report of a check in the history.
func pastReport(e history.Entry) report.Past {
	p := report.Past{ID: e.ID, Started: e.Started, By: e.Woke.By, Caller: e.Woke.Caller,
		ARM: report.Calls{Reads: e.Reads, Writes: e.Writes, Polls: e.Polls}}
	if event := e.Woke.Event; event != nil {
		p.Event = &report.PastEvent{Received: event.Received, At: event.At, Format: event.Format,
			Caller: event.Caller, Operation: event.Operation, Status: event.Status,
			Correlation: event.Correlation}
		for _, id := range event.Resources {
			p.Event.Resources = append(p.Event.Resources, string(id))
		}
	}
	if e.ElapsedMs != nil {
		elapsed := time.Duration(*e.ElapsedMs) * time.Millisecond
		p.Elapsed = &elapsed
	}
	for _, o := range e.Observed {
		p.Observed = append(p.Observed,
			report.PastReading{Resource: o.Resource.Short(), Read: o.Read})
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
			report.PastFinding{News: f.News, Finding: f.Finding, New: f.Stands()})
	}
	return p
}
