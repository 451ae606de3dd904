package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Past is one check of the history: its input, its output and the difference between them.
type Past struct {
	ID      int64
	Started time.Time
	// By is what started it. Caller is the sender of an event, "" for other checks.
	By, Caller string
	// Event has the fields of the event that triggered it, safe to show; none for other causes.
	Event [][]string
	// Elapsed is how long it took; nil if it did not end.
	Elapsed *time.Duration
	ARM     Calls
	// Observed has resources, and their state before the check, safe to show.
	Observed [][]string
	Changes  []PastChange
	Findings []PastFinding
}

// PastChange is a change and its outcome.
type PastChange struct {
	plan.Outcome
	// Open is set if no outcome was seen. Lost is set if the program ended before it saw the
	// outcome, and the change was not in place afterwards. Found is set if it was.
	Open, Lost, Found bool
	// Settled is the time at which the outcome was seen; zero if none was.
	Settled time.Time
	// Note adds what else is known about the outcome.
	Note string
	// ChangedBy says who made the change that this one repaired; "" if unknown.
	ChangedBy string
	// Story says on one line how the repair went, or is "" if the change repaired nothing.
	Story string
}

// PastFinding is a finding that appeared (New) or disappeared.
type PastFinding struct {
	News string
	New  bool
	finding.Finding
}

// History lists past checks. Value is its JSON.
type History struct {
	Checks []Past
	// Limit is the largest number of checks that was asked for; 0 for all.
	Limit int
	// Repairs is a line about the time to repair; "" if nothing was repaired.
	Repairs string
	Value   any
}

// Write writes the list in the given format.
func (h History) Write(w io.Writer, format Format, style Style) error {
	table := Table{Header: []string{"id", "when", "started by", "names", "what"}, Value: h.Value}
	for _, p := range h.Checks {
		table.Rows = append(table.Rows, []string{strconv.FormatInt(p.ID, 10), when(p.Started),
			p.wokenBy(), shortList(p.clusters()), p.Summary()})
	}
	if len(h.Checks) == 0 {
		table.Lines = []string{"No such check is recorded."}
	} else if len(h.Checks) == h.Limit {
		table.Lines = []string{fmt.Sprintf("These are the newest %d: --limit 0 shows all.",
			h.Limit)}
	}
	if h.Repairs != "" {
		table.Lines = append(table.Lines, h.Repairs)
	}
	return table.Write(w, format, style)
}

// shortList names the first of many clusters: a check that reads a whole fleet concerns them all.
func shortList(names []string) string {
	const most = 4
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// when writes a time in the local time zone.
func when(t time.Time) string { return t.Local().Format(time.DateTime) }

func (p Past) wokenBy() string {
	if p.Caller != "" {
		return p.By + " from " + plain(p.Caller)
	}
	return p.By
}

// clusters lists the clusters that the check concerned.
func (p Past) clusters() []string {
	var names []string
	for _, c := range p.Changes {
		names = append(names, c.Cluster)
	}
	for _, f := range p.Findings {
		if f.Cluster != "" {
			names = append(names, f.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Summary says in one line what the check did.
func (p Past) Summary() string {
	var parts []string
	var settled []plan.Outcome
	open, lost, found := 0, 0, 0
	for _, c := range p.Changes {
		switch {
		case c.Open:
			open++
		case c.Lost:
			lost++
		case c.Found:
			found++
		default:
			settled = append(settled, c.Outcome)
		}
	}
	if len(settled) > 0 {
		parts = append(parts, Result{Changes: settled}.Summary())
	}
	if open > 0 {
		parts = append(parts,
			finding.Count(open, "change")+" under way, or interrupted: outcome unknown")
	}
	if lost > 0 {
		parts = append(parts, finding.Count(lost, "change")+" interrupted and not made")
	}
	if stories := p.stories(); len(stories) > 0 {
		parts[0] += ": " + stories[0]
		if more := len(stories) - 1; more > 0 {
			parts[0] += fmt.Sprintf("; and %d more", more)
		}
	}
	if found > 0 {
		parts = append(parts, finding.Count(found, "change")+" interrupted, and found in place")
	}
	parts = append(parts, p.news()...)
	if p.Elapsed == nil && open+lost+found == 0 {
		parts = append(parts, "interrupted")
	}
	return strings.Join(parts, ", ")
}

// news says which findings were new or resolved, grouped by code.
func (p Past) news() (parts []string) {
	var order []string
	count := map[string]int{}
	for _, f := range p.Findings {
		text := string(f.Code) + " " + f.News
		if count[text]++; count[text] == 1 {
			order = append(order, text)
		}
	}
	for _, text := range order {
		if n := count[text]; n > 1 {
			text = fmt.Sprintf("%d × %s", n, text)
		}
		parts = append(parts, text)
	}
	return parts
}

// stories returns the Story of each of its repairs.
func (p Past) stories() (lines []string) {
	for _, c := range p.Changes {
		if c.Story != "" {
			lines = append(lines, plain(c.Story))
		}
	}
	return lines
}

// Write writes the check as text.
func (p Past) Write(w io.Writer, format Format, style Style) error {
	var out string
	switch format {
	case Short:
		for _, rows := range [][][]string{p.changeRows(), p.findingRows(false)} {
			if err := (Table{Rows: rows}).Write(w, format, style); err != nil {
				return err
			}
		}
		return nil
	case Markdown:
		out = p.markdown()
	default:
		out = p.text(style)
	}
	return put(w, out)
}

// head returns the first line: what the check was, and how long it took.
func (p Past) head() (what, took string) {
	took = "did not end"
	if p.Elapsed != nil {
		took = fmt.Sprintf("%s; ARM: %s", Duration(*p.Elapsed), p.ARM)
	}
	return fmt.Sprintf("Check %d, %s, started by %s", p.ID, when(p.Started), p.wokenBy()), took
}

func (p Past) changeRows() (rows [][]string) {
	for _, c := range p.Changes {
		rows = append(rows, []string{c.Resource.Short(), string(c.Verb), plain(c.Route),
			orNothing(c.Old),
			orNothing(c.New), c.became(), plain(c.Why), plain(c.ChangedBy)})
	}
	return rows
}

// findingRows returns the findings that appeared and disappeared, or only the latter.
func (p Past) findingRows(gone bool) (rows [][]string) {
	for _, f := range p.Findings {
		if !gone || !f.New {
			rows = append(rows, []string{f.News, string(f.Code), f.Cluster, plain(f.Message)})
		}
	}
	return rows
}

func (p Past) markdown() string {
	var b strings.Builder
	what, took := p.head()
	fmt.Fprintf(&b, "**%s** (%s)\n", prose(what), prose(took))
	section := func(title string, rows [][]string, header ...string) {
		if len(rows) > 0 {
			fmt.Fprintf(&b, "\n%s:\n\n%s", title, MarkdownTable(header, rows))
		}
	}
	section("Event (claims and addresses are not kept)", p.Event, "field", "value")
	section("Read before", p.Observed, "resource", "read")
	section("Changes", p.changeRows(),
		"resource", "change", "route", "before", "after", "outcome", "why", "changed before by")
	section("Findings", p.findingRows(false), "news", "code", "name", "message")
	return b.String()
}

func (p Past) text(style Style) string {
	var b strings.Builder
	what, took := p.head()
	fmt.Fprintf(&b, "%s\n%s\n", style.Bold(what), style.Dim(took))
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n", style.Bold(title))
			for _, line := range lines {
				fmt.Fprintln(&b, "  "+line)
			}
		}
	}
	section("Repaired", p.stories())
	section("Event (claims and addresses are not kept)", Columns(p.Event))
	section("Read before", Columns(p.Observed))
	section("Changes", p.diff(style))
	section("Findings that are gone", Columns(p.findingRows(true)))
	var came []finding.Finding
	for _, f := range p.Findings {
		if f.New {
			came = append(came, f.Finding)
		}
	}
	b.WriteString(FindingsText(came, style))
	return b.String()
}

// diff shows the changes, before and after, by resource.
func (p Past) diff(style Style) (lines []string) {
	for i, c := range p.Changes {
		if i == 0 || !c.Resource.Equal(p.Changes[i-1].Resource) {
			lines = append(lines, plain(c.Resource.Short())+"  "+style.Dim(string(c.Resource)))
		}
		what := plain(c.Route)
		if c.Verb == plan.Associate {
			property, _ := c.New.Associated()
			what = property.Name()
		}
		if c.Old != nil {
			lines = append(lines, "  "+style.Red("- "+what+"  "+orNothing(c.Old)))
		}
		if c.New != nil {
			lines = append(lines, "  "+style.Green("+ "+what+"  "+orNothing(c.New)))
		}
		lines = append(lines, "    "+c.became()+": "+plain(c.Why))
		if c.Note != "" && c.State == plan.Done { // the state of Azure's network afterwards
			lines = append(lines, "    "+plain(c.Note))
		}
		if c.ChangedBy != "" {
			lines = append(lines, "    changed before by: "+plain(c.ChangedBy))
		}
		if c.Error != "" {
			lines = append(lines, "    "+style.Red(plain(c.Error)))
		}
	}
	return lines
}

func orNothing(v *plan.Value) string {
	if v == nil {
		return "nothing"
	}
	return plain(v.String())
}

// became returns the outcome of a change in words.
func (c PastChange) became() string {
	switch {
	case c.Note != "" && c.State != plan.Done:
		return plain(fmt.Sprintf("%s (%s)", c.State, c.Note))
	case c.Open:
		return "under way, or interrupted: outcome unknown"
	case !c.Settled.IsZero():
		return fmt.Sprintf("%s at %s", c.State, c.Settled.Local().Format(time.TimeOnly))
	}
	return plain(string(c.State))
}
