package diagnose

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// aksDelegation is the service that AKS itself delegates pod subnets to (ARO-HCP#469).
const aksDelegation = arm.TypeCluster

func azureCNI(c *inventory.Cluster) bool { return strings.EqualFold(c.Plugin, "azure") }

// checkAzureCNI checks the subnets of nodes, pods and gateways, and their free addresses.
func checkAzureCNI(p *clusterCase) {
	subnetRoles(p)
	addresses(p)
	if p.cluster.Overlay() {
		p.containerSubnets(finding.ContainersSubnet)
	}
}

// subnetRoles finds subnets that hold both nodes and pods, of one cluster or of two, and subnets
// that are delegated to another service. AKS refuses a delegated node subnet (azure-docs#69774,
// SubnetIsDelegated).
func subnetRoles(p *clusterCase) {
	seen := map[string]bool{}
	once := func(id arm.ID, role string) *inventory.Subnet {
		subnet := p.s.Subnet(id)
		if subnet == nil || seen[role+id.Key()] {
			return nil
		}
		seen[role+id.Key()] = true
		return subnet
	}
	for _, pool := range p.cluster.Pools {
		if subnet := once(nodeSubnet(p.s.Snapshot, p.cluster, pool), "nodes"); subnet != nil {
			for _, service := range subnet.Delegations {
				// usedTwice reports it below
				if !strings.EqualFold(service, aksDelegation) || !holdsPods(p, subnet.ID) {
					p.add(delegated(p, subnet, "node", service))
				}
			}
		}
		subnet := once(pool.PodSubnet, "pods")
		if subnet == nil {
			continue
		}
		for _, service := range subnet.Delegations {
			if !strings.EqualFold(service, aksDelegation) {
				p.add(delegated(p, subnet, "pod", service))
			}
		}
	}
	for _, c := range p.s.Clusters {
		for _, nodes := range c.Pools {
			for _, pods := range p.cluster.Pools {
				if pods.PodSubnet != "" && pods.PodSubnet.Equal(nodes.Subnet) {
					p.add(usedTwice(p, pods.PodSubnet, c, nodes.Name, p.cluster, pods.Name))
				}
			}
			for _, own := range p.cluster.Pools {
				if nodes.PodSubnet != "" && nodes.PodSubnet.Equal(own.Subnet) &&
					!c.ID.Equal(p.cluster.ID) {
					p.add(usedTwice(p, nodes.PodSubnet, p.cluster, own.Name, c, nodes.Name))
				}
			}
		}
	}
}

func holdsPods(p *clusterCase, subnet arm.ID) bool {
	return slices.ContainsFunc(p.cluster.Pools, func(pool inventory.Pool) bool {
		return subnet.Equal(pool.PodSubnet)
	})
}

func delegated(p *clusterCase, subnet *inventory.Subnet, kind, service string) finding.Finding {
	return p.found(finding.SubnetDelegated, subnet.ID,
		"%s subnet %s of cluster %s is delegated to %s", kind, subnet.ID.Short(),
		p.cluster.ID.Short(), service).
		About(service).WithFix("az network vnet subnet update --ids %s --remove delegations",
		subnet.ID)
}

func usedTwice(p *clusterCase, id arm.ID, ofNodes *inventory.Cluster, nodes string,
	ofPods *inventory.Cluster, pods string) finding.Finding {
	return p.found(finding.SubnetUsedTwice, id, "subnet %s is the node subnet of pool %s of "+
		"cluster %s and the pod subnet of pool %s of cluster %s",
		id.Short(), nodes, ofNodes.ID.Short(), pods, ofPods.ID.Short()).About(nodes + " " + pods)
}
