package emulator

import (
	"net/http"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// watcherCall answers POST {networkWatcher}/nextHop: the way of one packet from a machine.
func (s *network) watcherCall(c *call) (reply, *failure, bool) {
	if c.method != http.MethodPost || len(c.path) != 9 ||
		!strings.EqualFold(c.path[6], "networkWatchers") ||
		!strings.EqualFold(c.path[8], "nextHop") {
		return reply{}, nil, false
	}
	watcher := arm.ID("/" + strings.Join(c.path[:8], "/"))
	if s.kernel.store.get(watcher) == nil {
		return reply{}, s.kernel.missing(watcher), true
	}
	sent, f := decodeObject(c.body)
	if f != nil {
		return reply{}, f, true
	}
	for _, field := range []string{"sourceIPAddress", "destinationIPAddress"} {
		if _, err := netip.ParseAddr(text(sent, field)); err != nil {
			return reply{}, fail(http.StatusBadRequest, "InvalidIpAddress",
				"The value of %s is not an IP address: %q.", field, text(sent, field)), true
		}
	}
	subnet, source := s.sender(arm.ID(text(sent, "targetResourceId")),
		arm.ID(text(sent, "targetNicResourceId")), text(sent, "sourceIPAddress"))
	switch {
	case subnet == nil:
		return reply{}, fail(http.StatusNotFound, "ResourceNotFound",
			"The target resource %s was not found.", text(sent, "targetResourceId")), true
	case !source:
		// [U] the code
		return reply{}, fail(http.StatusBadRequest, "SourceIpAddressNotFound",
			"The source address %s belongs to no interface of %s.", text(sent,
				"sourceIPAddress"), text(sent, "targetResourceId")), true
	}
	return s.kernel.accepted(c,
		encode(nextHop(s.effectiveRoutes(c, subnet),
			netip.MustParseAddr(text(sent, "destinationIPAddress"))))), nil, true
}

func nextHop(routes []effectiveRoute, to netip.Addr) object {
	best := bestRoute(routes, to)
	if best == nil {
		return object{"nextHopType": hopNone, "routeTableId": "System Route"}
	}
	doc := object{"nextHopType": best.hopType, "routeTableId": "System Route"}
	if best.table != "" {
		doc["routeTableId"] = string(best.table)
	}
	if best.hop != "" {
		doc["nextHopIpAddress"] = best.hop
	}
	return doc
}

// sender finds the subnet of a machine's interface: the named one, or the one that has the source
// address. The machine is a virtual machine, an instance of a scale set, or, as Azure does not take
// it, an interface.
func (s *network) sender(machine, nic arm.ID, source string) (subnet *resource, hasSource bool) {
	var nics []arm.ID
	r := s.kernel.store.get(machine)
	switch {
	case nic != "":
		nics = []arm.ID{nic}
	case r != nil && machine.Is(typeNIC):
		nics = []arm.ID{machine}
	case r != nil:
		for _, ref := range referencesIn(r.id, r.body) {
			nics = append(nics, ref.target())
		}
	default:
		if first, _, known := s.instances.interfaceOf(machine); known {
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
		if holder := s.addressesOf(at.id).by[from]; err == nil && holder != "" &&
			partOf(holder, id) {
			return at, true
		}
	}
	return subnet, false
}
