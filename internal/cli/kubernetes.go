package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/kube"
)

// kubernetesOptions say where to read nodes and pods: from the cluster's API, or from files with
// the output of kubectl.
type kubernetesOptions struct {
	kubeconfig, context string
	trusted             bool
	// get asks AKS for the caller's own credentials where no kubeconfig leads to a cluster.
	get         bool
	nodes, pods string
}

// trustFlag adds the flag that lets a kubeconfig from elsewhere run programs.
func trustFlag(cmd *cobra.Command, trusted *bool) {
	cmd.Flags().BoolVar(trusted, "trust-kubeconfig", false, "let the file of --kubeconfig run its "+
		"login plugin and send the token file it names; kubectl's own files always may")
}

func kubernetesFlags(cmd *cobra.Command, o *kubernetesOptions) {
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "read nodes and pods with this kubeconfig `FILE` "+
		"(default kubectl's, if one of its contexts leads to the cluster)")
	f.StringVar(&o.context, "context", "", "`NAME` of the kubeconfig's context (default the one "+
		"that leads to the cluster)")
	trustFlag(cmd, &o.trusted)
	f.BoolVar(&o.get, "get-kubeconfig", false, "where no kubeconfig leads to a cluster, ask AKS "+
		"for your own credentials (listClusterUserCredential, never the admin's)")
	f.StringVar(&o.nodes, "from-nodes", "", "read the cluster's nodes from this `FILE` (kubectl "+
		"get nodes -o json), or -")
	f.StringVar(&o.pods, "from-pods", "", "read the cluster's pods from this `FILE` (kubectl get "+
		"pods -A -o json), or -")
	_ = cmd.MarkFlagFilename("kubeconfig")
	for _, file := range []string{"from-nodes", "from-pods"} {
		_ = cmd.MarkFlagFilename(file, "json")
		cmd.MarkFlagsMutuallyExclusive(file, "kubeconfig")
		cmd.MarkFlagsMutuallyExclusive(file, "context")
		cmd.MarkFlagsMutuallyExclusive(file, "get-kubeconfig")
	}
}

// examineKubernetes reads nodes and pods from files, or from the API of every cluster that a
// kubeconfig leads to. For a bundle it reads files only.
func examineKubernetes(ctx context.Context, a *app, o kubernetesOptions, e *examination) error {
	switch {
	case o.nodes != "" || o.pods != "":
		return savedKubernetes(a, o, e)
	case e.client == nil && (o.kubeconfig != "" || o.context != "" || o.get):
		return errors.New("--kubeconfig, --context, --get-kubeconfig: a bundle is read without " +
			"any connection; use --from-nodes and --from-pods with saved files")
	case e.client == nil:
		return nil
	}
	asked := o.kubeconfig != "" || o.context != ""
	for _, id := range e.Clusters {
		cluster := e.Snapshot.Cluster(id)
		if cluster == nil || inventory.Clusterless(id) || cluster.Stopped && !asked {
			continue
		}
		options := kube.Options{Kubeconfig: o.kubeconfig, Context: o.context, Cluster: cluster,
			Trusted: o.trusted}
		client, err := kube.Load(options)
		if errors.Is(err, kube.ErrNoContext) && o.get && !cluster.Stopped {
			client, err = kube.Connect(ctx, kube.Options{Cluster: cluster}, e.client.Kubeconfig)
		}
		if err != nil {
			if errors.Is(err, kube.ErrNoContext) && (!asked || len(e.Clusters) > 1) {
				continue
			}
			if asked && !cluster.Stopped {
				return err
			}
			e.Snapshot.Kubernetes[id.Key()] = &inventory.Kubernetes{Failed: err.Error()}
			continue
		}
		k, err := client.Read(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			k = &inventory.Kubernetes{Failed: err.Error()}
		}
		e.Snapshot.Kubernetes[id.Key()] = k
		e.Snapshot.Clusters[id.Key()] = cluster.Mixed(k.Nodes)
	}
	return nil
}

// savedKubernetes reads files with the output of kubectl.
func savedKubernetes(a *app, o kubernetesOptions, e *examination) error {
	if len(e.Clusters) != 1 {
		return fmt.Errorf("--from-nodes, --from-pods: the files belong to one cluster, but %d are "+
			"checked: name one", len(e.Clusters))
	}
	id := e.Clusters[0]
	k := &inventory.Kubernetes{}
	if known := e.Snapshot.Kubernetes[id.Key()]; known != nil {
		*k = *known
	}
	var err error
	if o.nodes != "" {
		if k.Nodes, err = saved(a, o.nodes, inventory.SavedNodes); err != nil {
			return fmt.Errorf("--from-nodes: %w", err)
		}
		if len(k.Nodes) == 0 {
			return fmt.Errorf("--from-nodes: %s: it holds no node (expected the output of: "+
				"kubectl get nodes "+
				"-o json)", o.nodes)
		}
		if cluster := e.Snapshot.Cluster(id); cluster != nil {
			if ours, told := cluster.Holds(k.Nodes); told && !ours {
				return fmt.Errorf("--from-nodes: %s: the nodes belong to another cluster: their "+
					"machines are not in %s, the node resource group of %s", o.nodes,
					cluster.NodeResourceGroup,
					id.Name())
			}
		}
	}
	if o.pods != "" {
		if k.Pods, err = saved(a, o.pods, inventory.SavedPods); err != nil {
			return fmt.Errorf("--from-pods: %w", err)
		}
	}
	e.Snapshot.Kubernetes[id.Key()] = k
	return nil
}

func saved[T any](a *app, path string, decode func(file string, raw []byte) ([]T, error)) ([]T,
	error) {
	data, err := a.readFile(path, input.Large) // a large cluster has many pods
	if err != nil {
		return nil, err
	}
	return decode(path, data)
}

// nodesOptions say how to read the nodes of clusters with source Nodes.
type nodesOptions struct {
	kubeconfig string
	trusted    bool
}

// flags adds the flags. name is the name of the flag for the kubeconfig.
func (o *nodesOptions) flags(cmd *cobra.Command, name string) {
	cmd.Flags().StringVar(&o.kubeconfig, name, "", "read the nodes of clusters with source Nodes "+
		"with this kubeconfig `FILE` (default kubectl's, if one of its contexts leads to the "+
		"cluster, or the credentials that AKS gives)")
	_ = cmd.MarkFlagFilename(name)
	cmd.Flags().BoolVar(&o.trusted, "trust-kubeconfig", false, "let the file of --"+name+" run "+
		"its login plugin and send the token file it names; kubectl's own files always may")
}

// source returns the reader for the nodes of clusters.
func (o nodesOptions) source(client *azure.Client) keeper.Nodes {
	return kube.NewFollowers(func(ctx context.Context,
		cluster *inventory.Cluster) (*kube.Client, error) {
		return kube.Connect(ctx, kube.Options{Kubeconfig: o.kubeconfig, Trusted: o.trusted,
			Cluster: cluster}, client.Kubeconfig)
	})
}
