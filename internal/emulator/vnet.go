package emulator

import (
	"net/http"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// subnetsUnchangedSince is the api-version from which on a virtual network PUT without subnets
// leaves them as they are; before, it deletes them (AZURE.md).
const subnetsUnchangedSince = "2023-09-01"

// settleVNet checks a virtual network and all its subnets, so that a refused one changes nothing.
func (s *network) settleVNet(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	if len(addressSpace(r.body)) == 0 {
		return fail(http.StatusBadRequest, "InvalidRequestFormat", "Cannot parse the request: "+
			"virtual network %s has no valid addressSpace.addressPrefixes.", r.id.Name())
	}
	for _, p := range list(objectAt(properties, "addressSpace"), "addressPrefixes") {
		if f := checkPrefix(p); f != nil {
			return f
		}
	}
	keepGUID(r, old)
	if f := s.settleSpace(r); f != nil {
		return f
	}
	if f := s.settlePeerings(r); f != nil {
		return f
	}
	peerings := r.children
	r.children = nil
	sent, present := properties["subnets"]
	delete(properties, "subnets")
	existing := s.kernel.store.list(arm.TypeSubnet, r.id)
	if sent == nil { // absent and null are the same
		present = c.version < subnetsUnchangedSince
	}
	if !present {
		for _, subnet := range existing { // a smaller address space must still hold them
			if f := placeSubnet(subnet, r.body, nil); f != nil {
				return f
			}
		}
		r.children, r.keepChildren = peerings, true
		return nil
	}
	if f := checkList(object{"subnets": sent}, "subnets"); f != nil {
		return f
	}
	wanted := map[string]bool{}
	for _, doc := range listAt(object{"subnets": sent}, "subnets") {
		name := text(doc, "name")
		if name == "" {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: a subnet of %s has no name.", r.id.Name())
		}
		id := r.id.Child("subnets", name)
		if wanted[id.Key()] {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: there are two subnets named %s.", name)
		}
		wanted[id.Key()] = true
		child := s.kernel.newResource(id, doc, s.kernel.store.get(id))
		s.kernel.dropNewer(id, child.body, c.version)
		if f := s.settleSubnetAmong(c.version, child, r.body, text(r.body, "location"),
			r.children); f != nil {
			return f
		}
		r.children = append(r.children, child)
	}
	for _, subnet := range existing {
		if !wanted[subnet.id.Key()] {
			if f := s.subnetRemovable(subnet); f != nil {
				return f
			}
		}
	}
	r.children = append(r.children, peerings...)
	return nil
}

// storedVNet stores the subnets that came inside a virtual network and removes the ones that did
// not.
func (s *network) storedVNet(c *call, r, old *resource) *failure {
	wanted := map[string]bool{}
	for _, child := range r.children {
		wanted[child.id.Key()] = true
		child.busyUntil = r.busyUntil
		s.kernel.store.put(child)
		if child.id.Is(typePeering) {
			s.connectPeering(child)
		}
	}
	if !r.keepChildren {
		for _, subnet := range s.kernel.store.list(arm.TypeSubnet, r.id) {
			if !wanted[subnet.id.Key()] {
				s.kernel.store.remove(subnet.id)
			}
		}
	}
	r.children, r.keepChildren = nil, false
	s.changedVNet(r)
	return nil
}

// changedVNet gives a virtual network a new ETag and, unless they have their own, its subnets the
// same.
func (s *network) changedVNet(vnet *resource) {
	vnet.retag(vnet.busyUntil)
	s.kernel.store.changed(vnet)
	s.touchPeers(vnet.id)
	if s.kernel.opts.SeparateSubnetETags {
		return
	}
	for _, childType := range []string{arm.TypeSubnet, typePeering} {
		for _, child := range s.kernel.store.list(childType, vnet.id) {
			child.shareTag(vnet)
			s.kernel.store.changed(child)
		}
	}
}

func (s *network) showVNet(r *resource, doc object, version string) {
	subnets := []any{}
	for _, subnet := range s.kernel.store.list(arm.TypeSubnet, r.id) {
		subnets = append(subnets, s.kernel.document(subnet, version))
	}
	properties := objectAt(doc, "properties")
	properties["subnets"] = subnets
	peerings := []any{}
	for _, p := range s.kernel.store.list(typePeering, r.id) {
		peerings = append(peerings, s.kernel.document(p, version))
	}
	properties["virtualNetworkPeerings"] = peerings
}

func (s *network) vnetRemovable(r *resource) *failure {
	for _, subnet := range s.kernel.store.list(arm.TypeSubnet, r.id) {
		if f := s.subnetRemovable(subnet); f != nil {
			return f
		}
	}
	return nil
}

// settleSubnet checks a subnet that is PUT on its own.
func (s *network) settleSubnet(c *call, r, old *resource) *failure {
	vnet := s.kernel.store.get(r.id.Parent())
	var siblings []*resource
	for _, subnet := range s.kernel.store.list(arm.TypeSubnet, vnet.id) {
		if !subnet.id.Equal(r.id) {
			siblings = append(siblings, subnet)
		}
	}
	return s.settleSubnetAmong(c.version, r, vnet.body, text(vnet.body, "location"), siblings)
}

// settleSubnetAmong checks a subnet against its network, its siblings and what it links to.
func (s *network) settleSubnetAmong(version string, r *resource, vnet object, location string,
	siblings []*resource) *failure {
	properties := objectAt(r.body, "properties")
	for _, readOnly := range []string{"ipConfigurations", "ipConfigurationProfiles",
		"applicationGatewayIPConfigurations", "privateEndpoints", "purpose",
		"resourceNavigationLinks", "serviceAssociationLinks"} {
		delete(properties, readOnly)
	}
	if f := placeSubnet(r, vnet, siblings); f != nil {
		return f
	}
	used := s.kernel.store.addressesOf(r.id)
	for a := range used.by {
		if !slices.ContainsFunc(prefixesOf(r.body), func(p netip.Prefix) bool {
			return p.Contains(a)
		}) {
			return fail(http.StatusBadRequest, "InUsePrefixCannotBeDeleted",
				"IpPrefix of Subnet %s cannot be changed: the address %s in it is in use by %s.",
				r.id.Name(), a, used.by[a])
		}
	}
	if f := s.settleLinks(r, location); f != nil {
		return f
	}
	if f := s.settleReserved(r); f != nil {
		return f
	}
	if table := s.kernel.store.get(linkOf(r.body, "routeTable")); table != nil &&
		!delegated(r.body) {
		if f := gatewayTakes(table.id, listAt(objectAt(table.body, "properties"), "routes"),
			s.gatewayIn(r.id)); f != nil {
			return f
		}
	}
	setDefault(properties, "delegations", []any{})
	setDefault(properties, "privateEndpointNetworkPolicies", endpointPolicies(version))
	setDefault(properties, "privateLinkServiceNetworkPolicies", "Enabled")
	return nil
}

// storedSubnet lets the network know of a change in one of its subnets.
func (s *network) storedSubnet(c *call, r, old *resource) *failure {
	vnet := s.kernel.store.get(r.id.Parent())
	vnet.busyUntil = r.busyUntil
	s.changedVNet(vnet)
	return nil
}

func (s *network) showSubnet(r *resource, doc object, version string) {
	properties := objectAt(doc, "properties")
	for _, endpoint := range listAt(properties, "serviceEndpoints") {
		endpoint["provisioningState"] = state(r)
		if len(list(endpoint, "locations")) == 0 { // not named, it is for all of them
			endpoint["locations"] = endpointLocations(text(endpoint, "service"), s.locationOf(r))
		}
	}
	for _, delegation := range listAt(properties, "delegations") {
		s.kernel.showItem(r, "delegations", delegation)
		if p := objectAt(delegation, "properties"); p != nil {
			setDefault(p, "actions", delegationActions(text(p, "serviceName")))
			p["provisioningState"] = "Succeeded"
		}
	}
	used := s.kernel.store.addressesOf(r.id)
	if configurations := used.configurations(sinceDate(r.asOf, shoutedSince)); len(
		configurations) > 0 {
		properties["ipConfigurations"] = configurations
	}
	s.showEndpoints(r, properties)
}

func (s *network) subnetRemovable(r *resource) *failure {
	used := s.kernel.store.addressesOf(r.id)
	by := arm.ID("")
	for _, id := range used.by {
		by = id
	}
	if g := s.gatewayIn(r.id); g != "" {
		by = g
	}
	if by == "" {
		return nil
	}
	return fail(http.StatusBadRequest, "InUseSubnetCannotBeDeleted",
		"Subnet %s is in use by %s and cannot be deleted. In order to delete the subnet, delete "+
			"all the resources within the subnet. See aka.ms/deletesubnet.", r.id.Name(), by)
}

// placeSubnet checks that a subnet lies in its network and beside its siblings.
func placeSubnet(r *resource, vnet object, siblings []*resource) *failure {
	properties := objectAt(r.body, "properties")
	written := list(properties, "addressPrefixes")
	if one := text(properties, "addressPrefix"); one != "" {
		written = append(written, one)
	}
	if len(written) == 0 {
		return fail(http.StatusBadRequest, "InvalidRequestFormat",
			"Cannot parse the request: subnet %s has no addressPrefix.", r.id.Name())
	}
	for _, text := range written {
		if f := checkPrefix(text); f != nil {
			return f
		}
		p := netip.MustParsePrefix(text)
		inside := func(space netip.Prefix) bool {
			return space.Bits() <= p.Bits() && space.Contains(p.Addr())
		}
		if !slices.ContainsFunc(addressSpace(vnet), inside) {
			return fail(http.StatusBadRequest, "NetcfgInvalidSubnet", "Subnet '%s' is not valid "+
				"because its IP address range is outside the IP address range of virtual network "+
				"'%s'.", r.id.Name(), r.id.Parent().Name())
		}
		for _, s := range siblings {
			for _, q := range prefixesOf(s.body) {
				if q.Overlaps(p) {
					return fail(http.StatusBadRequest, "NetcfgSubnetRangesOverlap",
						"Subnet '%s' is not valid because its IP address range overlaps with "+
							"that of an existing subnet in virtual network '%s'.", r.id.Name(),
						r.id.Parent().Name())
				}
			}
		}
	}
	return nil
}

// checkPrefix refuses what is no prefix or has host bits.
func checkPrefix(text string) *failure {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return fail(http.StatusBadRequest, "InvalidAddressPrefixFormat", "Address prefix %s is "+
			"not formatted correctly. It should follow CIDR notation, for example 10.0.0.0/24.",
			text)
	}
	if p != p.Masked() {
		return fail(http.StatusBadRequest, "InvalidCIDRNotation", "The address prefix %s has an "+
			"invalid CIDR notation. For the given prefix length, the address prefix should be %s.",
			text, p.Masked())
	}
	return nil
}

// addressSpace returns the valid prefixes of a virtual network.
func addressSpace(vnet object) []netip.Prefix {
	return validPrefixes(list(objectAt(vnet, "properties", "addressSpace"), "addressPrefixes"))
}

// prefixesOf returns the valid prefixes of a subnet.
func prefixesOf(subnet object) []netip.Prefix {
	properties := objectAt(subnet, "properties")
	written := list(properties, "addressPrefixes")
	if one := text(properties, "addressPrefix"); one != "" && !slices.Contains(written, one) {
		written = append(written, one)
	}
	return validPrefixes(written)
}

func validPrefixes(written []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range written {
		if p, err := netip.ParsePrefix(text); err == nil && p == p.Masked() {
			out = append(out, p)
		}
	}
	return out
}

// checkList refuses what should be a list of objects and is something else.
func checkList(o object, name string) *failure {
	items, isList := o[name].([]any)
	if o[name] != nil && (!isList || len(listAt(o, name)) != len(items)) {
		return fail(http.StatusBadRequest, "InvalidRequestFormat",
			"Cannot parse the request: %s is no list of objects.", name)
	}
	return nil
}

// list returns the strings in a list.
func list(o object, name string) []string {
	items, _ := o[name].([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
