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

// Room is the free addresses of a node subnet, and the addresses that the next upgrade needs.
type Room struct {
	Subnet arm.ID
	// Free is the number of free addresses. Surge is the number that the largest surge of a pool in
	// the subnet needs, less the surge nodes that exist already.
	Free, Surge int

	pool   inventory.Pool // the pool with that surge
	config *v1alpha1.ClusterRoutes
}

// Rooms returns the room of each node subnet of the configured kubenet clusters that was read, in
// the order of their IDs. AKS upgrades one pool of a cluster at a time, so only the largest surge
// counts.
func Rooms(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) []Room {
	var rooms []Room
	for i := range configs {
		cluster := s.Cluster(arm.ID(configs[i].Spec.ClusterID))
		if cluster == nil {
			continue
		}
		for _, id := range s.NodeSubnetIDs(cluster) {
			if room, known := roomIn(s.Subnet(id), cluster, &configs[i]); known {
				rooms = append(rooms, room)
			}
		}
	}
	return joined(rooms)
}

// roomIn returns a subnet's room for a cluster's pools in it, if both are known and the cluster has
// nodes. Machines beyond a pool's count are surge nodes.
func roomIn(subnet *inventory.Subnet, cluster *inventory.Cluster,
	c *v1alpha1.ClusterRoutes) (r Room, known bool) {
	if subnet == nil || !Routed(c, cluster) || cluster.Stopped {
		return Room{}, false
	}
	free := 0
	for _, prefix := range subnet.Prefixes {
		if prefix.Addr().Is4() {
			free += capacity.Usable(prefix)
		}
	}
	r = Room{Subnet: subnet.ID, Free: max(0, free-subnet.UsedIPv4()), config: c}
	for _, pool := range cluster.Pools {
		if pool.Subnet != "" && !pool.Subnet.Equal(subnet.ID) {
			continue
		}
		there := machinesIn(subnet, cluster, func(name string) bool { return name == pool.Name })
		surging := max(0, there-pool.Count)
		surge := max(0, capacity.SurgeOf(pool.MaxSurge).Of(pool.Count)-surging)
		if surge > r.Surge {
			r.Surge, r.pool = surge, pool
		}
	}
	return r, true
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

// surges reports node subnets that cannot take the next surge.
func (w *planning) surges() {
	var short []Room
	for _, v := range w.clusters {
		if v.cluster == nil {
			continue
		}
		cluster := w.s.Cluster(v.cluster.ID) // it may have been read again
		for _, id := range v.subnets {
			if r, known := roomIn(w.s.Subnet(id), cluster, v.config); known && r.Surge > r.Free {
				short = append(short, r)
			}
		}
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
			"node subnet %s has %s, and the next upgrade of pool %s needs %d for its surge (%s "+
				"of %s)",
			room.Subnet.Short(), number(room.Free, "free address", "free addresses"),
			room.pool.Name, room.Surge,
			capacity.SurgeOf(room.pool.MaxSurge), number(room.pool.Count, "node", "nodes")).
			WithFix("routekeeper cluster capacity --cluster %s", room.config.Spec.ClusterID))
	}
}
