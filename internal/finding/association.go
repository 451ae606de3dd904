package finding

// The codes of associations, beyond those of keeping.
const (
	PoolWithoutTable    Code = "pool-without-table"
	NetworkManagerTable Code = "network-manager-table"
	PolicyTable         Code = "policy-table"
	TableElsewhere      Code = "table-elsewhere"
	EgressInTable       Code = "egress-in-cluster-table"
	EgressDropped       Code = "egress-dropped"
)

var associations = []Description{
	{PoolWithoutTable, Error, "The subnet of a node pool has no route table, the others have",
		"Pods on its nodes reach no pod on other nodes, nor are they reached. Either the subnet has lost the table, or it never got it: AKS associates the subnet of a new pool only when the cluster is written the next time (AKS#1500).",
		"Associate the table that the other node subnets have; the next update of the cluster does it, too."},
	{NetworkManagerTable, Error, "Azure Virtual Network Manager put its own route table on a subnet",
		"A subnet has one route table, and a routing configuration with routeTableUsageMode ManagedOnly, the default, replaces the one that is there by its own. The pod routes do not count there any more, and what is put back by hand is replaced again.",
		"Set routeTableUsageMode to UseExisting, or take the subnet out of the network group; then associate the right table again."},
	{PolicyTable, Error, "A policy put another route table on a subnet",
		"The routes of the table that should be there do not count, and what is put back by hand the policy changes again.",
		"Exempt the subnet from the policy assignment; then associate the right table again."},
	{TableElsewhere, Error, "A route table that a subnet should have is in another region or subscription",
		"Azure associates a table only with subnets of networks in the same region and subscription (manage-route-table), and refuses the rest: what the config asks for cannot be.",
		"Make the table in the region and the subscription of the network, and correct the config."},
	{EgressDropped, Error, "A default route in the cluster's table drops everything",
		"Packets that leave the network end at the next hop None: the nodes reach neither Azure nor registries, and pods nothing outside.",
		"Remove the route, or lead it to a firewall; where the cluster is meant to be cut off, set its outbound type to none."},
	{EgressInTable, Info, "The cluster's way out is in the table that it depends on",
		"The table that holds the pod routes also leads 0.0.0.0/0 away. When a subnet loses the table, its nodes lose their way to Azure Resource Manager, too: nothing that runs in the cluster can put the table back.",
		"Guard the cluster from outside of it."},
}
