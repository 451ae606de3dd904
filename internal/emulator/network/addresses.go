package network

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Addresses says which addresses of all subnets are used, and by what.
type Addresses struct {
	kernel *kernel.Kernel
	inUse  map[string]*used // by the subnet's key
}

// used are the used addresses of a subnet.
type used struct {
	By map[netip.Addr]arm.ID // the IP configuration that uses it
	// lowest is the lowest address of a prefix that may be free, so that assigning many addresses
	// does not search from the start each time.
	lowest map[netip.Prefix]netip.Addr
}

// Of returns the used addresses of a subnet.
func (s *Addresses) Of(subnet arm.ID) *used {
	a := s.inUse[subnet.Key()]
	if u := s.kernel.Store.Undo; u != nil && a != nil {
		u.NotedOnce("addresses "+subnet.Key(), func() func() {
			by := maps.Clone(a.By)
			return func() { s.inUse[subnet.Key()] = &used{By: by} }
		})
	}
	if a == nil {
		a = &used{By: map[netip.Addr]arm.ID{}}
		s.inUse[subnet.Key()] = a
	}
	return a
}

// configurations returns the IP configurations as a subnet shows them: one reference each, sorted.
// Those of Application Gateways are in another field.
func (a *used) configurations(upperCase bool) []any {
	seen := map[arm.ID]bool{}
	for _, id := range a.By {
		if !id.Is(arm.TypeGateway+"/gatewayIPConfigurations") && !id.Is(typeLinkConfiguration) {
			seen[id] = true
		}
	}
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, kernel.Object{"id": ShownConfiguration(id, upperCase)})
	}
	return out
}

// Reserved is how many addresses at a subnet's start Azure reserves; the last one is reserved as
// well.
const Reserved = 4

// Allocate takes the lowest free address of a subnet's prefix, or returns the zero address if none
// is free.
func (s *Addresses) Allocate(subnet arm.ID, prefix netip.Prefix, holder arm.ID) netip.Addr {
	used := s.Of(subnet)
	addr := freeAddressFrom(used.lowest[prefix], prefix, func(a netip.Addr) bool {
		_, taken := used.By[a]
		return taken
	})
	if addr.IsValid() {
		used.By[addr] = holder
		if used.lowest == nil {
			used.lowest = map[netip.Prefix]netip.Addr{}
		}
		used.lowest[prefix] = addr
		s.kernel.Store.TouchAround(subnet)
	}
	return addr
}

// freeAddress returns the lowest address of a prefix that is neither reserved nor taken, or the
// zero address.
func freeAddress(prefix netip.Prefix, taken func(netip.Addr) bool) netip.Addr {
	return freeAddressFrom(netip.Addr{}, prefix, taken)
}

// freeAddressFrom starts at an address below which all are known to be used.
func freeAddressFrom(addr netip.Addr, prefix netip.Prefix, taken func(netip.Addr) bool) netip.Addr {
	if !addr.IsValid() {
		addr = prefix.Masked().Addr()
		for range Reserved {
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

// Release releases addresses.
func (s *Addresses) Release(subnet arm.ID, addrs ...netip.Addr) {
	used := s.Of(subnet)
	for _, a := range addrs {
		delete(used.By, a)
	}
	used.lowest = nil
	s.kernel.Store.TouchAround(subnet)
}

// Settle chooses the addresses that a resource takes in subnets, or refuses: static ones as
// requested, dynamic ones unchanged while the subnet is the same. They are taken once the resource
// is stored.
func (s *Addresses) Settle(r *kernel.Resource) *kernel.Failure {
	if r.ID.Is(arm.TypeScaleSet) {
		return nil // settleScaleSet has chosen them
	}
	chosen := map[string]bool{}
	var fresh []reference
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		if !ref.Link.Takes() {
			continue
		}
		subnet := s.kernel.Store.Get(ref.Target())
		if f := s.CheckReserved(ref, subnet); f != nil {
			return f
		}
		addr, f := s.staticAddress(r, ref, subnet)
		if f != nil {
			return f
		}
		if !addr.IsValid() {
			addr = s.keptAddress(ref, subnet)
		}
		if !addr.IsValid() {
			fresh = append(fresh, ref)
			continue
		}
		if chosen[addressKey(subnet.ID, addr)] {
			return kernel.Bad("PrivateIPAddressIsAllocated", "IP configuration %s is using the "+
				"private IP address %s which is already allocated to resource %s.", ref.Holder,
				addr, r.ID)
		}
		chosen[addressKey(subnet.ID, addr)] = true
		r.Addresses = append(r.Addresses,
			kernel.TakenAddress{Subnet: subnet.ID, Addr: addr, Holder: ref.Holder})
	}
	for _, ref := range fresh {
		found, f := s.DynamicAddress(ref, s.kernel.Store.Get(ref.Target()), chosen)
		if f != nil {
			return f
		}
		r.Addresses = append(r.Addresses, found)
	}
	showAddresses(r)
	return nil
}

// addressKey names an address of a subnet.
func addressKey(subnet arm.ID, a netip.Addr) string { return subnet.Key() + " " + a.String() }

// DynamicAddress returns the present address of an IP configuration, or a free one, and records it
// as chosen.
func (s *Addresses) DynamicAddress(ref reference, subnet *kernel.Resource,
	chosen map[string]bool) (kernel.TakenAddress, *kernel.Failure) {
	addr := s.keptAddress(ref, subnet)
	used := s.Of(subnet.ID)
	for _, p := range PrefixesOf(subnet.Body) {
		if !addr.IsValid() && p.Addr().Is6() == wantsV6(ref) {
			addr = freeAddress(p, func(a netip.Addr) bool {
				_, taken := used.By[a]
				return taken || chosen[addressKey(subnet.ID, a)]
			})
		}
	}
	if !addr.IsValid() {
		return kernel.TakenAddress{}, kernel.Bad("SubnetIsFull",
			"Subnet %s with address prefix %s does not have enough capacity for 1 IP addresses.",
			subnet.ID.Name(), kernel.Text(subnet.Properties(), "addressPrefix"))
	}
	chosen[addressKey(subnet.ID, addr)] = true
	return kernel.TakenAddress{Subnet: subnet.ID, Addr: addr, Holder: ref.Holder}, nil
}

// FamilyOf returns how Azure names the family of an address.
func FamilyOf(a netip.Addr) string {
	if a.Is6() {
		return "IPv6"
	}
	return "IPv4"
}

func wantsV6(ref reference) bool {
	return kernel.Text(ref.Part, "privateIPAddressVersion") == "IPv6"
}

// staticAddress returns the requested address, or the zero address.
func (s *Addresses) staticAddress(r *kernel.Resource, ref reference,
	subnet *kernel.Resource) (netip.Addr, *kernel.Failure) {
	asked := kernel.Text(ref.Part, "privateIPAddress")
	if kernel.Text(ref.Part, "privateIPAllocationMethod") != "Static" {
		return netip.Addr{}, nil
	}
	if asked == "" {
		return netip.Addr{}, kernel.Bad("PrivateIPAddressMissing",
			"Private IP address is required when privateIPAllocationMethod is Static in IP "+
				"configuration %s.", ref.Holder)
	}
	addr, _ := netip.ParseAddr(asked) // no prefix contains the zero address
	p := prefixWith(subnet, addr)
	if !p.IsValid() {
		return addr, kernel.Bad("PrivateIPAddressNotInSubnet",
			"Private static IP address %s does not belong to the range of subnet prefix %s.", asked,
			kernel.Text(subnet.Properties(), "addressPrefix"))
	}
	if free := freeAddress(p, func(a netip.Addr) bool { return a != addr }); free != addr {
		return addr, kernel.Bad("PrivateIPAddressInReservedRange", "Private static IP address %s "+
			"falls within reserved IP range of subnet prefix %s.", asked, p)
	}
	if holder := s.Of(subnet.ID).By[addr]; holder != "" && !kernel.PartOf(holder, r.ID) {
		return addr, kernel.Bad("PrivateIPAddressIsAllocated",
			"IP configuration %s is using the private IP address %s which is already allocated "+
				"to resource %s.", ref.Holder, addr, holder)
	}
	return addr, nil
}

// keptAddress returns the present address of an IP configuration in the subnet.
func (s *Addresses) keptAddress(ref reference, subnet *kernel.Resource) netip.Addr {
	for a, holder := range s.Of(subnet.ID).By {
		if holder.Equal(ref.Holder) && a.Is6() == wantsV6(ref) {
			return a
		}
	}
	return netip.Addr{}
}

// showAddresses writes the chosen addresses into the document.
func showAddresses(r *kernel.Resource) {
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		for _, s := range r.Addresses {
			if ref.Link.Takes() && s.Holder == ref.Holder &&
				ref.Link.path != "gatewayIPConfigurations[].subnet" {
				ref.Part["privateIPAddress"] = s.Addr.String()
				kernel.SetDefault(ref.Part, "privateIPAllocationMethod", "Dynamic")
				kernel.SetDefault(ref.Part, "privateIPAddressVersion", FamilyOf(s.Addr))
			}
		}
	}
}

// Take takes the addresses that Settle chose.
func (s *Addresses) Take(r *kernel.Resource) {
	for _, taken := range r.Addresses {
		s.Of(taken.Subnet).By[taken.Addr] = taken.Holder
		s.kernel.Store.TouchAround(taken.Subnet)
	}
	r.Addresses = nil
}

// Leave releases all addresses of a resource.
func (s *Addresses) Leave(r *kernel.Resource) {
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		if !ref.Link.Takes() {
			continue
		}
		used := s.Of(ref.Target())
		used.lowest = nil
		maps.DeleteFunc(used.By, func(_ netip.Addr, holder arm.ID) bool {
			return kernel.PartOf(holder, r.ID)
		})
		s.kernel.Store.TouchAround(ref.Target())
	}
}

// kept returns a subnet's used addresses in their saved form; restore loads them.
func (s *Addresses) kept(subnet *kernel.Resource) json.RawMessage {
	if used := s.inUse[subnet.ID.Key()]; used != nil && len(used.By) > 0 {
		return kernel.Encode(used.By)
	}
	return nil
}

func (s *Addresses) restore(subnet *kernel.Resource, kept json.RawMessage) error {
	if len(kept) == 0 {
		return nil
	}
	return json.Unmarshal(kept, &s.Of(subnet.ID).By)
}

// AllocateMany takes the given number of addresses, or none.
func (s *Addresses) AllocateMany(subnet arm.ID, prefix netip.Prefix, holder arm.ID,
	count int) []netip.Addr {
	var out []netip.Addr
	for range count {
		addr := s.Allocate(subnet, prefix, holder)
		if !addr.IsValid() {
			s.Release(subnet, out...)
			return nil
		}
		out = append(out, addr)
	}
	return out
}

// AllocateBlock takes the lowest free /28 of a prefix, or none. The first and the last one contain
// reserved addresses.
func (s *Addresses) AllocateBlock(subnet arm.ID, prefix netip.Prefix, holder arm.ID) []netip.Addr {
	used := s.Of(subnet)
	for i := 1; i < 1<<max(0, 28-prefix.Bits())-1; i++ {
		var block []netip.Addr
		p := NthPrefix(prefix, 28, i)
		for a := p.Addr(); p.Contains(a) && used.By[a] == ""; a = a.Next() {
			block = append(block, a)
		}
		if len(block) < 1<<(32-28) {
			continue
		}
		for _, a := range block {
			used.By[a] = holder
		}
		s.kernel.Store.TouchAround(subnet)
		return block
	}
	return nil
}

// NthPrefix returns the n-th prefix of the given length inside a wider one.
func NthPrefix(wide netip.Prefix, bits, n int) netip.Prefix {
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
