package cli

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/report"
)

// runGrowth tells how far the pools of a cluster can grow.
func (a *app) runGrowth(ctx context.Context, o capacityOptions) error {
	scope, one, err := initOptions{cluster: o.cluster}.scope()
	if err != nil {
		return err
	}
	surge, err := capacity.ParseSurge(o.surge)
	if err != nil {
		return fmt.Errorf("--surge: %w", err)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	s, err := a.lookAround(ctx, scope, one)
	if err != nil {
		return err
	}
	pools, unseen, err := poolsOf(s, s.Cluster(one), surge, o.maxRoutes)
	if err != nil {
		return err
	}
	growth := capacity.Grow(pools)
	t := report.Table{Header: []string{"pool", "nodes", "at most", "for upgrades", "limited by", "autoscaler", "enough"}, Lines: unseen, Value: map[string]any{"pools": growth}}
	short := false
	for _, g := range growth {
		row := []string{g.Pool, strconv.Itoa(g.Nodes), strconv.Itoa(g.Most), strconv.Itoa(g.Surge), g.LimitedBy, "-", "-"}
		if g.Enough != nil {
			row[5], row[6] = strconv.Itoa(g.Autoscaler), map[bool]string{true: "yes", false: "no"}[*g.Enough]
			short = short || !*g.Enough
		}
		t.Rows = append(t.Rows, row)
	}
	if err := t.Write(w, format, style); err != nil {
		return err
	}
	if short {
		return attention
	}
	return nil
}

// poolsOf puts together what there is to know of a cluster's pools, and says which subnets could not be looked at: they limit
// nothing here.
func poolsOf(s *network.Snapshot, cluster *network.Cluster, surge capacity.Surge, routes int) (pools []capacity.Pool, unseen []string, err error) {
	for _, p := range cluster.Pools {
		setup := capacity.Setup{Plugin: capacity.Plugin(cluster.PluginName()), MaxPods: p.MaxPods, Surge: surge, RouteLimit: routes, DualStack: len(cluster.PodCIDRs) > 1}
		switch {
		case p.PodSubnet != "" && p.StaticBlocks:
			setup.Plugin = capacity.PodSubnetStatic
		case p.PodSubnet != "":
			setup.Plugin = capacity.PodSubnet
		}
		if _, err := capacity.ParsePlugin(string(setup.Plugin)); err != nil {
			return nil, nil, fmt.Errorf("cluster %s: %w", cluster.ID.Short(), err)
		}
		if p.MaxSurge != "" {
			if setup.Surge, err = capacity.ParseSurge(p.MaxSurge); err != nil {
				return nil, nil, fmt.Errorf("pool %s of cluster %s: maxSurge: %w", p.Name, cluster.ID.Short(), err)
			}
		}
		setup.PodCIDR = firstIPv4(cluster.PodCIDRs)
		pool := capacity.Pool{Name: p.Name, Nodes: p.Count, Autoscaler: p.MaxCount}
		subnet := p.Subnet
		if own := s.Known(cluster.ID).OwnSubnets; subnet == "" && len(own) > 0 {
			subnet = own[0]
		}
		look := func(id network.ID, prefix *netip.Prefix, used *int) {
			if found := s.Subnet(id); found != nil {
				*prefix, *used = firstIPv4(found.Prefixes), found.Used
			} else if id != "" {
				unseen = append(unseen, fmt.Sprintf("Subnet %s of pool %s could not be looked at, and limits nothing here.", id.Short(), p.Name))
			}
		}
		look(subnet, &setup.Subnet, &pool.Used)
		look(p.PodSubnet, &setup.PodSubnet, &pool.PodsUsed)
		pool.Setup = setup
		pools = append(pools, pool)
	}
	return pools, unseen, nil
}

// firstIPv4 is the first IPv4 prefix: what is counted here.
func firstIPv4(prefixes []netip.Prefix) netip.Prefix {
	for _, p := range prefixes {
		if p.Addr().Is4() {
			return p
		}
	}
	return netip.Prefix{}
}
