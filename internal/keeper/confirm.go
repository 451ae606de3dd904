package keeper

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// evidenceBelieved is how long evidence that withholds changes is reused.
const evidenceBelieved = time.Minute

// nicsEvery returns the longest time between two reads of the network interfaces of a cluster whose
// pod routes come from its table. It is ten minutes, and more for many clusters. So there is at
// most about one such read a minute, plus one for every 250 clusters. After a failure the time is a
// tenth.
func (k *Keeper) nicsEvery() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.configs)
	return max(10, time.Duration(n*250/(n+250))) * time.Minute
}

// confirm reads what the plan needs to prove changes, or to name nodes without a route. It plans
// again until the plan needs nothing more. Evidence that withholds changes is reused for a while.
// Evidence that allows a delete, or reports a node, is read in this check. But the last writer of a
// table stays known as long as the table has the same ETag.
func (o *observation) confirm(ctx context.Context, s *inventory.Snapshot, p plan.Plan,
	again func() plan.Plan) (plan.Plan, error) {
	read := inventory.Wanted{}
	for range 10 { // networks, their peers, their tables, NICs, subnets
		if p.Need.Empty() {
			break
		}
		need, recalled := o.unbelieved(s, p)
		if need.Empty() && !recalled {
			break // all of it was read a moment ago and did not help
		}
		if err := o.placeTargets(ctx, s, need.Subnets); err != nil {
			return p, err
		}
		counted, err := o.refresh(ctx, s, need.NICs)
		if err != nil {
			return p, err
		}
		if err := o.read(ctx, s, inventory.Wanted{NICs: counted, VNets: need.VNets,
			Tables: need.Tables, Writers: need.Writers, Firewalls: need.Firewalls,
			Balancers: need.Balancers}); err != nil {
			return p, err
		}
		o.mem.noteWriters(s, need.Writers)
		o.mem.noteAppliances(s, slices.Concat(need.Firewalls, need.Balancers))
		read.NICs = append(read.NICs, need.NICs...)
		read.VNets = append(read.VNets, need.VNets...)
		p = again()
	}
	o.noteEvidence(s, read, p)
	return p, nil
}

// unbelieved returns the evidence to read for a plan, and whether some was recalled from memory.
// Recently read NICs are recalled. A recently read network is not read again, so that a route whose
// node cannot be proven gone costs few calls.
func (o *observation) unbelieved(s *inventory.Snapshot, p plan.Plan) (read inventory.Wanted,
	recalled bool) {
	need := p.Need
	read = inventory.Wanted{Subnets: need.Subnets, Tables: need.Tables}
	for _, id := range need.Writers {
		table := s.Table(id)
		if seen, known := o.mem.writers[id.Key()]; known && table != nil && table.ETag != "" &&
			seen.etag == table.ETag && time.Since(seen.at) < seen.believed() {
			s.Writers[id.Key()], recalled = seen.Writer, true
		} else {
			read.Writers = append(read.Writers, id)
		}
	}
	for _, id := range need.NICs {
		m := o.mem.clusters[id.Key()]
		known := o.s.Memory.Of(id)
		if s.Known(id).NICs == nil && known.NICs == nil && m.nics != nil &&
			time.Since(m.nicsRead) < evidenceBelieved {
			known.NICs, known.Asked = m.nics, m.looked
			o.s.Memory[id.Key()], recalled = &known, true
		} else {
			read.NICs = append(read.NICs, id)
		}
	}
	writes := slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Egress })
	for _, id := range slices.Concat(need.Firewalls, need.Balancers) {
		if seen, known := o.mem.appliances[id.Key()]; known && !writes &&
			time.Since(seen.at) < seen.believed() {
			seen.recall(s, id)
			recalled = true
		} else {
			read.AddAppliance(id)
		}
	}
	for _, id := range need.VNets {
		if seen, known := o.mem.places[o.placeOf(id)]; !known ||
			time.Since(seen.at) >= evidenceBelieved || !seen.at.Before(o.began) {
			read.VNets = append(read.VNets, id)
		}
	}
	return read, recalled
}

// noteEvidence remembers what was read to prove changes, and when.
func (o *observation) noteEvidence(s *inventory.Snapshot, read inventory.Wanted, p plan.Plan) {
	for _, id := range read.NICs {
		m := o.mem.clusters[id.Key()]
		m.nics, m.nicsRead, m.looked = s.Known(id).NICs, time.Now(), map[netip.Addr]bool{}
		next := o.k.nicsEvery()
		if m.nics != nil && m.nics.Failed != "" {
			next /= 10
		}
		m.nicsDueAt = m.nicsRead.Add(next)
		maps.Copy(m.looked, p.Asked[id.Key()])
	}
	for _, id := range read.VNets {
		o.mem.places[o.placeOf(id)] = seenAt{at: time.Now()}
	}
}

// seenWriter is the last writer of a table. at is when the activity log was queried, etag is the
// table's ETag then, and since is when the log was first queried for this ETag.
type seenWriter struct {
	inventory.Writer
	at, since time.Time
	etag      string
}

// believed returns how long the answer is reused. The log is minutes late. Once it has had time to
// show the last write, its answer changes only when the table does.
func (w seenWriter) believed() time.Duration {
	if w.at.Sub(w.since) < 2*askAgain {
		return evidenceBelieved
	}
	return askAgain
}

// noteWriters remembers who wrote tables last: the log is minutes late, so querying it in every
// check would not help.
func (m *groupMemory) noteWriters(s *inventory.Snapshot, tables []arm.ID) {
	for _, id := range tables {
		writer, asked := s.Writers[id.Key()]
		if table := s.Table(id); asked && table != nil {
			now := time.Now()
			seen := seenWriter{writer, now, now, table.ETag}
			if was, known := m.writers[id.Key()]; known && was.etag == table.ETag {
				seen.since = was.since
			}
			m.writers[id.Key()] = seen
		}
	}
}

// seenAppliance is a firewall or load balancer to which egress routes lead, or why it could not be
// read, with the time of the read.
type seenAppliance struct {
	firewall *inventory.Firewall
	balancer *inventory.Balancer
	unread   inventory.Unread
	at       time.Time
}

// applianceBelieved is how long a firewall or load balancer is not read again while nothing is
// written: its addresses change only if someone creates, changes or starts it.
const applianceBelieved = 5 * time.Minute

func (a seenAppliance) believed() time.Duration {
	if a.firewall == nil && a.balancer == nil {
		return evidenceBelieved
	}
	return applianceBelieved
}

// recall adds to a snapshot what was read.
func (a seenAppliance) recall(s *inventory.Snapshot, id arm.ID) {
	switch {
	case a.firewall != nil:
		s.Firewalls[id.Key()] = a.firewall
	case a.balancer != nil:
		s.Balancers[id.Key()] = a.balancer
	default:
		s.Unread[id.Key()] = a.unread
	}
}

func (m *groupMemory) noteAppliances(s *inventory.Snapshot, ids []arm.ID) {
	for _, id := range ids {
		m.appliances[id.Key()] = seenAppliance{s.Firewalls[id.Key()], s.Balancers[id.Key()],
			s.Unread[id.Key()], time.Now()}
	}
}

// placeOf returns the key that stores when this group last read a network.
func (o *observation) placeOf(vnet arm.ID) string { return vnet.Key() + " " + keyOf(o.configs[0]) }

// placeTargets adds the subnets of targets to the snapshot. It reuses subnets for as long as a
// cluster document is reused.
func (o *observation) placeTargets(ctx context.Context, s *inventory.Snapshot,
	subnets []arm.ID) error {
	var read []arm.ID
	for _, id := range subnets {
		if seen, known := o.mem.places[id.Key()]; known &&
			time.Since(seen.at) < o.k.opts.ClusterInterval {
			s.Subnets[id.Key()] = seen.subnet
		} else {
			read = append(read, id)
		}
	}
	if err := o.read(ctx, s, inventory.Wanted{Subnets: read}); err != nil {
		return err
	}
	for _, id := range read {
		if subnet := s.Subnet(id); subnet != nil {
			o.mem.places[id.Key()] = seenAt{subnet, time.Now()}
		}
	}
	return nil
}

// seenAt is a subnet with a target, and when it was read.
type seenAt struct {
	subnet *inventory.Subnet
	at     time.Time
}

// refresh reads cluster documents that are older than this check, and returns the clusters with a
// fresh document. Its node counts show whether the NIC lists are complete. Without it, NICs prove
// nothing.
func (o *observation) refresh(ctx context.Context, s *inventory.Snapshot,
	clusters []arm.ID) (counted []arm.ID, err error) {
	old := slices.DeleteFunc(slices.Clone(clusters), func(id arm.ID) bool {
		return !o.mem.clusters[id.Key()].read.Before(o.began)
	})
	fresh := inventory.NewSnapshot()
	if err := o.read(ctx, fresh, inventory.Wanted{Clusters: old}); err != nil {
		return nil, err
	}
	for _, id := range clusters {
		cluster := fresh.Cluster(id)
		switch {
		case !slices.ContainsFunc(old, id.Equal):
		case cluster == nil:
			u := fresh.Unread[id.Key()]
			s.Learn(id).NICs = &inventory.NICs{
				Failed: fmt.Sprintf("the node count of cluster %s could not be read: %s",
					id.Short(), u.Reason())}
			continue
		default:
			cluster = cluster.Leaving(o.mem.clusters[id.Key()].cluster)
			s.Clusters[id.Key()] = cluster
			o.mem.clusters[id.Key()].cluster = cluster
		}
		counted = append(counted, id)
	}
	return counted, nil
}
