package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: the proof of a delete. A route leaves a target only with a proof, for this one
// route, that no node is behind it. That the cluster's table lacks the route proves nothing:
// another writer may have restored an old version of that table, and the cloud provider can lose a
// route (it treats a 412 as a success).
//
//	the next hop                         | with the proof that              | the route
//	-------------------------------------|----------------------------------|------------------------
//	is a node with another pod CIDR: the | the row has settled, its machine | is replaced, or stale
//	  cluster's table leads there with   |   has the next hop (machine.go), |   if the node does not
//	  another prefix of the same family  |   and the cluster was the last   |   send packets on
//	                                     |   to write that table            |   (sendsOn)
//	                                     | only a part of this proof        | stays
//	is on no NIC of the cluster          | the lists are complete, and were | is stale
//	                                     |   read in this check             |
//	                                     | this, but the subnet has nodes   | stays
//	                                     |   of another cluster, or was not |
//	                                     |   read, and the cluster never    |
//	                                     |   had the route                  |
//	is on a NIC                          |                                  | stays
//
// The lists are complete if they show addresses of as many nodes of each pool as the cluster's
// document counts, and this document was read after the check began. A list alone shows only what
// the identity may see. A row has settled if it has existed for longer than the cloud provider
// needs to repair its table (Remembered.Settled). A cloud provider that cannot write repairs
// nothing. So the activity log must also show that the cluster's identity was the last to write the
// table since the row appeared. With source Nodes, Kubernetes itself says so. A node has one pod
// CIDR of each family.
//
// A route needs more proof if its next hop is in no node subnet of the cluster (any more), because
// it may be another cluster's: see target.leftBehind.
//
// A new next hop also needs a proof that it belongs to the machine that the route names: see
// machine.go.
//
// Each proof is for one route. A route without proof does not withhold other changes. Even a single
// delete needs its proof. One check collects the whole proof of a route, because sync makes only
// one check. Memory only says what was the cluster's, and since when.
//
// docs/rules.md lists who calls which proof. Routes of clusters that are gone have their own proof:
// noNodeAt (orphan.go).

// proof is the result for one route. why says why the route may be changed, and lacks names the
// missing proof; one of them is empty. nodeExists is set if the route's node exists, and unwritten
// if only the proof of the cluster's own write is missing. neighbour is set if the next hop's
// subnet has a node of another cluster, whose route it may be.
type proof struct {
	why, lacks            string
	nodeExists, unwritten bool
	neighbour             bool
}

func proven(format string, args ...any) proof { return proof{why: fmt.Sprintf(format, args...)} }
func lacking(format string, args ...any) proof {
	return proof{lacks: fmt.Sprintf(format, args...)}
}

// proveStale looks for a proof that no node is behind a route without a replacement, for each
// cluster that may own it.
func (t *target) proveStale(r inventory.Route, owners []*targetCluster) (p proof) {
	for _, s := range owners {
		if p = t.nodeGone(s, r); p.lacks == "" && p.nodeExists {
			p = cmp.Or(t.w.sendsOn(r), p)
		}
		if p.lacks != "" {
			return p
		}
	}
	return p
}

// nodeGone proves that no node that uses a route has its next hop any more.
func (t *target) nodeGone(s *targetCluster, r inventory.Route) proof {
	if p := t.hasOtherCIDR(s, r); p != (proof{}) {
		return p
	}
	if p := s.mayBeNeighbours(t, r); p.lacks != "" {
		return p
	}
	return t.noNIC(s, r.Hop)
}

// hasOtherCIDR proves that a route's next hop is a node with another pod CIDR. It returns the zero
// value if the cluster's table does not show this.
func (t *target) hasOtherCIDR(s *targetCluster, r inventory.Route) proof {
	var now []netip.Prefix
	for prefix, row := range s.memory.Settled {
		if row.Hop != r.Hop || prefix.Addr().Is4() != r.Prefix.Addr().Is4() {
			continue
		}
		want, _ := s.wanted.at(prefix)
		if want.Hop != row.Hop {
			continue
		}
		if p, _ := t.w.leadsHome(s.clusterState, want); p.lacks != "" { // another node can have it
			continue
		}
		now = append(now, prefix)
	}
	if len(now) == 0 {
		return proof{}
	}
	prefix := inventory.SortPrefixes(now)[0]
	if p := t.w.lastWritten(s, prefix); p.lacks != "" {
		return p
	}
	p := proven("its node at %s now has the pod CIDR %s", r.Hop, prefix)
	p.nodeExists = true
	return p
}

// sendsOn looks for a route by which the node at a route's next hop sends its packets on. Nodes
// forward packets of others (aks/faq), so these packets may still arrive.
func (w *planning) sendsOn(r inventory.Route) proof {
	for _, key := range slices.Sorted(maps.Keys(w.s.Subnets)) {
		subnet := w.s.Subnets[key]
		table := w.s.Table(subnet.RouteTable)
		if table == nil || !within(subnet.Prefixes, r.Hop) {
			continue
		}
		for _, row := range table.Routes() {
			if row.Hop.IsValid() && row.Hop != r.Hop && row.Prefix.Bits() > 0 &&
				row.Prefix.Overlaps(r.Prefix) {
				p := lacking("the node at %s may send its packets on by %s in %s", r.Hop,
					routeLine(row), table.ID.Short())
				p.nodeExists = true
				return p
			}
		}
	}
	return proof{}
}

// logLate is how late the activity log can be: it shows events after 3 to 20 minutes (Azure Monitor
// activity log, retention period).
const logLate = 20 * time.Minute

// lastWritten proves that the cluster itself gave a node the pod CIDR of a settled row: its
// identity was the last to write its table since the row appeared, because a later write by others
// may have changed any row. A write from before the row appeared counts once the log shows all
// writes until then. Azure can answer with an old table, which lacks the write that the log shows:
// its ETag is the one that a check saw before this write.
func (w *planning) lastWritten(s *targetCluster, prefix netip.Prefix) proof {
	row := s.memory.Settled[prefix]
	last, read := w.s.Writers[s.source.Key()]
	p := proof{nodeExists: true, unwritten: true}
	switch {
	case fromNodes(s.config): // Node.spec.podCIDRs
		return proven("Kubernetes says so")
	case !read:
		if !w.onlyShown {
			w.need.Writers = append(w.need.Writers, s.source)
		}
		p.lacks = "the activity log was not read"
	case !slices.ContainsFunc(last.Names, func(name string) bool {
		return slices.Contains(s.cluster.Principals, name)
	}), last.At.Before(row.After) && last.Asked.Before(row.After.Add(logLate)):
		p.lacks = fmt.Sprintf("the activity log does not show that the cluster was the last to "+
			"write %s in %s: %s", prefix, s.whence(), last.Line)
	case !s.memory.unchanged.IsZero() && last.At.After(s.memory.unchanged):
		p.lacks = fmt.Sprintf("what was read of %s is older than its last write: %s", s.whence(),
			last.Line)
	default:
		return proven("%s", last.Line)
	}
	return p
}

// noNIC proves that no node of a cluster has an address. One complete read in this check is the
// proof: earlier reads could only weaken it.
func (t *target) noNIC(s *targetCluster, hop netip.Addr) proof {
	nics, p := t.w.nics(s.clusterState, hop)
	if nics.NICs == nil {
		return p
	}
	if holder, held := nics.Holder[hop]; held {
		return proof{lacks: fmt.Sprintf("%s belongs to %s", hop, holder), nodeExists: true}
	}
	if hidden := t.hiddenNodes(s, nics.NICs, hop); hidden != "" {
		return lacking("not all network interfaces of the nodes were seen: %s", hidden)
	}
	if nics.asked != nil && !t.w.onlyShown {
		return t.w.readNICs(s.clusterState)
	}
	return proven("no network interface of the cluster's nodes has %s any more", hop)
}

// nics returns the NICs of a cluster that can prove something about an address, or names the
// missing proof.
func (w *planning) nics(s *clusterState, hop netip.Addr) (addresses, proof) {
	key := s.cluster.ID.Key()
	if w.asked == nil {
		w.asked = map[string]map[netip.Addr]bool{}
	}
	if w.asked[key] == nil {
		w.asked[key] = map[netip.Addr]bool{}
	}
	w.asked[key][hop] = true
	switch nics := w.s.addresses(s.cluster.ID); {
	case nics.NICs == nil, nics.asked != nil && !nics.asked[hop]:
		return addresses{}, w.readNICs(s)
	case nics.Failed != "":
		return addresses{}, lacking("the network interfaces of the nodes could not be read: %s",
			nics.Failed)
	default:
		return nics, proof{}
	}
}

// readNICs requests the NICs of a cluster. Remembered NICs suffice to withhold a change, or to show
// one that is never made, but not to make one.
func (w *planning) readNICs(s *clusterState) proof {
	w.need.NICs = append(w.need.NICs, s.cluster.ID)
	return lacking("the network interfaces of the nodes were not read")
}

// hiddenNodes names a pool whose nodes' addresses, in the next hop's family, are missing from the
// lists, or returns "" if the lists are complete.
func (t *target) hiddenNodes(s *targetCluster, nics *inventory.NICs, hop netip.Addr) string {
	family := "IPv4"
	if hop.Is6() {
		family = "IPv6"
	}
	if hidden, counted := s.hidden[family]; counted {
		return hidden
	}
	hidden := ""
	for _, pool := range t.w.s.Cluster(s.cluster.ID).Pools { // it may have been read again since
		if seen := nics.Of(pool.Name, hop); seen < pool.Count {
			hidden = fmt.Sprintf("pool %s has %d nodes, but %s addresses of only %d were seen",
				pool.Name,
				pool.Count, family, seen)
		}
	}
	if s.hidden == nil {
		s.hidden = map[string]string{}
	}
	s.hidden[family] = hidden
	return hidden
}

// needNetworks requests the networks that can contain the target's next hops, and the table of the
// next hop's subnet, if they were not read.
func (t *target) needNetworks(hop netip.Addr) bool {
	before := len(t.w.need.VNets) + len(t.w.need.Tables)
	vnet := func(id arm.ID) *inventory.VNet {
		at := t.w.s.VNets[id.Key()]
		if _, tried := t.w.s.Unread[id.Key()]; at == nil && !tried {
			t.w.need.VNets = append(t.w.need.VNets, id)
		}
		return at
	}
	for _, id := range t.now.Subnets {
		at := vnet(id.Parent())
		if at == nil {
			continue
		}
		for _, peering := range at.Peerings {
			if within(peering.Prefixes, hop) {
				vnet(peering.Remote)
			}
		}
	}
	for _, subnet := range t.w.s.Subnets {
		if within(subnet.Prefixes, hop) && subnet.RouteTable != "" &&
			t.w.s.Table(subnet.RouteTable) == nil {
			if _, tried := t.w.s.Unread[subnet.RouteTable.Key()]; !tried {
				t.w.need.Tables = append(t.w.need.Tables, subnet.RouteTable)
			}
		}
	}
	return len(t.w.need.VNets)+len(t.w.need.Tables) > before
}
