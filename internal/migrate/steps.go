package migrate

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prevent"
)

// The pages that the steps are based on.
const (
	pageUpdate  = "https://learn.microsoft.com/azure/aks/update-azure-cni"
	pageOverlay = "https://learn.microsoft.com/azure/aks/concepts-network-azure-cni-overlay"
	pageRolling = "https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling"
	pageAzurerm = "https://github.com/hashicorp/terraform-provider-azurerm/issues/31683"
	pageGateway = "https://github.com/Azure/application-gateway-kubernetes-ingress/issues/1524"
	pageIPv6    = "https://github.com/Azure/AKS/issues/5120"
	pageDocs    = "docs/migration.md"
)

// steps returns all steps of a cluster, in their order.
func (c *clusterCase) steps() []Step {
	const options = "--network-plugin azure --network-plugin-mode overlay"
	start := c.az("update", options)
	if c.hasBlocker(finding.MigrationPodCIDR) {
		start = c.az("update", options+" --pod-cidr PREFIX")
	}
	steps := append(append(c.stepsBefore(), c.exemptions()...),
		c.credentials(), c.masquerade(),
		checkCode("Code that sets the network plugin must also set the overlay mode.",
			pageAzurerm),
		Step{Phase: Migrate, Title: "Migrate to Azure CNI Overlay",
			Why: "There is no way back. All node pools are reimaged at the same time. Do " +
				"not stop routekeeper run: nodes that have not moved need their routes.",
			Commands: []string{start}, Source: pageUpdate},
		Step{Phase: Migrate, Title: "Watch it",
			Why: "The command says which nodes have moved and which still need routes. You can " +
				"interrupt it and start it again.",
			Commands: []string{finding.Command("routekeeper migrate watch %s", c.argument()).
				String()}, Source: pageDocs},
	)
	return append(steps, c.stepsAfter()...)
}

// exemptions returns the step that exempts the node subnets' network from assigned policies that
// refuse to take the route table off, if there are any.
func (c *clusterCase) exemptions() []Step {
	var names, commands []string
	for _, id := range c.cluster.ExistingSubnets() {
		subnet := c.Snapshot.Subnet(id)
		if subnet == nil || subnet.RouteTable == "" || !c.cluster.Kubenet() {
			continue
		}
		body, err := inventory.WithoutProperty(subnet.Raw, inventory.PropertyTable)
		if err != nil {
			continue
		}
		for _, p := range prevent.Refusing(c.Snapshot.Policies, id, body) {
			command := diagnose.Exempt(p, id.Parent())
			if strings.HasPrefix(arm.ID(p.Assignment).Name(), "routekeeper-") && !c.Proposed {
				command = finding.Command("routekeeper prevent -f %s --format az --exempt %s "+
					"--until 7d", c.File, id.Parent())
			}
			if !slices.Contains(commands, command.String()) {
				names, commands = append(names, p.Name), append(commands, command.String())
			}
		}
	}
	if commands == nil {
		return nil
	}
	return []Step{{Phase: Before, Title: "Exempt the network from policies",
		Why: "AKS takes the route table off the node subnets. These policies would refuse that: " +
			strings.Join(names, ", ") + ". routekeeper prevent prints the commands of an " +
			"exemption that ends by itself; delete another one afterwards.",
		Commands: commands, Source: "https://github.com/Azure/AKS/issues/4308"}}
}

func (c *clusterCase) credentials() Step {
	return Step{Phase: Before, Title: "Get the cluster's credentials",
		Why:      "With them, kubectl and routekeeper read its nodes.",
		Commands: []string{c.az("get-credentials", "")},
		Source:   "https://learn.microsoft.com/cli/azure/aks#az-aks-get-credentials"}
}

func (c *clusterCase) masquerade() Step {
	return Step{Phase: Before, Title: "Check the masquerade ConfigMaps",
		Why: "Delete a ConfigMap azure-ip-masq-agent-config that is not needed: it can break " +
			"connections. Only azure-ip-masq-agent-config-reconciled is expected.",
		Commands: []string{c.kubectl("get configmap --namespace kube-system " +
			"azure-ip-masq-agent-config --ignore-not-found --output yaml")},
		Source: pageUpdate}
}

// checkCode checks a plan of Terraform. sets says what the code must set.
func checkCode(sets, source string) Step {
	return Step{Phase: Before, Title: "Check infrastructure code",
		Why: sets + " Some versions of azurerm destroy the cluster to do so: check the plan " +
			"before you apply it.",
		Commands: []string{"terraform plan -out plan.bin && terraform show -json plan.bin > " +
			"plan.json", finding.Command("routekeeper iac check plan.json").String()},
		Source: source}
}

// engineAgain returns the step after a migration that needed the removal of the engine.
func (c *clusterCase) engineAgain(source string) Step {
	return Step{Phase: After, Title: "Install a network policy engine again",
		Why: "Nothing has enforced network policies since the old engine was removed. Cilium " +
			"is one choice; it reimages all nodes once more.",
		Commands: []string{c.az("update", toCilium)}, Source: source}
}

func (c *clusterCase) verify() Step {
	return Step{Phase: After, Title: "Verify the cluster",
		Why: "Packets must reach pods from other nodes and from each gateway.",
		Commands: []string{finding.Command("routekeeper cluster verify %s", c.argument()).
			String()}, Source: pageDocs}
}

// stepsAfter returns the steps that undo what only the migration needed, and remove what it left
// behind.
func (c *clusterCase) stepsAfter() []Step {
	var steps []Step
	if c.hasBlocker(finding.MigrationPolicy) {
		steps = append(steps, c.engineAgain(pageUpdate))
	}
	if c.hasBlocker(finding.ResourceLocked) {
		steps = append(steps, Step{Title: "Create the locks again",
			Why:    "They were removed for the migration.",
			Source: finding.Describe(finding.ResourceLocked).Page})
	}
	steps = append(steps,
		Step{Title: "Keep or remove the copies of its routes",
			Why: "If other subnets still need routes to its pods, set spec.source: Nodes and " +
				"remove spec.routeTableID. Otherwise set spec.onRemoval: Prune, and then remove " +
				"the cluster from the config: routekeeper run deletes the copies. Without a " +
				"config, sync prune deletes those of nodes that are gone. The others stay, " +
				"because nodes keep their addresses when they move.",
			Commands: []string{finding.Command("routekeeper sync prune --cluster %s",
				c.argument()).String()}, Source: pageDocs},
		c.verify())
	for i := range steps {
		steps[i].Phase = After
	}
	return steps
}

// meanwhile says what Azure does to tables, routes and addresses during the migration.
func (c *clusterCase) meanwhile() []Note {
	notes := []Note{noWayBack, reimaged}
	if c.table != nil {
		short := c.table.ID.Short()
		if c.cluster.IsNodeGroup(c.table.ID.Group()) {
			notes = append(notes, Note{"AKS deletes route table " + short +
				" at the end, including all other routes in it.", pageUpdate})
		} else {
			notes = append(notes, Note{"AKS removes the pod routes from route table " + short +
				" and leaves the others in it.", pageUpdate})
		}
	}
	if len(c.targets) > 0 {
		var names []string
		for _, id := range c.targets {
			names = append(names, id.Short())
		}
		notes = append(notes, Note{"The copies of the pod routes in " +
			strings.Join(names, ", ") + " stay. Application Gateways learn the addresses of " +
			"overlay pods by themselves and need no routes to them.", pageGateway})
	}
	if len(c.cluster.PodCIDRs) > 1 {
		notes = append(notes, Note{"The cluster is dual-stack: IPv6 does not work until the last " +
			"node has moved.", pageIPv6})
	}
	return notes
}

func (c *clusterCase) argument() string { return c.Snapshot.Argument(c.cluster.ID) }

// kubectl returns a command for the cluster's API server.
func (c *clusterCase) kubectl(command string) string {
	return finding.Command("kubectl --context %s "+command, c.cluster.ID.Name()).String()
}
