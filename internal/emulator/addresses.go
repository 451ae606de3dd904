package emulator

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// addresses are the ones taken in a subnet.
type addresses struct {
	by map[netip.Addr]arm.ID // the IP configuration that holds it
	// lowest is the first address of a prefix that may be free, so that giving out many does not
	// look at all each time.
	lowest map[netip.Prefix]netip.Addr
}

// addressesOf returns what is taken in a subnet.
func (s *network) addressesOf(subnet arm.ID) *addresses {
	a := s.inUse[subnet.Key()]
	if u := s.kernel.store.undo; u != nil && a != nil {
		u.notedOnce("addresses "+subnet.Key(), func() func() {
			by := maps.Clone(a.by)
			return func() { s.inUse[subnet.Key()] = &addresses{by: by} }
		})
	}
	if a == nil {
		a = &addresses{by: map[netip.Addr]arm.ID{}}
		s.inUse[subnet.Key()] = a
	}
	return a
}

// configurations are the IP configurations as a subnet shows them: one reference each, sorted. The
// ones of Application Gateways it shows elsewhere.
func (a *addresses) configurations(shout bool) []any {
	seen := map[arm.ID]bool{}
	for _, id := range a.by {
		if !id.Is(arm.TypeGateway + "/gatewayIPConfigurations") {
			seen[id] = true
		}
	}
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, object{"id": shownConfiguration(id, shout)})
	}
	return out
}

// reserved is how many addresses at a subnet's start Azure keeps; the last one it keeps as well.
const reserved = 4

// allocate takes the lowest free address of a subnet's prefix, or returns the zero address when it
// is full.
func (s *network) allocate(subnet arm.ID, prefix netip.Prefix, holder arm.ID) netip.Addr {
	used := s.addressesOf(subnet)
	addr := freeAddressFrom(used.lowest[prefix], prefix, func(a netip.Addr) bool {
		_, taken := used.by[a]
		return taken
	})
	if addr.IsValid() {
		used.by[addr] = holder
		if used.lowest == nil {
			used.lowest = map[netip.Prefix]netip.Addr{}
		}
		used.lowest[prefix] = addr
		s.kernel.store.touchAround(subnet)
	}
	return addr
}

// freeAddress is the lowest address of a prefix that is neither reserved nor taken, or the zero
// address.
func freeAddress(prefix netip.Prefix, taken func(netip.Addr) bool) netip.Addr {
	return freeAddressFrom(netip.Addr{}, prefix, taken)
}

// freeAddressFrom starts at an address below which all are taken, where that is known.
func freeAddressFrom(addr netip.Addr, prefix netip.Prefix, taken func(netip.Addr) bool) netip.Addr {
	if !addr.IsValid() {
		addr = prefix.Masked().Addr()
		for range reserved {
			addr = addr.Next()
		}
	}
	for ; prefix.Contains(addr.Next()); addr = addr.Next() { // the last one is reserved
		if !taken(addr) {
			return addr
		}
	}
	return netip.Addr{}
}

// release gives addresses back.
func (s *network) release(subnet arm.ID, addrs ...netip.Addr) {
	used := s.addressesOf(subnet)
	for _, a := range addrs {
		delete(used.by, a)
	}
	used.lowest = nil
	s.kernel.store.touchAround(subnet)
}

// settleSeats chooses the addresses that a resource takes in subnets, or refuses: static ones as
// asked for, dynamic ones as they were while the subnet is the same. They are taken once the
// resource is stored.
func (s *network) settleSeats(r *resource) *failure {
	if r.id.Is(arm.TypeScaleSet) {
		return nil // settleScaleSet has
	}
	chosen := map[string]bool{}
	var fresh []reference
	for _, ref := range referencesIn(r.id, r.body) {
		if !ref.link.takes() {
			continue
		}
		subnet := s.kernel.store.get(ref.target())
		if f := s.checkSeat(ref, subnet); f != nil {
			return f
		}
		addr, f := s.staticSeat(r, ref, subnet)
		if f != nil {
			return f
		}
		if !addr.IsValid() {
			addr = s.keptSeat(ref, subnet)
		}
		if !addr.IsValid() {
			fresh = append(fresh, ref)
			continue
		}
		if chosen[seatKey(subnet.id, addr)] {
			return fail(http.StatusBadRequest, "PrivateIPAddressIsAllocated", "IP configuration "+
				"%s is using the private IP address %s which is already allocated to resource %s.",
				ref.holder, addr, r.id)
		}
		chosen[seatKey(subnet.id, addr)] = true
		r.seats = append(r.seats, seat{subnet.id, addr, ref.holder})
	}
	for _, ref := range fresh {
		found, f := s.dynamicSeat(ref, s.kernel.store.get(ref.target()), chosen)
		if f != nil {
			return f
		}
		r.seats = append(r.seats, found)
	}
	showSeats(r)
	return nil
}

// seatKey names an address of a subnet.
func seatKey(subnet arm.ID, a netip.Addr) string { return subnet.Key() + " " + a.String() }

// dynamicSeat is the address that an IP configuration has already, or a free one, which it notes as
// chosen.
func (s *network) dynamicSeat(ref reference, subnet *resource, chosen map[string]bool) (seat,
	*failure) {
	addr := s.keptSeat(ref, subnet)
	used := s.addressesOf(subnet.id)
	for _, p := range prefixesOf(subnet.body) {
		if !addr.IsValid() && p.Addr().Is6() == wantsV6(ref) {
			addr = freeAddress(p, func(a netip.Addr) bool {
				_, taken := used.by[a]
				return taken || chosen[seatKey(subnet.id, a)]
			})
		}
	}
	if !addr.IsValid() {
		return seat{}, fail(http.StatusBadRequest, "SubnetIsFull",
			"Subnet %s with address prefix %s does not have enough capacity for 1 IP addresses.",
			subnet.id.Name(), text(objectAt(subnet.body, "properties"), "addressPrefix"))
	}
	chosen[seatKey(subnet.id, addr)] = true
	return seat{subnet.id, addr, ref.holder}, nil
}

func wantsV6(ref reference) bool { return text(ref.part, "privateIPAddressVersion") == "IPv6" }

// staticSeat is the address that is asked for, or the zero address.
func (s *network) staticSeat(r *resource, ref reference, subnet *resource) (netip.Addr, *failure) {
	asked := text(ref.part, "privateIPAddress")
	if text(ref.part, "privateIPAllocationMethod") != "Static" {
		return netip.Addr{}, nil
	}
	if asked == "" {
		return netip.Addr{}, fail(http.StatusBadRequest, "PrivateIPAddressMissing",
			"Private IP address is required when privateIPAllocationMethod is Static in IP "+
				"configuration %s.", ref.holder)
	}
	addr, err := netip.ParseAddr(asked)
	i := slices.IndexFunc(prefixesOf(subnet.body), func(p netip.Prefix) bool {
		return err == nil && p.Contains(addr)
	})
	if i < 0 {
		return addr, fail(http.StatusBadRequest, "PrivateIPAddressNotInSubnet",
			"Private static IP address %s does not belong to the range of subnet prefix %s.", asked,
			text(objectAt(subnet.body, "properties"), "addressPrefix"))
	}
	p := prefixesOf(subnet.body)[i]
	if free := freeAddress(p, func(a netip.Addr) bool { return a != addr }); free != addr {
		return addr, fail(http.StatusBadRequest, "PrivateIPAddressInReservedRange",
			"Private static IP address %s falls within reserved IP range of subnet prefix %s.",
			asked, p)
	}
	if holder := s.addressesOf(subnet.id).by[addr]; holder != "" &&
		!partOf(holder, r.id) {
		return addr, fail(http.StatusBadRequest, "PrivateIPAddressIsAllocated",
			"IP configuration %s is using the private IP address %s which is already allocated "+
				"to resource %s.", ref.holder, addr, holder)
	}
	return addr, nil
}

// keptSeat is the address that the IP configuration has in the subnet already.
func (s *network) keptSeat(ref reference, subnet *resource) netip.Addr {
	for a, holder := range s.addressesOf(subnet.id).by {
		if holder.Equal(ref.holder) && a.Is6() == wantsV6(ref) {
			return a
		}
	}
	return netip.Addr{}
}

// showSeats writes the chosen addresses into the document.
func showSeats(r *resource) {
	for _, ref := range referencesIn(r.id, r.body) {
		for _, s := range r.seats {
			if ref.link.takes() && s.holder == ref.holder &&
				ref.link.path != "gatewayIPConfigurations[].subnet" {
				ref.part["privateIPAddress"] = s.addr.String()
				setDefault(ref.part, "privateIPAllocationMethod", "Dynamic")
				setDefault(ref.part, "privateIPAddressVersion",
					map[bool]string{false: "IPv4", true: "IPv6"}[s.addr.Is6()])
			}
		}
	}
}

// takeSeats takes the addresses that settleSeats chose.
func (s *network) takeSeats(r *resource) {
	for _, taken := range r.seats {
		s.addressesOf(taken.subnet).by[taken.addr] = taken.holder
		s.kernel.store.touchAround(taken.subnet)
	}
	r.seats = nil
}

// leaveSeats gives back all that a resource has taken.
func (s *network) leaveSeats(r *resource) {
	for _, ref := range referencesIn(r.id, r.body) {
		if !ref.link.takes() {
			continue
		}
		used := s.addressesOf(ref.target())
		used.lowest = nil
		maps.DeleteFunc(used.by, func(_ netip.Addr, holder arm.ID) bool {
			return partOf(holder, r.id)
		})
		s.kernel.store.touchAround(ref.target())
	}
}

// allocateMany takes that many addresses, or none.
func (s *network) allocateMany(subnet arm.ID, prefix netip.Prefix, holder arm.ID,
	count int) []netip.Addr {
	var out []netip.Addr
	for range count {
		addr := s.allocate(subnet, prefix, holder)
		if !addr.IsValid() {
			s.release(subnet, out...)
			return nil
		}
		out = append(out, addr)
	}
	return out
}

// blockSize is how many addresses are in a /28.
const blockSize = 16

// allocateBlock takes the lowest free /28 of a prefix, or nothing. The first and the last one hold
// reserved addresses.
func (s *network) allocateBlock(subnet arm.ID, prefix netip.Prefix, holder arm.ID) []netip.Addr {
	used := s.addressesOf(subnet)
	for i := 1; i < 1<<max(0, 28-prefix.Bits())-1; i++ {
		var block []netip.Addr
		for a := nthPrefix(prefix, 28, i).Addr(); len(block) < blockSize; a = a.Next() {
			if _, taken := used.by[a]; taken {
				block = nil
				break
			}
			block = append(block, a)
		}
		if block == nil {
			continue
		}
		for _, a := range block {
			used.by[a] = holder
		}
		s.kernel.store.touchAround(subnet)
		return block
	}
	return nil
}

// nthPrefix is the n-th prefix of the given length inside a wider one.
func nthPrefix(wide netip.Prefix, bits, n int) netip.Prefix {
	raw := wide.Addr().AsSlice()
	for bit := bits - 1; bit >= wide.Bits() && n > 0; bit-- {
		if n&1 == 1 {
			raw[bit/8] |= 1 << (7 - bit%8)
		}
		n >>= 1
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.PrefixFrom(addr, bits)
}
