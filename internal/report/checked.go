package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Checked is the result of a check of infrastructure code, before it is applied.
type Checked struct {
	Files    []CheckedFile     `json:"files"`
	Findings []finding.Finding `json:"findings"`
	// Version is the program's, for SARIF.
	Version string `json:"-"`
}

// CheckedFile is a file and the kind that it was recognized as.
type CheckedFile struct {
	Name   string `json:"name"`
	Format string `json:"format"`
}

// Sentence sums up the result: 2 errors, 1 note in Terraform plan plan.json.
func (c Checked) Sentence() string {
	counts := map[finding.Severity]int{}
	for _, f := range c.Findings {
		counts[f.Severity]++
	}
	where := finding.Count(len(c.Files), "file")
	if len(c.Files) == 1 {
		where = plain(c.Files[0].Format + " " + c.Files[0].Name)
	}
	var parts []string
	for s := finding.Error; s >= finding.Info; s-- {
		if n := counts[s]; n > 0 {
			noun := map[finding.Severity]string{finding.Error: "error", finding.Warning: "warning",
				finding.Info: "note"}[s]
			parts = append(parts, finding.Count(n, noun))
		}
	}
	if len(parts) == 0 {
		return "nothing in " + where + " breaks pod traffic"
	}
	return strings.Join(parts, ", ") + " in " + where
}

// Write writes it in the given format.
func (c Checked) Write(w io.Writer, format Format, style Style) error {
	var out string
	switch format {
	case JSON:
		return WriteJSON(w, c)
	case SARIF:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(sarifOf(c.Findings, c.Files, c.Version))
	case Short:
		for _, f := range c.Findings {
			out += placeOf(f) + FindingLine(f) + "\n"
		}
	case Markdown:
		out = fmt.Sprintf("**%s.**\n", prose(UpperFirst(c.Sentence()))) +
			FindingsMarkdown(c.Findings)
	default:
		out = style.Bold(UpperFirst(c.Sentence())+".") + "\n" + explained(c.Findings, style)
	}
	return put(w, out)
}

// placeOf returns the place of a finding in the code, as compilers write it: main.tf:18: .
func placeOf(f finding.Finding) string {
	if f.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", plain(f.File), f.Line)
}
