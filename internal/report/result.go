package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Result is the result of one check: a plan, or the outcome of its changes.
type Result struct {
	Changes  []plan.Outcome    `json:"changes"`
	Findings []finding.Finding `json:"findings"`
	// Clusters is the number of checked clusters and networks; 0 for saved files. Networks is how
	// many of them have no cluster.
	Clusters int `json:"clusters,omitempty"`
	Networks int `json:"networks,omitempty"`
	// ElapsedMs is the duration of the check in milliseconds; absent for saved files.
	ElapsedMs *int64 `json:"elapsedMs,omitempty"`
	// ARM counts the calls; absent for saved files.
	ARM *Calls `json:"arm,omitempty"`
}

// Calls counts ARM calls: GETs of resources and lists, PUTs, and GETs of running operations.
type Calls struct {
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
	Polls  int `json:"polls"`
}

// String returns 12 reads, 1 write, 2 polls.
func (c Calls) String() string {
	return finding.Count(c.Reads, "read") + ", " + finding.Count(c.Writes, "write") + ", " +
		finding.Count(c.Polls, "poll")
}

// Planned makes a Result of a plan that was not carried out.
func Planned(p plan.Plan) Result {
	r := Result{Changes: make([]plan.Outcome, len(p.Changes)), Findings: p.Findings}
	for i, c := range p.Changes {
		r.Changes[i] = plan.Outcome{Change: c, State: plan.Planned}
	}
	return r
}

// Write writes the result of a check in the given format.
func (r Result) Write(w io.Writer, format Format, style Style) error {
	var out string
	switch format {
	case JSON:
		return WriteJSON(w, r)
	case Short:
		out = r.short()
	case Markdown:
		out = r.markdown()
	default:
		out = r.text(style)
	}
	return put(w, out)
}

// WriteBelow writes the result of a check below its cause.
func (r Result) WriteBelow(w io.Writer, format Format, style Style) error {
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return r.Write(w, format, style)
}

// Summary says in one line what happened.
func (r Result) Summary() string {
	counts := counted{}
	type subnet struct {
		state plan.OutcomeState
		id    string
	}
	seen := map[subnet]bool{} // one subnet can get several things
	for _, c := range r.Changes {
		at := subnet{c.State, c.Resource.Key()}
		if c.Verb == plan.Associate && seen[at] {
			continue
		}
		seen[at] = true
		counts.add(c.State, c.Verb)
	}
	sentence := counts.sentence(func(verb plan.Verb) string {
		if verb == plan.Associate {
			return "subnet"
		}
		return "route"
	})
	if sentence == "" {
		errors := 0
		for _, f := range r.Findings {
			if f.Severity == finding.Error {
				errors++
			}
		}
		if errors > 0 {
			return "nothing done: " + finding.Count(errors, "error")
		}
		return "nothing to do"
	}
	return sentence
}

// counted counts changes by outcome and verb.
type counted map[plan.OutcomeState]map[plan.Verb]int

func (n counted) add(state plan.OutcomeState, verb plan.Verb) {
	if n[state] == nil {
		n[state] = map[plan.Verb]int{}
	}
	n[state][verb]++
}

// sentence says what was counted, such as: 2 routes created, 1 subnet to associate failed. noun
// names what a verb changes.
func (n counted) sentence(noun func(plan.Verb) string) string {
	var parts []string
	for _, words := range []struct {
		state         plan.OutcomeState
		before, after string // of the verb
	}{
		{plan.Planned, "to ", ""}, {plan.Done, "", "d"},
		{plan.Obsolete, "to ", " no longer needed"}, {plan.Failed, "to ", " failed"},
		{plan.Skipped, "to ", " skipped"}, {plan.Observed, "would be ", "d"},
	} {
		for _, verb := range []plan.Verb{plan.Create, plan.Update, plan.Delete, plan.Associate} {
			if count := n[words.state][verb]; count > 0 {
				parts = append(parts, finding.Count(count, noun(verb))+" "+words.before+
					string(verb)+words.after)
			}
		}
	}
	return strings.Join(parts, ", ")
}

func (r Result) text(style Style) string {
	var b strings.Builder
	fmt.Fprintln(&b, style.Bold(UpperFirst(r.Summary())+"."))
	for start := 0; start < len(r.Changes); {
		end := start + 1
		for end < len(r.Changes) && r.Changes[end].Resource.Equal(r.Changes[start].Resource) {
			end++
		}
		id := r.Changes[start].Resource
		fmt.Fprintf(&b, "\n%s  %s\n", style.Bold(id.Short()), style.Dim(string(id)))
		for _, line := range ChangeLines(r.Changes[start:end], style) {
			fmt.Fprintln(&b, "  "+line)
		}
		start = end
	}
	b.WriteString(FindingsText(r.Findings, style))
	if r.ARM != nil && r.ElapsedMs != nil {
		fmt.Fprintf(&b, "\n%s\n",
			style.Dim(fmt.Sprintf("%s, %s; ARM: %s", finding.Managed(r.Clusters, r.Networks),
				Duration(time.Duration(*r.ElapsedMs)*time.Millisecond), r.ARM)))
	}
	return b.String()
}

// ChangeLines writes changes for a terminal, one a line, aligned.
func ChangeLines(changes []plan.Outcome, style Style) []string {
	var routes, subnets [][]string
	for _, c := range changes {
		if c.Verb == plan.Associate {
			subnets = append(subnets, changeRow(c, style))
		} else {
			routes = append(routes, changeRow(c, style))
		}
	}
	return append(Columns(subnets), Columns(routes)...)
}

// changeRow returns one change for the terminal: sign, destination, next hop, name, reason, state.
func changeRow(c plan.Outcome, style Style) []string {
	sign, paint := style.sign(string(c.Verb))
	what, way := describe(c.Change)
	row := []string{paint(sign), paint(what), way, plain(c.Route), style.Dim(c.Why)}
	if c.Verb == plan.Associate {
		row = []string{paint(sign), c.Resource.Short(), paint(what), way, style.Dim(c.Why)}
	}
	switch c.State {
	case plan.Failed: // the finding gives the reason, once for the resource
		row = append(row, style.Red("failed"))
	case plan.Obsolete, plan.Skipped, plan.Observed:
		row = append(row, style.Dim(string(c.State)))
	case plan.Planned, plan.Done: // these are as expected, and the summary counts them
	}
	return row
}

// describe returns what a change concerns, and its old and new value.
func describe(c plan.Change) (what, way string) {
	what, way = describeRaw(c)
	return plain(what), plain(way)
}

func describeRaw(c plan.Change) (what, way string) {
	if c.Verb == plan.Associate {
		property, value := c.New.Associated()
		old := "no " + property.Noun()
		if _, had := c.Old.Associated(); had != "" {
			old = had.Short()
		}
		return property.Name(), old + " -> " + value.Short()
	}
	switch {
	case c.Old == nil:
		return c.New.AddressPrefix, "-> " + hop(c.New)
	case c.New == nil:
		return c.Old.AddressPrefix, "-> " + hop(c.Old)
	case c.Old.AddressPrefix != c.New.AddressPrefix:
		return c.Old.AddressPrefix + " becomes " + c.New.AddressPrefix, hop(c.Old) + " -> " +
			hop(c.New)
	}
	return c.New.AddressPrefix, hop(c.Old) + " -> " + hop(c.New)
}

func hop(v *plan.Value) string { return cmp.Or(v.NextHopIPAddress, v.NextHopType) }

func (r Result) short() string {
	var b strings.Builder
	for _, c := range r.Changes {
		what, way := describe(c.Change)
		fmt.Fprintln(&b, strings.Join([]string{string(c.State), string(c.Verb),
			plain(c.Resource.Short()), what, way}, " "))
	}
	for _, f := range r.Findings {
		fmt.Fprintln(&b, FindingLine(f))
	}
	return b.String()
}

func (r Result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s.**\n", UpperFirst(r.Summary()))
	if len(r.Changes) > 0 {
		var rows [][]string
		for _, c := range r.Changes {
			what, way := describe(c.Change)
			rows = append(rows, []string{string(c.State), string(c.Verb), c.Resource.Short(), what,
				way, plain(c.Route), c.Why})
		}
		b.WriteString("\n" + MarkdownTable([]string{"state", "change", "resource", "what", "way",
			"route", "why"}, rows))
	}
	b.WriteString(FindingsMarkdown(r.Findings))
	return b.String()
}

// Duration writes a duration for people: 340 ms, 2.4 s, 3 min 5 s.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// UpperFirst begins a sentence with a capital letter.
func UpperFirst(s string) string {
	if s == "" {
		return s
	}
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}
