package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kubernetesVersions are the ones that can be chosen, newest first within what is supported, the
// default one at the head.
var kubernetesVersions = []string{"1.34.2", "1.34.1", "1.33.6", "1.33.5", "1.32.10", "1.32.9"}

// nodeImages are the node images there are, the newest first.
var nodeImages = []string{"AKSUbuntu-2204gen2containerd-202511.07.0",
	"AKSUbuntu-2204gen2containerd-202510.19.0"}

// fullVersion is the version that a cluster runs which asked for only the first two numbers of it.
func fullVersion(version string) string {
	if strings.Count(version, ".") == 1 {
		for _, v := range kubernetesVersions {
			if strings.HasPrefix(v, version+".") {
				return v
			}
		}
	}
	return version
}

// versionNumbers reads a Kubernetes version; nil when it is none.
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

// checkUpgrade refuses a cluster version that is none, is older, or leaves one out.
func checkUpgrade(properties, before object) *failure {
	to := text(properties, "kubernetesVersion")
	now := versionNumbers(to)
	if now == nil {
		return fail(http.StatusBadRequest, "K8sVersionNotSupported", "Managed cluster is on "+
			"version %s, which is not supported in this region. Please use [az aks get-versions] "+
			"command to get the supported version list in this region.", to)
	}
	was := versionNumbers(text(before, "kubernetesVersion"))
	if was != nil && (slices.Compare(now, was) < 0 || now[0] == was[0] && now[1] > was[1]+1) {
		return fail(http.StatusBadRequest, "OperationNotAllowed",
			"Upgrading Kubernetes version from %s to %s is not allowed. Available upgrades: [%s].",
			text(before, "kubernetesVersion"), to, strings.Join(
				upgradesFrom(text(before, "kubernetesVersion")), " "))
	}
	return nil
}

// upgradesFrom are the versions that a version can be upgraded to.
func upgradesFrom(version string) []string {
	out := []string{}
	was := versionNumbers(version)
	for _, v := range kubernetesVersions {
		now := versionNumbers(v)
		if was != nil && slices.Compare(now, was) > 0 && now[1] <= was[1]+1 {
			out = append(out, v)
		}
	}
	return out
}

// checkVersion refuses a pool's version that is newer than its cluster's or older than it was.
func checkVersion(p, had, properties object) *failure {
	version := text(p, "orchestratorVersion")
	now, control := versionNumbers(version), versionNumbers(text(properties, "kubernetesVersion"))
	if now == nil {
		return fail(http.StatusBadRequest, "AgentPoolK8sVersionNotSupported", "Version %s is not "+
			"supported in this region. Please use [az aks get-versions] command to get the "+
			"supported version list in this region.", version)
	}
	if slices.Compare(now, control) > 0 || control[1]-now[1] > 3 {
		return fail(http.StatusBadRequest, "NodePoolMcVersionIncompatible", "Node pool version "+
			"%s and control plane version %s are incompatible. Minor version of node pool cannot "+
			"be bigger than control plane version. Minor version of node pool must be within "+
			"three minor versions of the control plane version.", version, text(properties,
			"kubernetesVersion"))
	}
	if had != nil && slices.Compare(now, versionNumbers(text(had, "orchestratorVersion"))) < 0 {
		return fail(http.StatusBadRequest, "AgentPoolUpgradeVersionNotAllowed",
			"Upgrading agent pool %s from version %s to %s is not allowed.", text(p,
				"name"), text(had, "orchestratorVersion"), version)
	}
	return nil
}

// upgrades reports whether a pool's nodes have to be replaced to come to another profile.
func upgrades(p, had object) bool {
	return had != nil &&
		(fullVersion(text(p, "orchestratorVersion")) != fullVersion(text(had,
			"orchestratorVersion")) || text(p, "nodeImageVersion") != text(had, "nodeImageVersion"))
}

// surgeOf is how many nodes come in addition while a pool is upgraded: a number, or a percentage of
// its nodes, rounded up.
func surgeOf(profile object, nodes int) int {
	wish := fmt.Sprint(objectAt(profile, "upgradeSettings")["maxSurge"])
	if percent, isPercent := strings.CutSuffix(wish, "%"); isPercent {
		if n, err := strconv.Atoi(percent); err == nil {
			return min(max(1, (nodes*n+99)/100), max(1, nodes))
		}
	}
	if n, err := strconv.Atoi(wish); err == nil && n > 0 {
		return min(n, max(1, nodes))
	}
	return max(1, (nodes+9)/10) // 10 % is what new pools have
}

// upgrade replaces a pool's nodes over the time that the operation takes: surge nodes come, the
// others are reimaged one batch after the other, and the surge nodes go. A reimaged node keeps its
// instance, name and address; its Kubernetes object is made anew, and with it its part of the pod
// CIDR [U].
func (s *aks) upgrade(cl *cluster, p *pool, profile object, over time.Duration) *failure {
	old := slices.Clone(p.nodes)
	if len(old) == 0 {
		return nil
	}
	surge := surgeOf(profile, len(old))
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
		s.kernel.at(start.Add(over*time.Duration(i+1)/time.Duration(len(batches)+1)), func() {
			if !s.runs(cl, p) {
				return
			}
			for _, n := range batch {
				if slices.Contains(p.nodes, n) {
					had := n.podCIDRs
					n.podCIDRs, n.created, n.routes = cl.givePodCIDRs(), time.Now(), routesSeen{}
					cl.freePodCIDRs(&node{podCIDRs: had})
				}
			}
			s.nodesChanged(cl)
		})
	}
	s.kernel.at(start.Add(over), func() {
		if s.runs(cl, p) {
			s.dropSurge(cl, p, len(old))
		}
	})
	return nil
}

// runs reports whether a pool is still there.
func (s *aks) runs(cl *cluster, p *pool) bool {
	return s.clusters[cl.id.Key()] == cl && cl.pool(p.name) == p
}

// dropSurge takes a pool's last nodes away.
func (s *aks) dropSurge(cl *cluster, p *pool, count int) {
	for len(p.nodes) > count {
		s.removeNode(cl, p, p.nodes[len(p.nodes)-1])
	}
	_ = s.storeScaleSet(cl, p) // it only has fewer instances
	s.nodesChanged(cl)
}
