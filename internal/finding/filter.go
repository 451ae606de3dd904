package finding

// Codes of network security groups.
const FilterBlocksPods Code = "filter-blocks-pods"

// filters are the codes of network security groups.
var filters = []Description{
	{FilterBlocksPods, Error, "A network security group blocks pod traffic",
		"Network security groups match the addresses on the wire. With kubenet and overlay " +
			"these are pod addresses. A rule that allows only subnet addresses, or denies " +
			"unknown ones, drops packets from pods, nodes and gateways to pods on other nodes. " +
			"The routes are correct, so nothing else shows this problem.",
		"Add an allow rule before the rule that denies the traffic, or remove the deny " +
			"rule."},
}
