package network

import (
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// subnetsUnchangedSince is the api-version from which on a virtual network PUT without subnets
// leaves them unchanged; before, it deletes them (AZURE.md).
const subnetsUnchangedSince = "2023-09-01"

// settleVNet checks a virtual network and all its subnets, so that a refused write changes nothing.
func (s *Network) settleVNet(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	if len(AddressSpace(r.Body)) == 0 {
		return kernel.Unparsable(
			"virtual network %s has no valid addressSpace.addressPrefixes.", r.ID.Name())
	}
	for _, p := range kernel.List(properties, "addressSpace", "addressPrefixes") {
		if f := CheckPrefix(p, r.ID); f != nil {
			return f
		}
	}
	keepGUID(r, old)
	if f := s.peerings.settleSpace(r); f != nil {
		return f
	}
	if f := s.peerings.settlePeerings(r); f != nil {
		return f
	}
	peerings := r.Children
	r.Children = nil
	sent, present := properties["subnets"]
	delete(properties, "subnets")
	existing := s.kernel.Store.List(arm.TypeSubnet, r.ID)
	if sent == nil { // absent and null are the same
		present = c.Version < subnetsUnchangedSince
	}
	if !present {
		for _, subnet := range existing { // even a smaller address space must contain them
			if f := placeSubnet(subnet, r.Body, nil); f != nil {
				return f
			}
		}
		r.Children, r.KeepChildren = peerings, true
		return nil
	}
	if f := kernel.CheckList(kernel.Object{"subnets": sent}, "subnets"); f != nil {
		return f
	}
	wanted := map[string]bool{}
	for _, doc := range kernel.ListAt(kernel.Object{"subnets": sent}, "subnets") {
		name := kernel.Text(doc, "name")
		if name == "" {
			return kernel.Unparsable("a subnet of %s has no name.", r.ID.Name())
		}
		id := r.ID.Child("subnets", name)
		if wanted[id.Key()] {
			return kernel.Unparsable("there are two subnets named %s.", name)
		}
		wanted[id.Key()] = true
		child := s.kernel.NewResource(id, doc, s.kernel.Store.Get(id))
		s.kernel.KindOf(id).DropNewer(child.Body, c.Version)
		if f := s.settleSubnetAmong(c.Version, child, r.Body, kernel.Text(r.Body, "location"),
			r.Children); f != nil {
			return f
		}
		r.Children = append(r.Children, child)
	}
	for _, subnet := range existing {
		if !wanted[subnet.ID.Key()] {
			if f := s.subnetRemovable(subnet); f != nil {
				return f
			}
		}
	}
	r.Children = append(r.Children, peerings...)
	return nil
}

// storedVNet stores the subnets of a virtual network's document and deletes the others.
func (s *Network) storedVNet(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	wanted := map[string]bool{}
	for _, child := range r.Children {
		wanted[child.ID.Key()] = true
		child.BusyUntil = r.BusyUntil
		s.kernel.Store.Put(child)
		if child.ID.Is(TypePeering) {
			s.peerings.connectPeering(child)
		}
	}
	if !r.KeepChildren {
		for _, subnet := range s.kernel.Store.List(arm.TypeSubnet, r.ID) {
			if !wanted[subnet.ID.Key()] {
				s.kernel.Store.Remove(subnet.ID)
			}
		}
	}
	r.Children, r.KeepChildren = nil, false
	s.changedVNet(r)
	return nil
}

// changedVNet gives a virtual network a new ETag and, unless they have their own, its subnets the
// same.
func (s *Network) changedVNet(vnet *kernel.Resource) {
	vnet.Retag(vnet.BusyUntil)
	s.kernel.Store.Changed(vnet)
	s.peerings.touchPeers(vnet.ID)
	if s.Opts.SeparateSubnetETags {
		return
	}
	for _, childType := range []string{arm.TypeSubnet, TypePeering} {
		for _, child := range s.kernel.Store.List(childType, vnet.ID) {
			child.ShareTag(vnet)
			s.kernel.Store.Changed(child)
		}
	}
}

func (s *Network) showVNet(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	for list, childType := range map[string]string{"subnets": arm.TypeSubnet,
		"virtualNetworkPeerings": TypePeering} {
		all := []any{}
		for _, child := range s.kernel.Store.List(childType, r.ID) {
			all = append(all, s.kernel.Document(child, version))
		}
		properties[list] = all
	}
}

func (s *Network) vnetRemovable(r *kernel.Resource) *kernel.Failure {
	for _, subnet := range s.kernel.Store.List(arm.TypeSubnet, r.ID) {
		if f := s.subnetRemovable(subnet); f != nil {
			return f
		}
	}
	return nil
}

// settleSubnet checks a subnet that is PUT on its own.
func (s *Network) settleSubnet(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	vnet := s.kernel.Store.Get(r.ID.Parent())
	var siblings []*kernel.Resource
	for _, subnet := range s.kernel.Store.List(arm.TypeSubnet, vnet.ID) {
		if !subnet.ID.Equal(r.ID) {
			siblings = append(siblings, subnet)
		}
	}
	return s.settleSubnetAmong(c.Version, r, vnet.Body, kernel.Text(vnet.Body, "location"),
		siblings)
}

// settleSubnetAmong checks a subnet against its network, the other subnets and its links.
func (s *Network) settleSubnetAmong(version string, r *kernel.Resource, vnet kernel.Object,
	location string, siblings []*kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	if f := placeSubnet(r, vnet, siblings); f != nil {
		return f
	}
	used := s.Addresses.Of(r.ID)
	for a := range used.By {
		if !prefixWith(r, a).IsValid() {
			return kernel.Bad("InUsePrefixCannotBeDeleted", "IpPrefix of Subnet %s cannot be "+
				"changed: the address %s in it is in use by %s.", r.ID.Name(), a, used.By[a])
		}
	}
	if f := s.SettleLinks(r, location); f != nil {
		return f
	}
	if f := s.settleReserved(r); f != nil {
		return f
	}
	if table := s.kernel.Store.Get(kernel.LinkOf(r.Body, "routeTable")); table != nil {
		if f := checkGatewayTable(table, s.gateways.classicIn(r.ID)); f != nil {
			return f
		}
	}
	kernel.SetDefault(properties, "delegations", []any{})
	kernel.SetDefault(properties, "privateEndpointNetworkPolicies", endpointPolicies(version))
	kernel.SetDefault(properties, "privateLinkServiceNetworkPolicies", "Enabled")
	return nil
}

// storedSubnet updates the network after a change of one of its subnets.
func (s *Network) storedSubnet(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	vnet := s.kernel.Store.Get(r.ID.Parent())
	vnet.BusyUntil = r.BusyUntil
	s.changedVNet(vnet)
	return nil
}

func (s *Network) showSubnet(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	for _, endpoint := range kernel.ListAt(properties, "serviceEndpoints") {
		endpoint["provisioningState"] = kernel.State(r)
		// without locations it applies to all
		if len(kernel.List(endpoint, "locations")) == 0 {
			endpoint["locations"] = endpointLocations(kernel.Text(endpoint, "service"),
				s.locationOf(r))
		}
	}
	for _, delegation := range kernel.ListAt(properties, "delegations") {
		id := r.ID.Child("delegations", kernel.Text(delegation, "name"))
		kernel.ShowPart(r, id, delegation)
		if p := kernel.ObjectAt(delegation, "properties"); p != nil {
			kernel.SetDefault(p, "actions", delegationActions(kernel.Text(p, "serviceName")))
			p["provisioningState"] = "Succeeded"
		}
	}
	used := s.Addresses.Of(r.ID)
	if configurations := used.configurations(kernel.SinceDate(r.AsOf, upperCaseSince)); len(
		configurations) > 0 {
		properties["ipConfigurations"] = configurations
	}
	showEndpoints(s, r, properties)
}

func (s *Network) subnetRemovable(r *kernel.Resource) *kernel.Failure {
	used := s.Addresses.Of(r.ID)
	by := arm.ID("")
	for _, id := range used.By {
		by = id
	}
	if g := s.gateways.gatewayIn(r.ID); g != "" {
		by = g
	}
	if by == "" {
		return nil
	}
	return kernel.Bad("InUseSubnetCannotBeDeleted",
		"Subnet %s is in use by %s and cannot be deleted. In order to delete the subnet, delete "+
			"all the resources within the subnet. See aka.ms/deletesubnet.", r.ID.Name(), by)
}

// placeSubnet checks that a subnet is inside its network and overlaps no other subnet.
func placeSubnet(r *kernel.Resource, vnet kernel.Object,
	siblings []*kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	written := kernel.List(properties, "addressPrefixes")
	if one := kernel.Text(properties, "addressPrefix"); one != "" {
		written = append(written, one)
	}
	if len(written) == 0 {
		return kernel.Unparsable("subnet %s has no addressPrefix.", r.ID.Name())
	}
	for _, text := range written {
		if f := CheckPrefix(text, r.ID); f != nil {
			return f
		}
		p := netip.MustParsePrefix(text)
		if !Covered(p, AddressSpace(vnet)) {
			return kernel.Bad("NetcfgInvalidSubnet", "Subnet '%s' is not valid because its IP "+
				"address range is outside the IP address range of virtual network '%s'.",
				r.ID.Name(), r.ID.Parent().Name())
		}
		for _, s := range siblings {
			for _, q := range PrefixesOf(s.Body) {
				if q.Overlaps(p) {
					return kernel.Bad("NetcfgSubnetRangesOverlap", "Subnet '%s' is not valid "+
						"because its IP address range overlaps with that of an existing "+
						"subnet in virtual network '%s'.", r.ID.Name(), r.ID.Parent().Name())
				}
			}
		}
	}
	return nil
}

// CheckPrefix refuses an invalid prefix of a resource, and one with host bits.
func CheckPrefix(text string, of arm.ID) *kernel.Failure {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return kernel.Bad("InvalidAddressPrefixFormat",
			"Address prefix %s of resource %s is not formatted correctly. It should follow CIDR "+
				"notation, for example 10.0.0.0/24.", text, of)
	}
	if p != p.Masked() {
		return kernel.Bad("InvalidCIDRNotation", "The address prefix %s has an invalid CIDR "+
			"notation. For the given prefix length, the address prefix should be %s.", text,
			p.Masked())
	}
	return nil
}

// AddressSpace returns the valid prefixes of a virtual network.
func AddressSpace(vnet kernel.Object) []netip.Prefix {
	return arm.ParsePrefixes(kernel.List(vnet, "properties", "addressSpace", "addressPrefixes"))
}

// PrefixesOf returns the valid prefixes of a subnet.
func PrefixesOf(subnet kernel.Object) []netip.Prefix {
	p := kernel.ObjectAt(subnet, "properties")
	return arm.ParsePrefixes(kernel.List(p, "addressPrefixes"),
		[]string{kernel.Text(p, "addressPrefix")})
}

// prefixWith returns the prefix of a subnet that contains an address, or the zero prefix.
func prefixWith(subnet *kernel.Resource, a netip.Addr) netip.Prefix {
	for _, p := range PrefixesOf(subnet.Body) {
		if p.Contains(a) {
			return p
		}
	}
	return netip.Prefix{}
}
