package finding

// Codes of clusters and networks that interfere with each other.
const (
	SubnetShared    Code = "subnet-shared"
	TableShared     Code = "table-shared"
	PodCIDRsOverlap Code = "pod-cidrs-overlap"
	PodsInNetwork   Code = "pod-cidr-in-network"
	ServicesOverlap Code = "service-cidr-overlap"
	ReservedRange   Code = "reserved-range"
)

var sharing = []Description{
	{SubnetShared, Warning, "Two kubenet clusters share a node subnet",
		"A subnet has one route table, and each cluster needs its own (AKS#1639). If the " +
			"pod CIDRs overlap, each cloud provider deletes the other's routes, and this is an " +
			"error.",
		"Move the node pools of one cluster to its own subnet."},
	{TableShared, Warning, "Two kubenet clusters share a route table",
		"AKS does not support this (configure-kubenet): both cloud providers write the " +
			"whole table and fail on each other's writes. If the pod CIDRs overlap, each " +
			"deletes the other's routes, and this is an error.",
		"Give one cluster its own table and subnet."},
	{PodCIDRsOverlap, Info, "Two neighboring kubenet clusters have overlapping pod CIDRs",
		"Each cluster has its own table, so traffic between its nodes is not affected. But " +
			"nothing, such as a gateway, can reach the pods of both clusters from one subnet. " +
			"If one table leads to both, this is a warning.",
		"Give one cluster another pod CIDR before something has to reach both."},
	{PodsInNetwork, Warning, "The pod CIDR overlaps a virtual network",
		"From the nodes, pod routes win over the network's own routes: machines at the " +
			"shared addresses cannot be reached. If a pod route covers addresses of a subnet " +
			"in use next to the nodes, this is an error. If only the address space overlaps, " +
			"and no subnet, this is info.",
		"Move the subnet to other addresses, or create the cluster again with another pod " +
			"CIDR."},
	{ServicesOverlap, Warning, "The service CIDR overlaps other addresses",
		"From inside the cluster, an address in both ranges leads to the service, not to " +
			"the machine or pod. If only a network's address space overlaps, and no known " +
			"subnet, this is info.",
		"Move the machines to other addresses, or create the cluster again with another " +
			"service CIDR."},
	{ReservedRange, Warning, "A range that AKS reserves is in use",
		"AKS clusters may not use 169.254.0.0/16, 172.30.0.0/16, 172.31.0.0/16 and " +
			"192.0.2.0/24 for services, pods or nodes (configure-azure-cni). If only the " +
			"network's address space overlaps them, this is info.",
		"Use other addresses."},
}
