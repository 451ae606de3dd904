package finding

// Codes of associations, in addition to those of package plan.
const (
	PoolWithoutTable    Code = "pool-without-table"
	NetworkManagerTable Code = "network-manager-table"
	PolicyTable         Code = "policy-table"
	TableElsewhere      Code = "table-elsewhere"
	EgressInTable       Code = "egress-in-cluster-table"
	EgressDropped       Code = "egress-dropped"
)

var associations = []Description{
	{PoolWithoutTable, Error, "A node pool's subnet lacks the route table of the other pools",
		"Pods on its nodes cannot reach pods on other nodes, nor be reached from there. " +
			"Either the subnet lost the table, or it never had it: AKS associates the subnet " +
			"of a new pool only at the next update of the cluster (AKS#1500).",
		"Associate the table that the other node subnets have. The next update of the " +
			"cluster does this too."},
	{NetworkManagerTable, Error, "Azure Virtual Network Manager replaced a subnet's route table",
		"A subnet has one route table. A routing configuration with routeTableUsageMode " +
			"ManagedOnly, the default, replaces the existing table with its own. The pod " +
			"routes lose their effect, and a table that you associate again is replaced again.",
		"Set routeTableUsageMode to UseExisting, or take the subnet out of the network " +
			"group. Then associate the expected table again."},
	{PolicyTable, Error, "A policy replaced a subnet's route table",
		"The routes of the expected table have no effect, and the policy replaces a table " +
			"that you associate again.",
		"Exempt the subnet from the policy assignment. Then associate the expected table " +
			"again."},
	{TableElsewhere, Error, "A subnet's route table is in another region or subscription",
		"Azure associates a table only with subnets in the same region and subscription " +
			"(manage-route-table), so it refuses what the config asks for.",
		"Create the table in the network's region and subscription, and correct the " +
			"config."},
	{EgressDropped, Error, "All egress of a cluster's nodes is dropped",
		"Packets that leave the network are dropped at the next hop None of a default route, " +
			"or the subnet lost its NAT gateway and has no default outbound access: nodes cannot " +
			"reach Azure or registries, and pods cannot reach anything outside.",
		"Remove the route, or point it to a firewall; put the NAT gateway back. If the cluster " +
			"is meant to be isolated, set its outbound type to none."},
	{EgressInTable, Info, "The cluster's egress depends on the table that can be lost",
		"The table with the pod routes also holds the default route. When a subnet loses " +
			"the table, its nodes lose their path to Azure Resource Manager too: nothing " +
			"inside the cluster can put the table back.",
		"Run routekeeper outside the cluster that it guards."},
}
