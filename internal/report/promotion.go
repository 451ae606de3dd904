package report

import (
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/config"
)

// Promotion is what promote shows: what enforcing would do now, and what it writes into the config.
type Promotion struct {
	Cluster string `json:"cluster"`
	// Plan is what a keeper would do now with the promoted config.
	Plan Round `json:"plan"`
	// Edits are the values of the config that are replaced.
	Edits []config.Edit `json:"edits"`
	// Written is set when the config was written.
	Written bool `json:"written"`
}

// WriteEdits writes the edits for people, one a line.
func (p Promotion) WriteEdits(w io.Writer, style Style) error {
	var rows [][]string
	for _, e := range p.Edits {
		place := fmt.Sprintf("%s:%d", plain(e.File), e.Line)
		rows = append(rows, []string{style.Yellow("~"), place, e.Field, e.From + " -> " + e.To})
	}
	lines := strings.Join(Columns(rows), "\n  ")
	_, err := fmt.Fprintf(w, "\n%s\n  %s\n", style.Bold("The config"), lines)
	return err
}

// WriteJSON writes all of it as one line.
func (p Promotion) WriteJSON(w io.Writer) error {
	p.Plan = p.Plan.complete()
	return WriteJSON(w, p)
}
