package plan

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// This file knows the names that AKS gives nodes, and cloud providers give routes. It matches them
// by hand, because every check matches those of all routes.

// linuxNode reports whether a name is that of a node in a scale set (aks-np-12345678-vmss00000a),
// of a single machine (aks-np-12345678-vms1), or in an availability set (aks-np-12345678-0).
func linuxNode(name string) bool {
	rest, aks := cutFold(name, "aks-")
	pool, rest, found := strings.Cut(rest, "-")
	group, machine, more := strings.Cut(rest, "-")
	if !aks || !found || !more || !all(pool, 1, 12, base36) || !all(group, 8, 8, digit) {
		return false
	}
	if instance, vmss := cutFold(machine, "vmss"); vmss && all(instance, 6, 6, base36) {
		return true
	}
	if number, vms := cutFold(machine, "vms"); vms {
		machine = number
	}
	return all(machine, 1, len(machine), digit)
}

// windowsNode reports whether a name can be that of a node in a Windows pool: aks, the pool, and
// six digits in base 36. The name could mean something else, so it counts only with the suffix that
// the cloud provider appends.
func windowsNode(name string) bool {
	rest, aks := cutFold(name, "aks")
	return aks && all(rest, 7, 12, base36)
}

// bareWindows works like windowsNode for a name without a suffix: its six digits must begin with
// zeros.
func bareWindows(name string) bool {
	return windowsNode(name) && name[len(name)-6:len(name)-4] == "00"
}

func anyNode(name string) bool { return linuxNode(name) || windowsNode(name) }

// nodeNamed reports whether a route has a name that a cloud provider or a keeper gives: the name of
// a node, either alone (clusters with one address family, and older ones) or with the prefix
// appended.
func nodeNamed(r inventory.Route) bool {
	node, _, long := strings.Cut(r.Name, "____")
	return linuxNode(node) || bareWindows(node) || long && windowsNode(node)
}

// providerNamed reports whether a row of a cluster's table has a name that its cloud provider
// gives: the name of a node, alone or with the prefix without punctuation (cloud-provider-azure,
// mapNodeNameToRouteName). An IPv6 prefix can shorten its zeros in more than one way, so any
// hexadecimal digits match.
func providerNamed(r inventory.Route) bool {
	node, suffix, long := strings.Cut(r.Name, "____")
	switch {
	case !long:
		return linuxNode(node) || bareWindows(node)
	case r.Prefix.Addr().Is6():
		return anyNode(node) && all(suffix, 1, len(suffix), hex)
	}
	return anyNode(node) && sameDigits(suffix, r)
}

// ProviderNamed reports whether a route in a cluster's table has a name that its cloud provider
// gives.
func ProviderNamed(r inventory.Route) bool { return providerNamed(r) }

// sameDigits reports whether a suffix is the IPv4 prefix of a route without punctuation.
func sameDigits(suffix string, r inventory.Route) bool {
	var text [len("255.255.255.255/32")]byte
	for _, b := range r.Prefix.AppendTo(text[:0]) {
		if b == '.' || b == '/' {
			continue
		}
		if suffix == "" || suffix[0] != b {
			return false
		}
		suffix = suffix[1:]
	}
	return suffix == ""
}

// cutFold works like strings.CutPrefix for a lower-case prefix, ignoring case.
func cutFold(s, prefix string) (rest string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// all reports whether a text has from least to most characters, all of one kind.
func all(s string, least, most int, kind func(byte) bool) bool {
	for i := range len(s) {
		if !kind(s[i]) {
			return false
		}
	}
	return len(s) >= least && len(s) <= most
}

func digit(b byte) bool  { return b >= '0' && b <= '9' }
func hex(b byte) bool    { return digit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' }
func base36(b byte) bool { return digit(b) || b|0x20 >= 'a' && b|0x20 <= 'z' }
