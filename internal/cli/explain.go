package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/report"
)

func (a *app) newExplain() *cobra.Command {
	var codes []string
	for _, d := range finding.All() {
		codes = append(codes, string(d.Code)+"\t"+d.Title)
	}
	return &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Say what a finding means and what to do about it",
		Long:  "Says what a finding means for traffic, and what to do about it; without a code it lists them all. The same is in docs/findings.md.",
		Example: `  routekeeper explain
  routekeeper explain association-lost`,
		ValidArgs: codes,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("expected one code, found %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listCodes()
			}
			return a.explain(finding.Code(strings.ToLower(args[0])))
		},
	}
}

func (a *app) listCodes() error {
	t := report.Table{Header: []string{"code", "severity", "what"}}
	for _, d := range finding.All() {
		t.Rows = append(t.Rows, []string{string(d.Code), d.Severity.String(), d.Title})
	}
	return t.Write(a.out, report.Text, report.Style{Color: colour(a.out)})
}

func (a *app) explain(code finding.Code) error {
	for _, d := range finding.All() {
		if d.Code == code {
			style := report.Style{Color: colour(a.out)}
			_, err := io.WriteString(a.out, fmt.Sprintf("%s (%s): %s\n\n%s\n\nWhat to do: %s\n", style.Bold(string(d.Code)), d.Severity, d.Title, d.Meaning, d.Remedy))
			return err
		}
	}
	return fmt.Errorf("no finding has the code %q: routekeeper explain lists them", code)
}
