package emulator

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// The states of a peering: one side only, both sides, the other side gone.
const (
	peeringInitiated    = "Initiated"
	peeringConnected    = "Connected"
	peeringDisconnected = "Disconnected"
)

// settlePeering checks a peering against both networks and the other side's peering.
func (s *network) settlePeering(c *call, r, old *resource) *failure {
	vnet := s.kernel.store.get(r.id.Parent())
	return s.settlePeeringOf(vnet.body, r, old)
}

func (s *network) settlePeeringOf(vnet object, r, old *resource) *failure {
	keepGUID(r, old)
	properties := objectAt(r.body, "properties")
	for field, value := range map[string]any{"allowVirtualNetworkAccess": true,
		"allowForwardedTraffic": false, "allowGatewayTransit": false, "useRemoteGateways": false,
		"doNotVerifyRemoteGateways": false} {
		setDefault(properties, field, value)
	}
	remote := s.kernel.store.get(linkOf(r.body, "remoteVirtualNetwork"))
	if remote == nil || !remote.id.Is(arm.TypeVNet) {
		return invalidReference(linkOf(r.body, "remoteVirtualNetwork"), r.id)
	}
	properties["remoteVirtualNetwork"] = object{"id": string(remote.id)}
	own := r.id.Parent()
	for _, p := range s.kernel.store.list(typePeering, own) {
		if !p.id.Equal(r.id) && linkOf(p.body, "remoteVirtualNetwork").Equal(remote.id) {
			return fail(http.StatusBadRequest, "AnotherPeeringAlreadyReferencesRemoteVnet",
				"Peering %s cannot be created or updated because virtual network %s already has "+
					"a peering %s referencing remote virtual network %s.", r.id, own, p.id,
				remote.id)
		}
	}
	if overlap := overlapping(addressSpace(vnet), addressSpace(remote.body)); overlap != "" ||
		own.Equal(remote.id) {
		// code [U]; the words are those of the case below
		return fail(http.StatusBadRequest, "VnetAddressSpacesOverlap", "Cannot create or update "+
			"peering %s. Virtual networks %s and %s cannot be peered because their address "+
			"spaces overlap. Overlapping address prefixes: %s.", r.id, own, remote.id, overlap)
	}
	if f := s.clearOfPeers(vnet, r.id, remote); f != nil {
		return f
	}
	reverse := s.reverse(own, remote.id)
	if reverse != nil &&
		text(objectAt(reverse.body, "properties"), "peeringState") == peeringDisconnected {
		return fail(http.StatusBadRequest, "RemotePeeringIsDisconnected",
			"Cannot create or update peering %s because remote peering %s referencing parent "+
				"virtual network %s is in Disconnected state. Update or re-create the remote "+
				"peering to get it back to Initiated state. Peering gets Disconnected when "+
				"remote vnet or remote peering is deleted and re-created.", r.id, reverse.id, own)
	}
	properties["peeringState"] = peeringInitiated
	if reverse != nil {
		properties["peeringState"] = peeringConnected
	}
	// as it is synced now
	properties["remoteAddressSpace"] = cloneValue(objectAt(remote.body,
		"properties")["addressSpace"])
	for _, computed := range []string{"peeringSyncLevel", "remoteVirtualNetworkAddressSpace"} {
		delete(properties, computed)
	}
	return nil
}

// clearOfPeers refuses a network whose addresses another peer of the remote one, or of its own, has
// already.
func (s *network) clearOfPeers(vnet object, id arm.ID, remote *resource) *failure {
	for _, side := range []struct {
		space []netip.Prefix
		of    arm.ID
	}{{addressSpace(vnet), remote.id}, {addressSpace(remote.body), id.Parent()}} {
		for _, p := range s.kernel.store.list(typePeering, side.of) {
			other := s.kernel.store.get(linkOf(p.body, "remoteVirtualNetwork"))
			if other == nil || p.id.Equal(id) || other.id.Equal(id.Parent()) ||
				other.id.Equal(remote.id) {
				continue
			}
			if overlap := overlapping(side.space, addressSpace(other.body)); overlap != "" {
				// AzureTRE#4641
				return fail(http.StatusBadRequest, "VnetAddressSpaceOverlapsWithAlreadyPeeredVnet",
					"Cannot create or update peering %s. Virtual networks %s and %s cannot be "+
						"peered because address space of the first virtual network overlaps with "+
						"address space of virtual network %s already peered with the second "+
						"virtual network. Overlapping address prefixes: %s.", id, id.Parent(),
					remote.id, other.id, overlap)
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

// reverse is the peering of the other network that leads back, or nil.
func (s *network) reverse(own, remote arm.ID) *resource {
	for _, p := range s.kernel.store.list(typePeering, remote) {
		if linkOf(p.body, "remoteVirtualNetwork").Equal(own) {
			return p
		}
	}
	return nil
}

// storedPeering connects both sides.
func (s *network) storedPeering(c *call, r, old *resource) *failure {
	s.connectPeering(r)
	return s.storedSubnet(c, r, old)
}

func (s *network) connectPeering(r *resource) {
	if text(objectAt(r.body, "properties"), "peeringState") != peeringConnected {
		return
	}
	if other := s.reverse(r.id.Parent(), linkOf(r.body, "remoteVirtualNetwork")); other != nil {
		objectAt(other.body, "properties")["peeringState"] = peeringConnected
		s.kernel.store.touchAround(other.id)
	}
}

// peeringRemoved leaves the other side disconnected.
func (s *network) peeringRemoved(r *resource) {
	if other := s.reverse(r.id.Parent(), linkOf(r.body, "remoteVirtualNetwork")); other != nil {
		objectAt(other.body, "properties")["peeringState"] = peeringDisconnected
		s.kernel.store.touchAround(other.id)
	}
}

// touchPeers makes the peerings that lead to a network be rendered anew: they show its address
// space.
func (s *network) touchPeers(vnet arm.ID) {
	for _, p := range s.kernel.store.byType[kindKey(typePeering)] {
		if linkOf(p.body, "remoteVirtualNetwork").Equal(vnet) {
			s.kernel.store.touchAround(p.id)
		}
	}
}

func (s *network) vnetRemoved(r *resource) { s.touchPeers(r.id) }

func (s *network) showPeering(r *resource, doc object, version string) {
	properties := objectAt(doc, "properties")
	remote := s.kernel.store.get(linkOf(r.body, "remoteVirtualNetwork"))
	if remote == nil {
		properties["peeringSyncLevel"] = "RemoteNotInSync"
		return
	}
	now := cloneValue(objectAt(remote.body, "properties")["addressSpace"])
	properties["remoteVirtualNetworkAddressSpace"] = now
	if gateways := s.gatewaysOf(remote.id); len(gateways) > 0 {
		properties["remoteGateways"] = gateways
	}
	inSync := func(p *resource, vnet arm.ID) bool {
		r := s.kernel.store.get(vnet)
		return p == nil || r == nil ||
			string(encode(objectAt(p.body, "properties")["remoteAddressSpace"])) == string(
				encode(objectAt(r.body, "properties")["addressSpace"]))
	}
	local, other := inSync(s.reverse(r.id.Parent(), remote.id), r.id.Parent()), inSync(r, remote.id)
	// the other side has nothing to be in sync with
	if text(properties, "peeringState") == peeringInitiated {
		properties["peeringSyncLevel"] = "RemoteNotInSync"
		return
	}
	properties["peeringSyncLevel"] = map[[2]bool]string{{true, true}: "FullyInSync",
		{true, false}: "RemoteNotInSync", {false, true}: "LocalNotInSync", {false,
			false}: "LocalAndRemoteNotInSync"}[[2]bool{local, other}]
}

// gatewaysOf are the VPN and ExpressRoute gateways of a virtual network.
func (s *network) gatewaysOf(vnet arm.ID) []any {
	var out []any
	for _, key := range slices.Sorted(
		maps.Keys(s.linked[vnet.Child("subnets", "GatewaySubnet").Key()])) {
		holder := s.linked[vnet.Child("subnets", "GatewaySubnet").Key()][key]
		if gateway := holder.Parent(); gateway.Is(typeVPNGateway) {
			out = append(out, object{"id": string(gateway)})
		}
	}
	return out
}

// settlePeerings checks the peerings that came inside a virtual network. The ones that did not stay
// as they are (arm-template-whatif#281).
func (s *network) settlePeerings(vnet *resource) *failure {
	properties := objectAt(vnet.body, "properties")
	if f := checkList(properties, "virtualNetworkPeerings"); f != nil {
		return f
	}
	for _, doc := range listAt(properties, "virtualNetworkPeerings") {
		if text(doc, "name") == "" {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: a peering of %s has no name.", vnet.id.Name())
		}
		id := vnet.id.Child("virtualNetworkPeerings", text(doc, "name"))
		if objectAt(doc, "properties") == nil {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: peering %s has no properties.", id)
		}
		old := s.kernel.store.get(id)
		child := s.kernel.newResource(id, doc, old)
		if f := s.settlePeeringOf(vnet.body, child, old); f != nil {
			return f
		}
		if old != nil && linkOf(old.body, "remoteVirtualNetwork").Equal(linkOf(child.body,
			"remoteVirtualNetwork")) {
			// It is not peered or synced anew by being there [U].
			for _, kept := range []string{"peeringState", "remoteAddressSpace"} {
				objectAt(child.body, "properties")[kept] = objectAt(old.body, "properties")[kept]
			}
		}
		vnet.children = append(vnet.children, child)
	}
	delete(properties, "virtualNetworkPeerings")
	return nil
}

// settleSpace refuses an address space that one of the peers has already.
func (s *network) settleSpace(vnet *resource) *failure {
	for _, p := range s.kernel.store.list(typePeering, vnet.id) {
		remote := s.kernel.store.get(linkOf(p.body, "remoteVirtualNetwork"))
		if remote == nil {
			continue
		}
		if overlap := overlapping(addressSpace(vnet.body),
			addressSpace(remote.body)); overlap != "" {
			return fail(http.StatusBadRequest, "VnetAddressSpacesOverlap", "The address space of "+
				"virtual network %s overlaps with the one of virtual network %s, with which it "+
				"is peered. Overlapping address prefixes: %s.", vnet.id, remote.id, overlap)
		}
	}
	return nil
}
