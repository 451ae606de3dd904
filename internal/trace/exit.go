package trace

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: a packet that takes the system route to the internet still needs a public address.
// The subnet's NAT gateway gives it one. Next in order are the machine's own address, the load
// balancer's outbound rules and default outbound access (nat-overview: UDR, NAT gateway, public IP
// address, load balancer, default). A private subnet has no default outbound access
// (default-outbound-access), so a packet that has none of the others is dropped there. Otherwise it
// leaves, and bypasses the firewall that it was meant to take.

// Exit names what gives a public address to packets of a cluster's nodes in a subnet when their
// route leads to the internet. It returns "" if nothing does, so that they are dropped. It is not
// read whether the NAT gateway has a public address, and which outbound rules the load balancer
// has.
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

// ExitOf works like Exit for a subnet without nodes, such as a hub's. It counts public addresses of
// machines whose network interfaces were read, as in a diagnosis. If only some machines have one,
// the packets of the others count. An Azure Firewall has its own public address, unless it uses
// forced tunneling (forced-tunneling). It is not read whether an application gateway has one.
func ExitOf(s *inventory.Snapshot, subnet *inventory.Subnet) string {
	machines, public := 0, 0
	for _, nic := range s.Interfaces {
		for _, c := range nic.Configs {
			if c.Subnet.Equal(subnet.ID) {
				if machines++; c.Exit {
					public++
				}
			}
		}
	}
	switch {
	case subnet.NATGateway == "" && strings.EqualFold(subnet.ID.Name(), "AzureFirewallSubnet"):
		return "the firewall's public IP addresses"
	case subnet.NATGateway == "" && len(subnet.Gateways) > 0:
		return "its application gateway's public IP addresses"
	case subnet.NATGateway == "" && machines > 0 && public == machines:
		return "its machines' public IP addresses"
	}
	return Exit(subnet, &inventory.Cluster{})
}

// Declared is what a subnet must have: the route table and the NAT gateway. Each may be "". Egress
// has routes that its table must have in addition. Hops has the present addresses of the firewall
// or load balancer to which these must lead.
type Declared struct {
	Table, NATGateway arm.ID
	Egress            []Route
	Hops              []netip.Addr
}

// bypasses names the declared way that a packet from a subnet does not take. It returns "" if the
// packet takes it or none is declared. A route of the required table wins over the NAT gateway. A
// cluster with outboundType userDefinedRouting declares that there is such a route.
func (j *journey) bypasses(subnet *inventory.Subnet, cluster *inventory.Cluster,
	takes Route) string {

	must := j.o.Declared[subnet.ID.Key()]
	routed := subnet.RouteTable
	if table := j.s.Table(must.Table); table != nil || len(must.Egress) > 0 {
		with := *subnet
		if table != nil {
			with.RouteTable, routed = table.ID, table.ID
		}
		routes, err := effective(j.s, &with, j.o.Learned, must.Egress...)
		if err != nil {
			return ""
		}
		if should, found := routes.Lookup(j.way.To); found && should.Source == User &&
			should.HopType != HopInternet {
			next := takes.Hop
			if takes.HopType == HopLocal || takes.HopType == HopPeering {
				next = j.way.To
			}
			near, _ := j.nextSubnet(subnet, should.Hop)
			if should.HopType == takes.HopType && should.Hop == takes.Hop ||
				slices.Contains(must.Hops, takes.Hop) ||
				// A packet to any address of the hop's interface does not bypass it.
				near != nil && j.together(should.Hop, next, near) {
				return ""
			}
			return fmt.Sprintf("the declared route %s", should)
		}
	}
	// A Standard NAT gateway translates only IPv4, a StandardV2 also IPv6 if it has such addresses
	// (nat-sku). Neither is read, so no IPv6 packet counts as bypassing one.
	nat := j.way.To.Is4()
	switch {
	case takes.HopType != HopInternet: // for NAT gateways, also by a route of the table
	case nat && must.NATGateway != "" && !must.NATGateway.Equal(subnet.NATGateway):
		return "the declared NAT gateway " + must.NATGateway.Name()
	case cluster == nil:
	case nat && strings.EqualFold(cluster.Outbound, "userAssignedNATGateway") &&
		subnet.NATGateway == "":
		return fmt.Sprintf("the NAT gateway that outboundType %s of cluster %s calls for",
			cluster.Outbound, cluster.ID.Name())
	case takes.Source == System && strings.EqualFold(cluster.Outbound, "userDefinedRouting"):
		without := "route table"
		if routed != "" {
			without = "route for it in " + routed.Short()
		}
		return fmt.Sprintf("the firewall: the outboundType of cluster %s is userDefinedRouting, "+
			"and subnet %s has no %s", cluster.ID.Name(), subnet.ID.Short(), without)
	}
	return ""
}

// toInternet ends the path of a packet that takes a route from a subnet to the internet.
func (j *journey) toInternet(at netip.Addr, subnet *inventory.Subnet,
	cluster *inventory.Cluster) Way {
	switch {
	case !j.way.To.Is4():
		// Default outbound access is described for IPv4 only. For NAT gateways see bypasses.
	case cluster != nil:
		if j.way.Exit = Exit(subnet, cluster); j.way.Exit == "" {
			return j.end(Dropped, "nothing gives it a public address: subnet %s has neither a NAT "+
				"gateway nor default outbound access, and the nodes of cluster %s have neither "+
				"public IP addresses nor outbound rules of a load balancer", subnet.ID.Short(),
				cluster.ID.Name())
		}
	case subnet.NATGateway != "":
		j.way.Exit = "NAT gateway " + subnet.NATGateway.Name()
	default:
		if nic := j.nicAt(at, subnet); subnet.Private && nic != nil &&
			!slices.ContainsFunc(nic.Configs, func(c inventory.IPConfig) bool { return c.Exit }) {
			return j.end(Dropped, "nothing gives it a public address: subnet %s has neither a NAT "+
				"gateway nor default outbound access, and the network interface of %s (%s) has "+
				"neither a public IP address nor a load balancer", subnet.ID.Short(), at,
				nic.Holder())
		}
	}
	if j.o.Protocol == "icmp" && strings.HasPrefix(j.way.Exit, "NAT gateway ") {
		return j.end(Dropped, "%s only takes TCP and UDP", j.way.Exit) // nat-overview
	}
	if j.way.Exit == "" {
		return j.end(Leaves, "it goes out to the internet")
	}
	return j.end(Leaves, "it goes out to the internet by %s", j.way.Exit)
}

// nodesFrom returns the cluster whose node has an address in a subnet or, if no node is known
// there, the cluster whose node subnet it is. It returns nil if there is none.
func (j *journey) nodesFrom(at netip.Addr, subnet *inventory.Subnet) *inventory.Cluster {
	for _, n := range j.nodesAt(at, subnet) {
		return j.s.Cluster(n.Cluster)
	}
	if j.nicAt(at, subnet) != nil {
		return nil // of another machine
	}
	for _, key := range slices.Sorted(maps.Keys(j.s.Clusters)) {
		if c := j.s.Clusters[key]; j.seesCluster(c) &&
			slices.ContainsFunc(j.s.NodeSubnetIDs(c), subnet.ID.Equal) {
			return c
		}
	}
	return nil
}
