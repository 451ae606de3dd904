package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/migrate"
)

// Migration is the plan that moves clusters off kubenet.
type Migration struct {
	migrate.Plan
	// Steps includes each cluster's steps in text. JSON and Markdown always have them.
	Steps bool `json:"-"`
}

// Sentence sums up the plan.
func (m Migration) Sentence() string {
	when := fmt.Sprintf("kubenet is retired on 31 March 2028, in %s", finding.Count(m.Days, "day"))
	if m.Days <= 0 {
		when = "kubenet was retired on 31 March 2028, " + finding.Count(-m.Days, "day") + " ago"
	}
	switch {
	case len(m.Clusters) == 0 && len(m.Migrating) > 0:
		return "No cluster here is left to plan for."
	case len(m.Clusters) == 0:
		return "No cluster here uses kubenet."
	}
	counts := map[string]int{}
	for _, c := range m.Clusters {
		counts[migrationState(c)]++
	}
	unknown := ""
	if n := counts["unknown"]; n > 0 {
		unknown = fmt.Sprintf(", %d unknown", n)
	}
	return fmt.Sprintf("%s: %d ready, %d blocked%s. There is no way back; %s.",
		finding.Count(len(m.Clusters), "kubenet cluster"), counts["ready"], counts["blocked"],
		unknown, when)
}

// fleet sums up several clusters: how much they move, how much time there is for each, and what
// blocks how many of them, the most frequent blocker first.
func (m Migration) fleet() []string {
	if len(m.Clusters) < 2 {
		return nil
	}
	nodes, most := 0, 0
	blocked := map[string]int{}
	for _, c := range m.Clusters {
		nodes += c.Work.Nodes
		most += c.Work.WaitMinutes + c.Work.RoleMinutes
		for _, code := range codesOf(c) {
			blocked[code]++
		}
	}
	line := fmt.Sprintf("%s. One cluster after another waits at most %.1f h",
		finding.Count(nodes, "node"), float64(most)/60)
	if pace := m.Days / len(m.Clusters); pace > 0 {
		line += fmt.Sprintf("; until the deadline that is one cluster every %s",
			strings.TrimPrefix(finding.Count(pace, "day"), "1 "))
	}
	lines := []string{line + "."}
	codes := slices.SortedFunc(maps.Keys(blocked), func(a, b string) int {
		return cmp.Or(blocked[b]-blocked[a], strings.Compare(a, b))
	})
	for i, code := range codes {
		codes[i] = plain(fmt.Sprintf("%s %d", code, blocked[code]))
	}
	if len(codes) > 0 {
		lines = append(lines, fmt.Sprintf("Clusters blocked: %s. What each means: %s",
			strings.Join(codes, ", "), finding.Command("routekeeper explain CODE")))
	}
	return lines
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
		for _, name := range m.Migrating {
			fmt.Fprintln(&b, cell(name+" migrating"))
		}
		for _, c := range m.Optional {
			fmt.Fprintln(&b, cell(strings.TrimRight(fmt.Sprintf("%s optional %s %s %s", c.Name,
				c.Goal, migrationState(c), blockedBy(c)), " ")))
		}
	case Markdown:
		fmt.Fprintf(&b, "**%s**\n\n", prose(m.Sentence()))
		if len(m.Clusters) > 0 {
			b.WriteString(MarkdownTable(migrationHeader, m.rows(Style{})))
		}
		for _, line := range m.fleet() {
			fmt.Fprintf(&b, "\n%s\n", prose(line))
		}
		for _, c := range m.Clusters {
			clusterMarkdown(&b, c)
		}
	default:
		b.WriteString(style.Bold(m.Sentence()) + "\n")
		if len(m.Clusters) > 0 {
			b.WriteString("\n" + Table{Header: migrationHeader, Rows: m.rows(style)}.text(style))
		}
		for i, line := range m.fleet() {
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat("\n", 1-min(i, 1)), plain(line))
		}
		if m.Steps {
			for _, c := range m.Clusters {
				clusterText(&b, c, style)
			}
		} else if len(m.Clusters) > 0 {
			fmt.Fprintf(&b, "\nThe steps of one cluster: %s\n",
				finding.Command("routekeeper migrate plan %s", m.argument(m.Clusters[0])))
		}
	}
	for i, name := range m.Migrating {
		if format == Text {
			fmt.Fprintf(&b, "%sMigrating now: %s. Follow it: %s\n",
				strings.Repeat("\n", 1-min(i, 1)),
				plain(name), finding.Command("routekeeper migrate watch %s", name))
		}
	}
	if len(m.Migrating) > 0 && format == Markdown {
		fmt.Fprintf(&b, "\nMigrating now: %s\n", prose(strings.Join(m.Migrating, ", ")))
	}
	if len(m.Others) > 0 && format == Text {
		fmt.Fprintf(&b, "\nNot on kubenet: %s\n", plain(strings.Join(m.Others, ", ")))
	}
	if len(m.Optional) > 0 {
		m.optional(&b, format, style)
	}
	return put(w, b.String())
}

// optional writes the moves that clusters on Azure CNI can make.
func (m Migration) optional(b *strings.Builder, format Format, style Style) {
	const title = "Clusters on Azure CNI can move, too. No date requires it"
	rows := [][]string{{"cluster", "from", "to", "state", "blocked by", "nodes"}}
	for _, c := range m.Optional {
		rows = append(rows, []string{plain(m.label(c)), c.Plugin, c.Goal, migrationState(c),
			blockedBy(c), strconv.Itoa(c.Work.Nodes)})
	}
	switch format {
	case Markdown:
		fmt.Fprintf(b, "\n**%s.**\n\n%s", title, MarkdownTable(rows[0], rows[1:]))
		for _, c := range m.Optional {
			clusterMarkdown(b, c)
		}
	default: // for a terminal
		fmt.Fprintf(b, "\n%s:\n", style.Bold(title))
		b.WriteString(aligned(rows))
		for _, c := range m.Optional {
			if m.Steps {
				clusterText(b, c, style)
			}
		}
		if !m.Steps {
			fmt.Fprintf(b, "The steps of one: %s\n",
				finding.Command("routekeeper migrate plan %s", m.argument(m.Optional[0])))
		}
	}
}

// goal names a plan that does not leave kubenet: " to cilium".
func goal(c migrate.Cluster) string {
	if c.Plugin == "kubenet" {
		return ""
	}
	return " to " + c.Goal
}

// repeats reports whether several clusters have the name of one.
func (m Migration) repeats(c migrate.Cluster) bool {
	n := 0
	for _, other := range slices.Concat(m.Clusters, m.Optional) {
		if strings.EqualFold(other.Name, c.Name) && !other.ID.Equal(c.ID) {
			n++
		}
	}
	return n > 0
}

// argument names a cluster on a command line.
func (m Migration) argument(c migrate.Cluster) string {
	if m.repeats(c) {
		return string(c.ID)
	}
	return c.Name
}

// label names a cluster in the table, with its resource group where names repeat.
func (m Migration) label(c migrate.Cluster) string {
	if m.repeats(c) {
		return c.Name + " (" + c.ID.ResourceGroup() + ")"
	}
	return c.Name
}

// migrationState returns unknown if the only blocker is that part of the cluster could not be read.
func migrationState(c migrate.Cluster) string {
	read := slices.ContainsFunc(c.Blockers, func(f finding.Finding) bool {
		return f.Code != finding.ReadFailed && f.Code != finding.AzureUnreachable
	})
	switch {
	case c.Ready:
		return "ready"
	case read:
		return "blocked"
	}
	return "unknown"
}

// blockedBy returns the codes of a cluster's blockers.
func blockedBy(c migrate.Cluster) string { return strings.Join(codesOf(c), ", ") }

// codesOf returns the codes of a cluster's blockers, each once.
func codesOf(c migrate.Cluster) (codes []string) {
	counts := map[finding.Code]int{}
	for _, f := range c.Blockers {
		if counts[f.Code]++; counts[f.Code] == 1 {
			codes = append(codes, string(f.Code))
		}
	}
	return codes
}

func (m Migration) rows(style Style) [][]string {
	rows := make([][]string, len(m.Clusters))
	for i, c := range m.Clusters {
		state := style.Green(migrationState(c))
		if !c.Ready {
			state = style.Red(migrationState(c))
		}
		rows[i] = []string{strconv.Itoa(c.Order), plain(m.label(c)), state, blockedBy(c),
			strconv.Itoa(c.Work.Nodes), strconv.Itoa(c.Work.Batches), longestWait(c.Work)}
	}
	return rows
}

// longestWait writes the longest time that the migration can wait, in hours.
func longestWait(w migrate.Work) string {
	return fmt.Sprintf("%.1f h", float64(w.WaitMinutes+w.RoleMinutes)/60)
}

// work says what the time of a migration consists of.
func work(w migrate.Work) string {
	text := fmt.Sprintf("%s in at most %s, one after another; at most %s of waiting for pods to "+
		"leave", finding.Count(w.Nodes, "node"), batches(w.Batches), minutes(w.WaitMinutes))
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
		return finding.Count(n/60, "hour")
	}
	return finding.Count(n, "minute")
}

// phaseTitles are the phases for people.
var phaseTitles = map[migrate.Phase]string{migrate.Before: "Before",
	migrate.Migrate: "The migration", migrate.After: "Afterwards"}

func clusterText(b *strings.Builder, c migrate.Cluster, style Style) {
	fmt.Fprintf(b, "\n%s\n", style.Bold(fmt.Sprintf("%s%s: %s", c.Name, goal(c), migrationState(c))))
	fmt.Fprintf(b, "  %s\n", plain(work(c.Work)))
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
	fmt.Fprintf(b, "\n## %s: %s\n\n%s\n", prose(c.Name+goal(c)), migrationState(c),
		prose(work(c.Work)))
	phase := migrate.Phase("")
	for i, s := range c.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(b, "\n### %s\n\n", phaseTitles[phase])
		}
		fmt.Fprintf(b, "%d. [ ] **%s.** %s", i+1, prose(s.Title), prose(s.Why))
		if s.Source != "" {
			fmt.Fprintf(b, " (%s)", s.Source)
		}
		b.WriteString("\n")
		if len(s.Commands) > 0 {
			b.WriteString("\n" + codeBlock("   ", s.Commands))
		}
	}
	b.WriteString("\n### Meanwhile\n\n")
	for _, n := range c.Meanwhile {
		fmt.Fprintf(b, "- %s (%s)\n", prose(n.Text), n.Source)
	}
	b.WriteString("\n### Only you can answer\n\n")
	for _, q := range c.Questions {
		fmt.Fprintf(b, "- [ ] %s (%s)\n", prose(q.Text), q.Source)
		if q.Command != "" {
			fmt.Fprintf(b, "  %s\n", codeSpan(q.Command))
		}
	}
}
