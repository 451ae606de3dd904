package report

import (
	"fmt"
	"strings"

	"github.com/mitchellh/go-wordwrap"

	"routekeeper.dev/routekeeper/internal/finding"
)

// FindingsPage writes docs/findings.md, the page of all findings.
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
	b.WriteString("| code | severity | what |\n| --- | --- | --- |\n")
	for _, d := range all {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", d.Code, d.Code, d.Severity, d.Title)
	}
	for _, d := range all {
		fmt.Fprintf(&b, "\n## %s\n\n**%s.** Severity: %s.\n\n%s\n\n%s\n",
			d.Code, d.Title, d.Severity, wrap(d.Meaning), wrap("What to do: "+d.Remedy))
		if page := d.Page(); page != "" {
			fmt.Fprintf(&b, "\nMicrosoft's page: <%s>\n", page)
		}
	}
	return b.String()
}

func wrap(paragraph string) string { return wordwrap.WrapString(paragraph, 100) }
