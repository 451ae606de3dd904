package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/migrate"
)

// Migration is the plan of clusters off kubenet.
type Migration struct {
	migrate.Plan
	// Steps includes each cluster's steps in text. JSON and Markdown always have them.
	Steps bool `json:"-"`
}

// Sentence sums up the plan.
func (m Migration) Sentence() string {
	when := fmt.Sprintf("kubenet is retired on 31 March 2028, in %s", Count(m.Days, "day"))
	if m.Days <= 0 {
		when = fmt.Sprintf("kubenet was retired on 31 March 2028, %s ago", Count(-m.Days, "day"))
	}
	if len(m.Clusters) == 0 {
		return "No cluster here uses kubenet."
	}
	ready := m.Ready()
	return fmt.Sprintf("%s: %d ready, %d blocked. There is no way back; %s.",
		Count(len(m.Clusters), "kubenet cluster"), ready, len(m.Clusters)-ready, when)
}

var migrationHeader = []string{"order", "cluster", "state", "blocked by", "nodes", "batches",
	"waits at most"}

// Write writes the plan in the given format.
func (m Migration) Write(w io.Writer, format Format, style Style) error {
	var b strings.Builder
	switch format {
	case JSON:
		return WriteJSON(w, m)
	case Short:
		for _, c := range m.Clusters {
			fmt.Fprintln(&b, cell(strings.TrimRight(fmt.Sprintf("%s %s %s", c.Name,
				migrationState(c), blockedBy(c)), " ")))
		}
	case Markdown:
		fmt.Fprintf(&b, "**%s**\n\n", plain(m.Sentence()))
		if len(m.Clusters) > 0 {
			b.WriteString(MarkdownTable(migrationHeader, m.rows(Style{})))
		}
		for _, c := range m.Clusters {
			clusterMarkdown(&b, c)
		}
	default:
		b.WriteString(style.Bold(m.Sentence()) + "\n")
		if len(m.Clusters) > 0 {
			header := make([]string, len(migrationHeader))
			for i, h := range migrationHeader {
				header[i] = style.Bold(h)
			}
			b.WriteString("\n")
			for _, line := range Columns(append([][]string{header}, m.rows(style)...)) {
				fmt.Fprintln(&b, line)
			}
		}
		if m.Steps {
			for _, c := range m.Clusters {
				clusterText(&b, c, style)
			}
		} else if len(m.Clusters) > 0 {
			fmt.Fprintf(&b, "\nThe steps of one cluster: %s\n",
				finding.Command("routekeeper migrate plan %s", m.Clusters[0].Name))
		}
	}
	if len(m.Others) > 0 && format == Text {
		fmt.Fprintf(&b, "\nNot on kubenet: %s\n", plain(strings.Join(m.Others, ", ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func migrationState(c migrate.Cluster) string {
	if c.Ready {
		return "ready"
	}
	return "blocked"
}

// blockedBy are the codes of a cluster's blockers, each once.
func blockedBy(c migrate.Cluster) string {
	var codes []string
	counts := map[finding.Code]int{}
	for _, f := range c.Blockers {
		if counts[f.Code]++; counts[f.Code] == 1 {
			codes = append(codes, string(f.Code))
		}
	}
	return strings.Join(codes, ", ")
}

func (m Migration) rows(style Style) [][]string {
	rows := make([][]string, len(m.Clusters))
	for i, c := range m.Clusters {
		state := style.Green(migrationState(c))
		if !c.Ready {
			state = style.Red(migrationState(c))
		}
		rows[i] = []string{strconv.Itoa(c.Order), plain(c.Name), state, blockedBy(c),
			strconv.Itoa(c.Work.Nodes), strconv.Itoa(c.Work.Batches), waits(c.Work)}
	}
	return rows
}

// waits writes the longest time that the migration can wait, in hours.
func waits(w migrate.Work) string {
	return fmt.Sprintf("%.1f h", float64(w.WaitMinutes+w.RoleMinutes)/60)
}

// work says what the time of a migration consists of.
func work(w migrate.Work) string {
	text := fmt.Sprintf("%s in at most %s, one after another; at most %s of waiting for pods to "+
		"leave", Count(w.Nodes, "node"), batches(w.Batches), minutes(w.WaitMinutes))
	if w.RoleMinutes > 0 {
		text += fmt.Sprintf(", and %s until a new role works", minutes(w.RoleMinutes))
	}
	return text + ". The rest depends on " + w.Depends + "."
}

func batches(n int) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}

func minutes(n int) string {
	if n%60 == 0 && n > 0 {
		return Count(n/60, "hour")
	}
	return Count(n, "minute")
}

// phaseTitles are the phases for people.
var phaseTitles = map[migrate.Phase]string{migrate.Before: "Before",
	migrate.Migrate: "The migration", migrate.After: "Afterwards"}

func clusterText(b *strings.Builder, c migrate.Cluster, style Style) {
	fmt.Fprintf(b, "\n%s\n", style.Bold(fmt.Sprintf("%s: %s", c.Name, migrationState(c))))
	fmt.Fprintf(b, "  %s\n", work(c.Work))
	phase := migrate.Phase("")
	for i, s := range c.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(b, "\n  %s\n", style.Bold(phaseTitles[phase]))
		}
		title := plain(s.Title)
		if s.Blocker != "" {
			title += " " + style.Red("("+string(s.Blocker)+")")
		}
		fmt.Fprintf(b, "  %d. %s\n     %s\n", i+1, title, plain(s.Why))
		for _, command := range s.Commands {
			fmt.Fprintf(b, "     $ %s\n", plain(command))
		}
		if s.Source != "" {
			fmt.Fprintf(b, "     %s\n", style.Dim(s.Source))
		}
	}
	fmt.Fprintf(b, "\n  %s\n", style.Bold("Meanwhile"))
	for _, n := range c.Meanwhile {
		fmt.Fprintf(b, "  - %s\n    %s\n", plain(n.Text), style.Dim(n.Source))
	}
	fmt.Fprintf(b, "\n  %s\n", style.Bold("Only you can answer"))
	for _, q := range c.Questions {
		fmt.Fprintf(b, "  - %s\n", plain(q.Text))
		if q.Command != "" {
			fmt.Fprintf(b, "    $ %s\n", plain(q.Command))
		}
		fmt.Fprintf(b, "    %s\n", style.Dim(q.Source))
	}
}

func clusterMarkdown(b *strings.Builder, c migrate.Cluster) {
	fmt.Fprintf(b, "\n## %s: %s\n\n%s\n", cell(c.Name), migrationState(c), work(c.Work))
	phase := migrate.Phase("")
	for i, s := range c.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(b, "\n### %s\n\n", phaseTitles[phase])
		}
		fmt.Fprintf(b, "%d. [ ] **%s.** %s", i+1, cell(s.Title), cell(s.Why))
		if s.Source != "" {
			fmt.Fprintf(b, " (%s)", s.Source)
		}
		b.WriteString("\n")
		if len(s.Commands) > 0 {
			fmt.Fprintf(b, "\n   ```sh\n   %s\n   ```\n", plain(strings.Join(s.Commands, "\n   ")))
		}
	}
	b.WriteString("\n### Meanwhile\n\n")
	for _, n := range c.Meanwhile {
		fmt.Fprintf(b, "- %s (%s)\n", cell(n.Text), n.Source)
	}
	b.WriteString("\n### Only you can answer\n\n")
	for _, q := range c.Questions {
		fmt.Fprintf(b, "- [ ] %s (%s)\n", cell(q.Text), q.Source)
		if q.Command != "" {
			fmt.Fprintf(b, "  %s\n", codeSpan(q.Command))
		}
	}
}
