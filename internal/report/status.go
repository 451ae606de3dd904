package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Status is the state of a keeper's clusters.
type Status struct {
	// Source is an address of a keeper or of a Kubernetes API server, or the file of a history.
	Source   string `json:"source"`
	Sentence string `json:"sentence,omitempty"` // the keeper's; "" from a history
	// Checked is the age of the oldest check; for a history, of its last write.
	Checked  time.Time         `json:"checked,omitzero"`
	Paused   string            `json:"paused,omitempty"` // the end of the pause
	Clusters []ClusterStatus   `json:"clusters"`
	Findings []finding.Finding `json:"findings"` // findings of no particular cluster
	// Repairs sums up the time to repair over the last days; null if there is no history.
	Repairs *RepairTimes `json:"repairs,omitempty"`

	Live bool `json:"live"` // a running keeper answered, or a controller holds its Lease
	// Note says which controller runs, for ClusterRoutes objects of a Kubernetes API server.
	Note string    `json:"note,omitempty"`
	Now  time.Time `json:"-"`
}

// RepairTimes sums up how long repairs took, in milliseconds.
type RepairTimes struct {
	Days  int   `json:"days"`
	Count int   `json:"count"`
	P50Ms int64 `json:"p50Ms"`
	P95Ms int64 `json:"p95Ms"`
	MaxMs int64 `json:"maxMs"`
}

// ClusterStatus is the state of one cluster.
type ClusterStatus struct {
	Name string `json:"name"`
	// State is good, noted, busy, unseen or bad, as on the page.
	State    string `json:"state"`
	Sentence string `json:"sentence"`
	// Verdict is the keeper's; absent before the first check. A verdict that was read from the
	// status of a ClusterRoutes object has no evidence and no age.
	Verdict  *verdict.Verdict  `json:"verdict,omitempty"`
	Checked  time.Time         `json:"checked,omitzero"`
	Findings []finding.Finding `json:"findings"`
}

// Good reports whether there is no warning or error, and everything was checked and read.
func (s Status) Good() bool {
	if s.Checked.IsZero() {
		return false
	}
	bad := func(f finding.Finding) bool {
		return f.Severity >= finding.Warning && f.Silenced == nil
	}
	return !slices.ContainsFunc(s.Findings, bad) &&
		!slices.ContainsFunc(s.Clusters, func(c ClusterStatus) bool {
			return c.State == "bad" || c.State == "unseen" || slices.ContainsFunc(c.Findings, bad)
		})
}

// Key differs if two statuses differ in more than time.
func (s Status) Key() string {
	var b strings.Builder
	fmt.Fprintln(&b, s.Sentence, s.Paused, s.Checked.IsZero(), s.Note)
	for _, c := range s.Clusters {
		fmt.Fprintln(&b, c.Name, c.State, c.word(), c.Sentence)
	}
	for _, f := range s.Findings {
		fmt.Fprintln(&b, f.Code, f.Resource, f.Message)
	}
	return b.String()
}

// symbols are the first characters of a cluster's line.
var symbols = map[string]string{"good": "✓", "noted": "·", "busy": "~", "unseen": "?", "bad": "✗"}

// Write writes the status in the given format.
func (s Status) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, s)
	}
	outage := slices.ContainsFunc(s.Findings, finding.Finding.IsOutage)
	if outage {
		s.lastKnown()
	}
	s.sort()
	shown, folded := s.Clusters, ""
	if format == Text {
		shown, folded = s.fold()
	}
	judged := slices.ContainsFunc(shown, func(c ClusterStatus) bool { return c.Verdict != nil })
	var rows [][]string
	for _, c := range shown {
		row := []string{c.Name, c.word(), c.since(s.Now), age(s.Now, c.Checked), c.Sentence}
		switch {
		case format == Text && judged:
			row = []string{symbols[c.State], c.Name, c.word(), c.since(s.Now), c.Sentence}
		case format == Text: // clusters from objects: the condition says everything
			row = []string{symbols[c.State], c.Name, c.Sentence}
		}
		rows = append(rows, row)
	}
	switch format {
	case Short:
		return Table{Rows: rows}.Write(w, Short, style)
	case Markdown:
		return Table{Header: []string{"name", "state", "since", "checked", "what"}, Rows: rows,
			Lines: s.generalLines()}.Write(w, Markdown, style)
	case Text, JSON, SARIF: // JSON is written already, and the command has no SARIF
	}
	var b strings.Builder
	if s.Sentence != "" && len(s.Clusters) > 1 {
		fmt.Fprintln(&b, style.Bold(cell(UpperFirst(s.Sentence))+"."))
	}
	if outage {
		fmt.Fprintln(&b, "Before the outage:")
	}
	for i, line := range Columns(rows) {
		fmt.Fprintln(&b, style.byColor(shown[i].State)(line))
	}
	if folded != "" {
		fmt.Fprintln(&b, cell(folded))
	}
	for _, line := range s.generalLines() {
		fmt.Fprintln(&b, cell(line))
	}
	return put(w, b.String())
}

// byColor returns the function that paints the line of a cluster whose state has that color.
func (s Style) byColor(color string) func(string) string {
	switch color {
	case verdict.Bad:
		return s.Red
	case verdict.Unseen:
		return s.Yellow
	}
	return func(line string) string { return line }
}

// word returns the state of the verdict, or the color if there is no verdict.
func (c ClusterStatus) word() string {
	if c.Verdict == nil || c.State != c.Verdict.State.Color() {
		return c.State
	}
	return string(c.Verdict.State)
}

// since says how long the cluster has had its state.
func (c ClusterStatus) since(now time.Time) string {
	if c.Verdict == nil || c.Verdict.Since.IsZero() {
		return ""
	}
	return strings.TrimSuffix(age(now, c.Verdict.Since), " ago")
}

// sort puts the worst clusters first.
func (s *Status) sort() {
	s.Clusters = slices.Clone(s.Clusters)
	rank := func(c ClusterStatus) int {
		return slices.Index([]string{"bad", "unseen", "busy", "noted", "good"}, c.State)
	}
	slices.SortStableFunc(s.Clusters, func(a, b ClusterStatus) int {
		if order := cmp.Compare(rank(a), rank(b)); order != 0 || a.Verdict == nil ||
			b.Verdict == nil {
			return order
		}
		return verdict.Compare(*a.Verdict, *b.Verdict)
	})
}

// foldFrom is the number of good clusters from which they share one line.
const foldFrom = 5

// lastKnown shows the clusters as they were before an outage.
func (s *Status) lastKnown() {
	s.Clusters = slices.Clone(s.Clusters)
	for i, c := range s.Clusters {
		if c.Verdict != nil && c.Verdict.Before != nil {
			v := c.Verdict.LastKnown()
			c.Verdict, c.State, c.Sentence = &v, v.State.Color(), v.Sentence
			s.Clusters[i] = c
		}
	}
}

// fold returns the clusters to show line by line. If many good ones are last, it returns one line
// for them.
func (s Status) fold() (shown []ClusterStatus, line string) {
	n := len(s.Clusters)
	for n > 0 && s.Clusters[n-1].State == "good" {
		n--
	}
	if good := len(s.Clusters) - n; good >= foldFrom {
		which, are := "the other", "are"
		if n == 0 {
			which = "all"
		}
		if slices.ContainsFunc(s.Findings, finding.Finding.IsOutage) {
			are = "were"
		}
		return s.Clusters[:n], fmt.Sprintf("%s  %s %d %s fine (-o short lists them)",
			symbols["good"], which, good, are)
	}
	return s.Clusters, ""
}

// generalLines returns the lines that concern no particular cluster.
func (s Status) generalLines() []string {
	var lines []string
	silenced := 0
	for _, c := range s.Clusters {
		for _, f := range c.Findings {
			if f.Silenced != nil {
				silenced++
			}
			if f.Code == finding.Paused {
				lines = append(lines, "Paused: "+f.Message)
			} else if f.Code == finding.SilenceEnded {
				lines = append(lines, "Ended: "+f.Message)
			}
		}
	}
	for _, f := range s.Findings {
		if f.Silenced != nil {
			silenced++
		} else if f.IsOutage() && len(s.Clusters) > 1 && s.Sentence != "" {
			continue // the headline already says it
		} else if f.Severity >= finding.Warning {
			lines = append(lines, fmt.Sprintf("%s %s: %s", f.Severity, f.Code, f.Message))
		} else if f.Code == finding.SilenceEnded {
			lines = append(lines, "Ended: "+f.Message)
		}
	}
	if silenced > 0 {
		lines = append(lines, finding.Count(silenced, "finding")+" silenced (-o json shows them).")
	}
	if s.Note != "" {
		return append(lines, s.Note)
	}
	if s.Live && s.Checked.IsZero() {
		lines = append(lines, "The first check is under way.")
	}
	if s.Paused != "" {
		lines = append(lines, "Paused "+s.Paused+": no changes are made.")
	}
	if !s.Live {
		when := "nothing yet"
		if !s.Checked.IsZero() {
			when = "last written " + age(s.Now, s.Checked)
		}
		lines = append(lines,
			fmt.Sprintf("From the history %s (%s). If the keeper runs with --listen, --url asks "+
				"it directly.", s.Source, when))
	}
	return lines
}

// age says how long ago something was.
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return Ago(now.Sub(then))
}

// Ago says how long ago something was.
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
