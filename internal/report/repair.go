package report

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Repairs are what iac fix prints before and after the diffs.
type Repairs struct {
	// Left has the problems that need a decision, and Done the repaired ones, one line each.
	Left, Done []string
	// Found is the number of problems that can be repaired, Files the number of files that change.
	Found, Files int
	// OneFile is set if there is only one, Written if the files were written.
	OneFile, Written bool
	// Next says what to do once they are written.
	Next string
}

// LeftFinding returns the line of a finding that is left, with the reason.
func LeftFinding(f finding.Finding, why string) string {
	line := FindingLine(f) + ": " + plain(why)
	if f.Advice != "" {
		line += "\n  do: " + plain(f.Advice)
	}
	if f.Fix != "" {
		line += "\n  next: " + plain(f.Fix)
	}
	return line
}

// Pending reports whether something is left, or not written.
func (r Repairs) Pending() bool { return len(r.Left) > 0 || r.Files > 0 && !r.Written }

// Before says what is left.
func (r Repairs) Before() string {
	var b strings.Builder
	for _, line := range r.Left {
		fmt.Fprintf(&b, "left: %s\n", line)
	}
	return b.String()
}

// After says what is repaired, and what to do next.
func (r Repairs) After() string {
	var b strings.Builder
	for _, line := range r.Done {
		fmt.Fprintf(&b, "repaired: %s\n", plain(line))
	}
	files, them := finding.Count(r.Files, "file"), "them"
	if r.OneFile {
		files, them = "a file", "it"
	}
	switch {
	case r.Files > 0 && !r.Written:
		fmt.Fprintf(&b, "%s to change: run with --write to change %s\n", files, them)
	case r.Files > 0:
		fmt.Fprintf(&b, "%s changed: %s\n", files, r.Next)
	case r.Found == 0:
		b.WriteString("nothing to repair\n")
	}
	return b.String()
}

// Diff shows the changes to a file.
func Diff(name string, before, after []byte) []byte { return diff.Diff(name, before, name, after) }
