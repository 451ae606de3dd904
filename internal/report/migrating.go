package report

import (
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/migrate"
)

// Migrating shows the progress of a migration.
type Migrating struct{ migrate.Progress }

// Write writes it in the given format: as one JSON object, or as a line, followed by one for each
// node that lacks a route.
func (m Migrating) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, m.Progress)
	}
	return put(w, m.text(style))
}

func (m Migrating) text(style Style) string {
	var b strings.Builder
	waiting := m.Waiting()
	moved := fmt.Sprintf("%d of %s moved", m.Moved, finding.Count(len(m.Nodes), "node"))
	switch m.State {
	case migrate.NotStarted:
		fmt.Fprintf(&b, "%s: not started; next: %s\n", plain(m.Cluster),
			finding.Command("routekeeper migrate plan %s", m.Cluster))
	case migrate.Unknown:
		fmt.Fprintf(&b, "%s: %s\n", plain(m.Cluster), plain(m.Note))
	case migrate.Running:
		fmt.Fprintf(&b, "%s: %s", plain(m.Cluster), moved)
		if len(waiting) > 0 {
			fmt.Fprintf(&b, ", still with routes: %s; %s left, at most %s of waiting",
				plain(strings.Join(few(waiting), ", ")), batches(m.Batches), minutes(m.WaitMinutes))
		} else {
			b.WriteString(", AKS removes the routes")
		}
		b.WriteString("\n")
	case migrate.Stalled:
		fmt.Fprintf(&b, "%s: %s: %s, but the operation has ended; not moved: %s\n",
			style.Red("stalled"), plain(m.Cluster), moved, plain(strings.Join(few(waiting), ", ")))
	case migrate.Done:
		fmt.Fprintf(&b, "%s: %s: %s. Next: set spec.source: Nodes and remove spec.routeTableID, "+
			"or set spec.onRemoval: Prune and then remove the cluster from the config "+
			"(docs/migration.md); then %s\n", style.Green("done"), plain(m.Cluster), moved,
			finding.Command("routekeeper cluster verify %s", m.ID))
	}
	for _, n := range m.Nodes {
		if len(n.Missing) > 0 {
			fmt.Fprintf(&b, "  %s: the route of %s is missing in %s\n", style.Red("error"),
				plain(n.Name), plain(n.MissingIn()))
		}
	}
	return b.String()
}
