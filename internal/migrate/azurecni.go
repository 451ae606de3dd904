package migrate

import (
	"fmt"
	"math/bits"
	"strings"

	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
)

// What can move to what, from update-azure-cni ("Supported migration paths", as of November 2026):
//
//	from                            to overlay              to the Cilium data plane
//	node subnet                     yes                     yes
//	pod subnet, dynamic or static   no: a new cluster       yes
//	overlay                         -                       yes
//	kubenet                         yes                     once it is on overlay
//
// Each is an operation of its own: both at once are not supported.

const (
	pageNoPodSubnet = "https://github.com/Azure/AKS/issues/4591"
	pagePodCIDR     = "https://github.com/hashicorp/terraform-provider-azurerm/issues/26259"
	pageDataPlane   = "https://github.com/hashicorp/terraform-provider-azurerm/issues/30946"
	pageTypha       = "https://github.com/hashicorp/terraform-provider-azurerm/issues/32827"
	pageBothFlags   = "https://github.com/MicrosoftDocs/azure-aks-docs/issues/264"
	pageAuto        = "https://learn.microsoft.com/azure/aks/use-node-auto-provisioning"
)

// toCilium are the options of the update to Cilium. Without the second one, AKS refuses: "Cilium
// dataplane requires network policy cilium" (azure-aks-docs#264).
const toCilium = "--network-dataplane cilium --network-policy cilium"

// optionalPlans returns the plans of a cluster with Azure CNI.
func (c *clusterCase) optionalPlans() (plans []Cluster) {
	plugin := c.cluster.PluginName()
	if plugin == "node-subnet" { // of all pools
		plans = append(plans,
			c.planFor("overlay", diagnose.ForOverlay(c.Case, c.cluster.ID), c.toOverlay))
	}
	if strings.EqualFold(c.cluster.Plugin, "azure") &&
		!strings.EqualFold(c.cluster.Dataplane, "cilium") {
		plans = append(plans, c.planFor("cilium", c.forCilium(), c.toCilium))
	}
	return plans
}

// planFor returns the plan for a goal. blockers are what this goal needs in addition.
func (c *clusterCase) planFor(goal string, blockers []finding.Finding,
	fill func(*Cluster)) Cluster {

	to := *c
	to.blockers = append(to.blockers[:len(to.blockers):len(to.blockers)], blockers...)
	out := Cluster{Name: c.name, ID: c.cluster.ID, Plugin: c.cluster.PluginName(), Goal: goal,
		Ready: len(to.blockers) == 0, Work: to.work(), Blockers: to.blockers,
		Steps: to.stepsBefore()}
	if out.Blockers == nil {
		out.Blockers = []finding.Finding{}
	}
	fill(&out)
	for i := range out.Steps {
		if out.Steps[i].Commands == nil {
			out.Steps[i].Commands = []string{}
		}
	}
	return out
}

// What the moves to overlay have in common, and what every move does to the nodes.
var (
	noWayBack = Note{"There is no way back: the network plugin cannot be changed again.",
		pageUpdate}
	reimaged = Note{"AKS reimages all node pools at the same time, in each pool maxSurge nodes " +
		"at once. Workloads are disrupted as in a node image upgrade.", pageUpdate}
)

// sourceNAT asks what the masquerade agent leaves alone.
func (c *clusterCase) sourceNAT() Question {
	return Question{"Does a custom azure-ip-masq-agent configuration keep ranges from source " +
		"NAT? After the migration pods may not reach them.",
		c.kubectl("get configmap --namespace kube-system --output name"), pageUpdate}
}

// budgets asks what keeps a node from being drained.
func (c *clusterCase) budgets() Question {
	return Question{"Does a PodDisruptionBudget forbid every eviction? A node whose pods do not " +
		"leave in time ends the migration with an error.",
		c.kubectl("get poddisruptionbudget --all-namespaces"), pageRolling}
}

// toOverlay plans the move from the node subnet to overlay.
func (c *clusterCase) toOverlay(out *Cluster) {
	nodes := diagnose.MostNodes(c.cluster)
	length := 24 - bits.Len(uint(max(nodes, 1)-1))
	out.Steps = append(out.Steps, c.credentials(), c.masquerade(),
		checkCode("Code must set the overlay mode and the pod CIDR.", pagePodCIDR),
		Step{Phase: Migrate, Title: "Move to Azure CNI Overlay",
			Why: fmt.Sprintf("There is no way back. All node pools are reimaged at the same time. "+
				"Choose PREFIX: a /24 for each node, so a /%d or larger for the %s that this "+
				"cluster can have, which overlaps no network of the nodes, no peered one, and not "+
				"the service CIDR. Afterwards it can only be expanded.", length,
				finding.Count(nodes, "node")),
			Commands: []string{c.az("update", "--network-plugin azure --network-plugin-mode "+
				"overlay --pod-cidr PREFIX")}, Source: pageUpdate},
		Step{Phase: Migrate, Title: "Watch it",
			Why: "A node that has moved has the label with the value overlay.",
			Commands: []string{c.kubectl("get nodes --label-columns " +
				"kubernetes.azure.com/podnetwork-type")}, Source: pageIPv6})
	if c.policyEngine() {
		out.Steps = append(out.Steps, c.engineAgain(pageBothFlags))
	}
	out.Steps = append(out.Steps,
		Step{Phase: After, Title: "Give other subnets routes to the pods",
			Why: "Until now pods had addresses of the subnet. Application Gateways learn the new " +
				"ones by themselves. Where other subnets must reach pods, write a config with " +
				"spec.source: Nodes.", Source: "docs/nodes.md"},
		c.verify())
	out.Meanwhile = []Note{
		noWayBack, reimaged,
		{"Pods get addresses of the pod CIDR, and reach other networks with the address of their " +
			"node. Rules of firewalls and security groups for addresses of pods no longer match.",
			pageOverlay},
		{"Security groups of the node subnets judge packets between nodes and pods, too: what " +
			"they deny must leave out the pod CIDR.", pageOverlay},
	}
	out.Questions = []Question{
		{"Does anything outside the cluster, other than its gateways, connect to addresses of " +
			"pods? Nothing outside the nodes reaches them afterwards.", "", pageUpdate},
		c.sourceNAT(), c.budgets(),
	}
}

// policyEngine reports whether the cluster has Azure's or Calico's network policy engine.
func (c *clusterCase) policyEngine() bool {
	engine := strings.ToLower(c.cluster.Policy)
	return engine == "azure" || engine == "calico"
}

// forCilium returns what AKS requires before the update to Cilium (update-azure-cni, "Update
// considerations").
func (c *clusterCase) forCilium() (found []finding.Finding) {
	for _, pool := range c.cluster.Pools {
		if pool.Windows {
			found = append(found, finding.New(finding.MigrationWindows, c.name,
				string(c.cluster.ID), "pool %s of cluster %s runs Windows, which the Cilium data "+
					"plane does not support", pool.Name, c.cluster.ID.Short()).About(pool.Name).
				WithAdvice("move its workloads to another cluster, then delete the pool"))
		}
	}
	return found
}

// toCilium plans the update of the data plane.
func (c *clusterCase) toCilium(out *Cluster) {
	out.Steps = append(out.Steps, c.credentials())
	if c.cluster.AutoProvisioned {
		out.Steps = append(out.Steps, Step{Phase: Before, Title: "Turn off node auto-provisioning",
			Why: "AKS does not change the data plane of a cluster with it. First set " +
				"spec.limits.cpu of each NodePool to 0, and move its pods to other pools: no " +
				"such node may be left.",
			Commands: []string{c.kubectl("get nodes --selector karpenter.sh/nodepool"),
				c.az("update", "--node-provisioning-mode Manual")}, Source: pageAuto})
	}
	out.Steps = append(out.Steps,
		checkCode("Code must set network_data_plane and network_policy to cilium.", pageDataPlane),
		Step{Phase: Migrate, Title: "Move to the Cilium data plane",
			Why: "The network plugin and all addresses stay. All node pools are reimaged at the " +
				"same time. AKS requires both options.",
			Commands: []string{c.az("update", toCilium)}, Source: pageBothFlags})
	if c.cluster.AutoProvisioned {
		out.Steps = append(out.Steps, Step{Phase: After, Title: "Turn on node auto-provisioning",
			Why:      "It was on before. Set the limits of its NodePool objects again.",
			Commands: []string{c.az("update", "--node-provisioning-mode Auto")}, Source: pageAuto})
	}
	out.Steps = append(out.Steps, c.verify())
	out.Meanwhile = []Note{reimaged, {"Cilium enforces network policies only once all nodes are " +
		"reimaged.", pageUpdate}}
	if c.policyEngine() {
		out.Meanwhile = append(out.Meanwhile, Note{"AKS uninstalls the network policy engine " +
			c.cluster.Policy + ". It need not be removed first, as for overlay.", pageUpdate})
	}
	if strings.Contains(c.cluster.PluginName(), "pod-subnet") {
		out.Meanwhile = append(out.Meanwhile, Note{"A cluster with a pod subnet cannot move to " +
			"overlay: that needs a new cluster.", pageNoPodSubnet})
	}
	out.Questions = []Question{c.budgets()}
	if strings.EqualFold(c.cluster.Policy, "calico") {
		out.Questions = append(out.Questions, Question{"Does the budget of calico-typha forbid " +
			"evictions? It has ended this update with an error.",
			c.kubectl("get poddisruptionbudget --namespace calico-system"), pageTypha})
	}
}
