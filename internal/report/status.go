package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
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
	State    string            `json:"state"`
	Sentence string            `json:"sentence"`
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
		fmt.Fprintln(&b, c.Name, c.State, c.Sentence)
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
	var rows [][]string
	for _, c := range s.Clusters {
		row := []string{c.Name, c.State, age(s.Now, c.Checked), c.Sentence}
		if format == Text {
			row = []string{symbols[c.State], c.Name, c.Sentence, age(s.Now, c.Checked)}
		}
		rows = append(rows, row)
	}
	switch format {
	case Short:
		return Table{Rows: rows}.Write(w, Short, style)
	case Markdown:
		return Table{Header: []string{"cluster", "state", "checked", "what"}, Rows: rows,
			Lines: s.lines()}.Write(w, Markdown, style)
	case Text, JSON, SARIF: // JSON is written already, and the command has no SARIF
	}
	var b strings.Builder
	for i, line := range Columns(rows) {
		switch s.Clusters[i].State {
		case "bad":
			line = style.Red(line)
		case "unseen":
			line = style.Yellow(line)
		}
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	for _, line := range s.lines() {
		fmt.Fprintln(&b, cell(line))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are what concerns no particular cluster.
func (s Status) lines() []string {
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
		} else if f.Severity >= finding.Warning {
			lines = append(lines, fmt.Sprintf("%s %s: %s", f.Severity, f.Code, f.Message))
		} else if f.Code == finding.SilenceEnded {
			lines = append(lines, "Ended: "+f.Message)
		}
	}
	if silenced > 0 {
		lines = append(lines, Count(silenced, "finding")+" silenced (-o json shows them).")
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
	d := max(now.Sub(then), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
