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

// almostFull is the percentage of used addresses from which on a subnet counts as almost full.
const almostFull = 90

// addresses finds subnets without free addresses: now, or once the autoscalers have grown their
// pools to the maximum. A subnet's document shows only a lower bound of the addresses in use,
// because Azure does not document how it shows addresses that nodes take from a pod subnet. So
// addresses that Kubernetes reports count as well.
func addresses(p *clusterCase) {
	full := p.subnetsRunOut()
	pools, _, err := Pools(p.s.Snapshot, p.cluster, capacity.SurgeOf(""), p.RouteLimit)
	if err != nil {
		return
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
		meant := fmt.Sprintf("the pool has %d nodes", most)
		if g.Autoscaler > 0 {
			meant = fmt.Sprintf("its autoscaler may add nodes up to %d", g.Autoscaler)
		}
		p.add(p.found(finding.AddressesShort, p.cluster.ID, "%s has room for %d "+
			"nodes of pool %s of cluster %s, not counting the surge of an upgrade (%s), but %s",
			g.LimitedBy, g.Most, pool.Name, p.cluster.ID.Short(), pools[i].Setup.Surge, meant).
			About(pool.Name).
			With(fmt.Sprintf("nodes now: %d", g.Nodes)).
			WithFix("routekeeper cluster capacity --cluster %s", p.cluster.ID))
	}
}

// subnetsRunOut checks each subnet once, and returns the full ones.
func (p *clusterCase) subnetsRunOut() map[string]bool {
	var ids []arm.ID
	for _, pool := range p.cluster.Pools {
		ids = append(ids, nodeSubnet(p.s.Snapshot, p.cluster, pool), pool.PodSubnet)
	}
	full := map[string]bool{}
	for _, id := range inventory.SortIDs(ids) {
		subnet := p.s.Subnet(id)
		if subnet == nil {
			continue
		}
		usable, used := p.inUse(subnet)
		code, word := finding.AddressesNearly, "nearly all"
		switch {
		case usable == 0 || used*100 < usable*almostFull:
			continue
		case used >= usable:
			code, word, full[id.Key()] = finding.AddressesExhausted, "all", true
		}
		p.add(p.found(code, id, "%s addresses of subnet %s are in use, where cluster %s has nodes "+
			"or pods: %d of %d", word, id.Short(), p.cluster.ID.Short(), used, usable).
			WithFix("routekeeper cluster capacity --cluster %s", p.cluster.ID))
	}
	return full
}

// inUse counts the IPv4 addresses of a subnet that Azure can assign, and those known to be in use.
func (p *clusterCase) inUse(subnet *inventory.Subnet) (usable, used int) {
	for _, prefix := range subnet.Prefixes {
		if prefix.Addr().Is4() {
			usable += capacity.Usable(prefix)
		}
	}
	return usable, max(subnet.UsedIPv4(), p.seenIn(subnet.Prefixes))
}

// seenIn counts the IPv4 addresses in a subnet that Kubernetes reports for nodes and pods.
func (p *clusterCase) seenIn(prefixes []netip.Prefix) int {
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
