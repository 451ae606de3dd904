package report

import (
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Prevention is what prevent --dry-run shows: the rules, what they leave out, what they block, and
// what they would have refused.
type Prevention struct {
	Rules  []PreventionRule `json:"rules"`
	Left   []string         `json:"left"`
	Blocks []string         `json:"blocks"`
	// Writes are how many writes of the networks, subnets and tables the activity log has. Unjudged
	// is how many of them come without their request. Partial is set if the log has more than was
	// read.
	Writes   int              `json:"writes"`
	Unjudged int              `json:"unjudged"`
	Partial  bool             `json:"partial"`
	Refused  []PreventedWrite `json:"refused"`
}

// PreventionRule is a rule and its subject: subnets with what they must have, or tables.
type PreventionRule struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Effect  string   `json:"effect"`
	Subnets []string `json:"subnets,omitempty"`
	Tables  []string `json:"tables,omitempty"`
}

// PreventedWrite is a write of the past that the rules would have refused.
type PreventedWrite struct {
	Write string   `json:"write"` // who, what and when
	Lacks []string `json:"lacks"`
}

// Write writes it as text or JSON.
func (p Prevention) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, p)
	}
	var b strings.Builder
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "%s (%s, %s)\n", style.Bold(plain(r.Title)), plain(r.Name), plain(r.Effect))
		for _, line := range append(r.Subnets, r.Tables...) {
			fmt.Fprintf(&b, "  %s\n", plain(line))
		}
	}
	part := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n", style.Bold(title))
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "  - %s\n", plain(line))
		}
	}
	part("Left out", p.Left)
	part("They also block", p.Blocks)
	fmt.Fprintf(&b, "\n%s\n  %s of these networks, subnets and tables in the activity log of 89 "+
		"days.\n", style.Bold("The past"), finding.Count(p.Writes, "write"))
	if p.Partial {
		b.WriteString("  The log has more than was read.\n")
	}
	if p.Unjudged > 0 {
		fmt.Fprintf(&b, "  %d cannot be judged: the log does not have the request.\n", p.Unjudged)
	}
	fmt.Fprintf(&b, "  %d would have been refused", len(p.Refused))
	b.WriteString(map[bool]string{true: ":\n", false: ".\n"}[len(p.Refused) > 0])
	for _, r := range p.Refused {
		fmt.Fprintf(&b, "  - %s\n    lacks %s\n", plain(r.Write),
			plain(strings.Join(r.Lacks, ", ")))
	}
	return put(w, b.String())
}
