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
	rooms := map[string]*Room{}
	for i := range configs {
		c := &configs[i]
		cluster := s.Cluster(arm.ID(c.Spec.ClusterID))
		if cluster == nil || !cluster.Kubenet() || cluster.Stopped {
			continue
		}
		for _, id := range s.NodeSubnetIDs(cluster) {
			subnet := s.Subnet(id)
			if subnet == nil {
				continue
			}
			there := machinesIn(subnet, cluster)
			for _, pool := range cluster.Pools {
				if pool.Subnet == "" || pool.Subnet.Equal(id) {
					rooms[id.Key()] = rooms[id.Key()].with(subnet, there[pool.Name], pool, c)
				}
			}
		}
	}
	var out []Room
	for _, key := range slices.Sorted(maps.Keys(rooms)) {
		out = append(out, *rooms[key])
	}
	return out
}

// with is a subnet's room with one more pool in it, of which some machines are there.
func (r *Room) with(subnet *inventory.Subnet, there int, pool inventory.Pool,
	c *v1alpha1.ClusterRoutes) *Room {
	if r == nil {
		free := 0
		for _, prefix := range subnet.Prefixes {
			if prefix.Addr().Is4() {
				free += capacity.Usable(prefix)
			}
		}
		r = &Room{Subnet: subnet.ID, Free: max(0, free-subnet.UsedIPv4())}
	}
	surging := max(0, there-pool.Count)
	if surge := max(0, capacity.SurgeOf(pool.MaxSurge).Of(pool.Count)-surging); surge > r.Surge {
		r.Surge, r.pool, r.config = surge, pool, c
	}
	return r
}

// surges reports node subnets that cannot take the next surge.
func (w *work) surges() {
	for _, room := range Rooms(w.s.Snapshot, w.configs) {
		subnet := w.s.Subnet(room.Subnet)
		v4 := func(p netip.Prefix) bool { return p.Addr().Is4() }
		if room.Surge <= room.Free || !slices.ContainsFunc(subnet.Prefixes, v4) {
			continue
		}
		w.add(finding.New(finding.SurgeShort, room.config.Metadata.Name, string(room.Subnet),
			"node subnet %s has %s, and the next upgrade of pool %s needs %d for its surge (%s of %s)",
			room.Subnet.Short(), number(room.Free, "free address", "free addresses"),
			room.pool.Name, room.Surge,
			capacity.SurgeOf(room.pool.MaxSurge), number(room.pool.Count, "node", "nodes")).
			WithFix("routekeeper capacity --cluster %s", room.config.Spec.ClusterID))
	}
}
