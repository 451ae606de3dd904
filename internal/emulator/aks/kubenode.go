package aks

import (
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// nodeObjects returns a cluster's nodes as its API server shows them.
func (s *APIServers) nodeObjects(cl *cluster, r *kernel.Resource) []kubeObject {
	var out []kubeObject
	for p, n := range cl.nodes() {
		out = append(out, kubeObject{name: n.Name, document: func() kernel.Object {
			return cl.nodeDocument(p, n, profileOf(r, p.Name))
		}})
	}
	return out
}

// NodeList returns a cluster's nodes as a list, for callers that hold the lock.
func (s *APIServers) NodeList(id arm.ID) []byte {
	items := []kernel.Object{}
	cl, r := s.Clusters[id.Key()], s.kernel.Store.Get(id)
	if cl != nil && r != nil {
		for _, o := range s.nodeObjects(cl, r) {
			items = append(items, o.document())
		}
	}
	return kernel.Encode(kernel.Object{"kind": "NodeList", "apiVersion": "v1", "items": items})
}

// addresses returns the node's own addresses: the first of each family. With Azure CNI in the node
// subnet, the addresses of its pods follow.
func (n *Node) addresses() []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Addrs {
		if len(out) == 0 || a.Is4() != out[0].Is4() {
			out = append(out, a)
			if len(out) == 2 {
				break
			}
		}
	}
	return out
}

// kubeTime returns a time as Kubernetes writes it.
func kubeTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// kubeUID returns a stable UID for an object.
func kubeUID(of string, created time.Time) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(of+" "+kubeTime(created))).String()
}

// nodeDocument returns a node as AKS shows it, without the kubelet's fields about images and the
// machine.
func (cl *cluster) nodeDocument(p *pool, n *Node, profile kernel.Object) kernel.Object {
	system := "linux"
	if kernel.Text(profile, "osType") == "Windows" {
		system = "windows"
	}
	labels := kernel.Object{
		"agentpool": p.Name, "kubernetes.azure.com/agentpool": p.Name,
		"kubernetes.azure.com/cluster": cl.NodeGroup.Name(),
		"kubernetes.azure.com/mode":    strings.ToLower(kernel.Text(profile, "mode")),
		"kubernetes.azure.com/node-image-version": kernel.Text(profile,
			"nodeImageVersion"), "kubernetes.azure.com/role": "agent",
		"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": n.Name, "kubernetes.io/os": system,
		"node.kubernetes.io/instance-type": p.VMSize,
		"topology.kubernetes.io/region":    cl.Location, "topology.kubernetes.io/zone": "0",
	}
	maps.Copy(labels, kernel.ObjectAt(profile, "nodeLabels"))
	if n.Overlay {
		labels["kubernetes.azure.com/podnetwork-type"] = "overlay"
	}
	spec := kernel.Object{"providerID": "azure://" + strings.Replace(string(p.machine(n)),
		cl.NodeGroup.Name(), strings.ToLower(cl.NodeGroup.Name()), 1)}
	if cl.Mode.hasPodCIDR() && len(n.PodCIDRs) > 0 {
		cidrs := []string{}
		for _, prefix := range n.PodCIDRs {
			cidrs = append(cidrs, prefix.String())
		}
		spec["podCIDR"], spec["podCIDRs"] = cidrs[0], cidrs
	}
	addresses := []kernel.Object{}
	for _, a := range n.addresses() {
		addresses = append(addresses, kernel.Object{"type": "InternalIP", "address": a.String()})
	}
	addresses = append(addresses, kernel.Object{"type": "Hostname", "address": n.Name})
	size := kernel.Object{"pods": strconv.Itoa(p.MaxPods)}
	return kernel.Object{
		"metadata": kernel.Object{"name": n.Name, "uid": kubeUID(n.Name, n.Created),
			"creationTimestamp": kubeTime(n.Created), "labels": labels},
		"spec": spec,
		"status": kernel.Object{
			"addresses": addresses, "conditions": cl.nodeConditions(n), "capacity": size,
			"allocatable": size,
			"nodeInfo": kernel.Object{"kubeletVersion": "v" +
				fullVersion(kernel.Text(profile, "orchestratorVersion")), "operatingSystem": system,
				"architecture": "amd64", "kubeProxyVersion": ""},
		},
	}
}

// nodeConditions returns the conditions of the kubelet and, on kubenet, the one of the cloud
// provider about the node's routes. A node is Ready even if the cloud provider reports missing
// routes (AKS#2681). Without a network plugin no node is Ready.
func (cl *cluster) nodeConditions(n *Node) []kernel.Object {
	condition := func(name string, holds bool, since time.Time, reason,
		message string) kernel.Object {
		status := map[bool]string{true: "True", false: "False"}[holds]
		return kernel.Object{"type": name, "status": status, "reason": reason, "message": message,
			"lastTransitionTime": kubeTime(since), "lastHeartbeatTime": kubeTime(since)}
	}
	out := []kernel.Object{}
	if seen := n.routesSeen; cl.Mode == modeKubenet && !seen.Since.IsZero() {
		if seen.There {
			out = append(out, condition("NetworkUnavailable", false, seen.Since, "RouteCreated",
				"RouteController created a route"))
		} else {
			out = append(out, condition("NetworkUnavailable", true, seen.Since, "NoRouteCreated",
				"RouteController failed to create a route"))
		}
	}
	for _, c := range [][3]string{
		{"MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{"DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{"PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
	} {
		out = append(out, condition(c[0], false, n.Created, c[1], c[2]))
	}
	if cl.Mode == modeNone {
		return append(out, condition("Ready", false, n.Created, "KubeletNotReady", "container "+
			"runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "+
			"message:Network plugin returns error: cni plugin not initialized"))
	}
	return append(out,
		condition("Ready", true, n.Created, "KubeletReady", "kubelet is posting ready status"))
}
