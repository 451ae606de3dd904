package plan

import (
	"regexp"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Clusters that are not read. Their machines show in the subnets.

// nodeMachine is how AKS names the scale sets of its nodes, and the NICs of its single machines.
var nodeMachine = regexp.MustCompile(`(?i)^aks[a-z0-9-]+$`)

// strangeNode finds in a subnet a machine that AKS made for a cluster that was not read: by its IP
// configuration, which the subnet shows whoever owns it. An Application Gateway, a load balancer
// and a private endpoint have IP configurations, too, and are no nodes.
func (p *Planner) strangeNode(subnet *inventory.Subnet) string {
	for _, configuration := range subnet.Configurations {
		nic := configuration.Parent()
		inSet := nic.Is(arm.TypeScaleSetInterface)
		if !inSet && !(nic.Is(arm.TypeInterface) &&
			nodeGroup.MatchString(configuration.ResourceGroup())) {
			continue
		}
		holder := inventory.HolderName(nic)
		name, _, _ := strings.Cut(holder, " ")
		if nodeMachine.MatchString(name) && !p.ofCluster(configuration) {
			return holder
		}
	}
	return ""
}

// nodeGroup is how AKS names the resource group of a cluster's nodes, where nobody chose another
// name.
var nodeGroup = regexp.MustCompile(`(?i)^MC_`)

// ofCluster reports whether a resource is in the node resource group of a cluster that was read.
func (p *Planner) ofCluster(id arm.ID) bool {
	for _, cluster := range p.s.Clusters {
		if id.Group().Equal(cluster.NodeGroup()) {
			return true
		}
	}
	return false
}
