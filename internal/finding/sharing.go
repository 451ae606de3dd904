package finding

// The codes of clusters and networks that are in each other's way.
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
		"A subnet has one route table, and each cluster needs one of its own (AKS#1639). Where their pod CIDRs overlap, each cloud provider deletes the other's routes: that is an error.",
		"Move the node pools of one cluster to a subnet of their own."},
	{TableShared, Warning, "Two kubenet clusters share a route table",
		"AKS does not support it (configure-kubenet): both cloud providers write the whole table, and fail on each other's writes. Where their pod CIDRs overlap, each deletes the other's routes: that is an error.",
		"Give one cluster a table and a subnet of its own."},
	{PodCIDRsOverlap, Info, "Two kubenet clusters near each other have overlapping pod CIDRs",
		"Each has its own table, so nothing is wrong between their nodes. What is to reach the pods of both from one subnet, such as a gateway, cannot: where a table leads to both, it is a warning.",
		"Give one of them another pod CIDR before something has to reach both."},
	{PodsInNetwork, Warning, "The pod CIDR overlaps a virtual network",
		"From the nodes, pod routes win over the network's own: machines at such addresses are not reached. It is an error where a pod route covers addresses of a subnet in use beside the nodes, and for your information where only the address space overlaps and no subnet.",
		"Move the subnet to other addresses, or make the cluster anew with another pod CIDR."},
	{ServicesOverlap, Warning, "The service CIDR overlaps other addresses",
		"From inside the cluster an address that a service has leads to the service, not to the machine or pod that has it, too. It is for your information where only the address space of a network overlaps, and no subnet that is known.",
		"Move the machines to other addresses, or make the cluster anew with another service CIDR."},
	{ReservedRange, Warning, "Addresses are used that AKS keeps for itself",
		"AKS clusters may not use 169.254.0.0/16, 172.30.0.0/16, 172.31.0.0/16 and 192.0.2.0/24 for services, pods or nodes (configure-azure-cni). It is for your information where only the network's address space touches them.",
		"Use other addresses."},
}
