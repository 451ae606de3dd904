package cli

import (
	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

func newSchema(a *app) *cobra.Command {
	kinds := []string{v1alpha1.Kind, v1alpha1.KindCluster, v1alpha1.KindNotify,
		"CustomResourceDefinition"}
	schemas := map[string][]byte{kinds[0]: v1alpha1.Schema, kinds[1]: v1alpha1.ClusterSchema,
		kinds[2]: v1alpha1.NotifySchema, kinds[3]: v1alpha1.CRD}
	var kind string
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the config, for editors",
		Example: `  routekeeper init schema > clusterroutes.schema.json
  # first line of routes.yaml, for editors with a YAML language server:
  # yaml-language-server: $schema=clusterroutes.schema.json
  routekeeper init schema --kind Cluster > cluster.schema.json
  # ClusterRoutes as objects of a Kubernetes API server:
  routekeeper init schema --kind CustomResourceDefinition | kubectl apply -f -`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := oneOf("--kind", "kind", kind, kinds); err != nil {
				return err
			}
			_, err := a.out.Write(schemas[kind])
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "kind", v1alpha1.Kind,
		"`KIND` of document: ClusterRoutes, Cluster for cluster create, "+
			"Notify for messages, or CustomResourceDefinition of ClusterRoutes for Kubernetes, "+
			"as YAML")
	completeWith(cmd, "kind", kinds)
	return cmd
}
