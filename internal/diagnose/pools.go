package diagnose

import (
	"fmt"
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Pools describes a cluster's pools for address planning. surge is for pools whose document has
// none. routes is the number of routes that a table can hold. unseen has a sentence for each subnet
// that could not be read; such subnets are no limit.
func Pools(s *inventory.Snapshot, cluster *inventory.Cluster, surge capacity.Surge,
	routes int) (pools []capacity.Pool, unseen []string, err error) {
	for _, p := range cluster.Pools {
		setup := capacity.Setup{Plugin: capacity.Plugin(cluster.PluginOf(p)), MaxPods: p.MaxPods,
			Surge: surge, RouteLimit: routes, DualStack: len(cluster.PodCIDRs) > 1}
		if _, err := capacity.ParsePlugin(string(setup.Plugin)); err != nil {
			return nil, nil, fmt.Errorf("cluster %s: %w", cluster.ID.Short(), err)
		}
		if p.MaxSurge != "" {
			if setup.Surge, err = capacity.ParseSurge(p.MaxSurge); err != nil {
				return nil, nil, fmt.Errorf("pool %s of cluster %s: maxSurge: %w", p.Name,
					cluster.ID.Short(), err)
			}
		}
		setup.PodCIDR = firstIPv4(cluster.PodCIDRs)
		pool := capacity.Pool{Name: p.Name, Nodes: p.Count, Autoscaler: p.MaxCount}
		limit := func(id arm.ID, prefix *netip.Prefix, used *int) {
			if found := s.Subnet(id); found != nil {
				*prefix, *used = firstIPv4(found.Prefixes), found.UsedIPv4()
			} else if id != "" {
				unseen = append(unseen,
					fmt.Sprintf("Subnet %s of pool %s could not be read, so it counts as no limit.",
						id.Short(), p.Name))
			}
		}
		limit(nodeSubnet(s, cluster, p), &setup.Subnet, &pool.Used)
		limit(p.PodSubnet, &setup.PodSubnet, &pool.PodsUsed)
		pool.Setup = setup
		pools = append(pools, pool)
	}
	return pools, unseen, nil
}

// nodeSubnet returns the subnet of a pool's nodes, or "" if AKS made it and it was not read.
func nodeSubnet(s *inventory.Snapshot, cluster *inventory.Cluster, pool inventory.Pool) arm.ID {
	if own := s.Known(cluster.ID).AKSSubnets; pool.Subnet == "" && len(own) > 0 {
		return own[0]
	}
	return pool.Subnet
}

// firstIPv4 returns the first IPv4 prefix, or the zero value: only IPv4 addresses are counted.
func firstIPv4(prefixes []netip.Prefix) netip.Prefix {
	for _, p := range prefixes {
		if p.Addr().Is4() {
			return p
		}
	}
	return netip.Prefix{}
}
