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

A finding says that something is wrong or worth knowing. Its code is stable. Its severity is info (worth knowing), warning
(will hurt or hides something) or error (something the config asks for is not true and will not become true by itself: it
blocks, and sync and run --once exit with 2).

This page is made from the table in internal/finding/codes.go; a test keeps it true.

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
