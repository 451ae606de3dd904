package aks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// KubernetesVersions are the available versions, newest first. The first is the default.
var KubernetesVersions = []string{"1.34.2", "1.34.1", "1.33.6", "1.33.5", "1.32.10", "1.32.9"}

// nodeImages are the node images, newest first.
var nodeImages = []string{"AKSUbuntu-2204gen2containerd-202511.07.0",
	"AKSUbuntu-2204gen2containerd-202510.19.0"}

// fullVersion returns the version of a cluster that asked for a minor version only.
func fullVersion(version string) string {
	if strings.Count(version, ".") == 1 {
		for _, v := range KubernetesVersions {
			if strings.HasPrefix(v, version+".") {
				return v
			}
		}
	}
	return version
}

// versionNumbers reads a Kubernetes version; nil if it is invalid.
func versionNumbers(version string) []int {
	var out []int
	for _, part := range strings.Split(fullVersion(version), ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil
		}
		out = append(out, n)
	}
	if len(out) < 2 || len(out) > 3 {
		return nil
	}
	return out
}

// checkUpgrade refuses a cluster version that is invalid, is older, or skips a minor version.
func checkUpgrade(properties, before kernel.Object) *kernel.Failure {
	to := kernel.Text(properties, "kubernetesVersion")
	now := versionNumbers(to)
	if now == nil {
		return kernel.Bad("K8sVersionNotSupported", "Managed cluster is on version %s, which is "+
			"not supported in this region. Please use [az aks get-versions] command to get "+
			"the supported version list in this region.", to)
	}
	was := versionNumbers(kernel.Text(before, "kubernetesVersion"))
	if was != nil && (slices.Compare(now, was) < 0 || now[0] == was[0] && now[1] > was[1]+1) {
		return kernel.Bad("OperationNotAllowed", "Upgrading Kubernetes version from %s to %s is "+
			"not allowed. Available upgrades: [%s].", kernel.Text(before, "kubernetesVersion"),
			to, strings.Join(upgradesFrom(kernel.Text(before, "kubernetesVersion")), " "))
	}
	return nil
}

// upgradesFrom returns the versions that a version can be upgraded to.
func upgradesFrom(version string) []string {
	out := []string{}
	was := versionNumbers(version)
	for _, v := range KubernetesVersions {
		now := versionNumbers(v)
		if was != nil && slices.Compare(now, was) > 0 && now[1] <= was[1]+1 {
			out = append(out, v)
		}
	}
	return out
}

// checkVersion refuses a pool's version that is newer than its cluster's or older than its previous
// one.
func checkVersion(p, had, properties kernel.Object) *kernel.Failure {
	version := kernel.Text(p, "orchestratorVersion")
	now, control := versionNumbers(version), versionNumbers(kernel.Text(properties,
		"kubernetesVersion"))
	if now == nil {
		return kernel.Bad("AgentPoolK8sVersionNotSupported",
			"Version %s is not supported in this region. Please use [az aks get-versions] "+
				"command to get the supported version list in this region.", version)
	}
	if slices.Compare(now, control) > 0 || control[1]-now[1] > 3 {
		return kernel.Bad("NodePoolMcVersionIncompatible",
			"Node pool version %s and control plane version %s are incompatible. Minor version "+
				"of node pool cannot be bigger than control plane version. Minor version of node "+
				"pool must be within three minor versions of the control plane version.", version,
			kernel.Text(properties, "kubernetesVersion"))
	}
	if had != nil &&
		slices.Compare(now, versionNumbers(kernel.Text(had, "orchestratorVersion"))) < 0 {
		return kernel.Bad("AgentPoolUpgradeVersionNotAllowed",
			"Upgrading agent pool %s from version %s to %s is not allowed.", kernel.Text(p, "name"),
			kernel.Text(had, "orchestratorVersion"), version)
	}
	return nil
}

// upgrades reports whether a pool's change replaces its nodes.
func upgrades(p, had kernel.Object) bool {
	return had != nil && (fullVersion(kernel.Text(p, "orchestratorVersion")) != fullVersion(
		kernel.Text(had, "orchestratorVersion")) ||
		kernel.Text(p, "nodeImageVersion") != kernel.Text(had, "nodeImageVersion"))
}

// SurgeOf returns the number of additional nodes during an upgrade: a number, or a percentage of
// the pool's nodes, rounded up.
func SurgeOf(profile kernel.Object, nodes int) int {
	surge := fmt.Sprint(kernel.ObjectAt(profile, "upgradeSettings")["maxSurge"])
	if percent, isPercent := strings.CutSuffix(surge, "%"); isPercent {
		if n, err := strconv.Atoi(percent); err == nil {
			return min(max(1, (nodes*n+99)/100), max(1, nodes))
		}
	}
	if n, err := strconv.Atoi(surge); err == nil && n > 0 {
		return min(n, max(1, nodes))
	}
	return max(1, (nodes+9)/10) // 10 % is what new pools have
}

// upgrade replaces a pool's nodes during the operation: surge nodes are added, the others are
// reimaged batch by batch, and the surge nodes are deleted. A reimaged node keeps its instance,
// name and address; its Kubernetes object is created again, with a new part of the pod CIDR [U].
func (s *nodes) upgrade(cl *cluster, p *pool, profile kernel.Object,
	over time.Duration) *kernel.Failure {
	return s.roll(cl, p, profile, over, func(n *Node) {
		had := n.PodCIDRs
		n.PodCIDRs, n.Created, n.routesSeen = cl.givePodCIDRs(), time.Now(), routesSeen{}
		cl.freePodCIDRs(&Node{PodCIDRs: had})
	})
}

// moveToOverlay takes a pool's nodes to overlay during the operation, as an upgrade does. They keep
// their pod CIDRs.
func (s *nodes) moveToOverlay(cl *cluster, p *pool, profile kernel.Object,
	over time.Duration) *kernel.Failure {
	return s.roll(cl, p, profile, over, func(n *Node) { n.Overlay, n.Created = true, time.Now() })
}

// roll reimages a pool's nodes batch by batch, with surge nodes meanwhile.
func (s *nodes) roll(cl *cluster, p *pool, profile kernel.Object, over time.Duration,
	reimage func(*Node)) *kernel.Failure {
	old := slices.Clone(p.Nodes)
	if len(old) == 0 {
		return nil
	}
	surge := SurgeOf(profile, len(old))
	for range surge {
		if f := s.addNode(cl, p); f != nil {
			s.dropSurge(cl, p, len(old))
			return f
		}
	}
	if f := s.storeScaleSet(cl, p); f != nil {
		return f
	}
	s.nodesChanged(cl)
	batches := slices.Collect(slices.Chunk(old, surge))
	start := time.Now()
	for i, batch := range batches {
		s.kernel.At(start.Add(over*time.Duration(i+1)/time.Duration(len(batches)+1)), func() {
			if !s.poolExists(cl, p) {
				return
			}
			for _, n := range batch {
				if slices.Contains(p.Nodes, n) {
					reimage(n)
				}
			}
			s.nodesChanged(cl)
		})
	}
	s.kernel.At(start.Add(over), func() {
		if s.poolExists(cl, p) {
			s.dropSurge(cl, p, len(old))
		}
	})
	return nil
}

// poolExists reports whether a pool still exists.
func (s *nodes) poolExists(cl *cluster, p *pool) bool {
	return s.Clusters[cl.ID.Key()] == cl && cl.Pool(p.Name) == p
}

// dropSurge deletes a pool's last nodes.
func (s *nodes) dropSurge(cl *cluster, p *pool, count int) {
	s.shrink(cl, p, count)
	_ = s.storeScaleSet(cl, p) // it only has fewer instances
	s.nodesChanged(cl)
}
