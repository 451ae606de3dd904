package emulator

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// nodeObjects are a cluster's nodes as its API server shows them.
func (s *aks) nodeObjects(cl *cluster, r *resource) []kubeObject {
	var out []kubeObject
	for _, p := range cl.pools {
		profile := profileOf(r, p.name)
		for _, n := range p.nodes {
			out = append(out, kubeObject{name: n.name, document: func() object {
				return cl.nodeDocument(p, n, profile)
			}})
		}
	}
	return out
}

// address is a node's own: the first of each family. With Azure CNI in the node subnet its pods'
// follow.
func (n *node) addresses() []netip.Addr {
	var out []netip.Addr
	for _, a := range n.addrs {
		if len(out) == 0 || a.Is4() != out[0].Is4() {
			out = append(out, a)
			if len(out) == 2 {
				break
			}
		}
	}
	return out
}

// kubeTime is a time as Kubernetes writes it.
func kubeTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// kubeUID is the same for the same object.
func kubeUID(of string, created time.Time) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(of+" "+kubeTime(created))).String()
}

// nodeDocument is a node as AKS shows it, without what the kubelet says of images and of the
// machine.
func (cl *cluster) nodeDocument(p *pool, n *node, profile object) object {
	system := "linux"
	if text(profile, "osType") == "Windows" {
		system = "windows"
	}
	labels := object{
		"agentpool": p.name, "kubernetes.azure.com/agentpool": p.name,
		"kubernetes.azure.com/cluster": cl.nodeGroup.Name(),
		"kubernetes.azure.com/mode":    strings.ToLower(text(profile, "mode")),
		"kubernetes.azure.com/node-image-version": text(profile,
			"nodeImageVersion"), "kubernetes.azure.com/role": "agent",
		"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": n.name, "kubernetes.io/os": system,
		"node.kubernetes.io/instance-type": p.vmSize,
		"topology.kubernetes.io/region":    cl.location, "topology.kubernetes.io/zone": "0",
	}
	for name, value := range objectAt(profile, "nodeLabels") {
		labels[name] = value
	}
	if cl.mode == modeOverlay {
		labels["kubernetes.azure.com/podnetwork-type"] = "overlay"
	}
	spec := object{"providerID": "azure://" +
		strings.Replace(string(p.machine(n)),
			cl.nodeGroup.Name(), strings.ToLower(cl.nodeGroup.Name()), 1)}
	if cl.mode.hasPodCIDR() && len(n.podCIDRs) > 0 {
		cidrs := []string{}
		for _, prefix := range n.podCIDRs {
			cidrs = append(cidrs, prefix.String())
		}
		spec["podCIDR"], spec["podCIDRs"] = cidrs[0], cidrs
	}
	addresses := []object{}
	for _, a := range n.addresses() {
		addresses = append(addresses, object{"type": "InternalIP", "address": a.String()})
	}
	addresses = append(addresses, object{"type": "Hostname", "address": n.name})
	size := object{"pods": strconv.Itoa(p.maxPods)}
	return object{
		"metadata": object{"name": n.name, "uid": kubeUID(n.name, n.created),
			"creationTimestamp": kubeTime(n.created), "labels": labels},
		"spec": spec,
		"status": object{
			"addresses": addresses, "conditions": cl.nodeConditions(n), "capacity": size,
			"allocatable": size,
			"nodeInfo": object{"kubeletVersion": "v" +
				fullVersion(text(profile, "orchestratorVersion")), "operatingSystem": system,
				"architecture": "amd64", "kubeProxyVersion": ""},
		},
	}
}

// nodeConditions are what the kubelet says, and on kubenet whether the cloud provider believes in
// the node's routes. A node is Ready whatever the cloud provider says (AKS#2681); without a network
// plugin none is.
func (cl *cluster) nodeConditions(n *node) []object {
	condition := func(name string, holds bool, since time.Time, reason, message string) object {
		status := map[bool]string{true: "True", false: "False"}[holds]
		return object{"type": name, "status": status, "reason": reason, "message": message,
			"lastTransitionTime": kubeTime(since), "lastHeartbeatTime": kubeTime(since)}
	}
	out := []object{}
	if seen := n.routes; cl.mode == modeKubenet && !seen.since.IsZero() {
		if seen.there {
			out = append(out, condition("NetworkUnavailable", false, seen.since, "RouteCreated",
				"RouteController created a route"))
		} else {
			out = append(out, condition("NetworkUnavailable", true, seen.since, "NoRouteCreated",
				"RouteController failed to create a route"))
		}
	}
	for _, c := range [][3]string{
		{"MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{"DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{"PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
	} {
		out = append(out, condition(c[0], false, n.created, c[1], c[2]))
	}
	if !cl.podsHaveNetwork() {
		return append(out, condition("Ready", false, n.created, "KubeletNotReady",
			"container runtime network not ready: NetworkReady=false "+
				"reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin "+
				"not initialized"))
	}
	return append(out, condition("Ready", true, n.created, "KubeletReady",
		"kubelet is posting ready status"))
}

// podsHaveNetwork reports whether there is a network plugin.
func (cl *cluster) podsHaveNetwork() bool { return cl.mode != modeNone }
