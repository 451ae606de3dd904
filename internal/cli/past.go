package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

// when writes a time as a person reads it, where the person is.
func when(t time.Time) string { return t.Local().Format(time.DateTime) }

func wokenBy(e history.Entry) string {
	if e.Woke.Caller != "" {
		return e.Woke.By + " from " + report.Plain(e.Woke.Caller)
	}
	return e.Woke.By
}

// clustersOf lists the clusters that a round had something to do with.
func clustersOf(e history.Entry) []string {
	var names []string
	for _, c := range e.Changes {
		names = append(names, c.Cluster)
	}
	for _, f := range e.Findings {
		if f.Cluster != "" {
			names = append(names, f.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// summary says in one line what a round did.
func summary(e history.Entry) string {
	var parts []string
	if changes := (report.Round{Changes: settled(e)}); len(changes.Changes) > 0 {
		parts = append(parts, changes.Summary())
	}
	open, lost := 0, 0
	for _, c := range e.Changes {
		switch c.State {
		case history.Intended:
			open++
		case history.Interrupted:
			lost++
		}
	}
	if open > 0 {
		parts = append(parts, report.Count(open, "change")+" under way, or interrupted: outcome unknown")
	}
	if lost > 0 {
		parts = append(parts, report.Count(lost, "change")+" interrupted and not made")
	}
	for _, f := range e.Findings {
		parts = append(parts, string(f.Code)+" "+f.News)
	}
	if e.ElapsedMs == nil && open+lost == 0 {
		parts = append(parts, "interrupted")
	}
	return strings.Join(parts, ", ")
}

// settled are the changes whose outcome is known.
func settled(e history.Entry) []plan.Outcome {
	var outcomes []plan.Outcome
	for _, c := range e.Changes {
		if c.State != history.Intended && c.State != history.Interrupted {
			outcomes = append(outcomes, c.Outcome)
		}
	}
	return outcomes
}

// pastRound shows one round of the history.
type pastRound history.Entry

// Write writes the round for people: input, output and the difference between them.
func (p pastRound) Write(w io.Writer, format report.Format, style report.Style) error {
	e := history.Entry(p)
	head := fmt.Sprintf("Round %d, %s, woken by %s", e.ID, when(e.Started), wokenBy(e))
	took := "did not come to its end"
	if e.ElapsedMs != nil {
		took = fmt.Sprintf("%s; ARM: %s", report.Duration(time.Duration(*e.ElapsedMs)*time.Millisecond), report.Calls{Reads: e.Reads, Writes: e.Writes, Polls: e.Polls})
	}
	var seen, did, found [][]string
	for _, o := range e.Observed {
		seen = append(seen, []string{o.Resource.Short(), report.Plain(o.Read)})
	}
	for _, c := range e.Changes {
		did = append(did, []string{c.Resource.Short(), string(c.Verb), report.Plain(c.Route), orNothing(c.Old), orNothing(c.New), outcome(c), report.Plain(c.Why), changedBy(c)})
	}
	var messages []finding.Finding
	for _, f := range e.Findings {
		found = append(found, []string{f.News, string(f.Code), f.Cluster, report.Plain(f.Message)})
		if f.News == history.New {
			messages = append(messages, f.Finding)
		}
	}
	changes := []string{"resource", "change", "route", "before", "after", "outcome", "why", "changed before by"}
	switch format {
	case report.Short:
		for _, rows := range [][][]string{did, found} {
			if err := (report.Table{Rows: rows}).Write(w, format, style); err != nil {
				return err
			}
		}
		return nil
	case report.Markdown:
		fmt.Fprintf(w, "**%s** (%s)\n", head, took)
		for _, part := range []struct {
			title  string
			header []string
			rows   [][]string
		}{{"Seen before", []string{"resource", "read"}, seen}, {"Changes", changes, did}, {"Findings", []string{"news", "code", "cluster", "message"}, found}} {
			if len(part.rows) > 0 {
				fmt.Fprintf(w, "\n%s:\n\n%s", part.title, report.MarkdownTable(part.header, part.rows))
			}
		}
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", style.Bold(head), style.Dim(took))
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n", style.Bold(title))
			for _, line := range lines {
				fmt.Fprintln(&b, "  "+line)
			}
		}
	}
	section("Seen before", report.Columns(seen))
	var diff []string
	for i, c := range e.Changes {
		if i == 0 || !c.Resource.Equal(e.Changes[i-1].Resource) {
			diff = append(diff, report.Plain(c.Resource.Short())+"  "+style.Dim(string(c.Resource)))
		}
		what := report.Plain(c.Route)
		if c.Verb == plan.Associate {
			what = "route table"
		}
		if c.Old != nil {
			diff = append(diff, "  "+style.Red("- "+what+"  "+orNothing(c.Old)))
		}
		if c.New != nil {
			diff = append(diff, "  "+style.Green("+ "+what+"  "+orNothing(c.New)))
		}
		diff = append(diff, "    "+outcome(c)+": "+report.Plain(c.Why))
		if c.Note != "" && c.State == plan.Done { // what Azure's network said afterwards
			diff = append(diff, "    "+report.Plain(c.Note))
		}
		if who := changedBy(c); who != "" {
			diff = append(diff, "    changed before by: "+who)
		}
		if c.Error != "" {
			diff = append(diff, "    "+style.Red(report.Plain(c.Error)))
		}
	}
	section("Changes", diff)
	var gone [][]string
	for _, f := range e.Findings {
		if f.News != history.New {
			gone = append(gone, []string{f.News, string(f.Code), f.Cluster, report.Plain(f.Message)})
		}
	}
	section("Findings that are gone", report.Columns(gone))
	b.WriteString(report.FindingsText(messages, style))
	_, err := io.WriteString(w, b.String())
	return err
}

func orNothing(v *plan.Value) string {
	if v == nil {
		return "nothing"
	}
	return report.Plain(v.String())
}

func changedBy(c history.Change) string {
	if c.ChangedBy == nil {
		return ""
	}
	return report.Plain(c.ChangedBy.Line)
}

// outcome says what became of a change.
func outcome(c history.Change) string {
	switch {
	case c.Note != "" && c.State != plan.Done:
		return fmt.Sprintf("%s (%s)", c.State, c.Note)
	case c.State == history.Intended:
		return "under way, or interrupted: outcome unknown"
	case c.Settled != nil:
		return fmt.Sprintf("%s at %s", c.State, c.Settled.Local().Format(time.TimeOnly))
	}
	return string(c.State)
}
