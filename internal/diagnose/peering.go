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

// nodeNetworks are the virtual networks of the node subnets.
func (p *patient) nodeNetworks() []arm.ID {
	var ids []arm.ID
	for _, subnet := range p.subnets {
		ids = append(ids, subnet.ID.Parent())
	}
	return inventory.SortIDs(ids)
}

// routed reports whether a gateway's way to the nodes is a matter of somebody's own routes, by way of an appliance: then no peering has
// to be there; or is not known.
func (p *patient) routed(g *gatewaySubnet) bool {
	routes, err := trace.Effective(p.s.Snapshot, g.ID, nil)
	if err != nil || len(p.prefixes) == 0 {
		return true
	}
	route, found := routes.Lookup(p.prefixes[0].Addr().Next())
	return found && route.Source != trace.System
}

// peeringTo is a network's side of its peering with another one, or nil.
func peeringTo(vnet *inventory.VNet, other arm.ID) *inventory.Peering {
	if vnet == nil {
		return nil
	}
	i := slices.IndexFunc(vnet.Peerings, func(q inventory.Peering) bool { return q.Remote.Equal(other) })
	if i < 0 {
		return nil
	}
	return &vnet.Peerings[i]
}

// peeringLine says how a network's side of a peering stands.
func (p *patient) peeringLine(vnet *inventory.VNet, q *inventory.Peering) string {
	state := "connected"
	if !q.Connected {
		state = "not connected"
	}
	return fmt.Sprintf("peering %s of %s with %s: %s, allowVirtualNetworkAccess %t, allowForwardedTraffic %t", q.Name, vnet.ID.Name(), q.Remote.Name(), state, q.Access, q.Forwarded)
}

// checkPeering looks at the peering between the network of a gateway and the one of the nodes. A peering has two sides that have to be
// there both, so the absence of one is enough; what was not read is not missed.
func (p *patient) checkPeering(g *gatewaySubnet, nodes arm.ID) []finding.Finding {
	at := g.ID.Parent()
	near, far := p.s.VNets[at.Key()], p.s.VNets[nodes.Key()]
	ours, theirs := peeringTo(near, nodes), peeringTo(far, at)
	missing := func(format string, args ...any) finding.Finding {
		return p.found(finding.PeeringMissing, g.ID, "%s does not reach the nodes of %s in %s: %s", g.who(), p.name, nodes.Name(), fmt.Sprintf(format, args...)).About(nodes.Name())
	}
	for _, side := range []struct {
		vnet    *inventory.VNet
		other   arm.ID
		peering *inventory.Peering
	}{{near, nodes, ours}, {far, at, theirs}} {
		switch q := side.peering; {
		case side.vnet == nil:
		case q == nil:
			return []finding.Finding{missing("%s has no peering with %s", side.vnet.ID.Name(), side.other.Name()).
				WithFix("az network vnet peering create %s --vnet-name %s --name to-%s --remote-vnet %s --allow-vnet-access --allow-forwarded-traffic, and the same on the other side",
					inGroup(side.vnet.ID), side.vnet.ID.Name(), side.other.Name(), side.other)}
		case !q.Connected:
			return []finding.Finding{missing("the peering %s of %s is not connected", q.Name, side.vnet.ID.Name()).With(p.peeringLine(side.vnet, q)).
				WithFix("az network vnet peering delete --ids %s, and make it anew on both sides: az network vnet peering create", side.vnet.ID.Child("virtualNetworkPeerings", q.Name))}
		case !q.Access:
			return []finding.Finding{missing("the peering %s of %s does not let the networks reach each other", q.Name, side.vnet.ID.Name()).With(p.peeringLine(side.vnet, q)).
				WithFix("az network vnet peering update --ids %s --set allowVirtualNetworkAccess=true", side.vnet.ID.Child("virtualNetworkPeerings", q.Name))}
		}
	}
	if ours == nil || ours.Forwarded || far == nil || !p.cluster.Kubenet() || len(p.cluster.PodCIDRs) == 0 || p.podsInside(far) {
		return nil
	}
	return []finding.Finding{p.found(finding.PeeringForwarding, g.ID, "pods of %s answer %s with their own addresses, which are not of %s, and the peering %s of %s lets in nothing that is forwarded",
		p.name, g.who(), nodes.Name(), ours.Name, near.ID.Name()).About(nodes.Name()).
		With("pod CIDR: "+join(p.cluster.PodCIDRs), "address space of "+nodes.Name()+": "+join(far.Prefixes), p.peeringLine(near, ours)).
		WithFix("az network vnet peering update --ids %s --set allowForwardedTraffic=true", near.ID.Child("virtualNetworkPeerings", ours.Name))}
}

// podsInside reports whether pods have addresses of a network. What a gateway sends to pods comes from its own address, and so is not
// forwarded traffic; what a pod answers is, because the node sends it on with the pod's address: allowForwardedTraffic is for "traffic that
// doesn't originate from" the peered network (virtual-network-manage-peering), and it counts on the side that receives it.
func (p *patient) podsInside(vnet *inventory.VNet) bool {
	return !slices.ContainsFunc(p.cluster.PodCIDRs, func(pods netip.Prefix) bool { return !contains(vnet.Prefixes, pods.Addr()) })
}
