package build

import (
	"net/netip"
	"slices"
)

// firstFree returns the first free prefix of a length.
func firstFree(free []netip.Prefix, bits int) (netip.Prefix, bool) {
	for _, p := range free {
		if p.Bits() <= bits {
			return netip.PrefixFrom(p.Addr(), bits), true
		}
	}
	return netip.Prefix{}, false
}

// without removes a prefix from others, and splits them around it.
func without(from []netip.Prefix, taken netip.Prefix) []netip.Prefix {
	if !taken.IsValid() {
		return from
	}
	var left []netip.Prefix
	for _, p := range from {
		switch {
		case !p.Overlaps(taken):
			left = append(left, p)
		case taken.Bits() > p.Bits():
			low, high := halves(p)
			left = append(left, without([]netip.Prefix{low, high}, taken)...)
		}
	}
	slices.SortFunc(left, netip.Prefix.Compare)
	return left
}

// halves returns the two prefixes that an IPv4 prefix consists of.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	a := p.Addr().As4()
	a[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	return netip.PrefixFrom(p.Addr(), p.Bits()+1), netip.PrefixFrom(netip.AddrFrom4(a), p.Bits()+1)
}

func within(spaces []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(spaces, func(s netip.Prefix) bool {
		return s.Contains(p.Addr()) && s.Bits() <= p.Bits()
	})
}

func overlap(spaces []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(spaces, p.Overlaps)
}
