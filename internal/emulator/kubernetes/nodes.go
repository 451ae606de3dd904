package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// leaseTime is how often a kubelet renews its node's lease.
const leaseTime = 10 * time.Second

// nodes writes a cluster's nodes from the emulator's pools.
type nodes struct {
	*cluster
	written map[string]emulator.KubernetesNode
	// workloads are the daemon sets that are written.
	workloads map[emulator.KubernetesWorkload]bool
}

// begin writes all nodes for the first time. Nodes of an earlier emulator are deleted.
func (n *nodes) begin(ctx context.Context) error {
	// the API server creates them a moment later
	for _, namespace := range []string{"kube-system", "kube-node-lease"} {
		if err := n.cp.apply(ctx, "/api/v1/namespaces/"+namespace, object{
			"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace},
		}); err != nil {
			return err
		}
	}
	there, err := n.list(ctx, "/api/v1/nodes")
	if err != nil {
		return err
	}
	for _, raw := range there.Items {
		var node struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(raw, &node); err != nil {
			return err
		}
		n.written[node.Metadata.Name] = emulator.KubernetesNode{}
	}
	return n.write(ctx)
}

// write updates the API server's nodes, their leases and the daemon sets.
func (n *nodes) write(ctx context.Context) error {
	shown := n.state()
	there := map[string]bool{}
	var failed []error
	for _, node := range shown.Nodes {
		there[node.Name] = true
		failed = append(failed, n.writeNode(ctx, node), n.renew(ctx, node.Name))
	}
	for _, name := range slices.Sorted(maps.Keys(n.written)) {
		if !there[name] {
			failed = append(failed, n.removeNode(ctx, name))
		}
	}
	for _, w := range shown.Workloads {
		if !n.workloads[w] {
			failed = append(failed, n.writeWorkload(ctx, w))
		}
	}
	return errors.Join(failed...)
}

func (n *nodes) writeNode(ctx context.Context, node emulator.KubernetesNode) error {
	before, there := n.written[node.Name]
	if there && reflect.DeepEqual(before, node) {
		return nil
	}
	// A node's pod CIDR and machine never change: if they differ, it is another node.
	if there && before.Document != nil &&
		!reflect.DeepEqual(before.Document["spec"], node.Document["spec"]) {
		if err := n.removeNode(ctx, node.Name); err != nil {
			return err
		}
	}
	metadata, _ := node.Document["metadata"].(object)
	status, _ := node.Document["status"].(object)
	status = maps.Clone(status)
	// The kubelet's port: the API server reaches it through the tunnel.
	status["daemonEndpoints"] = object{"kubeletEndpoint": object{"Port": kubeletPort}}
	size, _ := status["capacity"].(object)
	size = maps.Clone(size)
	size["cpu"], size["memory"], size["ephemeral-storage"] = "4", "16Gi", "128Gi"
	status["capacity"], status["allocatable"] = size, size
	info, _ := status["nodeInfo"].(object)
	info = maps.Clone(info)
	for _, field := range []string{"machineID", "systemUUID", "bootID"} {
		info[field] = metadata["uid"]
	}
	info["osImage"], info["kernelVersion"], info["containerRuntimeVersion"] =
		"simulated by routekeeper emulator", "none", "none://0"
	status["nodeInfo"] = info
	doc := object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": node.Name,
		"labels": metadata["labels"]},
		"spec": node.Document["spec"]}
	path := "/api/v1/nodes/" + node.Name
	if err := n.cp.apply(ctx, path, doc); err != nil {
		return err
	}
	delete(doc, "spec")
	doc["status"] = status
	if err := n.cp.apply(ctx, path+"/status", doc); err != nil {
		return err
	}
	n.written[node.Name] = node
	return nil
}

func (n *nodes) removeNode(ctx context.Context, name string) error {
	if err := n.cp.remove(ctx, "/api/v1/nodes/"+name, ""); err != nil {
		return err
	}
	delete(n.written, name)
	var failed []error
	for _, p := range n.running() {
		if p.Spec.NodeName == name {
			failed = append(failed, n.cp.remove(ctx, p.path(), p.Metadata.UID))
		}
	}
	return errors.Join(failed...)
}

func (n *nodes) renew(ctx context.Context, name string) error {
	return n.cp.apply(ctx, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+name,
		object{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": object{
				"name": name, "namespace": "kube-node-lease"},
			"spec": object{"holderIdentity": name, "leaseDurationSeconds": 40,
				"renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")},
		})
}

// writeWorkload makes a daemon set of an emulator's workload.
func (n *nodes) writeWorkload(ctx context.Context, w emulator.KubernetesWorkload) error {
	labels := object{"app": w.Name}
	spec := object{
		"tolerations": []object{{"operator": "Exists"}},
		"containers":  []object{{"name": w.Name, "image": "local/" + w.Name + ":1"}},
	}
	if w.HostNetwork {
		spec["hostNetwork"] = true
	}
	namespace := "/api/v1/namespaces/" + w.Namespace
	if err := n.cp.apply(ctx, namespace, object{"apiVersion": "v1", "kind": "Namespace",
		"metadata": object{"name": w.Namespace}}); err != nil {
		return err
	}
	err := n.cp.apply(ctx, "/apis/apps/v1/namespaces/"+w.Namespace+"/daemonsets/"+w.Name, object{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": object{"name": w.Name,
			"namespace": w.Namespace, "labels": labels},
		"spec": object{
			"selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": spec},
		},
	})
	if err == nil {
		if n.workloads == nil {
			n.workloads = map[emulator.KubernetesWorkload]bool{}
		}
		n.workloads[w] = true
	}
	return err
}
