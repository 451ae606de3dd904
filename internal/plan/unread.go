package plan

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// This file finds machines of other clusters, as subnets show them.

// nodeMachine matches the names that AKS gives the scale sets of its nodes, and the NICs of its
// single machines.
var nodeMachine = lazy.Regexp(`(?i)^aks[a-z0-9-]+$`)

// unreadNode finds in a subnet a machine that AKS made for a cluster that was not read.
func (f Facts) unreadNode(subnet *inventory.Subnet) string {
	return nodeIn(subnet, f.ofCluster)
}

// nodeIn finds in a subnet a machine that AKS made for another cluster than the known ones. The
// subnet shows the IP configurations of all machines, also of other subscriptions. Application
// Gateways, load balancers and private endpoints have IP configurations too, but are not nodes.
func nodeIn(subnet *inventory.Subnet, known func(configuration arm.ID) bool) string {
	for _, configuration := range subnet.Configurations() {
		nic := configuration.Parent()
		inSet := nic.Is(arm.TypeScaleSetInterface)
		if !inSet &&
			!(nic.Is(arm.TypeInterface) && nodeGroup().MatchString(configuration.ResourceGroup())) {
			continue
		}
		holder := inventory.HolderName(nic)
		name, _, _ := strings.Cut(holder, " ")
		if nodeMachine().MatchString(name) && !known(configuration) {
			return holder
		}
	}
	return ""
}

// nodeGroup matches AKS's default names for node resource groups.
var nodeGroup = lazy.Regexp(`(?i)^MC_`)

// ofCluster reports whether a resource is in the node resource group of a cluster that was read.
func (f Facts) ofCluster(id arm.ID) bool {
	for _, cluster := range f.Clusters {
		if id.Group().Equal(cluster.NodeGroup()) {
			return true
		}
	}
	return false
}
