package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

func (a *app) newSchema() *cobra.Command {
	kinds := []string{v1alpha1.Kind, v1alpha1.KindCluster}
	schemas := map[string][]byte{kinds[0]: v1alpha1.Schema, kinds[1]: v1alpha1.ClusterSchema}
	var kind string
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the config, for editors",
		Example: `  routekeeper schema > clusterroutes.schema.json
  # first line of routes.yaml, for editors with a YAML language server:
  # yaml-language-server: $schema=clusterroutes.schema.json
  routekeeper schema --kind Cluster > cluster.schema.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if !slices.Contains(kinds, kind) {
				return fmt.Errorf("--kind: unknown kind %q, expected %s", kind,
					strings.Join(kinds, " or "))
			}
			_, err := a.out.Write(schemas[kind])
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "kind", v1alpha1.Kind,
		"`KIND` of document: ClusterRoutes, or Cluster for cluster create")
	_ = cmd.RegisterFlagCompletionFunc("kind",
		cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
