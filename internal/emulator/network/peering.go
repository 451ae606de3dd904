package network

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// The states of a peering: one side only, both sides, the other side deleted.
const (
	peeringInitiated    = "Initiated"
	peeringConnected    = "Connected"
	peeringDisconnected = "Disconnected"
)

// peerings are the peerings of virtual networks.
type peerings struct{ *Network }

// settlePeering checks a peering against both networks and the other side's peering.
func (s *peerings) settlePeering(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	return s.settlePeeringOf(s.kernel.Store.Get(r.ID.Parent()).Body, r, old)
}

func (s *peerings) settlePeeringOf(vnet kernel.Object, r, old *kernel.Resource) *kernel.Failure {
	keepGUID(r, old)
	properties := r.Properties()
	for field, value := range map[string]any{"allowVirtualNetworkAccess": true,
		"allowForwardedTraffic": false, "allowGatewayTransit": false, "useRemoteGateways": false,
		"doNotVerifyRemoteGateways": false} {
		kernel.SetDefault(properties, field, value)
	}
	remote := s.kernel.Store.Get(kernel.LinkOf(r.Body, "remoteVirtualNetwork"))
	if remote == nil || !remote.ID.Is(arm.TypeVNet) {
		return invalidReference(kernel.LinkOf(r.Body, "remoteVirtualNetwork"), r.ID)
	}
	properties["remoteVirtualNetwork"] = arm.Link(remote.ID)
	own := r.ID.Parent()
	for _, p := range s.kernel.Store.List(TypePeering, own) {
		if !p.ID.Equal(r.ID) && kernel.LinkOf(p.Body, "remoteVirtualNetwork").Equal(remote.ID) {
			return kernel.Bad("AnotherPeeringAlreadyReferencesRemoteVnet", "Peering %s cannot be "+
				"created or updated because virtual network %s already has a peering %s "+
				"referencing remote virtual network %s.", r.ID, own, p.ID, remote.ID)
		}
	}
	if overlap := overlapping(AddressSpace(vnet), AddressSpace(remote.Body)); overlap != "" ||
		own.Equal(remote.ID) {
		// code [U]; the message is that of the case below
		return kernel.Bad("VnetAddressSpacesOverlap", "Cannot create or update peering %s. "+
			"Virtual networks %s and %s cannot be peered because their address spaces "+
			"overlap. Overlapping address prefixes: %s.", r.ID, own, remote.ID, overlap)
	}
	if f := s.checkPeerOverlap(vnet, r.ID, remote); f != nil {
		return f
	}
	reverse := s.reverse(own, remote.ID)
	if reverse != nil && kernel.Text(reverse.Properties(), "peeringState") == peeringDisconnected {
		return kernel.Bad("RemotePeeringIsDisconnected",
			"Cannot create or update peering %s because remote peering %s referencing parent "+
				"virtual network %s is in Disconnected state. Update or re-create the remote "+
				"peering to get it back to Initiated state. Peering gets Disconnected when "+
				"remote vnet or remote peering is deleted and re-created.", r.ID, reverse.ID, own)
	}
	properties["peeringState"] = peeringInitiated
	if reverse != nil {
		properties["peeringState"] = peeringConnected
	}
	// a write synchronizes the remote network's address space
	properties["remoteAddressSpace"] = kernel.CloneValue(remote.Properties()["addressSpace"])
	return nil
}

// checkPeerOverlap refuses a peering if the addresses of one network overlap a network that is
// already peered with the other.
func (s *peerings) checkPeerOverlap(vnet kernel.Object, id arm.ID,
	remote *kernel.Resource) *kernel.Failure {
	for _, side := range []struct {
		space []netip.Prefix
		of    arm.ID
	}{{AddressSpace(vnet), remote.ID}, {AddressSpace(remote.Body), id.Parent()}} {
		for _, p := range s.kernel.Store.List(TypePeering, side.of) {
			other := s.kernel.Store.Get(kernel.LinkOf(p.Body, "remoteVirtualNetwork"))
			if other == nil || p.ID.Equal(id) || other.ID.Equal(id.Parent()) ||
				other.ID.Equal(remote.ID) {
				continue
			}
			if overlap := overlapping(side.space, AddressSpace(other.Body)); overlap != "" {
				// AzureTRE#4641
				return kernel.Bad("VnetAddressSpaceOverlapsWithAlreadyPeeredVnet",
					"Cannot create or update peering %s. Virtual networks %s and %s cannot be "+
						"peered because address space of the first virtual network overlaps with "+
						"address space of virtual network %s already peered with the second "+
						"virtual network. Overlapping address prefixes: %s.", id, id.Parent(),
					remote.ID, other.ID, overlap)
			}
		}
	}
	return nil
}

func overlapping(a, b []netip.Prefix) string {
	var out []string
	for _, p := range a {
		for _, q := range b {
			if p.Overlaps(q) {
				out = append(out, p.String())
			}
		}
	}
	return strings.Join(out, ", ")
}

// reverse returns the peering back from the other network, or nil.
func (s *peerings) reverse(own, remote arm.ID) *kernel.Resource {
	for _, p := range s.kernel.Store.List(TypePeering, remote) {
		if kernel.LinkOf(p.Body, "remoteVirtualNetwork").Equal(own) {
			return p
		}
	}
	return nil
}

// storedPeering connects both sides.
func (s *peerings) storedPeering(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	s.connectPeering(r)
	return s.storedSubnet(c, r, old)
}

func (s *peerings) connectPeering(r *kernel.Resource) {
	if kernel.Text(r.Properties(), "peeringState") == peeringConnected {
		s.setOther(r, peeringConnected)
	}
}

// peeringRemoved leaves the other side disconnected.
func (s *peerings) peeringRemoved(r *kernel.Resource) { s.setOther(r, peeringDisconnected) }

// setOther sets the state of the other side.
func (s *peerings) setOther(r *kernel.Resource, state string) {
	other := s.reverse(r.ID.Parent(), kernel.LinkOf(r.Body, "remoteVirtualNetwork"))
	if other != nil {
		other.Properties()["peeringState"] = state
		s.kernel.Store.TouchAround(other.ID)
	}
}

// touchPeers makes the peerings to a network be rendered again, because they show its address
// space.
func (s *peerings) touchPeers(vnet arm.ID) {
	for _, p := range s.kernel.Store.List(TypePeering, "") {
		if kernel.LinkOf(p.Body, "remoteVirtualNetwork").Equal(vnet) {
			s.kernel.Store.TouchAround(p.ID)
		}
	}
}

func (s *peerings) vnetRemoved(r *kernel.Resource) { s.touchPeers(r.ID) }

func (s *peerings) showPeering(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	remote := s.kernel.Store.Get(kernel.LinkOf(r.Body, "remoteVirtualNetwork"))
	if remote == nil {
		properties["peeringSyncLevel"] = "RemoteNotInSync"
		return
	}
	now := kernel.CloneValue(remote.Properties()["addressSpace"])
	properties["remoteVirtualNetworkAddressSpace"] = now
	if gateways := s.gatewaysOf(remote.ID); len(gateways) > 0 {
		properties["remoteGateways"] = gateways
	}
	inSync := func(p *kernel.Resource, vnet arm.ID) bool {
		r := s.kernel.Store.Get(vnet)
		return p == nil || r == nil ||
			string(kernel.Encode(p.Properties()["remoteAddressSpace"])) == string(
				kernel.Encode(r.Properties()["addressSpace"]))
	}
	local, other := inSync(s.reverse(r.ID.Parent(), remote.ID), r.ID.Parent()), inSync(r, remote.ID)
	// the other side has nothing to synchronize with
	if kernel.Text(properties, "peeringState") == peeringInitiated {
		properties["peeringSyncLevel"] = "RemoteNotInSync"
		return
	}
	properties["peeringSyncLevel"] = map[[2]bool]string{{true, true}: "FullyInSync",
		{true, false}: "RemoteNotInSync", {false, true}: "LocalNotInSync",
		{false, false}: "LocalAndRemoteNotInSync"}[[2]bool{local, other}]
}

// gatewaysOf returns the VPN and ExpressRoute gateways of a virtual network.
func (s *peerings) gatewaysOf(vnet arm.ID) []any {
	var out []any
	for _, holder := range s.users(vnet.Child("subnets", "GatewaySubnet")) {
		if gateway := holder.Parent(); gateway.Is(TypeVPNGateway) {
			out = append(out, arm.Link(gateway))
		}
	}
	return out
}

// settlePeerings checks the peerings in a virtual network's document. The others stay unchanged
// (arm-template-whatif#281).
func (s *peerings) settlePeerings(vnet *kernel.Resource) *kernel.Failure {
	properties := vnet.Properties()
	if f := kernel.CheckList(properties, "virtualNetworkPeerings"); f != nil {
		return f
	}
	for _, doc := range kernel.ListAt(properties, "virtualNetworkPeerings") {
		if kernel.Text(doc, "name") == "" {
			return kernel.Unparsable("a peering of %s has no name.", vnet.ID.Name())
		}
		id := vnet.ID.Child("virtualNetworkPeerings", kernel.Text(doc, "name"))
		if kernel.ObjectAt(doc, "properties") == nil {
			return kernel.Unparsable("peering %s has no properties.", id)
		}
		old := s.kernel.Store.Get(id)
		child := s.kernel.NewResource(id, doc, old)
		if f := s.settlePeeringOf(vnet.Body, child, old); f != nil {
			return f
		}
		if old != nil && kernel.LinkOf(old.Body, "remoteVirtualNetwork").Equal(
			kernel.LinkOf(child.Body, "remoteVirtualNetwork")) {
			// Sending it again neither connects nor synchronizes it [U].
			for _, kept := range []string{"peeringState", "remoteAddressSpace"} {
				child.Properties()[kept] = old.Properties()[kept]
			}
		}
		vnet.Children = append(vnet.Children, child)
	}
	delete(properties, "virtualNetworkPeerings")
	return nil
}

// settleSpace refuses an address space that overlaps one of the peers.
func (s *peerings) settleSpace(vnet *kernel.Resource) *kernel.Failure {
	for _, p := range s.kernel.Store.List(TypePeering, vnet.ID) {
		remote := s.kernel.Store.Get(kernel.LinkOf(p.Body, "remoteVirtualNetwork"))
		if remote == nil {
			continue
		}
		if overlap := overlapping(AddressSpace(vnet.Body),
			AddressSpace(remote.Body)); overlap != "" {
			return kernel.Bad("VnetAddressSpacesOverlap", "The address space of virtual network "+
				"%s overlaps with the one of virtual network %s, with which it is peered. "+
				"Overlapping address prefixes: %s.", vnet.ID, remote.ID, overlap)
		}
	}
	return nil
}
