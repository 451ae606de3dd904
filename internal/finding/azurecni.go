package finding

// Codes of Azure CNI clusters.
const (
	PodOutside         Code = "pod-outside-pod-subnet"
	NodeOutside        Code = "node-outside-node-subnet"
	SubnetUsedTwice    Code = "subnet-used-twice"
	SubnetDelegated    Code = "subnet-delegated"
	ContainersSubnet   Code = "agc-subnet"
	AddressesExhausted Code = "addresses-exhausted"
	AddressesNearly    Code = "addresses-nearly-exhausted"
	AddressesShort     Code = "addresses-short-at-maximum"
)

// azureCNI are the codes of Azure CNI clusters.
var azureCNI = []Description{
	{PodOutside, Warning, "Pods have addresses outside their range",
		"Pods take their addresses from the pool's pod subnet, or from its node subnet if " +
			"it has no pod subnet. With overlay and kubenet, the pods of a node take theirs " +
			"from the node's part of the pod CIDR. Routes and filters written for these ranges " +
			"do not apply to other addresses.",
		"Restart the pods. If that does not help, check whether the pool's subnet in its " +
			"settings differs from that of its nodes."},
	{NodeOutside, Warning, "Nodes have addresses outside their node subnet",
		"Route tables and filters of the node subnet do not apply to these nodes, nor to " +
			"pods that use their addresses (hostNetwork).",
		"Check which subnet the machine's network interface is in. If the machine is not " +
			"managed by AKS, remove it from its pool."},
	{SubnetUsedTwice, Warning, "One subnet serves nodes and pods",
		"Nodes and pods take addresses from each other, and rules for one apply to both. " +
			"AKS expects a separate subnet for pods.",
		"Create a pool with its own pod subnet, and move to it."},
	{ContainersSubnet, Warning, "The subnet for Application Gateway for Containers is no /24",
		"In a network of a cluster with overlay, Application Gateway for Containers needs a " +
			"subnet of exactly /24, for one association. Its controller refuses a larger one: " +
			"prefix length too short (AKS#5123). A restart of the controller that created the " +
			"association again has failed: at least 500 addresses are required (AKS#5709).",
		"Create a subnet of /24 that is delegated to " +
			"Microsoft.ServiceNetworking/trafficControllers, and use that one."},
	{SubnetDelegated, Warning, "A subnet is delegated to a service",
		"AKS puts no nodes into a delegated subnet. AKS itself delegates a pod subnet to " +
			"Microsoft.ContainerService/managedClusters; any other delegation prevents its " +
			"use.",
		"Remove the delegation, or use another subnet."},
	{AddressesExhausted, Error, "A subnet has no free address",
		"New nodes do not start, and new pods that need an address of the subnet stay in " +
			"ContainerCreating. Running nodes and pods continue to work.",
		"Free addresses, or create a pool in a larger subnet. routekeeper cluster capacity says " +
			"how large."},
	{AddressesNearly, Warning, "A subnet has few free addresses",
		"More than nine tenths of the addresses are in use. Upgrades need addresses for " +
			"surge nodes and may already fail.",
		"Free addresses, or create a pool in a larger subnet. routekeeper cluster capacity says " +
			"how large."},
	{AddressesShort, Warning, "A pool cannot grow to its configured maximum",
		"The subnet has too few addresses for the autoscaler's maximum of this pool, with " +
			"all other pools at their maximum and the surge of an upgrade.",
		"Lower the autoscaler's maximum or the surge, or create a pool in a larger subnet. " +
			"routekeeper cluster capacity says how large."},
}
