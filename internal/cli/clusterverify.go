package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/report"
)

func newClusterVerify(a *app) *cobra.Command {
	var o examineOptions
	cmd := &cobra.Command{
		Use:   "verify [NAME…]",
		Short: "Check everything that must be right about a cluster, with counts",
		Long: `Checks what must be right about a cluster, and prints a table: the addresses of
nodes and pods, and how many are free; the route of every node in the cluster's
route table and in each target of the config (kubenet); whether packets reach
pods and answers come back; the roles of the cluster's identity; egress as the
outboundType says; the Application Gateways.

Each row is right, wrong, not checked or not asked. A row is right only if
verify has seen it. A row that was not checked says which permission is missing;
one that was not asked needs the Kubernetes API. Below the table, findings of
routekeeper doctor explain what is wrong. verify writes nothing.

NAME is the cluster's name or ID, or with -f its metadata.name; several, --all
and --selector are possible. Nodes and pods
come from the Kubernetes API (--kubeconfig, or --get-kubeconfig, which asks AKS),
or from saved kubectl output.

Exit code 0: everything is right, as far as it was asked; 1: an error; 2:
something is wrong or was not checked.`,
		Example: `  routekeeper cluster verify shop --kubeconfig ~/.kube/config
  routekeeper cluster verify shop -f routes.yaml --get-kubeconfig
  routekeeper cluster verify shop --from-nodes nodes.json --from-pods pods.json
  routekeeper cluster verify shop --from-bundle shop.tgz -o markdown`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runClusterVerify(cmd.Context(), a, o)
		},
	}
	examineFlags(a, cmd, &o, true)
	o.choice.flags(cmd)
	cmd.Flags().IntVar(&o.maxRoutes, "max-routes", inventory.DefaultRouteLimit,
		"how many routes a route table can hold")
	a.outputFlags(cmd, report.Text, report.JSON, report.Markdown)
	return cmd
}

func runClusterVerify(ctx context.Context, a *app, o examineOptions) error {
	if o.maxRoutes < 1 || o.maxRoutes > 1000 {
		return fmt.Errorf("--max-routes: %d is out of range, expected 1 to 1000", o.maxRoutes)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	e, found, err := diagnosed(ctx, a, o, "checking the cluster")
	if err != nil {
		return err
	}
	made := build.Verify(e.Case, found)
	v := report.Verification{Clusters: e.names(), Claims: made.Claims, Findings: made.Wrong}
	return attentionIf(!v.AllRight(), v.Write(w, format, style))
}
