package finding

// The codes of network security groups.
const FilterBlocksPods Code = "filter-blocks-pods"

// filters are the codes of network security groups.
var filters = []Description{
	{FilterBlocksPods, Error, "A network security group blocks the traffic of pods",
		"Groups look at the addresses that packets have on the wire, and on kubenet and overlay those are the pods' own: a rule that lets only the subnets' addresses in, or denies what is not known, drops what pods, nodes and gateways send to pods on other nodes. Routes are as they should be meanwhile, so nothing else shows it.",
		"Allow the traffic with a rule before the one that denies it, or remove that."},
}
