package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/topic"
	"routekeeper.dev/routekeeper/internal/trace"
)

func newExplain(a *app) *cobra.Command {
	var names []string
	for _, e := range everything() {
		names = append(names, e.Name+"\t"+e.Title)
	}
	cmd := &cobra.Command{
		Use:   "explain [TOPIC|CODE]",
		Short: "Explain a network plugin, route tables, gateways, or a finding",
		Long: `Explains a network plugin of AKS (the path of a packet, what the plugin costs and
what breaks it), or a finding: what it means and what to do about it. Without an
argument it lists all topics and findings. The same texts are in
docs/networking.md and docs/findings.md.`,
		Example: `  routekeeper explain
  routekeeper explain kubenet
  routekeeper explain association-lost`,
		ValidArgs: names,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("expected one topic or code, found %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w, format, style, err := a.output()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listTopics(w, format, style)
			}
			return explain(w, format, style, strings.ToLower(args[0]))
		},
	}
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

// explained is a topic or a finding.
type explained struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Severity string `json:"severity,omitempty"` // of a finding
	Text     string `json:"text"`
	Remedy   string `json:"remedy,omitempty"` // of a finding
	Page     string `json:"page,omitempty"`   // Microsoft's page about what a finding reports
	plain    string // the text of a topic for a terminal
}

// everything returns all topics, and then all findings.
func everything() (all []explained) {
	for _, t := range topic.All() {
		all = append(all, explained{Name: t.Name, Title: t.Title, Text: t.Text, plain: t.Plain()})
	}
	for _, d := range finding.All() {
		all = append(all, explained{Name: string(d.Code), Title: d.Title,
			Severity: d.Severity.String(), Text: d.Meaning, Remedy: d.Remedy, Page: d.Page})
	}
	return all
}

func (e explained) forTerminal(style report.Style) string {
	if e.Severity == "" {
		return fmt.Sprintf("%s: %s\n\n%s", style.Bold(e.Name), e.Title, e.plain)
	}
	text := fmt.Sprintf("%s (%s): %s\n\n%s\n\nWhat to do: %s\n", style.Bold(e.Name), e.Severity,
		e.Title, e.Text, e.Remedy)
	if e.Page != "" {
		text += fmt.Sprintf("\nMicrosoft's page: %s\n", e.Page)
	}
	return text
}

func listTopics(w io.Writer, format report.Format, style report.Style) error {
	all := everything()
	if format == report.JSON {
		return report.WriteJSON(w, map[string]any{"explained": all})
	}
	topics := report.Table{Header: []string{"topic", "what"}}
	codes := report.Table{Header: []string{"code", "severity", "what"}}
	for _, e := range all {
		if e.Severity == "" {
			topics.Rows = append(topics.Rows, []string{e.Name, e.Title})
		} else {
			codes.Rows = append(codes.Rows, []string{e.Name, e.Severity, e.Title})
		}
	}
	if err := topics.Write(w, format, style); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return codes.Write(w, format, style)
}

func explain(w io.Writer, format report.Format, style report.Style, name string) error {
	var names []string
	for _, e := range everything() {
		names = append(names, e.Name)
		switch {
		case e.Name != name:
		case format == report.JSON:
			return report.WriteJSON(w, e)
		default:
			_, err := io.WriteString(w, e.forTerminal(style))
			return err
		}
	}
	if near := trace.Near(name, names); near != "" {
		return fmt.Errorf("unknown topic or finding %s%s", finding.Show(name), near)
	}
	if has := mentions(name); len(has) > 0 {
		return fmt.Errorf("unknown topic or finding %s; it is in the text of %s",
			finding.Show(name), strings.Join(has, ", "))
	}
	return fmt.Errorf("unknown topic or finding %s: routekeeper explain lists them",
		finding.Show(name))
}

// mentions returns the first topics and findings whose texts have all words of a text, such as one
// that a person saw on the page.
func mentions(text string) (names []string) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	for _, e := range everything() {
		const most = 6
		text := strings.ToLower(e.Title + " " + e.Text + " " + e.Remedy)
		if len(names) < most && !slices.ContainsFunc(words, func(word string) bool {
			return !strings.Contains(text, word)
		}) {
			names = append(names, e.Name)
		}
	}
	return names
}
