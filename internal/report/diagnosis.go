package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Diagnosis is the result of a diagnosis that changes nothing.
type Diagnosis struct {
	// Clusters are the names of the checked clusters.
	Clusters []string `json:"clusters"`
	// Verdicts are those on the clusters with a config, the user's or the one that init would
	// propose.
	Verdicts []verdict.Verdict `json:"verdicts"`
	Findings []finding.Finding `json:"findings"`
	// Claims are the statements that must be true about these clusters, with their state.
	Claims []build.Claim `json:"claims"`
	// Least hides findings below it. The sentence counts all.
	Least finding.Severity `json:"-"`
	// Verify has the commands that show each cluster's claims.
	Verify map[string]finding.CommandLine `json:"-"`
}

// shown returns the findings that are not hidden.
func (d Diagnosis) shown() []finding.Finding {
	shown := []finding.Finding{}
	for _, f := range d.Findings {
		if f.Severity >= d.Least {
			shown = append(shown, f)
		}
	}
	return shown
}

// Sentence sums up the result: 2 problems break pod traffic on shop, 1 more to check.
func (d Diagnosis) Sentence() string {
	breaking, more := 0, 0
	for _, f := range d.Findings {
		switch {
		case d.breaks(f):
			breaking++
		case f.Severity > finding.Info:
			more++
		}
	}
	where := plain(strings.Join(d.Clusters, ", "))
	if len(d.Clusters) > 5 {
		networks := 0
		for _, v := range d.Verdicts {
			if v.Clusterless() {
				networks++
			}
		}
		where = finding.Managed(len(d.Clusters), networks)
	}
	traffic := "traffic"
	if len(d.Verdicts) == 0 || slices.ContainsFunc(d.Verdicts, func(v verdict.Verdict) bool {
		return !v.Clusterless()
	}) {
		traffic = "pod traffic"
	}
	switch {
	case breaking == 0 && more == 0:
		return "no problem found on " + where
	case breaking == 0:
		return finding.Count(more, "problem") + " on " + where
	}
	breaks := "break"
	if breaking == 1 {
		breaks = "breaks"
	}
	sentence := fmt.Sprintf("%s %s %s on %s", finding.Count(breaking, "problem"), breaks, traffic,
		where)
	if more > 0 {
		sentence += fmt.Sprintf(", %d more to check", more)
	}
	return sentence
}

// breaks reports whether a finding is why packets are dropped: its cluster must be broken, if there
// is a verdict.
func (d Diagnosis) breaks(f finding.Finding) bool {
	for _, v := range d.Verdicts {
		if v.Cluster == f.Cluster {
			return v.State == verdict.Broken && verdict.Explains(f)
		}
	}
	return f.Severity == finding.Error && finding.BreaksTraffic(f.Code)
}

// states returns a line for each cluster that is not fine, the worst first.
func (d Diagnosis) states(style Style) string {
	var rows [][]string
	var paint []func(string) string
	for _, v := range slices.SortedFunc(slices.Values(d.Verdicts), verdict.Compare) {
		if v.State.Color() != verdict.Good {
			rows = append(rows,
				[]string{symbols[v.State.Color()], v.Cluster, string(v.State), v.Sentence})
			paint = append(paint, style.byColor(v.State.Color()))
		}
	}
	out := ""
	for i, line := range Columns(rows) {
		out += paint[i](cell(line)) + "\n"
	}
	return out
}

// Write writes the diagnosis in the given format.
func (d Diagnosis) Write(w io.Writer, format Format, style Style) error {
	sentence := UpperFirst(d.Sentence()) + "."
	d.Findings = d.shown()
	var out string
	switch format {
	case JSON:
		return WriteJSON(w, d)
	case Short:
		for _, f := range d.Findings {
			out += FindingLine(f) + "\n"
		}
	case Markdown:
		out = fmt.Sprintf("**%s**\n", prose(sentence)) + FindingsMarkdown(d.Findings)
	default:
		out = style.Bold(sentence) + "\n" + d.states(style) + explained(d.Findings, style) +
			whatIsRight(d.Claims, d.Verify, style)
	}
	return put(w, out)
}

// WriteBelow writes the summary below the changes that were made.
func (d Diagnosis) WriteBelow(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\nNow: %s.\n", d.Sentence())
	return err
}

// Fixed is a diagnosis with the changes that were made, and what is left.
type Fixed struct {
	Diagnosis
	// Fixes is the check that made the changes; absent if there was nothing to change.
	Fixes *Result           `json:"fixes,omitempty"`
	Left  []finding.Finding `json:"left"`
}

// Write writes it as JSON.
func (f Fixed) Write(w io.Writer) error {
	f.Findings = f.shown()
	return WriteJSON(w, f)
}
