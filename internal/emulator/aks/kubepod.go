package aks

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// podObjects returns some pods for each of a cluster's nodes, as its API server shows them. They
// are not stored, because they follow from the nodes.
func (s *APIServers) podObjects(cl *cluster, r *kernel.Resource) []kubeObject {
	var out []kubeObject
	policy := policyEngine(r)
	for p, n := range cl.nodes() {
		for _, w := range cl.podsOn(p, n, policy) {
			name := w.Name + "-" + nameSuffix(n.Name+w.Namespace+w.Name)
			out = append(out, kubeObject{w.Namespace, name, func() kernel.Object {
				return podDocument(w, name, n)
			}})
		}
	}
	return out
}

// pod is a pod that runs on a node.
type pod struct {
	KubernetesWorkload
	addrs []netip.Addr // empty while the pod waits for its network
}

// policyEngine returns the engine of a cluster's network policies: calico, azure, cilium, or "" for
// none. Cilium is also the data plane.
func policyEngine(r *kernel.Resource) string {
	profile := kernel.ObjectAt(r.Body, "properties", "networkProfile")
	if strings.EqualFold(kernel.Text(profile, "networkDataplane"), "cilium") {
		return "cilium"
	}
	return strings.ToLower(kernel.Text(profile, "networkPolicy"))
}

// podsOn returns the pods of a node: the pods that AKS runs on every node, some of them on the host
// network, and a workload. What AKS runs on some nodes only (typha, operators) is left out.
func (cl *cluster) podsOn(p *pool, n *Node, policy string) []pod {
	agents := map[networkMode][]string{
		modeKubenet: {"kube-proxy", "azure-ip-masq-agent"}, modeOverlay: {"kube-proxy", "azure-cns",
			"azure-ip-masq-agent"},
		modeVNet: {"kube-proxy", "azure-ip-masq-agent"}, modeNone: {"kube-proxy"},
	}[cl.Mode]
	switch policy {
	case "azure":
		agents = append(agents, "azure-npm")
	case "cilium": // it replaces kube-proxy
		agents = append(slices.Clone(agents[1:]), "cilium")
	}
	if p.PodSubnet != "" {
		agents = append(agents, "azure-cns")
	}
	var out []pod
	for _, name := range agents {
		out = append(out, pod{KubernetesWorkload{"kube-system", name, true}, n.addresses()})
	}
	if policy == "calico" {
		out = append(out, pod{KubernetesWorkload{"calico-system", "calico-node", true},
			n.addresses()})
	}
	for i, w := range []KubernetesWorkload{{"kube-system", "metrics-agent", false},
		{"default", "web", false}} {
		out = append(out, pod{w, cl.podAddresses(p, n, i)})
	}
	return out
}

// podAddresses returns the addresses of a node's i-th pod. They come from its part of the pod CIDR
// (where the first address is the bridge's), from the pod subnet, or from the node subnet after the
// node's own.
func (cl *cluster) podAddresses(p *pool, n *Node, i int) []netip.Addr {
	var out []netip.Addr
	at := func(addrs []netip.Addr, i int) {
		if i < len(addrs) {
			out = append(out, addrs[i])
		}
	}
	switch {
	case cl.Mode.hasPodCIDR():
		for _, prefix := range n.PodCIDRs {
			out = append(out, network.NthPrefix(prefix, prefix.Addr().BitLen(), i+2).Addr())
		}
	case cl.Mode == modeVNet && p.PodSubnet != "":
		at(n.Pods, i)
	case cl.Mode == modeVNet:
		at(n.Addrs, i+1)
	}
	return out
}

// nameSuffix returns five characters as Kubernetes appends to a workload's name.
func nameSuffix(of string) string {
	// Kubernetes leaves out letters that could spell words
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	h := fnv.New64a()
	h.Write([]byte(of))
	sum := h.Sum64()
	var out [5]byte
	for i := range out {
		out[i] = letters[sum%uint64(len(letters))]
		sum /= uint64(len(letters))
	}
	return string(out[:])
}

func podDocument(w pod, name string, n *Node) kernel.Object {
	status := kernel.Object{"phase": "Pending",
		"conditions": []kernel.Object{{"type": "PodScheduled", "status": "True"}},
		"startTime":  kubeTime(n.Created)}
	if host := n.addresses(); len(host) > 0 {
		status["hostIP"] = host[0].String()
	}
	if len(w.addrs) > 0 {
		all := []kernel.Object{}
		for _, a := range w.addrs {
			all = append(all, kernel.Object{"ip": a.String()})
		}
		status["phase"], status["podIP"], status["podIPs"] = "Running", w.addrs[0].String(), all
	}
	spec := kernel.Object{"nodeName": n.Name, "containers": []kernel.Object{
		{"name": w.Name, "image": fmt.Sprintf("local/%s:1", w.Name)}}}
	if w.HostNetwork {
		spec["hostNetwork"] = true
	}
	return kernel.Object{
		"metadata": kernel.Object{"name": name,
			"namespace": w.Namespace, "uid": kubeUID(w.Namespace+"/"+name, n.Created),
			"creationTimestamp": kubeTime(n.Created), "labels": kernel.Object{"app": w.Name}},
		"spec": spec, "status": status,
	}
}
