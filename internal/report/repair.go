package report

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Repairs are what becomes of what is wrong in infrastructure code, said before and after the
// diffs.
type Repairs struct {
	// Left are what a person has to decide, and Done what is repaired, a line each.
	Left, Done []string
	// Found is how much there was to repair, and Files how many files are changed.
	Found, Files int
	// One is set where there is one file only, and Written where the files are written.
	One, Written bool
	// Next says what to do when they are.
	Next string
}

// LeftFinding is the line of a finding that is left, and why.
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

// After says what is repaired, and what is to be done.
func (r Repairs) After() string {
	var b strings.Builder
	for _, line := range r.Done {
		fmt.Fprintf(&b, "repaired: %s\n", plain(line))
	}
	files, them := Count(r.Files, "file"), "them"
	if r.One {
		files, them = "a file", "it"
	}
	switch {
	case r.Files > 0 && !r.Written:
		fmt.Fprintf(&b, "%s to change: --write changes %s\n", files, them)
	case r.Files > 0:
		fmt.Fprintf(&b, "%s changed: %s\n", files, r.Next)
	case r.Found == 0:
		b.WriteString("nothing to repair\n")
	}
	return b.String()
}

// Diff shows how a file changes.
func Diff(name string, before, after []byte) []byte { return diff.Diff(name, before, name, after) }
