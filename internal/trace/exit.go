package trace

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: a packet that takes the system's route to the internet still needs a public
// address. The subnet's NAT gateway gives one, before the machine's own, the load balancer's
// outbound rules and default outbound access (nat-overview: UDR, NAT gateway, public IP address,
// load balancer, default). A private subnet has no default outbound access
// (default-outbound-access), so a packet that nothing else serves is dropped. Else it leaves, past
// the firewall that it was meant to take.

// Exit names what gives packets of a cluster's nodes in a subnet a public address when their route
// leads to the internet; "" if nothing does, and they are dropped. Whether the NAT gateway has a
// public address, and which outbound rules the load balancer has, was not read.
func Exit(subnet *inventory.Subnet, cluster *inventory.Cluster) string {
	switch {
	case subnet.NATGateway != "":
		return "NAT gateway " + subnet.NATGateway.Name()
	case slices.ContainsFunc(cluster.Pools, func(p inventory.Pool) bool {
		return p.PublicIPs && (p.Subnet == "" || p.Subnet.Equal(subnet.ID))
	}):
		return "the nodes' public IP addresses"
	case strings.EqualFold(cluster.Outbound, "loadBalancer"):
		return "the outbound rules of the cluster's load balancer"
	case subnet.Private:
		return ""
	}
	return "default outbound access"
}
