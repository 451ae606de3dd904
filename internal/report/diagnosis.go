package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Diagnosis is what was found to be wrong, without anything done about it.
type Diagnosis struct {
	// Clusters are the names of those that were looked at.
	Clusters []string          `json:"clusters"`
	Findings []finding.Finding `json:"findings"`
}

// Sentence says how it stands: 2 problems on shop, worst: …
func (d Diagnosis) Sentence() string {
	problems := 0
	for _, f := range d.Findings {
		if f.Severity > finding.Info {
			problems++
		}
	}
	where := strings.Join(d.Clusters, ", ")
	if problems == 0 {
		return "no problem found on " + where
	}
	return Count(problems, "problem") + " on " + where
}

// Write writes the diagnosis in the given format.
func (d Diagnosis) Write(w io.Writer, format Format, style Style) error {
	if d.Findings == nil {
		d.Findings = []finding.Finding{}
	}
	var out string
	switch format {
	case JSON:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(d)
	case Short:
		for _, f := range d.Findings {
			out += FindingLine(f) + "\n"
		}
	case Markdown:
		out = fmt.Sprintf("**%s.**\n", upperFirst(d.Sentence())) + FindingsMarkdown(d.Findings)
	default:
		out = style.Bold(upperFirst(d.Sentence())+".") + "\n" + FindingsText(d.Findings, style)
	}
	_, err := io.WriteString(w, out)
	return err
}

// Fixed is a diagnosis, what was done about it, and what is left.
type Fixed struct {
	Diagnosis
	// Fixes is the round that was made, absent where there was nothing to change.
	Fixes *Round            `json:"fixes,omitempty"`
	Left  []finding.Finding `json:"left"`
}

// Write writes it as JSON.
func (f Fixed) Write(w io.Writer) error {
	if f.Findings == nil {
		f.Findings = []finding.Finding{}
	}
	if f.Left == nil {
		f.Left = []finding.Finding{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(f)
}
