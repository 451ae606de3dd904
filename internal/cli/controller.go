package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/input"
)

// controllerProgram is the name of the program that manages ClusterRoutes objects. It is a program
// of its own, so that its image has no commands that a pod does not need.
const controllerProgram = "routekeeper-controller"

// ControllerOptions are the values from the command line of routekeeper-controller.
type ControllerOptions struct {
	// Kubeconfig is a file and Context the name of one of its contexts; both may be "".
	Kubeconfig, Context string
	// Namespace is the controller's own. "" means the pod's namespace, or the context's.
	Namespace string
	// QPS limits the calls to the API server per second on average, Burst those at once.
	QPS, Burst int
	// Namespaces and Selector limit the objects.
	Namespaces []string
	Selector   string
	// Scopes is the content of the file that maps namespaces to scopes; nil without one.
	Scopes []byte
	// Inside is set if the controller runs in the cluster of the API server, nil if the flag was
	// not given.
	Inside *bool
	// Lease is how long other replicas wait before they replace one that has died.
	Lease time.Duration
	// Health is the address of /healthz and /readyz, "" for none.
	Health string
	// Daemon is what the replica with the lease runs.
	Daemon daemon.Options
}

// ControllerMain runs the command line of routekeeper-controller and returns its exit code. The
// work is in run, because this package does not link the controller.
func ControllerMain(run func(context.Context, ControllerOptions) error) int {
	return mainOf("routekeeper", func(a *app) *cobra.Command { return newController(a, run) })
}

type controllerFlags struct {
	keep   keepingOptions
	nodes  nodesOptions
	scopes string
	notify string
	inside bool
	ControllerOptions
}

// shortestLease leaves a few seconds for a renewal and for the write in flight.
const shortestLease = 3 * time.Second

func newController(a *app, run func(context.Context, ControllerOptions) error) *cobra.Command {
	var o controllerFlags
	cmd := &cobra.Command{
		Use:   controllerProgram,
		Short: "Manage the clusters of ClusterRoutes objects in a Kubernetes API server",
		Long: `routekeeper-controller does what routekeeper run does, for ClusterRoutes objects
in place of files. It writes what it sees into the status of the objects, and
adds Events about changes and findings. See docs/kubernetes.md.

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
		Example: `  routekeeper init schema --kind CustomResourceDefinition | kubectl apply -f -
  routekeeper-controller --kubeconfig management.kubeconfig
  routekeeper-controller --scopes scopes.yaml --listen 127.0.0.1:8080`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("inside") {
				o.Inside = &o.inside
			}
			if err := readController(cmd.Context(), a, &o); err != nil {
				return err
			}
			return run(cmd.Context(), o.ControllerOptions)
		},
	}
	configureRoot(a, cmd)
	cmd.AddCommand(newStatus(a), newVersion(a), newLicenses(a), newMan())
	o.keep.flags(cmd)
	groupFlags(cmd, groupManage)
	f := cmd.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "reach the API server with this kubeconfig "+
		"`FILE` (default the pod's service account, or kubectl's)")
	f.StringVar(&o.Context, "context", "", "`NAME` of the kubeconfig's context")
	_ = cmd.MarkFlagFilename("kubeconfig")
	o.nodes.flags(cmd, "nodes-kubeconfig")
	f.IntVar(&o.QPS, "kube-api-qps", 50, "the most calls of the API server in a second")
	f.IntVar(&o.Burst, "kube-api-burst", 100, "the most calls of the API server at once")
	f.StringVar(&o.Namespace, "namespace", "", "the controller's own `NAMESPACE`, which has the "+
		"Lease (default the pod's, or the context's)")
	f.StringVar(&o.scopes, "scopes", "", "`FILE` that maps namespaces to the scopes they may name")
	_ = cmd.MarkFlagFilename("scopes", "yaml", "yml")
	f.StringVar(&o.notify, "notify", "", "send messages to the places in `FILE`, a Notify "+
		"document; it is read again when it changes")
	_ = cmd.MarkFlagFilename("notify", "yaml", "yml", "json")
	f.StringSliceVar(&o.Namespaces, "watch-namespaces", nil, "see only the objects in these "+
		"`NAMESPACES` (default all)")
	f.StringVarP(&o.Selector, "selector", "l", "", "see only the objects with these `LABELS`, as "+
		"in kubectl get -l")
	f.BoolVar(&o.inside, "inside", false, "the controller runs in the cluster of this API server "+
		"(default: if it uses a pod's service account)")
	durationFlag(f, &o.Lease, "lease", 15*time.Second, "how long others wait before they replace "+
		"a replica that has died")
	f.StringVar(&o.Health, "health", "", "serve /healthz and /readyz of this replica at this "+
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

// readController checks the flags, and reads the files that they name.
func readController(ctx context.Context, a *app, o *controllerFlags) error {
	if err := o.keep.check(); err != nil {
		return err
	}
	if o.Lease < shortestLease {
		return fmt.Errorf("--lease: %s is too short, expected %s or more", o.Lease, shortestLease)
	}
	if o.QPS < 1 || o.Burst < 1 {
		return fmt.Errorf("--kube-api-qps and --kube-api-burst: %d and %d, expected 1 or more",
			o.QPS, o.Burst)
	}
	if o.scopes != "" {
		text, err := input.ReadFile(o.scopes, input.Text)
		if err != nil {
			return fmt.Errorf("--scopes: %w", unreadAt(o.scopes, err))
		}
		o.Scopes = text
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
	o.Daemon = options
	return nil
}
