package diagnose

import (
	"fmt"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// nearly is the part of a subnet's addresses, in percent, from which on they are said to run out.
const nearly = 90

// addresses finds subnets whose addresses run out: now, and when the pools grow as far as their
// autoscalers go. What a subnet shows in use is at least what is in use: how Azure shows the
// addresses that nodes take from a pod subnet is not documented, so what Kubernetes says counts as
// well.
func addresses(p *patient) []finding.Finding {
	found, full := p.subnetsRunOut()
	pools, _, err := Pools(p.s.Snapshot, p.cluster, capacity.SurgeOf(""), p.RouteLimit)
	if err != nil {
		return found
	}
	for i, g := range capacity.GrowAtMaximum(pools) {
		pool := p.cluster.Pools[i]
		most := max(g.Autoscaler, g.Nodes)
		subnets := []arm.ID{nodeSubnet(p.s.Snapshot, p.cluster, pool), pool.PodSubnet}
		if g.Most >= most || !strings.Contains(g.LimitedBy, "subnet") &&
			!strings.Contains(g.LimitedBy, "pod CIDR") || full[subnets[0].Key()] ||
			full[subnets[1].Key()] {
			continue
		}
		meant := fmt.Sprintf("it has %d", most)
		if g.Autoscaler > 0 {
			meant = fmt.Sprintf("its autoscaler goes to %d", g.Autoscaler)
		}
		found = append(found, p.found(finding.AddressesShort, p.cluster.ID, "%s leaves room for "+
			"%d nodes of pool %s of cluster %s, with those of an upgrade (%s) kept free, and %s",
			g.LimitedBy, g.Most, pool.Name, p.cluster.ID.Short(), pools[i].Setup.Surge, meant).
			About(pool.Name).
			With(fmt.Sprintf("nodes now: %d", g.Nodes)).
			WithFix("routekeeper capacity --cluster %s", p.cluster.ID))
	}
	return found
}

// subnetsRunOut looks at each subnet once, and returns those that have no address left.
func (p *patient) subnetsRunOut() (found []finding.Finding, full map[string]bool) {
	var ids []arm.ID
	for _, pool := range p.cluster.Pools {
		ids = append(ids, nodeSubnet(p.s.Snapshot, p.cluster, pool), pool.PodSubnet)
	}
	full = map[string]bool{}
	for _, id := range inventory.SortIDs(ids) {
		subnet := p.s.Subnet(id)
		if subnet == nil {
			continue
		}
		usable, used := p.inUse(subnet)
		code, word := finding.AddressesNearly, "nearly all"
		switch {
		case usable == 0 || used*100 < usable*nearly:
			continue
		case used >= usable:
			code, word, full[id.Key()] = finding.AddressesExhausted, "all", true
		}
		found = append(found,
			p.found(code, id, "%s addresses of subnet %s, where cluster %s has nodes or pods, "+
				"are in use: %d of %d", word, id.Short(), p.cluster.ID.Short(), used, usable).
				WithFix("routekeeper capacity --cluster %s", p.cluster.ID))
	}
	return found, full
}

// inUse counts the IPv4 addresses of a subnet that Azure gives out, and those in use as far as is
// known.
func (p *patient) inUse(subnet *inventory.Subnet) (usable, used int) {
	for _, prefix := range subnet.Prefixes {
		if prefix.Addr().Is4() {
			usable += capacity.Usable(prefix)
		}
	}
	return usable, max(subnet.UsedIPv4(), p.seenIn(subnet.Prefixes))
}

// seenIn counts the IPv4 addresses of nodes and pods in a subnet, as far as Kubernetes was asked.
func (p *patient) seenIn(prefixes []netip.Prefix) int {
	if p.kube == nil {
		return 0
	}
	seen := map[netip.Addr]bool{}
	note := func(addrs []netip.Addr) {
		for _, a := range addrs {
			for _, prefix := range prefixes {
				if a.Is4() && prefix.Contains(a) {
					seen[a] = true
				}
			}
		}
	}
	for _, node := range p.kube.Nodes {
		note(node.Addresses)
	}
	for _, pod := range p.kube.Pods {
		if !pod.Ended() {
			note(pod.Addresses)
		}
	}
	return len(seen)
}
