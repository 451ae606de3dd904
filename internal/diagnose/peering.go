package diagnose

import (
	"fmt"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// nodeNetworks returns the virtual networks of the node subnets.
func (p *clusterCase) nodeNetworks() []arm.ID {
	var ids []arm.ID
	for _, subnet := range p.subnets {
		ids = append(ids, subnet.ID.Parent())
	}
	return inventory.SortIDs(ids)
}

// routed reports whether a gateway reaches the nodes by user-defined routes through an appliance,
// so that it needs no peering. It also reports true if that is unknown.
func routed(p *clusterCase, g *gatewaySubnet) bool {
	routes, err := trace.Effective(p.s.Snapshot, g.ID, nil)
	if err != nil || len(p.prefixes) == 0 {
		return true
	}
	route, found := routes.Lookup(p.prefixes[0].Addr().Next())
	return found && route.Source != trace.System
}

// peeringTo returns a network's side of its peering with another network, or nil.
func peeringTo(vnet *inventory.VNet, other arm.ID) *inventory.Peering {
	if vnet == nil {
		return nil
	}
	i := slices.IndexFunc(vnet.Peerings, func(q inventory.Peering) bool {
		return q.Remote.Equal(other)
	})
	if i < 0 {
		return nil
	}
	return &vnet.Peerings[i]
}

// peeringLine describes a network's side of a peering.
func (p *clusterCase) peeringLine(vnet *inventory.VNet, q *inventory.Peering) string {
	state := "connected"
	if !q.Connected {
		state = "not connected"
	}
	return fmt.Sprintf("peering %s of %s with %s: %s, allowVirtualNetworkAccess %t, "+
		"allowForwardedTraffic %t", q.Name, vnet.ID.Name(), q.Remote.Name(), state, q.Access,
		q.Forwarded)
}

// checkPeering checks the peering between a gateway's network and the nodes' network. A peering
// needs both sides, so one missing side is enough to report. A side that was not read is not
// missing.
func checkPeering(p *clusterCase, g *gatewaySubnet, nodes arm.ID) []finding.Finding {
	at := g.ID.Parent()
	near, far := p.s.VNets[at.Key()], p.s.VNets[nodes.Key()]
	ours, theirs := peeringTo(near, nodes), peeringTo(far, at)
	missing := func(format string, args ...any) finding.Finding {
		return p.found(finding.PeeringMissing, g.ID, "%s does not reach the nodes of %s in %s: %s",
			g.who(), p.name, nodes.Name(), fmt.Sprintf(format, args...)).About(nodes.Name())
	}
	for _, side := range []struct {
		vnet    *inventory.VNet
		other   arm.ID
		peering *inventory.Peering
	}{{near, nodes, ours}, {far, at, theirs}} {
		switch q := side.peering; {
		case side.vnet == nil:
		case q == nil:
			return []finding.Finding{missing("%s has no peering with %s", side.vnet.ID.Name(),
				side.other.Name()).
				WithAdvice("create the peering on both sides").
				WithFix("az network vnet peering create %s --vnet-name %s --name to-%s "+
					"--remote-vnet %s --allow-vnet-access --allow-forwarded-traffic",
					inGroup(side.vnet.ID), side.vnet.ID.Name(), side.other.Name(), side.other)}
		case !q.Connected:
			return []finding.Finding{missing("the peering %s of %s is not connected", q.Name,
				side.vnet.ID.Name()).With(p.peeringLine(side.vnet, q)).
				WithAdvice("delete the peering, then create it again on both sides").
				WithFix("az network vnet peering delete --ids %s",
					side.vnet.ID.Child("virtualNetworkPeerings", q.Name))}
		case !q.Access:
			// the routes stay, so no packet is lost if the groups allow the addresses
			f := p.found(finding.PeeringMissing, g.ID, "the peering %s of %s does not allow "+
				"access: for security groups, %s is not in the service tag VirtualNetwork, and "+
				"their default rules drop its packets", q.Name, side.vnet.ID.Name(),
				side.other.Name()).About(nodes.Name()).With(p.peeringLine(side.vnet, q)).
				WithFix("az network vnet peering update --ids %s --set "+
					"allowVirtualNetworkAccess=true",
					side.vnet.ID.Child("virtualNetworkPeerings", q.Name))
			f.Severity = finding.Warning
			return []finding.Finding{f}
		}
	}
	if ours == nil || ours.Forwarded || far == nil || !p.cluster.Kubenet() ||
		len(p.cluster.PodCIDRs) == 0 || p.podsInside(far) {
		return nil
	}
	return []finding.Finding{p.found(finding.PeeringForwarding, g.ID, "pods of %s answer %s with "+
		"their own addresses, which are outside %s, but the peering %s of %s refuses forwarded "+
		"traffic",
		p.name, g.who(), nodes.Name(), ours.Name, near.ID.Name()).About(nodes.Name()).
		With("pod CIDR: "+inventory.List(p.cluster.PodCIDRs), "address space of "+nodes.Name()+": "+
			inventory.List(far.Prefixes), p.peeringLine(near, ours)).
		WithFix("az network vnet peering update --ids %s --set allowForwardedTraffic=true",
			near.ID.Child("virtualNetworkPeerings", ours.Name))}
}

// podsInside reports whether pods have addresses of a network. A gateway sends to pods from its own
// address, so its packets are not forwarded traffic. A pod's answer is forwarded traffic: the node
// forwards it with the pod's address. allowForwardedTraffic is for "traffic that doesn't originate
// from" the peered network (virtual-network-manage-peering), and applies on the receiving side.
func (p *clusterCase) podsInside(vnet *inventory.VNet) bool {
	return !slices.ContainsFunc(p.cluster.PodCIDRs, func(pods netip.Prefix) bool {
		return !inventory.Within(vnet.Prefixes, pods.Addr())
	})
}
