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
	for _, t := range topic.All() {
		names = append(names, t.Name+"\t"+t.Title)
	}
	for _, d := range finding.All() {
		names = append(names, string(d.Code)+"\t"+d.Title)
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

// explained is the JSON of a topic or a finding.
type explained struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Severity string `json:"severity,omitempty"` // of a finding
	Text     string `json:"text"`
	Remedy   string `json:"remedy,omitempty"` // of a finding
	Page     string `json:"page,omitempty"`   // Microsoft's page about what a finding reports
}

func describe(d finding.Description) explained {
	return explained{string(d.Code), d.Title, d.Severity.String(), d.Meaning, d.Remedy, d.Page}
}

func listTopics(w io.Writer, format report.Format, style report.Style) error {
	all := []explained{}
	topics := report.Table{Header: []string{"topic", "what"}}
	for _, t := range topic.All() {
		all = append(all, explained{Name: t.Name, Title: t.Title, Text: t.Text})
		topics.Rows = append(topics.Rows, []string{t.Name, t.Title})
	}
	for _, d := range finding.All() {
		all = append(all, describe(d))
	}
	if format == report.JSON {
		return report.WriteJSON(w, map[string]any{"explained": all})
	}
	if err := topics.Write(w, format, style); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return report.WriteCodes(w, finding.All(), style)
}

func explain(w io.Writer, format report.Format, style report.Style, name string) error {
	for _, t := range topic.All() {
		switch {
		case t.Name != name:
		case format == report.JSON:
			return report.WriteJSON(w, explained{Name: t.Name, Title: t.Title, Text: t.Text})
		default:
			_, err := fmt.Fprintf(w, "%s: %s\n\n%s", style.Bold(t.Name), t.Title, t.Plain())
			return err
		}
	}
	for _, d := range finding.All() {
		switch {
		case string(d.Code) != name:
		case format == report.JSON:
			return report.WriteJSON(w, describe(d))
		default:
			return report.WriteCode(w, d, style)
		}
	}
	if near := trace.Near(name, explainable()); near != "" {
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
	add := func(name, text string) {
		const most = 6
		text = strings.ToLower(text)
		if len(names) < most && !slices.ContainsFunc(words, func(word string) bool {
			return !strings.Contains(text, word)
		}) {
			names = append(names, name)
		}
	}
	for _, t := range topic.All() {
		add(t.Name, t.Title+" "+t.Text)
	}
	for _, d := range finding.All() {
		add(string(d.Code), d.Title+" "+d.Meaning+" "+d.Remedy)
	}
	return names
}

func explainable() (names []string) {
	for _, t := range topic.All() {
		names = append(names, t.Name)
	}
	for _, d := range finding.All() {
		names = append(names, string(d.Code))
	}
	return names
}
