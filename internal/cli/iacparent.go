package cli

import "github.com/spf13/cobra"

// newIaC groups the commands for infrastructure code. iac check brings its own: then this file goes, and newGenerate moves there.
func (a *app) newIaC() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "iac",
		Short:   "Infrastructure code: write it so that it keeps pod routes",
		Example: `  routekeeper iac generate terraform --name shop --out shop`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newGenerate())
	return cmd
}
