package network

import (
	"net/http"
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// inWatcher answers POST {networkWatcher}/nextHop: the next hop of one packet from a machine.
func (s *Network) inWatcher(c *kernel.Call, _ *kernel.Resource, rest []string) (kernel.Reply,
	*kernel.Failure, bool) {
	if c.Method != http.MethodPost || len(rest) != 1 || rest[0] != "nexthop" {
		return kernel.Reply{}, nil, false
	}
	sent, f := kernel.DecodeObject(c.Body)
	if f != nil {
		return kernel.Reply{}, f, true
	}
	for _, field := range []string{"sourceIPAddress", "destinationIPAddress"} {
		if _, err := netip.ParseAddr(kernel.Text(sent, field)); err != nil {
			return kernel.Reply{}, kernel.Bad("InvalidIpAddress",
				"The value of %s is not an IP address: %q.", field, kernel.Text(sent, field)), true
		}
	}
	subnet, source := s.sender(arm.ID(kernel.Text(sent, "targetResourceId")),
		arm.ID(kernel.Text(sent, "targetNicResourceId")), kernel.Text(sent, "sourceIPAddress"))
	switch {
	case subnet == nil:
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "ResourceNotFound",
			"The target resource %s was not found.", kernel.Text(sent, "targetResourceId")), true
	case !source:
		// [U] the code
		return kernel.Reply{}, kernel.Bad("SourceIpAddressNotFound",
			"The source address %s belongs to no interface of %s.",
			kernel.Text(sent, "sourceIPAddress"), kernel.Text(sent, "targetResourceId")), true
	}
	return s.kernel.Accepted(c, kernel.Encode(nextHop(s.effectiveRoutes(c, subnet),
		netip.MustParseAddr(kernel.Text(sent, "destinationIPAddress"))))), nil, true
}

func nextHop(routes []effectiveRoute, to netip.Addr) kernel.Object {
	best := bestRoute(routes, to)
	if best == nil {
		return kernel.Object{"nextHopType": hopNone, "routeTableId": "System Route"}
	}
	doc := kernel.Object{"nextHopType": best.hopType, "routeTableId": "System Route"}
	if best.table != "" {
		doc["routeTableId"] = string(best.table)
	}
	if best.hop != "" {
		doc["nextHopIpAddress"] = best.hop
	}
	return doc
}

// sender finds the subnet of a machine's interface: the named one, or the one with the source
// address. The machine is a virtual machine, an instance of a scale set, or, unlike on Azure, an
// interface.
func (s *Network) sender(machine, nic arm.ID, source string) (subnet *kernel.Resource,
	hasSource bool) {
	var nics []arm.ID
	r := s.kernel.Store.Get(machine)
	switch {
	case nic != "":
		nics = []arm.ID{nic}
	case r != nil && machine.Is(arm.TypeInterface):
		nics = []arm.ID{machine}
	case r != nil:
		for _, ref := range ReferencesIn(r.ID, r.Body) {
			nics = append(nics, ref.Target())
		}
	default:
		if first, _, known := s.Instances.InterfaceOf(machine); known {
			nics = []arm.ID{first}
		}
	}
	from, err := netip.ParseAddr(source)
	for _, id := range nics {
		at := s.subnetOf(id)
		if at == nil {
			continue
		}
		subnet = at
		if holder := s.Addresses.Of(at.ID).By[from]; err == nil && holder != "" &&
			kernel.PartOf(holder, id) {
			return at, true
		}
	}
	return subnet, false
}
