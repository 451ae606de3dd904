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

// Room is what a node subnet has free, and what the next upgrade needs of it.
type Room struct {
	Subnet arm.ID
	// Free are the addresses that Azure still gives out. Surge is how many the largest surge of a
	// pool in the subnet needs; surge nodes that are there already need none.
	Free, Surge int

	pool   inventory.Pool // whose surge that is
	config *v1alpha1.ClusterRoutes
}

// Rooms returns the room of each node subnet that was read, of the kubenet clusters of the configs;
// in the order of their IDs. AKS upgrades one pool of a cluster at a time, so the largest surge
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

// roomIn is a subnet's room for the pools of a cluster in it, where both are known and the cluster
// has nodes. Machines of a pool beyond its count are surge nodes.
func roomIn(subnet *inventory.Subnet, cluster *inventory.Cluster,
	c *v1alpha1.ClusterRoutes) (r Room, known bool) {
	if subnet == nil || !cluster.Kubenet() || cluster.Stopped {
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

// joined makes one room of those of several clusters in a subnet, in the order of the subnets' IDs.
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
func (w *work) surges() {
	var short []Room
	for _, v := range w.views {
		if v.cluster == nil {
			continue
		}
		cluster := w.s.Cluster(v.cluster.ID) // it can have been read again
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
			WithFix("routekeeper capacity --cluster %s", room.config.Spec.ClusterID))
	}
}
