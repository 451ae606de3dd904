package plan

import (
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Room has the free addresses of a subnet of nodes or pods, and the addresses that the next upgrade
// needs.
type Room struct {
	Subnet arm.ID
	// Free is the number of free addresses. Surge is the number of addresses that the largest surge
	// of a pool in the subnet needs, less those of surge nodes that exist already. How many a surge
	// node needs depends on the network plugin: if its pods are in the node subnet, it also needs
	// their addresses; from a pod subnet it takes whole batches.
	Free, Surge int

	pool   inventory.Pool // the pool with that surge
	config *v1alpha1.ClusterRoutes
}

// Rooms returns the room of each subnet with nodes or pods of the configured clusters, in the order
// of their IDs. It omits subnets that were not read. AKS upgrades one pool of a cluster at a time,
// so only the largest surge counts.
func Rooms(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) []Room {
	var rooms []Room
	for i := range configs {
		cluster := s.Cluster(arm.ID(configs[i].Spec.ClusterID))
		if cluster == nil {
			continue
		}
		p := places{s, cluster, s.NodeSubnetIDs(cluster)}
		p.each(func(subnet *inventory.Subnet, nodes bool) {
			rooms = append(rooms, p.room(subnet, nodes, &configs[i]))
		})
	}
	return joined(rooms)
}

// places has the subnets of a cluster's nodes and pods.
type places struct {
	s       *inventory.Snapshot
	cluster *inventory.Cluster
	nodes   []arm.ID
}

// each calls a function with each subnet that was read, unless the cluster has no nodes.
func (p places) each(do func(subnet *inventory.Subnet, nodes bool)) {
	if p.cluster.Stopped {
		return
	}
	for _, id := range p.nodes {
		if subnet := p.s.Subnet(id); subnet != nil {
			do(subnet, true)
		}
	}
	for i, pool := range p.cluster.Pools {
		subnet := p.s.Subnet(pool.PodSubnet)
		if subnet != nil && !slices.ContainsFunc(p.cluster.Pools[:i], func(o inventory.Pool) bool {
			return o.PodSubnet.Equal(pool.PodSubnet)
		}) {
			do(subnet, false)
		}
	}
}

// room returns a subnet's room for the cluster's pools in it.
func (p places) room(subnet *inventory.Subnet, nodes bool, c *v1alpha1.ClusterRoutes) (r Room) {
	free := 0
	for _, prefix := range subnet.Prefixes {
		if prefix.Addr().Is4() {
			free += capacity.Usable(prefix)
		}
	}
	r = Room{Subnet: subnet.ID, Free: max(0, free-subnet.UsedIPv4()), config: c}
	for _, pool := range p.cluster.Pools {
		each := 0 // addresses that a node of the pool takes from this subnet
		setup := capacity.Setup{Plugin: capacity.Plugin(p.cluster.PluginOf(pool)),
			MaxPods: pool.MaxPods}
		switch {
		case nodes && (pool.Subnet == "" || pool.Subnet.Equal(subnet.ID)):
			each = setup.PerNode()
		case pool.PodSubnet.Equal(subnet.ID):
			each = setup.PodsPerNode()
		}
		if surge := each * p.surge(pool); surge > r.Surge {
			r.Surge, r.pool = surge, pool
		}
	}
	return r
}

// surge returns the number of nodes that the next upgrade of a pool adds, less the surge nodes that
// exist already: machines beyond the pool's count.
func (p places) surge(pool inventory.Pool) int {
	return max(0, capacity.SurgeOf(pool.MaxSurge).Of(pool.Count)-p.surging(pool))
}

// surging returns the number of surge nodes of a pool that exist.
func (p places) surging(pool inventory.Pool) (n int) {
	for _, id := range p.nodes {
		subnet := p.s.Subnet(id)
		if subnet != nil && (pool.Subnet == "" || pool.Subnet.Equal(id)) {
			there := machinesIn(subnet, p.cluster, func(name string) bool {
				return name == pool.Name
			})
			n += max(0, there-pool.Count)
		}
	}
	return n
}

// podCIDRShort reports a cluster whose pod CIDR has no room for the next surge: each node takes a
// part of the CIDR.
func (w *planning) podCIDRShort(v *clusterState, p places) {
	cluster := p.cluster
	if cluster.Stopped || !cluster.Kubenet() && !cluster.Overlay() {
		return
	}
	i := slices.IndexFunc(cluster.PodCIDRs, func(p netip.Prefix) bool { return p.Addr().Is4() })
	if i < 0 {
		return
	}
	cidr := cluster.PodCIDRs[i]
	free := capacity.PodCIDRNodes(cidr) - cluster.Nodes()
	for _, pool := range cluster.Pools {
		free -= p.surging(pool) // existing surge nodes hold their part
	}
	free = max(0, free)
	for _, pool := range cluster.Pools {
		if surge := p.surge(pool); surge > free {
			w.add(finding.New(finding.SurgeShort, v.name, string(cluster.ID),
				"pod CIDR %s has room for %s, and the next upgrade of pool %s needs %d for its "+
					"surge (%s of %s)", cidr, finding.Count(free, "more node"),
				pool.Name, surge, capacity.SurgeOf(pool.MaxSurge),
				finding.Count(pool.Count, "node")).About(cidr.String()).
				WithFix("routekeeper cluster capacity --cluster %s", cluster.ID))
			return
		}
	}
}

// joined adds up the rooms of several clusters in one subnet, in the order of the subnets' IDs.
func joined(rooms []Room) []Room {
	bySubnet := make(map[string]Room, len(rooms))
	for _, r := range rooms {
		if before, there := bySubnet[r.Subnet.Key()]; !there || r.Surge > before.Surge {
			bySubnet[r.Subnet.Key()] = r
		}
	}
	var out []Room
	for _, key := range slices.Sorted(maps.Keys(bySubnet)) {
		out = append(out, bySubnet[key])
	}
	return out
}

// surges reports subnets and pod CIDRs that cannot take the next surge.
func (w *planning) surges() {
	var short []Room
	for _, v := range w.clusters {
		if v.cluster == nil {
			continue
		}
		cluster := w.s.Cluster(v.cluster.ID) // it may have been read again
		p := places{w.s.Snapshot, cluster, v.subnets}
		w.podCIDRShort(v, p)
		p.each(func(subnet *inventory.Subnet, nodes bool) {
			if r := p.room(subnet, nodes, v.config); r.Surge > r.Free {
				short = append(short, r)
			}
		})
	}
	if len(short) == 0 {
		return
	}
	for _, room := range joined(short) {
		subnet := w.s.Subnet(room.Subnet)
		v4 := func(p netip.Prefix) bool { return p.Addr().Is4() }
		if !slices.ContainsFunc(subnet.Prefixes, v4) {
			continue
		}
		w.add(finding.New(finding.SurgeShort, room.config.Metadata.Name, string(room.Subnet),
			"subnet %s has %s, and the next upgrade of pool %s needs %d for its surge (%s "+
				"of %s)",
			room.Subnet.Short(), finding.CountOf(room.Free, "free address", "free addresses"),
			room.pool.Name, room.Surge,
			capacity.SurgeOf(room.pool.MaxSurge), finding.Count(room.pool.Count, "node")).
			WithFix("routekeeper cluster capacity --cluster %s", room.config.Spec.ClusterID))
	}
}
