package migrate

import (
	"fmt"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// questions asks about what Azure Resource Manager does not know.
func (c *clusterCase) questions() []Question {
	qs := []Question{
		c.sourceNAT(),
		{fmt.Sprintf("Does a network behind ExpressRoute, a VPN or Virtual WAN use addresses in "+
			"the pod CIDR %s? Pods could not reach it.", inventory.List(c.cluster.PodCIDRs)),
			"", pageOverlay},
		c.budgets(),
		{"Does anything outside the cluster, other than its gateways, connect to addresses of " +
			"pods? Microsoft supports no such connection with overlay.", "", pageOverlay},
	}
	if len(c.targets) > 0 && !c.cluster.IngressAddon {
		qs = append(qs, Question{"Was the Application Gateway ingress controller installed with " +
			"Helm? Then its version must support overlay. AKS updates only the add-on.",
			c.kubectl("get deployment --all-namespaces --selector app=ingress-azure " +
				"--output wide"), pageGateway})
	}
	if c.cluster.AutoProvisioned {
		qs = append(qs, Question{"Node auto-provisioning is on: which subnets do its " +
			"AKSNodeClass objects name? They need no route table afterwards.",
			c.kubectl("get aksnodeclass --output yaml"),
			"https://github.com/Azure/AKS/issues/4694"})
	}
	if c.hasBlocker(finding.MigrationPolicy) {
		qs = append(qs, Question{"Which NetworkPolicy objects must hold? Nothing enforces them " +
			"from the removal of the engine until the next one works.",
			c.kubectl("get networkpolicy --all-namespaces"),
			SourceOf(finding.MigrationPolicy)})
	}
	if subnets := c.cluster.ExistingSubnets(); len(subnets) > 0 && c.cluster.Kubenet() {
		network := subnets[0].Parent()
		qs = append(qs, Question{"Does an Azure Policy keep the route table on the node subnets? " +
			"AKS takes the table off, and the policy would refuse that. If routekeeper prevent " +
			"wrote the policy, its flags --exempt " + finding.Show(network.Name()) +
			" and --until free the network for a time.",
			finding.Command("az policy assignment list --scope %s --disable-scope-strict-match",
				network).String(), "https://github.com/Azure/AKS/issues/4308"})
	}
	return qs
}
