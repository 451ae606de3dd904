package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// functions are available in the templates.
var functions = template.FuncMap{
	"ago":   func(t time.Time) string { return ago(time.Since(t)) },
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"full":  func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") },
	"clock": func(t time.Time) string { return t.Local().Format(time.TimeOnly) },
	"since": func(t time.Time) string {
		if time.Since(t) < 24*time.Hour {
			return t.Local().Format(time.TimeOnly)
		}
		return t.Local().Format("2006-01-02 15:04")
	},
	"count": finding.Count,
	"duration": func(ms *int64) string {
		return report.Duration(time.Duration(*ms) * time.Millisecond)
	},
	"short": func(id string) string { return arm.ID(id).Short() },
	"calls": func(e history.Entry) string {
		return report.Calls{Reads: e.Reads, Writes: e.Writes, Polls: e.Polls}.String()
	},
	"trigger":   trigger,
	"concerns":  concerns,
	"did":       did,
	"stories":   stories,
	"tone":      tone,
	"states":    func() []string { return []string{Bad, Noted, Unseen, Busy, Good} },
	"stateName": func(state string) string { return stateNames[state] },
	"explain":   func(c finding.Code) string { return finding.Describe(c).Meaning },
	"microsoft": func(c finding.Code) string { return finding.Describe(c).Page },
	"role": func(role string) string {
		if role == picture.RoleCluster {
			return "the cluster's route table"
		}
		return "target"
	},
	"verb": verb,
	"associated": func(v *plan.Value) arm.ID {
		_, id := v.Associated()
		return id
	},
	"would": would,
	"first": func(changes []plan.Outcome) []plan.Outcome {
		return changes[:min(len(changes), firstChanges)]
	},
	"first3": func(lines []string) []string { return lines[:min(len(lines), 3)] },
	"rest":   func(changes []plan.Outcome) int { return max(0, len(changes)-firstChanges) },
	"inc":    func(n int) int { return n + 1 },
	"upper":  report.UpperFirst,
	"box": func(d drawing) string {
		return fmt.Sprintf("%d 0 %d %d", d.Left, d.Width, d.Height)
	},
	// A drawing with fewer columns is smaller, with letters of the same size.
	"share": func(d drawing) string {
		return fmt.Sprintf("%.1f%%", min(100, 100*float64(d.Width)/wideWidth))
	},
	"mark": mark,
	"dict": func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i+1 < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	},
}

// stateNames are the names of the states in the list.
var stateNames = map[string]string{Bad: "broken", Noted: "at risk", Unseen: "not read",
	Busy: "repair under way", Good: "in sync"}

// Word returns the name of the cluster's state.
func (c Cluster) Word() string {
	if c.State == Noted && c.Verdict.State == verdict.Bypassed {
		return string(verdict.Bypassed)
	}
	return stateNames[c.State]
}

// Word returns the name of the worst cluster's state.
func (o Overview) Word() string {
	if first := worstFirst(o.Clusters); len(first) > 0 && first[0].State == o.State {
		return first[0].Word()
	}
	return stateNames[o.State]
}

// firstChanges limits the lists of changes that are not made, because such a list can stay for
// days.
const firstChanges = 10

// ago says how long ago something was. The script of the page uses the same words.
func ago(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return report.Ago(d)
}

func mark(state string) string {
	switch state {
	case Good:
		return "✓"
	case Busy:
		return "↻"
	case Noted, Unseen:
		return "!"
	}
	return "✕"
}

// trigger says what started a check.
func trigger(e history.Entry) string {
	names := map[string]string{"poll": "scheduled check", "event": "event", "person": "request"}
	by := cmp.Or(names[e.Woke.By], e.Woke.By)
	if e.Woke.Caller != "" {
		by += " from " + report.Plain(e.Woke.Caller)
	}
	return by
}

// stories returns how the repairs of a check went, a line each.
func stories(e history.Entry) (lines []string) {
	for _, c := range e.Changes {
		if s, is := e.Story(c); is {
			lines = append(lines, c.Resource.Short()+": "+report.Plain(s.String()))
		}
	}
	return lines
}

// concerns names the clusters that a check changed or has news about: at most two of them, and how
// many more.
func concerns(e history.Entry) string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, c := range e.Changes {
		add(c.Cluster)
	}
	for _, f := range e.Findings {
		add(f.Cluster)
	}
	const most = 2
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// did says what a check did, and what it found.
func did(e history.Entry) string {
	p := report.Past{}
	if e.ElapsedMs != nil {
		elapsed := time.Duration(*e.ElapsedMs) * time.Millisecond
		p.Elapsed = &elapsed
	}
	for _, c := range e.Changes {
		p.Changes = append(p.Changes, report.PastChange{Outcome: c.Outcome,
			Open: c.State == history.Intended, Lost: c.State == history.Interrupted,
			Found: c.State == history.Found})
	}
	parts := found(e.Findings)
	if made := p.Summary(); made != "" {
		parts = slices.Insert(parts, 0, made)
	}
	return strings.Join(parts, "; ")
}

// newsWords has the words before the message of a finding.
var newsWords = map[string]string{history.Worse: "worse: ", history.Milder: "milder: ",
	history.Reworded: "now: ", history.Resolved: "resolved: ",
	history.Unrepaired: "not repaired: ", history.Hidden: "not checked: "}

// found says what is new about findings. It returns the messages, or the title for several of one
// code.
func found(all []history.News) (parts []string) {
	const most = 3
	type kind struct {
		news string
		code finding.Code
	}
	count := map[kind]int{}
	for _, f := range all {
		count[kind{f.News, f.Code}]++
	}
	left := 0
	for _, f := range all {
		n := count[kind{f.News, f.Code}]
		delete(count, kind{f.News, f.Code})
		switch {
		case n == 0: // said
		case len(parts) == most:
			left += n
		case n == 1:
			parts = append(parts, newsWords[f.News]+report.Plain(f.Message))
		default:
			parts = append(parts,
				fmt.Sprintf("%s%d × %s", newsWords[f.News], n, finding.Describe(f.Code).Title))
		}
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", left))
	}
	return parts
}

func verb(c plan.Change) string {
	if c.Verb == plan.Associate {
		property, _ := c.New.Associated()
		return "associate with its " + property.Name()
	}
	return string(c.Verb) + " route " + report.Plain(c.Route)
}

// tone returns the state whose color a check gets.
func tone(e history.Entry) string {
	done := false
	for _, c := range e.Changes {
		switch c.State {
		case plan.Done:
			done = true
		case plan.Failed, plan.Skipped, history.Interrupted:
			return Bad
		case plan.Planned, plan.Obsolete, plan.Observed: // nothing was tried
		}
	}
	for _, f := range e.Findings {
		if f.Existed() && f.Severity == finding.Error && !done {
			return Bad
		}
	}
	if done {
		return Good
	}
	return Noted
}
