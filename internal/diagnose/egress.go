package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

var anywhere = netip.MustParsePrefix("0.0.0.0/0")

// checkEgress checks the egress of a cluster's nodes.
func checkEgress(p *clusterCase) {
	for _, subnet := range p.subnets {
		table := p.s.Table(subnet.RouteTable)
		if subnet.RouteTable == "" || table != nil {
			checkDefault(p, subnet, table)
			checkOutbound(p, subnet, table)
		}
		checkHops(p, subnet, table)
	}
	for _, g := range p.gatewaySubnets() {
		if g.drives || g.sends {
			checkHops(p, g.Subnet, g.table)
		}
	}
}

// checkDefault finds a cluster without its intended egress: outboundType userDefinedRouting
// "requires a user-defined route with valid outbound connectivity" (egress-udr), and AKS creates no
// other.
func checkDefault(p *clusterCase, subnet *inventory.Subnet,
	table *inventory.RouteTable) {
	if !strings.EqualFold(p.cluster.Outbound, "userDefinedRouting") ||
		table != nil && (len(table.Default()) > 0 || declares(p, table.ID)) {
		return
	}
	if slices.ContainsFunc(p.astray, func(e verdict.Egress) bool {
		return e.Subnet.Equal(subnet.ID) && e.To == anywhere
	}) {
		// the config says where egress must go, and pastDeclared reports that it does not go there
		return
	}
	lacks := "the subnet has no route table"
	if table != nil {
		lacks = fmt.Sprintf("%s has no route for %s", table.ID.Short(), anywhere)
	}
	code, does := finding.EgressRouteMissing, "have no egress"
	by, evidence := leaves(subnet, p.cluster)
	if by != "" {
		code, does = finding.EgressBypassed, "leave past the firewall by "+by
	}
	f := p.found(code, subnet.ID, "the nodes of %s in %s %s: the outboundType is "+
		"userDefinedRouting, but %s", p.name, subnet.ID.Short(), does, lacks).With(evidence)
	if table == nil {
		f = withProperty(p, f, subnet, inventory.PropertyTable)
	} else {
		f = withRoute(p, f, subnet, table)
	}
	if by := mayLearn(p, subnet.ID.Parent(), table); by != "" {
		f.Severity = finding.Warning
		f = f.With(by + ", and may have learned a default route by BGP; az network nic " +
			"show-effective-route-table shows it on a node")
	}
	p.add(f)
}

// declares reports whether the config declares egress routes in a table: package plan checks them.
func declares(p *clusterCase, table arm.ID) bool {
	return p.config != nil && table.Equal(arm.ID(p.config.Spec.Egress.RouteTableID))
}

// pastDeclared adds to the findings about lost associations which egress the subnets use instead.
// It makes a separate finding for a bypass, because the finding about its cause does not say that
// packets bypass a firewall.
func pastDeclared(p *clusterCase, found []finding.Finding) []finding.Finding {
	for _, e := range p.astray {
		past, table := p.found(finding.EgressBypassed, e.Subnet, "%s", e), arm.ID("")
		if subnet := p.s.Subnet(e.Subnet); subnet != nil {
			table = subnet.RouteTable
		}
		if e.To != anywhere {
			past = past.About(e.To.String())
		}
		for i, f := range found {
			nat := f.Subject == string(inventory.PropertyNAT)
			route := f.Code == finding.EgressRouteLost && f.Subject == e.To.String() &&
				table.Equal(arm.ID(f.Resource))
			if f.Cluster != p.name || !route && (!e.Subnet.Equal(arm.ID(f.Resource)) ||
				nat != e.OfGateway() || f.Code != finding.AssociationLost &&
				f.Code != finding.AssociationOther || !nat && f.Subject != "") {
				continue
			}
			found[i] = f.With(e.String())
			past = past.With(f.Message)
			past.Advice, past.Fix = f.Advice, f.Fix
		}
		if !e.Dropped {
			found = append(found, past)
		}
	}
	return found
}

// checkOutbound finds nodes whose egress differs from the cluster's outboundType.
func checkOutbound(p *clusterCase, subnet *inventory.Subnet,
	table *inventory.RouteTable) {
	kind := p.cluster.Outbound
	switch strings.ToLower(kind) {
	case "loadbalancer", "managednatgateway", "userassignednatgateway":
	default:
		return
	}
	if strings.EqualFold(kind, "userAssignedNATGateway") && subnet.NATGateway == "" {
		if table != nil && len(table.Default()) > 0 {
			return // routes win over a NAT gateway
		}
		code, does := finding.EgressDropped, "their packets are dropped"
		by, evidence := leaves(subnet, p.cluster)
		if by != "" {
			code, does = finding.EgressDiffers, "they leave by "+by
		}
		p.add(withProperty(p, p.found(code, subnet.ID, "the nodes of %s in %s "+
			"need a NAT gateway (outboundType %s), but the subnet has none: %s", p.name,
			subnet.ID.Short(), kind, does).With(evidence), subnet, inventory.PropertyNAT))
		return
	}
	if table == nil {
		return
	}
	for _, r := range table.Default() {
		// blackhole reports a route to None in the cluster's route table.
		if strings.EqualFold(r.HopType, inventory.HopInternet) ||
			strings.EqualFold(r.HopType, inventory.HopNone) && p.table == table {
			continue
		}
		p.add(p.found(finding.EgressDiffers, subnet.ID,
			"cluster %s has outboundType %s, but the route %s in %s sends %s of its nodes in %s "+
				"to %s",
			p.cluster.ID.Short(), kind, r.Name, table.ID.Short(), r.Prefix, subnet.ID.Short(),
			r.NextHop()).
			WithFix("%s", p.azAKS("update", "--outbound-type userDefinedRouting")))
		return
	}
}

// mayLearn names a source of routes that no document shows, for the subnets of a network, or
// returns "".
func mayLearn(p *clusterCase, id arm.ID, table *inventory.RouteTable) string {
	vnet := p.s.VNets[id.Key()]
	switch {
	case table != nil && table.NoLearned:
		return ""
	case vnet == nil:
		return "virtual network " + id.Name() + " was not read: it may have a virtual network " +
			"gateway"
	}
	// only these two services may use the names
	for _, name := range []string{"GatewaySubnet", "RouteServerSubnet"} {
		if p.s.Subnet(id.Child("subnets", name)) != nil {
			return id.Name() + " has a " + name
		}
	}
	for _, peering := range vnet.Peerings {
		if peering.RemoteGateways {
			return id.Name() + " uses the gateways of " + peering.Remote.Name()
		}
	}
	return ""
}

// checkHops finds default routes whose next hop cannot be reached. It "must have direct
// connectivity without having to route through ExpressRoute Gateway or Virtual WAN"
// (virtual-networks-udr-overview), and peerings are not transitive
// (virtual-network-peering-overview).
func checkHops(p *clusterCase, subnet *inventory.Subnet,
	table *inventory.RouteTable) {
	vnet := p.s.VNets[subnet.ID.Parent().Key()]
	if table == nil || vnet == nil || len(vnet.Prefixes) == 0 {
		return
	}
	for _, r := range table.Default() {
		if !r.Hop.IsValid() {
			continue
		}
		var evidence []string
		reached := inventory.Within(vnet.Prefixes, r.Hop)
		for _, peering := range vnet.Peerings {
			if inventory.Within(peering.Prefixes, r.Hop) {
				reached = reached || peering.Connected
				evidence = append(evidence, p.peeringLine(vnet, &peering))
			}
		}
		if reached {
			if v, _ := p.hops.NextHop(subnet.ID, r.Hop); v == trace.Dropped {
				p.add(hopGone(p, subnet, table, r).With(evidence...))
			}
			continue
		}
		if len(evidence) == 0 {
			evidence = append(evidence,
				fmt.Sprintf("%s is neither in %s (%s) nor in a network peered with it", r.Hop,
					vnet.ID.Name(), inventory.List(vnet.Prefixes)))
			for _, key := range slices.Sorted(maps.Keys(p.s.VNets)) {
				if inventory.Within(p.s.VNets[key].Prefixes, r.Hop) {
					evidence = append(evidence,
						fmt.Sprintf("%s contains the address, but has no peering with %s",
							key[strings.LastIndexByte(key, '/')+1:], vnet.ID.Name()))
				}
			}
		}
		p.add(p.found(finding.NextHopUnreachable, table.ID, "the route %s in %s "+
			"sends %s to %s, which %s cannot reach directly: the packets are dropped",
			r.Name, table.ID.Short(), r.Prefix, r.Hop, subnet.ID.Short()).About(r.Name).With(
			evidence...).
			WithAdvice("peer the network of %s with %s, or replace ADDRESS with a next hop in a "+
				"peered network", r.Hop, vnet.ID.Name()).
			WithFix("az network route-table route update --ids %s --next-hop-ip-address ADDRESS",
				table.ID.Child("routes", r.Name)))
	}
}

// hopGone reports a default route to an address that no resource has, or that only a load balancer
// without backends has. The finding names possible next hops in the same subnet: the appliance may
// have changed its address.
func hopGone(p *clusterCase, subnet *inventory.Subnet, table *inventory.RouteTable,
	r inventory.Route) finding.Finding {
	f := p.found(finding.NextHopUnreachable, table.ID, "the route %s in %s sends %s of %s to %s, "+
		"and nothing has this address: the packets are dropped", r.Name, table.ID.Short(),
		r.Prefix, subnet.ID.Short(), r.Hop).About(r.Name)
	more, now := p.hops.Lost(subnet.ID, r.Hop)
	if more != "" && len(now) == 0 {
		f = p.found(finding.NextHopUnreachable, table.ID, "the route %s in %s sends %s of %s to "+
			"%s, and %s: the packets are dropped", r.Name, table.ID.Short(), r.Prefix,
			subnet.ID.Short(), r.Hop, more).About(r.Name)
		return f.WithAdvice("add the appliances to the backend pool again, or start them")
	}
	address, advice := "ADDRESS", "start the appliance, or replace ADDRESS with the next hop's"
	if more != "" {
		f = f.With("in the next hop's subnet, " + more)
	}
	if len(now) == 1 {
		address, advice = now[0].String(), "if that is the next hop now, change the route"
	}
	return f.WithAdvice("%s", advice).WithFix("az network route-table route update --ids %s "+
		"--next-hop-ip-address %s", table.ID.Child("routes", r.Name), address)
}
