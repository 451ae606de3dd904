package network

import (
	"net/http"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// inVNet answers GET {vnet}/CheckIPAddressAvailability: whether an address is used.
func (s *Network) inVNet(c *kernel.Call, vnet *kernel.Resource, rest []string) (kernel.Reply,
	*kernel.Failure, bool) {
	if c.Method != http.MethodGet || len(rest) != 1 || rest[0] != "checkipaddressavailability" {
		return kernel.Reply{}, nil, false
	}
	addr, err := netip.ParseAddr(c.Param("ipAddress"))
	if err != nil {
		return kernel.Reply{}, kernel.Bad("InvalidIPAddressFormat",
			"The value '%s' of ipAddress is not an IP address.", c.Param("ipAddress")), true
	}
	return kernel.OK(s.availability(vnet, addr)), nil, true
}

// availability reports whether an address of a network is free, and, if not, which addresses of its
// subnet are.
func (s *Network) availability(vnet *kernel.Resource, addr netip.Addr) kernel.Object {
	for _, subnet := range s.kernel.Store.List(arm.TypeSubnet, vnet.ID) {
		p, used := prefixWith(subnet, addr), s.Addresses.Of(subnet.ID).By
		if !p.IsValid() {
			continue
		}
		if _, taken := used[addr]; !taken &&
			freeAddress(p, func(a netip.Addr) bool { return a != addr }) == addr {
			return kernel.Object{"available": true, "isPlatformReserved": false}
		}
		free := []string{}
		for len(free) < 5 {
			a := freeAddress(p, func(a netip.Addr) bool {
				_, taken := used[a]
				return taken || slices.Contains(free, a.String())
			})
			if !a.IsValid() {
				break
			}
			free = append(free, a.String())
		}
		return kernel.Object{"available": false, "availableIPAddresses": free,
			"isPlatformReserved": used[addr] == ""}
	}
	return kernel.Object{"available": false, "isPlatformReserved": false}
}
