package emulator

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// usageCall answers what a virtual network's addresses are used for: GET {vnet}/usages counts them
// by subnet, and GET {vnet}/CheckIPAddressAvailability looks at one.
func (s *network) usageCall(c *call) (reply, *failure, bool) {
	if c.method != http.MethodGet || len(c.path) != 9 ||
		!strings.EqualFold(c.path[6], "virtualNetworks") {
		return reply{}, nil, false
	}
	what := strings.ToLower(c.path[8])
	if what != "usages" && what != "checkipaddressavailability" {
		return reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.path[:8], "/"))
	vnet := s.kernel.store.get(id)
	if vnet == nil {
		return reply{}, s.kernel.missing(id), true
	}
	if what == "usages" {
		answer, f := s.kernel.pageObjects(c, s.usages(vnet))
		return answer, f, true
	}
	addr, err := netip.ParseAddr(c.param("ipAddress"))
	if err != nil {
		return reply{}, fail(http.StatusBadRequest, "InvalidIPAddressFormat",
			"The value '%s' of ipAddress is not an IP address.", c.param("ipAddress")), true
	}
	return ok(s.availability(vnet, addr)), nil, true
}

// usages counts the addresses of each subnet; what Azure keeps for itself is not among those there
// are.
func (s *network) usages(vnet *resource) []object {
	out := []object{}
	for _, subnet := range s.kernel.store.list(arm.TypeSubnet, vnet.id) {
		limit := 0
		for _, p := range prefixesOf(subnet.body) {
			if p.Addr().Is4() {
				limit += max(0, 1<<(32-p.Bits())-reserved-1)
			}
		}
		used := 0
		for a := range s.addressesOf(subnet.id).by {
			if a.Is4() {
				used++
			}
		}
		out = append(out, object{
			"currentValue": used, "limit": limit, "id": string(subnet.id), "unit": "Count",
			"name": object{"value": "SubnetSpace", "localizedValue": "Subnet size and usage"},
		})
	}
	return out
}

// availability says whether an address of a network is free, and, if not, which ones of its subnet
// are.
func (s *network) availability(vnet *resource, addr netip.Addr) object {
	for _, subnet := range s.kernel.store.list(arm.TypeSubnet, vnet.id) {
		i := slices.IndexFunc(prefixesOf(subnet.body), func(p netip.Prefix) bool {
			return p.Contains(addr)
		})
		if i < 0 {
			continue
		}
		p, used := prefixesOf(subnet.body)[i], s.addressesOf(subnet.id).by
		if _, taken := used[addr]; !taken &&
			freeAddress(p, func(a netip.Addr) bool { return a != addr }) == addr {
			return object{"available": true, "isPlatformReserved": false}
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
		return object{"available": false, "availableIPAddresses": free,
			"isPlatformReserved": used[addr] == ""}
	}
	return object{"available": false, "isPlatformReserved": false}
}
