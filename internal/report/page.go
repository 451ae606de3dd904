package report

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// FindingsPage writes the docs page of all findings, docs/findings.md.
func FindingsPage(all []finding.Description) string {
	var b strings.Builder
	b.WriteString(`# Findings

A finding reports a problem, or something worth knowing. Its code is stable. Its severity is one of:

- info: worth knowing.
- warning: it will do harm, or it hides a problem.
- error: the network does not match the config and will not recover by itself. sync and run --once
  exit with 2.

This page is generated from internal/finding; a test keeps it current.

`)
	var rows [][]string
	for _, d := range all {
		rows = append(rows, []string{fmt.Sprintf("[%s](#%s)", d.Code, d.Code), d.Severity.String(), d.Title})
	}
	b.WriteString(MarkdownTable([]string{"code", "severity", "what"}, rows))
	for _, d := range all {
		fmt.Fprintf(&b, "\n## %s\n\n**%s.** Severity: %s.\n\n%s\n\nWhat to do: %s\n", d.Code, d.Title, d.Severity, d.Meaning, d.Remedy)
	}
	return b.String()
}
