package report

import (
	"fmt"
	"io"

	"routekeeper.dev/routekeeper/internal/finding"
)

// WriteCodes lists all findings.
func WriteCodes(w io.Writer, all []finding.Description, style Style) error {
	t := Table{Header: []string{"code", "severity", "what"}}
	for _, d := range all {
		t.Rows = append(t.Rows, []string{string(d.Code), d.Severity.String(), d.Title})
	}
	return t.Write(w, Text, style)
}

// WriteCode explains a finding, and how to act on it.
func WriteCode(w io.Writer, d finding.Description, style Style) error {
	_, err := fmt.Fprintf(w, "%s (%s): %s\n\n%s\n\nWhat to do: %s\n",
		style.Bold(string(d.Code)), d.Severity, d.Title, d.Meaning, d.Remedy)
	if page := d.Page; page != "" && err == nil {
		_, err = fmt.Fprintf(w, "\nMicrosoft's page: %s\n", page)
	}
	return err
}
