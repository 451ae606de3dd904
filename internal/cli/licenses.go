package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/licenses"
)

func newLicenses(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "licenses",
		Short: "Print the licences of the modules in this program",
		Long: `Prints the licences and notices of the Go modules that are linked into this
program. routekeeper itself is under the Apache License 2.0.`,
		Example: "  routekeeper version licenses",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.out, licenses.Text)
			return err
		},
	}
	return cmd
}
