package armtemplate

import (
	"fmt"
	"math/big"
	"net/netip"
)

// Functions on address ranges (template-functions-cidr).
var cidrFunctions = map[string]function{
	"parseCidr":  typed1(parseCIDR),
	"cidrSubnet": textual(typed3(cidrSubnet)),
	"cidrHost":   textual(typed2(cidrHost)),
}

func rangeOf(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%s is not an address range", shorten(s))
	}
	return p.Masked(), nil
}

// plus returns the n-th address after another, and whether it exists.
func plus(a netip.Addr, n *big.Int) (netip.Addr, bool) {
	sum := new(big.Int).Add(new(big.Int).SetBytes(a.AsSlice()), n)
	if sum.Sign() < 0 || sum.BitLen() > a.BitLen() {
		return a, false
	}
	out, ok := netip.AddrFromSlice(sum.FillBytes(make([]byte, a.BitLen()/8)))
	return out, ok
}

// size returns the number of addresses in a range.
func size(bits, length int) *big.Int { return new(big.Int).Lsh(big.NewInt(1), uint(bits-length)) }

func last(p netip.Prefix) netip.Addr {
	a, _ := plus(p.Addr(), new(big.Int).Sub(size(p.Addr().BitLen(), p.Bits()), big.NewInt(1)))
	return a
}

func parseCIDR(_ *scope, cidr string) (any, error) {
	p, err := rangeOf(cidr)
	if err != nil {
		return nil, err
	}
	ones, _ := netip.AddrFromSlice(new(big.Int).Sub(size(p.Addr().BitLen(), 0),
		size(p.Addr().BitLen(), p.Bits())).FillBytes(make([]byte, p.Addr().BitLen()/8)))
	first, end := p.Addr(), last(p)
	o := &Object{}
	o.set("network", first.String(), 0)
	o.set("netmask", ones.String(), 0)
	if first.Is4() {
		o.set("broadcast", end.String(), 0)
		if p.Bits() < 31 {
			first, end = first.Next(), end.Prev()
		}
	}
	o.set("firstUsable", first.String(), 0)
	o.set("lastUsable", end.String(), 0)
	o.set("cidr", int64(p.Bits()), 0)
	return o, nil
}

func cidrSubnet(_ *scope, cidr string, length, index int64) (any, error) {
	p, err := rangeOf(cidr)
	if err != nil {
		return nil, err
	}
	if length < int64(p.Bits()) || length > int64(p.Addr().BitLen()) || index < 0 {
		return nil, fmt.Errorf("%s has no such part", p)
	}
	at, ok := plus(p.Addr(),
		new(big.Int).Mul(big.NewInt(index), size(p.Addr().BitLen(), int(length))))
	if !ok || !p.Contains(at) {
		return nil, fmt.Errorf("%s has no part %d of length /%d", p, index, length)
	}
	return netip.PrefixFrom(at, int(length)).String(), nil
}

func cidrHost(_ *scope, cidr string, index int64) (any, error) {
	p, err := rangeOf(cidr)
	if err != nil {
		return nil, err
	}
	if index < 0 {
		return nil, fmt.Errorf("expected the number of a host")
	}
	at, ok := plus(p.Addr(), new(big.Int).Add(big.NewInt(index), big.NewInt(1)))
	if !ok || !p.Contains(at) || at.Is4() && at == last(p) {
		return nil, fmt.Errorf("%s has no host %d", p, index)
	}
	return at.String(), nil
}
