package finding

// The codes of Azure CNI clusters.
const (
	PodOutside         Code = "pod-outside-pod-subnet"
	NodeOutside        Code = "node-outside-node-subnet"
	SubnetUsedTwice    Code = "subnet-used-twice"
	SubnetDelegated    Code = "subnet-delegated"
	AddressesExhausted Code = "addresses-exhausted"
	AddressesNearly    Code = "addresses-nearly-exhausted"
	AddressesShort     Code = "addresses-short-at-maximum"
)

// azureCNI are the codes of Azure CNI clusters.
var azureCNI = []Description{
	{PodOutside, Warning, "Pods have addresses where none should be",
		"Pods of a pool take their addresses from the pool's pod subnet, from its node subnet where it has none. With overlay and kubenet each node's pods have addresses of the node's own part of the pod CIDR. What filters and routes are made for does not hold for others.",
		"Restart the pods; where that does not help, see whether the pool was given another subnet than its nodes have."},
	{NodeOutside, Warning, "Nodes have addresses outside of their node subnet",
		"Route tables and filters of the node subnet do not hold for them, nor for pods that use their addresses (hostNetwork).",
		"See which subnet the machine's network interface is in; delete the machine from its pool if it is not AKS's."},
	{SubnetUsedTwice, Warning, "One subnet is for nodes and for pods",
		"Nodes and pods take addresses from each other, and rules for one hold for both. AKS wants a subnet of its own for the pods.",
		"Make a new pool with a pod subnet of its own, and move to it."},
	{SubnetDelegated, Warning, "A subnet is delegated to a service",
		"AKS puts no nodes into a delegated subnet. A pod subnet is delegated to Microsoft.ContainerService/managedClusters, by AKS itself, and must not be to anything else.",
		"Remove the delegation, or use another subnet."},
	{AddressesExhausted, Error, "A subnet has no free address",
		"New nodes do not start, and pods that need an address of the subnet stay in ContainerCreating. What runs goes on.",
		"Free addresses, or make a pool in another, larger subnet: routekeeper capacity says how large."},
	{AddressesNearly, Warning, "A subnet has few free addresses",
		"More than nine of ten addresses are in use: upgrades, which need addresses for more nodes, may already fail.",
		"Free addresses, or make a pool in another, larger subnet: routekeeper capacity says how large."},
	{AddressesShort, Warning, "A pool cannot grow as far as it is meant to",
		"The addresses do not suffice for as many nodes as its autoscaler may make while all other pools are at their own maximum, together with those of an upgrade.",
		"Lower the autoscaler's maximum or the surge, or make a pool in another, larger subnet: routekeeper capacity says how large."},
}
