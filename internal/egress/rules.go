package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// aksTag is the FQDN tag with the names that every cluster needs.
const aksTag = "AzureKubernetesService"

// decide finds the first rule that matches packets from the nodes to a destination. Check means
// that a rule allows addresses that may be the right ones.
func decide(rules []inventory.FirewallRule, n Name, nodes []netip.Prefix) (Verdict, string) {
	perhaps := ""
	for _, r := range rules {
		if !fromNodes(r, nodes) {
			continue
		}
		if !reaches(r, n) {
			if perhaps == "" && mayReach(r, n) {
				perhaps = r.Name
			}
			continue
		}
		if r.Denies {
			return Denied, r.Name
		}
		return Allowed, r.Name
	}
	if perhaps != "" {
		return Check, perhaps
	}
	return Missing, ""
}

// fromNodes reports whether a rule matches the nodes as senders. A rule that allows must match all
// of them; a rule that denies, some. Sources that could not be read, or understood, count only for
// a rule that allows, so that no rule is blamed without proof.
func fromNodes(r inventory.FirewallRule, nodes []netip.Prefix) bool {
	if r.AnySource || len(r.Sources) == 0 && len(r.SourceGroups) == 0 && !r.Denies {
		return true
	}
	var sources []netip.Prefix
	for _, text := range r.Sources {
		if text == "*" {
			return true
		}
		if prefix := arm.ParseRange(text); prefix.IsValid() {
			sources = append(sources, prefix)
		} else if !r.Denies {
			return true // a range
		}
	}
	for _, node := range nodes {
		covered := slices.ContainsFunc(sources, func(p netip.Prefix) bool {
			return p.Bits() <= node.Bits() && p.Contains(node.Addr())
		})
		if r.Denies && slices.ContainsFunc(sources, node.Overlaps) {
			return true
		}
		if !r.Denies && !covered {
			return false
		}
	}
	return !r.Denies
}

// reaches reports whether a rule matches a destination and its port.
func reaches(r inventory.FirewallRule, n Name) bool {
	if n.Protocol != "" {
		return onNetwork(r, n) && (r.AnyDestination || includes(r, n.addresses) ||
			slices.ContainsFunc(r.Destinations, n.isAt) ||
			slices.ContainsFunc(r.FQDNs, func(name string) bool {
				return covers(name, n.Name) || n.host != "" && covers(name, n.host)
			}))
	}
	if n.tagged && slices.ContainsFunc(r.Tags, func(tag string) bool {
		return strings.EqualFold(tag, aksTag)
	}) {
		return true
	}
	if !slices.ContainsFunc(r.Ports, func(ports string) bool { return hasPort(ports, n.Port) }) {
		return false
	}
	if slices.ContainsFunc(r.FQDNs, func(name string) bool { return covers(name, n.Name) }) {
		return r.Application || over(r, "TCP")
	}
	return !r.Application && over(r, "TCP") &&
		(r.AnyDestination || slices.ContainsFunc(r.Destinations, n.isAt))
}

// includes reports whether a network rule matches addresses. A rule that allows must match all; a
// rule that denies, some.
func includes(r inventory.FirewallRule, addresses []netip.Addr) bool {
	in := func(a netip.Addr) bool {
		return slices.ContainsFunc(r.Destinations, func(to string) bool {
			if prefix := arm.ParseRange(to); prefix.IsValid() {
				return prefix.Contains(a)
			}
			from, until, _ := strings.Cut(to, "-")
			low, err := netip.ParseAddr(strings.TrimSpace(from))
			high, err2 := netip.ParseAddr(strings.TrimSpace(until))
			return err == nil && err2 == nil && low.Compare(a) <= 0 && a.Compare(high) <= 0
		})
	}
	if r.Denies {
		return slices.ContainsFunc(addresses, in)
	}
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return !in(a)
	})
}

// mayReach reports whether a rule allows public addresses to which the destination may belong.
func mayReach(r inventory.FirewallRule, n Name) bool {
	return n.host != "" && len(n.addresses) == 0 && !r.Denies && onNetwork(r, n) &&
		slices.ContainsFunc(r.Destinations, func(to string) bool {
			if to == "" {
				return false
			}
			if prefix := arm.ParseRange(to); prefix.IsValid() {
				return !prefix.Addr().IsPrivate()
			}
			return to[0] >= '0' && to[0] <= '9' // a range, not another service tag
		})
}

// onNetwork reports whether a network rule has the protocol and the port.
func onNetwork(r inventory.FirewallRule, n Name) bool {
	return !r.Application && over(r, n.Protocol) &&
		slices.ContainsFunc(r.Ports, func(ports string) bool { return hasPort(ports, n.Port) })
}

// isAt reports whether a destination of a network rule includes the required one: by everything,
// its service tag, or its address.
func (n Name) isAt(to string) bool {
	if to == "*" || to == "0.0.0.0/0" {
		return true
	}
	if n.service != "" {
		return strings.EqualFold(to, n.service) || strings.EqualFold(to, n.service+"."+n.region)
	}
	address, err := netip.ParseAddr(n.Name)
	return err == nil && arm.ParseRange(to).Contains(address)
}

func over(r inventory.FirewallRule, protocol string) bool {
	return slices.ContainsFunc(r.Protocols, func(p string) bool {
		return strings.EqualFold(p, protocol) || strings.EqualFold(p, "Any")
	})
}

// hasPort reports whether ports such as 443, 400-500 or * include a port.
func hasPort(ports, port string) bool {
	low, high, isRange := strings.Cut(ports, "-")
	var from, to, want int
	if _, err := fmt.Sscan(port, &want); err != nil || ports == "*" {
		return ports == "*"
	}
	if !isRange {
		high = low
	}
	_, err := fmt.Sscan(low, &from)
	_, err2 := fmt.Sscan(high, &to)
	return err == nil && err2 == nil && from <= want && want <= to
}

// covers reports whether a rule's name matches all names that the required name means. The required
// name may begin with a star.
func covers(rule, required string) bool {
	suffix, wild := strings.CutPrefix(strings.ToLower(rule), "*")
	required = strings.ToLower(required)
	if !wild {
		return suffix == required
	}
	return strings.HasSuffix(strings.TrimPrefix(required, "*"), suffix)
}
