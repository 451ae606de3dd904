package cli

import (
	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

func (a *app) newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the config, for editors",
		Example: `  routekeeper schema > clusterroutes.schema.json
  # then, as the first line of routes.yaml, for editors with a YAML language server:
  # yaml-language-server: $schema=clusterroutes.schema.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(v1alpha1.Schema)
			return err
		},
	}
}
