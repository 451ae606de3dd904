package keeper

import (
	"context"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// nicsBelieved is for how long evidence that holds deletes back is not read again.
const nicsBelieved = time.Minute

// confirm reads the addresses of the nodes where deletes or missing routes need them, and plans
// again. Evidence that holds deletes back, or that shows again what was reported, is believed for a
// while; to let go, or to report something new, it is read anew.
func (c *check) confirm(ctx context.Context, s *network.Snapshot, planner *plan.Planner, p plan.Plan) (plan.Plan, error) {
	if len(p.NeedSubnets) > 0 {
		if err := c.placeTargets(ctx, s, p.NeedSubnets); err != nil {
			return p, err
		}
		p = planner.Plan()
	}
	var read, believed []network.ID
	asked := p.Held
	for _, id := range p.NeedNICs {
		m := c.mem.clusters[id.Key()]
		believe := m.nics != nil && time.Since(m.nicsRead) < nicsBelieved
		if believe && (m.nicsHeld || !holds(asked, id)) {
			s.Learn(id).NICs = m.nics
			believed = append(believed, id)
		} else {
			read = append(read, id)
		}
	}
	if len(believed) > 0 {
		p = planner.Plan()
		for _, id := range believed {
			if holds(asked, id) && !holds(p.Held, id) || slices.ContainsFunc(p.NeedNICs, id.Equal) {
				read = append(read, id)
			}
		}
	}
	if len(read) == 0 {
		return p, nil
	}
	if err := c.refresh(ctx, s, read); err != nil {
		return p, err
	}
	if err := c.read(ctx, s, network.Wanted{NICs: read}); err != nil {
		return p, err
	}
	p = planner.Plan()
	for _, id := range read {
		m := c.mem.clusters[id.Key()]
		m.nics, m.nicsRead, m.nicsHeld = s.Known(id).NICs, time.Now(), holds(p.Held, id)
	}
	return p, nil
}

// holds reports whether deletes of a cluster are among those held back.
func holds(held []plan.Part, cluster network.ID) bool {
	return slices.ContainsFunc(held, func(h plan.Part) bool { return h.Cluster.Equal(cluster) })
}

// placeTargets puts the subnets of targets into the snapshot: as they were seen, for as long as a cluster's own document is believed.
func (c *check) placeTargets(ctx context.Context, s *network.Snapshot, subnets []network.ID) error {
	var read []network.ID
	for _, id := range subnets {
		if seen, known := c.mem.places[id.Key()]; known && time.Since(seen.at) < c.k.opts.ClusterInterval {
			s.Subnets[id.Key()] = seen.subnet
		} else {
			read = append(read, id)
		}
	}
	if err := c.read(ctx, s, network.Wanted{Subnets: read}); err != nil {
		return err
	}
	for _, id := range read {
		if subnet := s.Subnet(id); subnet != nil {
			c.mem.places[id.Key()] = seenAt{subnet, time.Now()}
		}
	}
	return nil
}

// seenAt is a subnet that a target is on, and when it was read.
type seenAt struct {
	subnet *network.Subnet
	at     time.Time
}

// refresh reads clusters anew whose documents are not of this round: how many nodes their pools have is held against the
// network interfaces that are seen.
func (c *check) refresh(ctx context.Context, s *network.Snapshot, clusters []network.ID) error {
	old := slices.DeleteFunc(slices.Clone(clusters), func(id network.ID) bool { return !c.mem.clusters[id.Key()].read.Before(c.began) })
	fresh := network.NewSnapshot()
	if err := c.read(ctx, fresh, network.Wanted{Clusters: old}); err != nil {
		return err
	}
	for _, id := range old {
		if cluster := fresh.Cluster(id); cluster != nil {
			s.Clusters[id.Key()] = cluster
			c.mem.clusters[id.Key()].cluster = cluster
		}
	}
	return nil
}
