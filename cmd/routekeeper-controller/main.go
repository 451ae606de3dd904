// Routekeeper-controller keeps AKS pod routes correct for ClusterRoutes objects of a Kubernetes API
// server. It is a program of its own, so that its image has no commands that a pod does not need.
// It must only join the command line and the controller.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/labels"

	"routekeeper.dev/routekeeper/internal/cli"
	"routekeeper.dev/routekeeper/internal/controller"
)

func main() { os.Exit(cli.ControllerMain(run)) }

func run(ctx context.Context, o cli.ControllerOptions) error {
	api, err := controller.Reach(o.Kubeconfig, o.Context)
	if err != nil {
		return err
	}
	api.Config.QPS, api.Config.Burst = float32(o.QPS), o.Burst
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
	if _, err := labels.Parse(o.Selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return controller.Run(ctx, controller.Options{
		API: api.Config, Inside: inside, Namespace: namespace, Namespaces: o.Namespaces,
		Selector: o.Selector,
		Identity: host + "_" + uuid.NewString(), Lease: o.Lease, Health: o.Health, Scopes: scopes,
		Daemon: o.Daemon,
	})
}
