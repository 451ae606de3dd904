package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// aksKinds are the resource types of Microsoft.ContainerService.
func (e *Emulator) aksKinds() []kind {
	return []kind{
		{name: arm.TypeCluster, tracked: true, facts: clusterFacts(e.issuerOf, e.tenantOf),
			settle: e.settleCluster, stored: e.storedCluster, show: e.showCluster, removed: e.clusterRemoved},
		{name: typeMaintenance, immediate: true, settle: e.settleMaintenance,
			show: showMaintenance},
	}
}

// aksCalls are the calls that lead into a cluster, or make it do something.
func (e *Emulator) aksCalls() []special { return []special{e.clusterCall, e.agentPoolCall} }
