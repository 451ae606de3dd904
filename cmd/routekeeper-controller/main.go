// Routekeeper-controller keeps AKS pod routes correct for ClusterRoutes objects of a Kubernetes API
// server. It is a program of its own, because it links Kubernetes' typed client. It must only join
// the command line and the controller.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/cli"
	"routekeeper.dev/routekeeper/internal/controller"
)

func main() { os.Exit(cli.ControllerMain(run)) }

func run(ctx context.Context, o cli.ControllerOptions) error {
	api, err := controller.Reach(o.Kubeconfig, o.Context)
	if err != nil {
		return err
	}
	inside, namespace := api.Pod, api.Namespace
	if o.Inside != nil {
		inside = *o.Inside
	}
	if o.Namespace != "" {
		namespace = o.Namespace
	}
	scopes := controller.Scopes{namespace: {controller.Everything}}
	if o.Scopes != nil {
		if scopes, err = controller.ReadScopes(o.Scopes); err != nil {
			return fmt.Errorf("--scopes: %w", err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return controller.Run(ctx, controller.Options{
		API: api.Config, Inside: inside, Namespace: namespace,
		Identity: host + "_" + uuid.NewString(), Lease: o.Lease, Health: o.Health, Scopes: scopes,
		Daemon: o.Daemon,
	})
}
