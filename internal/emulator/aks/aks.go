// Package aks is Microsoft.ContainerService: managed clusters, agent pools, and what belongs to a
// cluster. That is its nodes, the cloud provider that writes routes, the ingress add-on, the OIDC
// issuer, and a small API server.
package aks

import (
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/compute"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/names"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// Options are the settings of all clusters, as emulator.Options describes them.
type Options struct {
	RouteBatch, RouteCache time.Duration
	CheckClusterIdentity   bool
}

// AKS is Microsoft.ContainerService.
type AKS struct {
	kernel        *kernel.Kernel
	opts          Options
	authorization *authorization.Authorization
	entra         *entra.Entra
	network       *network.Network

	Clusters   map[string]*cluster // by ID.Key()
	nodeGroups map[string]*cluster // by the node resource group's Key()
	scaleSets  map[string]poolOf   // those of the clusters, by ID.Key()
	// APIServers are the clusters' API servers, nodes what their pools run on.
	APIServers *APIServers
	nodes      *nodes
	pools      agentPools
	checks     networkChecks
	ingress    ingress
	migrations migrations
}

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel, n *network.Network, v *compute.Compute, d *entra.Entra,
	a *authorization.Authorization, opts Options) *AKS {
	s := &AKS{kernel: k, network: n, entra: d, authorization: a, opts: opts,
		Clusters: map[string]*cluster{}, nodeGroups: map[string]*cluster{},
		scaleSets: map[string]poolOf{}}
	s.APIServers = &APIServers{AKS: s}
	s.nodes = &nodes{AKS: s}
	s.pools, s.checks = agentPools{s}, networkChecks{s}
	s.ingress, s.migrations = ingress{s}, migrations{s}
	v.Pools, a.NodeGroups, n.Balanced = s.nodes, s, balancers{s}.balanced
	k.Host, d.Issuers = s.APIServers, s.APIServers
	k.Add(kernel.Service{
		Types: s.types(), Names: names.Of("aks") + " sshAccess effectiveNoProxy!",
		// it sends no Retry-After
		Waits: map[string][2]int{arm.TypeCluster: {}, arm.TypeCluster + "/agentPools": {},
			TypeTrustedAccess: {}},
		Calls:     []kernel.Special{versionsCall},
		SavedWith: s.savedWith, Watch: s.watch, Resume: kernel.Resumer{Last: s.resumeClusters},
		HostNames: []string{"*." + apiServerDomain}, Stop: s.stop,
	})
	return s
}

// resumeClusters continues the operations of clusters after a restart.
func (s *AKS) resumeClusters() {
	for _, key := range slices.Sorted(maps.Keys(s.Clusters)) {
		s.resumeCluster(s.Clusters[key])
	}
}

func (s *AKS) stop() {
	for _, c := range s.Clusters {
		c.provider.stop()
	}
}

// WriteRoutes ends the batches of all cloud providers now, unless they are paused.
func WriteRoutes(s *AKS) {
	for _, key := range slices.Sorted(maps.Keys(s.Clusters)) {
		if p := s.Clusters[key].provider; !p.cluster.Paused && p.timer != nil && p.timer.Stop() {
			p.timer = nil
			p.reconcile()
		}
	}
}

func (s *AKS) types() []kernel.Kind {
	return []kernel.Kind{
		{Name: arm.TypeCluster, Tracked: true, Facts: clusterFacts(s.kernel.Opts.TenantOf),
			Settle: s.settleCluster, Busy: s.clusterBusy, Deleting: s.deleteCluster,
			Gets: &kernel.OwnBucket{Limit: s.kernel.Buckets.Limits.Clusters,
				Refusal: "The request is being throttled " +
					"as the limit has been reached for operation type - get managed cluster. For " +
					"more information, see - https://aka.ms/aks-throttling"},
			Stored: s.storedCluster, Show: s.showCluster, Removed: s.clusterRemoved,
			Within: s.inCluster, Extra: s.extra, Restored: s.restored},
		{Name: TypeMaintenance, Immediate: true, Settle: s.settleMaintenance,
			Show: kernel.ShowBare, Facts: []kernel.Fact{
				{Path: "properties.maintenanceWindow.utcOffset", Value: "+00:00"}}}, // documented
		{Name: TypeTrustedAccess},
	}
}
