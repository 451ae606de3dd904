package network

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// usageCall answers for the used addresses of a virtual network: GET {vnet}/usages counts them by
// subnet, and GET {vnet}/CheckIPAddressAvailability checks one.
func (s *Network) usageCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	if c.Method != http.MethodGet || len(c.Path) != 9 ||
		!strings.EqualFold(c.Path[6], "virtualNetworks") {
		return kernel.Reply{}, nil, false
	}
	what := strings.ToLower(c.Path[8])
	if what != "usages" && what != "checkipaddressavailability" {
		return kernel.Reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.Path[:8], "/"))
	vnet := s.kernel.Store.Get(id)
	if vnet == nil {
		return kernel.Reply{}, s.kernel.Missing(id), true
	}
	if what == "usages" {
		answer, f := s.kernel.PageObjects(c, s.usages(vnet))
		return answer, f, true
	}
	addr, err := netip.ParseAddr(c.Param("ipAddress"))
	if err != nil {
		return kernel.Reply{}, kernel.Fail(http.StatusBadRequest, "InvalidIPAddressFormat",
			"The value '%s' of ipAddress is not an IP address.", c.Param("ipAddress")), true
	}
	return kernel.OK(s.availability(vnet, addr)), nil, true
}

// usages counts the addresses of each subnet; Azure's reserved ones are not counted.
func (s *Network) usages(vnet *kernel.Resource) []kernel.Object {
	out := []kernel.Object{}
	for _, subnet := range s.kernel.Store.List(arm.TypeSubnet, vnet.ID) {
		limit := 0
		for _, p := range PrefixesOf(subnet.Body) {
			if p.Addr().Is4() {
				limit += max(0, 1<<(32-p.Bits())-Reserved-1)
			}
		}
		used := 0
		for a := range s.Addresses.Of(subnet.ID).By {
			if a.Is4() {
				used++
			}
		}
		out = append(out, kernel.Object{
			"currentValue": used, "limit": limit, "id": string(subnet.ID), "unit": "Count",
			"name": kernel.Object{"value": "SubnetSpace",
				"localizedValue": "Subnet size and usage"},
		})
	}
	return out
}

// availability reports whether an address of a network is free, and, if not, which ones of its
// subnet are.
func (s *Network) availability(vnet *kernel.Resource, addr netip.Addr) kernel.Object {
	for _, subnet := range s.kernel.Store.List(arm.TypeSubnet, vnet.ID) {
		i := slices.IndexFunc(PrefixesOf(subnet.Body), func(p netip.Prefix) bool {
			return p.Contains(addr)
		})
		if i < 0 {
			continue
		}
		p, used := PrefixesOf(subnet.Body)[i], s.Addresses.Of(subnet.ID).By
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
