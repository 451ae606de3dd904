package report

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// FindingsText writes findings for a terminal, an empty line before each.
func FindingsText(findings []finding.Finding, style Style) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(findingText(f, "", style))
	}
	return b.String()
}

// findingText writes a finding for a terminal, after an empty line. It includes the meaning, unless
// that is "".
func findingText(f finding.Finding, meaning string, style Style) string {
	var b strings.Builder
	severity := severityText(f.Severity, style)
	who := ""
	if f.Cluster != "" {
		who = " (" + plain(f.Cluster) + ")"
	}
	fmt.Fprintf(&b, "\n%s %s%s: %s\n", severity, style.Bold(string(f.Code)), who, plain(f.Message))
	if meaning != "" {
		fmt.Fprintf(&b, "  means: %s\n", meaning)
	}
	if f.File != "" {
		fmt.Fprintf(&b, "  at: %s:%d\n", plain(f.File), f.Line)
	}
	if f.Resource != "" {
		fmt.Fprintf(&b, "  on: %s\n", style.Dim(f.Resource))
	}
	for _, line := range few(f.Evidence) {
		fmt.Fprintf(&b, "    %s\n", style.Dim(plain(line)))
	}
	if f.Advice != "" {
		fmt.Fprintf(&b, "  do: %s\n", plain(f.Advice))
	}
	if f.Fix != "" {
		fmt.Fprintf(&b, "  next: %s\n", plain(f.Fix))
	}
	return b.String()
}

func severityText(s finding.Severity, style Style) string {
	switch s {
	case finding.Error:
		return style.Red(s.String())
	case finding.Warning:
		return style.Yellow(s.String())
	case finding.Info:
	}
	return style.Dim(s.String())
}

// few shortens a list that is too long to read.
func few(lines []string) []string {
	const most = 12
	if len(lines) <= most {
		return lines
	}
	return append(slices.Clone(lines[:most-2]),
		fmt.Sprintf("and %d more (-o json has them all)", len(lines)-most+2))
}

// FindingLine writes a finding on one line.
func FindingLine(f finding.Finding) string {
	who := ""
	if f.Cluster != "" {
		who = plain(f.Cluster) + ": "
	}
	return plain(fmt.Sprintf("%s %s %s%s", f.Severity, f.Code, who, f.Message))
}
