package emulator

import (
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// aksOptions say what clusters are like.
type aksOptions struct {
	// RouteBatch is how long a cluster's cloud provider collects route changes before it writes them,
	// and RouteCache for how long it trusts the copy of the table that it read.
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

// calls are the calls that lead into a cluster, or make it do something.
func (s *aks) calls() []special { return []special{s.clusterCall, s.agentPoolCall} }
