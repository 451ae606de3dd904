package cli

import (
	"context"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/kube"
)

// nodesFlag adds the flag that says how to read the nodes of clusters with source Nodes.
func nodesFlag(cmd *cobra.Command, kubeconfig *string, name string) {
	cmd.Flags().StringVar(kubeconfig, name, "", "read the nodes of clusters with source Nodes "+
		"with this kubeconfig `FILE` (default kubectl's, if one of its contexts leads to the "+
		"cluster, or the credentials that AKS gives)")
	_ = cmd.MarkFlagFilename(name)
}

// nodesWith makes what reads the nodes of clusters.
func nodesWith(kubeconfig string) func(*azure.Client) keeper.Nodes {
	return func(client *azure.Client) keeper.Nodes {
		return kube.NewFollowers(func(ctx context.Context,
			cluster *inventory.Cluster) (*kube.Client, error) {
			return kube.Connect(ctx, kube.Options{Kubeconfig: kubeconfig, Cluster: cluster},
				client.Kubeconfig)
		})
	}
}
