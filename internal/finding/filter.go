package finding

// Codes of network security groups.
const (
	FilterBlocksPods   Code = "filter-blocks-pods"
	FilterBlocksNodes  Code = "filter-blocks-nodes"
	FilterBlocksAPI    Code = "filter-blocks-api-server"
	FilterBlocksProbes Code = "filter-blocks-probes"
	FilterBlocksEgress Code = "filter-blocks-egress"
)

// filters are the codes of network security groups.
var filters = []Description{
	{FilterBlocksPods, Error, "A network security group blocks pod traffic",
		"Network security groups match the addresses on the wire. With kubenet and overlay " +
			"these are pod addresses: the group of the nodes' subnet filters them, because " +
			"neither encapsulates packets between pods. A rule that allows only subnet " +
			"addresses, or denies unknown ones, drops packets from pods, nodes and gateways to " +
			"pods on other nodes. The routes are correct, so nothing else shows this problem.",
		"Add an allow rule before the rule that denies the traffic, or remove the deny " +
			"rule."},
	{FilterBlocksNodes, Error, "A network security group blocks traffic between nodes",
		"Nodes must reach each other on all ports and protocols; AKS does not support blocking " +
			"traffic inside a subnet. Services, DNS, kubectl logs and exec, and metrics of " +
			"kubelets fail between the nodes that the rule is about.",
		"Add an allow rule before the rule that denies the traffic, or remove the deny " +
			"rule. Network policies restrict traffic between workloads."},
	{FilterBlocksAPI, Error, "A network security group blocks the API server",
		"Nodes must reach the API server: its public name with TCP to port 443, the private " +
			"endpoint of a private cluster likewise, and with API server VNet integration its " +
			"subnet with TCP to the ports 443 and 4443. There the load balancer must also reach " +
			"port 9988. Nodes become NotReady, and new ones do not join.",
		"Add an allow rule before the rule that denies the traffic, or remove the deny " +
			"rule."},
	{FilterBlocksProbes, Warning, "A network security group blocks the probes of load balancers",
		"Probes of Azure's load balancers come from 168.63.129.16, which is the service tag " +
			"AzureLoadBalancer. If nodes do not get them, load balancers count all nodes as " +
			"down, and Services of type LoadBalancer get no traffic. A cluster without such " +
			"Services does not need them.",
		"Add an allow rule for AzureLoadBalancer before the rule that denies its packets, or " +
			"remove the deny rule."},
	{FilterBlocksEgress, Warning, "A network security group blocks egress that AKS requires",
		"Nodes cannot reach a destination that AKS requires: new nodes fail to start, images " +
			"are not pulled, or names are not resolved. Most destinations are names without " +
			"fixed addresses, so Microsoft says that groups cannot restrict the egress of a " +
			"cluster: a firewall can. Only rules that certainly deny it count: for all " +
			"addresses, the internet, or another service's tag.",
		"Add an allow rule before the rule that denies the traffic, and restrict egress with a " +
			"firewall."},
}
