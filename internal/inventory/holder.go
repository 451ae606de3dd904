package inventory

import (
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// mostSets is the greatest number of scale sets in a subnet whose machines' addresses are read.
// Appliances have one or two, and the nodes of a cluster are known from elsewhere.
const mostSets = 4

// Holders returns the resources to read to know each address in use in a subnet: network
// interfaces, Azure Firewalls and load balancers. Known is false if the subnet has something else
// whose address no document in a snapshot shows, such as a gateway, or if it could not be read. A
// subnet's document names the IP configurations of all these resources, and Azure refuses to delete
// a subnet while it names one (InUseSubnetCannotBeDeleted; cluster-api-provider-azure#172,
// nav-arm-templates#161).
func (s *Snapshot) Holders(subnet *Subnet) (want Wanted, known bool) {
	known = len(subnet.Gateways)+len(subnet.Delegations) == 0 && !subnet.Services
	sets, seen := map[string]bool{}, map[string]bool{}
	for _, c := range subnet.Configurations() {
		id := c.Parent()
		if b := s.Balancers[id.Key()]; b != nil && !b.knows(c) {
			known = false // one of several front ends
		}
		if seen[id.Key()] {
			continue
		}
		seen[id.Key()] = true
		_, failed := s.Unread[id.Key()]
		nic, firewall := s.Interfaces[id.Key()], s.Firewalls[id.Key()]
		switch {
		case nic != nil:
			known = known && !nic.Unreadable
		case firewall != nil: // a firewall without addresses is starting or stopping
			known = known && len(firewall.Addresses) > 0
		case s.Balancers[id.Key()] != nil:
		case failed:
			known = false
		case id.Is(arm.TypeInterface):
			want.Interfaces = append(want.Interfaces, id)
		case id.Is(arm.TypeScaleSetInterface):
			want.Interfaces = append(want.Interfaces, id)
			sets[id.Parent().Parent().Key()] = true
		case id.Is(arm.TypeFirewall):
			want.Firewalls = append(want.Firewalls, id)
		case id.Is(arm.TypeLoadBalancer):
			want.Balancers = append(want.Balancers, id)
		default:
			known = false
		}
	}
	if !known || len(sets) > mostSets {
		return Wanted{}, false
	}
	return want, true
}

// FirewallAt returns the Azure Firewall that has an address in a subnet, or nil if it was not read.
func (s *Snapshot) FirewallAt(a netip.Addr, subnet *Subnet) *Firewall {
	for _, f := range s.Firewalls {
		if slices.Contains(f.Addresses, a) && slices.ContainsFunc(subnet.Configurations(),
			func(c arm.ID) bool { return c.Parent().Equal(f.ID) }) {
			return f
		}
	}
	return nil
}
