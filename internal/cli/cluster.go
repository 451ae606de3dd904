package cli

import "github.com/spf13/cobra"

// newCluster is cluster, which has commands below it only.
func (a *app) newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Build, verify and delete AKS clusters with their network",
		Example: `  routekeeper cluster create --help
  routekeeper cluster verify shop`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newClusterCreate(), a.newClusterVerify(), a.newClusterDelete())
	return cmd
}
