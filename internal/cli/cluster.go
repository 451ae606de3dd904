package cli

import "github.com/spf13/cobra"

func newCluster(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Build, verify, try and delete AKS clusters with their network",
		Long: `Builds AKS clusters in a new or an existing network, checks and tries them, and
deletes what it built.`,
		Example: `  routekeeper cluster create shop --blueprint kubenet --subscription <id> \
    --location westeurope
  routekeeper cluster verify shop
  routekeeper cluster hello shop --image registry.example/routekeeper:v0.1.0
  routekeeper cluster delete shop`,
		Args: noArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(newClusterCreate(a), newClusterVerify(a), newClusterHello(a),
		newClusterDelete(a), newCapacity(a))
	return cmd
}
