package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/controller"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/input"
)

type controllerOptions struct {
	keep                keepingOptions
	kubeconfig, context string
	nodes               nodesOptions
	namespace, scopes   string
	notify              string
	inside              bool
	lease               time.Duration
	health              string
}

// shortestLease leaves a few seconds for a renewal and for the write in flight.
const shortestLease = 3 * time.Second

func newController(a *app) *cobra.Command {
	var o controllerOptions
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Manage the clusters of ClusterRoutes objects in a Kubernetes API server",
		Long: `controller does what run does for ClusterRoutes objects in place of files. It
writes what it sees into the status of the objects, and adds Events about
changes and findings. See docs/kubernetes.md.

Several replicas may run: the one that holds the Lease "routekeeper" works, the
others wait. A replica that loses the API server writes no routes until it has
renewed its lease; it still puts lost route tables back.

Objects in the controller's own namespace may name any Azure resource. With
--scopes, a YAML file lists the scopes of each namespace, and no other
namespace has any: IDs of subscriptions, resource groups or resources, or "*".

  team-a: [/subscriptions/11111111-1111-1111-1111-111111111111]
  team-b:
    - /subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/shop

Exit code 0: interrupted; 1: an error.`,
		Example: `  routekeeper schema --kind CustomResourceDefinition | kubectl apply -f -
  routekeeper controller --kubeconfig management.kubeconfig
  routekeeper controller --scopes scopes.yaml --listen 127.0.0.1:8080`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runController(cmd.Context(), a, o, cmd.Flags().Changed("inside"))
		},
	}
	o.keep.flags(cmd)
	groupFlags(cmd, groupManage)
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "reach the API server with this kubeconfig "+
		"`FILE` (default the pod's service account, or kubectl's)")
	f.StringVar(&o.context, "context", "", "`NAME` of the kubeconfig's context")
	_ = cmd.MarkFlagFilename("kubeconfig")
	o.nodes.flags(cmd, "nodes-kubeconfig")
	f.StringVar(&o.namespace, "namespace", "", "the controller's own `NAMESPACE`, which has the "+
		"Lease (default the pod's, or the context's)")
	f.StringVar(&o.scopes, "scopes", "", "`FILE` that maps namespaces to the scopes they may name")
	_ = cmd.MarkFlagFilename("scopes", "yaml", "yml")
	f.StringVar(&o.notify, "notify", "", "send messages to the places in `FILE`, a Notify "+
		"document; it is read again when it changes")
	_ = cmd.MarkFlagFilename("notify", "yaml", "yml", "json")
	f.BoolVar(&o.inside, "inside", false, "the controller runs in the cluster of this API server "+
		"(default: if it uses a pod's service account)")
	durationFlag(f, &o.lease, "lease", 15*time.Second, "how long others wait before they replace "+
		"a replica that has died")
	f.StringVar(&o.health, "health", "", "serve /healthz and /readyz of this replica at this "+
		"`address`")
	groupFlags(cmd, groupKube)
	o.keep.listen.flags(cmd)
	groupFlags(cmd, groupListen)
	o.keep.history.flags(cmd)
	cmd.Flag("history").Usage = "keep the history in `FILE` (default none)"
	groupFlags(cmd, groupHistory)
	f.BoolVarP(&o.keep.verbose, "verbose", "v", false, "log more")
	f.BoolP("help", "h", false, "show this help")
	groupFlags(cmd, groupOutput)
	return cmd
}

func runController(ctx context.Context, a *app, o controllerOptions, inside bool) error {
	if err := o.keep.check(); err != nil {
		return err
	}
	if o.lease < shortestLease {
		return fmt.Errorf("--lease: %s is too short, expected %s or more", o.lease, shortestLease)
	}
	api, err := controller.Reach(o.kubeconfig, o.context)
	if err != nil {
		return err
	}
	if !inside {
		o.inside = api.Pod
	}
	if o.namespace == "" {
		o.namespace = api.Namespace
	}
	scopes := controller.Scopes{o.namespace: {controller.Everything}}
	if o.scopes != "" {
		text, err := input.ReadFile(o.scopes, input.Text)
		if err == nil {
			scopes, err = controller.ReadScopes(text)
		}
		if err != nil {
			return fmt.Errorf("--scopes: %w", unreadAt(o.scopes, err))
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	options, err := daemonOptions(ctx, a, o.keep, nil, o.nodes)
	if err != nil {
		return err
	}
	if o.notify != "" {
		options.Notify = func() (*v1alpha1.Notify, error) {
			found, err := readNotify(a, "--notify", []string{o.notify})
			if err == nil && found == nil {
				err = fmt.Errorf("--notify: %s holds no Notify document", o.notify)
			}
			return found, err
		}
		if _, err := options.Notify(); err != nil {
			return err
		}
		options.Files = daemon.ConfigFiles{
			Fingerprint: func() (string, error) { return fingerprint([]string{o.notify}) },
			Read: func() ([]v1alpha1.ClusterRoutes, error) {
				_, err := options.Notify()
				return nil, err
			}}
	}
	return controller.Run(ctx, controller.Options{
		API: api.Config, Inside: o.inside, Namespace: o.namespace,
		Identity: host + "_" + uuid.NewString(), Lease: o.lease, Health: o.health, Scopes: scopes,
		Daemon: options,
	})
}
