package cli

import (
	"fmt"
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
	return report.WriteCodes(a.out, finding.All(), report.Style{Color: colour(a.out)})
}

func (a *app) explain(code finding.Code) error {
	for _, d := range finding.All() {
		if d.Code == code {
			return report.WriteCode(a.out, d, report.Style{Color: colour(a.out)})
		}
	}
	return fmt.Errorf("no finding has the code %q: routekeeper explain lists them", code)
}
