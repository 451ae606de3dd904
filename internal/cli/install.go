package cli

import "github.com/spf13/cobra"

// newInstall returns the command `install` with its subcommands.
func newInstall(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install {monitor}",
		Short: "Set up Azure to notify a keeper of changes",
		Long: `Sets up the resources in Azure that notify a keeper with --listen, after a
plan and a confirmation.`,
		Example: `  routekeeper init monitor -f routes.yaml --resource-group ops-rg \
    --url https://keeper.example.com/events --event-secret-file secret`,
		Args: noArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(newInstallMonitor(a))
	return cmd
}
