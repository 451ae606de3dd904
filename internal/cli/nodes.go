package cli

import (
	"context"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/kube"
)

// nodesOptions say how to read the nodes of clusters with source Nodes.
type nodesOptions struct {
	kubeconfig string
	trusted    bool
}

// flags adds the flags. name is the one of the kubeconfig.
func (o *nodesOptions) flags(cmd *cobra.Command, name string) {
	cmd.Flags().StringVar(&o.kubeconfig, name, "", "read the nodes of clusters with source Nodes "+
		"with this kubeconfig `FILE` (default kubectl's, if one of its contexts leads to the "+
		"cluster, or the credentials that AKS gives)")
	_ = cmd.MarkFlagFilename(name)
	cmd.Flags().BoolVar(&o.trusted, "trust-kubeconfig", false, "let the file of --"+name+" run "+
		"its login plugin and send the token file it names; kubectl's own files may")
}

// source makes what reads the nodes of clusters.
func (o nodesOptions) source(client *azure.Client) keeper.Nodes {
	return kube.NewFollowers(func(ctx context.Context,
		cluster *inventory.Cluster) (*kube.Client, error) {
		return kube.Connect(ctx, kube.Options{Kubeconfig: o.kubeconfig, Trusted: o.trusted,
			Cluster: cluster}, client.Kubeconfig)
	})
}
