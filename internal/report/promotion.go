package report

import (
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Promotion is what promote shows: what enforcing would do now, and what promote writes into the
// config.
type Promotion struct {
	Clusters []string `json:"clusters"`
	// Plan is what a keeper with the promoted config would do now.
	Plan Result `json:"plan"`
	// Edits are the values that are replaced in the config.
	Edits []config.Edit `json:"edits"`
	// Written is set when the config was written.
	Written bool `json:"written"`
	// AsItIs says why the config needs no change.
	AsItIs []string `json:"-"`
}

// Write writes it as text, before it is carried out, or as JSON.
func (p Promotion) Write(w io.Writer, format Format, style Style) error {
	switch {
	case format == JSON:
		return WriteJSON(w, p)
	case len(p.Edits) == 0:
		_, err := fmt.Fprintf(w, "Nothing to promote: %s.\n", strings.Join(p.AsItIs, ", "))
		return err
	}
	if err := p.Plan.Write(w, format, style); err != nil {
		return err
	}
	if len(p.Clusters) > 1 {
		text := fmt.Sprintf("\nA keeper with the new config would write %s of %s.\n",
			finding.Count(p.writes(), "resource"),
			finding.Managed(len(p.Clusters), p.Plan.Networks))
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, e := range p.Edits {
		place := fmt.Sprintf("%s:%d", plain(e.File), e.Line)
		rows = append(rows, []string{style.Yellow("~"), place, e.Field, e.From + " -> " + e.To})
	}
	lines := strings.Join(Columns(rows), "\n  ")
	_, err := fmt.Fprintf(w, "\n%s\n  %s\n", style.Bold("The config"), lines)
	return err
}

// writes returns how many resources the plan would change, each with one PUT.
func (p Promotion) writes() int {
	resources := map[string]bool{}
	for _, c := range p.Plan.Changes {
		if c.State == plan.Planned {
			resources[c.Resource.Key()] = true
		}
	}
	return len(resources)
}
