package emulator

import (
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// aksOptions say what clusters are like.
type aksOptions struct {
	// RouteBatch is how long a cluster's cloud provider collects route changes before it writes
	// them, and RouteCache for how long it trusts the copy of the table that it read.
	RouteBatch, RouteCache time.Duration
	// RouteBugs are the ways in which the clusters' cloud providers go wrong.
	RouteBugs RouteBugs
	// CheckClusterIdentity makes a cluster need roles on the network it brings.
	CheckClusterIdentity bool
}

// aks is Microsoft.ContainerService: managed clusters, what runs behind them (nodes, cloud
// providers, add-ons), and their API servers.
type aks struct {
	kernel        *kernel
	opts          aksOptions
	authorization *authorization
	entra         *entra
	network       *network

	clusters   map[string]*cluster // by ID.Key()
	nodeGroups map[string]*cluster // by the node resource group's Key()
	scaleSets  map[string]poolOf   // the clusters' ones, by ID.Key()
	// kubernetesBy answers for the clusters' API servers; nil: apiserver.go does.
	kubernetesBy Kubernetes
}

// newAKS makes the service, and gives it its place in the kernel.
func newAKS(k *kernel, n *network, v *compute, d *entra, a *authorization, opts aksOptions) *aks {
	s := &aks{kernel: k, network: n, entra: d, authorization: a, opts: opts,
		clusters: map[string]*cluster{}, nodeGroups: map[string]*cluster{},
		scaleSets: map[string]poolOf{}}
	v.pools, d.issuers, a.nodeGroups, k.host = s, s, s, s
	k.add(service{
		types: s.types(), waits: s.waits(), calls: []special{s.clusterCall, s.agentPoolCall},
		sections: []section{s.section()}, watch: s.watch, resume: resumer{last: s.resumeClusters},
		hostNames: []string{"*." + apiServerDomain}, moved: s.moved, stop: s.stop,
	})
	return s
}

// resumeClusters goes on with what the clusters were doing.
func (s *aks) resumeClusters() {
	for _, key := range slices.Sorted(maps.Keys(s.clusters)) {
		s.resumeCluster(s.clusters[key])
	}
}

// moved renders the clusters anew: their issuers' URLs have the emulator's address in them.
func (s *aks) moved() {
	for _, cluster := range s.kernel.store.list(arm.TypeCluster, "") {
		s.kernel.store.touch(cluster.id)
	}
}

// stop stops the clusters' cloud providers.
func (s *aks) stop() {
	for _, c := range s.clusters {
		c.provider.stop()
	}
}

// types are the resource types of Microsoft.ContainerService.
func (s *aks) types() []kind {
	return []kind{
		{name: arm.TypeCluster, tracked: true, facts: clusterFacts(s.issuerOf, s.kernel.tenantOf),
			settle: s.settleCluster, busy: s.clusterBusy, deleting: s.deleteCluster,
			gets: &ownBucket{s.kernel.buckets.limits.Clusters, "The request is being throttled " +
				"as the limit has been reached for operation type - get managed cluster. For " +
				"more information, see - https://aka.ms/aks-throttling"},
			stored: s.storedCluster, show: s.showCluster,
			removed: s.clusterRemoved},
		{name: typeMaintenance, immediate: true, settle: s.settleMaintenance,
			show: showMaintenance},
	}
}

// waits are none: AKS gives no Retry-After.
func (s *aks) waits() map[string][2]int {
	return map[string][2]int{arm.TypeCluster: {0, 0}, arm.TypeCluster + "/agentPools": {0, 0}}
}
