package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// kubelet simulates the kubelets of all nodes of a cluster: a scheduled pod becomes Running, with
// addresses as the network plugin assigns them; a deleted one is removed at once.
type kubelet struct {
	*cluster
	taken map[netip.Addr]string // uid of the pod
	known map[string]*podDocument
}

// run reads all pods and follows them until the watch ends, as it does from time to time.
func (k *kubelet) run(ctx context.Context) error {
	all, err := k.list(ctx, "/api/v1/pods")
	if err != nil {
		return err
	}
	k.taken, k.known = map[netip.Addr]string{}, map[string]*podDocument{}
	there := map[string]bool{}
	var failed []error
	for _, raw := range all.Items { // first pods that have addresses, so that they keep them
		p, err := decodePod(raw)
		if err != nil {
			return err
		}
		there[p.key()] = true
		for _, ip := range p.Status.PodIPs {
			if !p.Spec.HostNetwork {
				k.taken[ip.IP] = p.Metadata.UID
			}
		}
		k.known[p.key()] = p
	}
	for _, p := range k.running() {
		if !there[p.key()] {
			k.forget(p.key())
		}
	}
	for _, p := range k.known {
		failed = append(failed, k.handle(ctx, p))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	// A watch is ended from time to time, so that a pod that waits for an address is tried again.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var lost error
	err = k.cp.watch(ctx, "/api/v1/pods", all.Metadata.ResourceVersion, func(e event) {
		p, err := decodePod(e.Object)
		switch {
		case err != nil || lost != nil:
			lost = errors.Join(lost, err)
		case e.Type == "DELETED":
			delete(k.known, p.key())
			k.forget(p.key())
			for addr, uid := range k.taken {
				if uid == p.Metadata.UID {
					delete(k.taken, addr)
				}
			}
		default:
			k.known[p.key()] = p
			if lost = k.handle(ctx, p); lost != nil {
				cancel()
			}
		}
	})
	if lost != nil {
		return lost
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func decodePod(raw []byte) (*podDocument, error) {
	p := &podDocument{}
	return p, json.Unmarshal(raw, p)
}

func (k *kubelet) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, key)
}

// handle does what a kubelet does with a pod.
func (k *kubelet) handle(ctx context.Context, doc *podDocument) error {
	if doc.Spec.NodeName == "" {
		return nil
	}
	if doc.Metadata.DeletionTimestamp != "" {
		return k.cp.remove(ctx, doc.path(), doc.Metadata.UID)
	}
	before := k.pod(doc.key())
	if doc.Status.Phase == "Succeeded" || doc.Status.Phase == "Failed" {
		return nil
	}
	if before != nil && before.Metadata.UID == doc.Metadata.UID && doc.Status.Phase == "Running" {
		return nil
	}
	node, there := k.node(doc.Spec.NodeName)
	if !there {
		return nil
	}
	p := &pod{podDocument: *doc, addrs: k.addresses(doc, node)}
	if len(p.addrs) == 0 {
		return k.reportWaiting(ctx, doc, node)
	}
	k.setHandler(p)
	if doc.Status.Phase != "Running" {
		err := k.cp.merge(ctx, doc.path()+"/status", runningStatus(p, node))
		if err != nil {
			return unlessGone(err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[p.key()] = p
	return nil
}

// addresses returns a pod's: its present ones, its node's, or free ones of its node.
func (k *kubelet) addresses(doc *podDocument, node emulator.KubernetesNode) (out []netip.Addr) {
	if doc.Spec.HostNetwork {
		return node.Addrs
	}
	for _, ip := range doc.Status.PodIPs {
		out = append(out, ip.IP)
	}
	if len(out) > 0 {
		return out
	}
	take := func(a netip.Addr) bool {
		if k.taken[a] != "" {
			return false
		}
		k.taken[a] = doc.Metadata.UID
		out = append(out, a)
		return true
	}
	for _, prefix := range node.PodCIDRs {
		// The first address is the bridge's, the last one is broadcast.
		for a := prefix.Masked().Addr().Next().Next(); prefix.Contains(a.Next()); a = a.Next() {
			if take(a) {
				break
			}
		}
	}
	if len(node.PodCIDRs) == 0 {
		for _, a := range node.PodAddrs {
			if take(a) {
				break
			}
		}
	}
	return out
}

// reportWaiting reports in a pod's status that it has no network yet.
func (k *kubelet) reportWaiting(ctx context.Context, doc *podDocument,
	node emulator.KubernetesNode) error {
	why := "no address is free on node " + node.Name
	if len(node.PodCIDRs) == 0 && len(node.PodAddrs) == 0 {
		why = "the cluster has no network plugin"
	}
	return unlessGone(k.cp.merge(ctx, doc.path()+"/status", object{
		"metadata": object{"uid": doc.Metadata.UID}, "status": object{
			"phase": "Pending", "hostIP": node.Addrs[0].String(), "conditions": []object{
				condition("PodScheduled", true, ""), {"type": "Ready", "status": "False",
					"reason": "ContainersNotReady", "message": why},
			}}}))
}

func condition(name string, holds bool, since string) object {
	if since == "" {
		since = time.Now().UTC().Format(time.RFC3339)
	}
	status := map[bool]string{true: "True", false: "False"}[holds]
	return object{"type": name, "status": status, "lastTransitionTime": since}
}

func runningStatus(p *pod, node emulator.KubernetesNode) object {
	now := time.Now().UTC().Format(time.RFC3339)
	hosts, ips := []object{}, []object{}
	for _, a := range node.Addrs {
		hosts = append(hosts, object{"ip": a.String()})
	}
	for _, a := range p.addrs {
		ips = append(ips, object{"ip": a.String()})
	}
	containers, first := []object{}, []object{}
	status := func(name, image string, runs bool, state object) object {
		return object{"name": name, "image": image, "imageID": "", "ready": true, "started": runs,
			"containerID":  "simulated://" + p.Metadata.UID + "/" + name,
			"restartCount": 0, "state": state}
	}
	running := object{"running": object{"startedAt": now}}
	for _, c := range p.Spec.Containers {
		containers = append(containers, status(c.Name, c.Image, true, running))
	}
	ended := object{"terminated": object{"exitCode": 0, "reason": "Completed", "startedAt": now,
		"finishedAt": now}}
	for _, c := range p.Spec.InitContainers {
		first = append(first, status(c.Name, c.Image, false, ended))
	}
	conditions := []object{}
	for _, name := range strings.Fields("PodReadyToStartContainers Initialized Ready " +
		"ContainersReady PodScheduled") {
		conditions = append(conditions, condition(name, true, now))
	}
	return object{"metadata": object{"uid": p.Metadata.UID}, "status": object{
		"phase": "Running", "conditions": conditions, "startTime": now,
		"hostIP": node.Addrs[0].String(), "hostIPs": hosts, "podIP": p.addrs[0].String(),
		"podIPs":            ips,
		"containerStatuses": containers, "initContainerStatuses": first,
	}}
}
