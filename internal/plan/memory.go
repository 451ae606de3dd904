package plan

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: Azure is the source of truth, and every check reads again. A memory for each
// cluster keeps what reading cannot show: which routes in its targets were correct, its table, the
// prefixes of all node subnets it was ever seen with, which routes its table had that are still in
// a target, how long the same prefixes have led to each next hop, the nodes without a route, and
// who wrote its table last. A restart forgets it, and discovery starts over. The history preserves
// two things: since when nodes have lacked their routes, and which table is the cluster's. The
// prefixes of earlier node subnets are not preserved: with them a route would count as the
// cluster's, and could be deleted.

// Facts are the basis of a plan: what was read, and what is remembered from earlier checks.
type Facts struct {
	*inventory.Snapshot
	Memory Memory
	// AnyHop is set if the node subnets cannot be known (saved files). Any appliance address then
	// counts as a node's.
	AnyHop bool
	// Paused has the clusters, by their configs' names, for which a keeper makes no changes now. If
	// another config requires the same change, it is made for that config.
	Paused map[string]bool
	// Lost has the next hops that certainly drop packets. A keeper finds them by reading; a
	// diagnosis finds them in its snapshot. They change no plan.
	Lost Hops
}

// Hops is a set of next hops, with details of each.
type Hops map[string]string

// Add adds a next hop.
func (h Hops) Add(hop Hop) { h.Explain(hop, "") }

// Explain adds a next hop with details.
func (h Hops) Explain(hop Hop, more string) { h[hop.key()] = more }

// Lookup returns the details of a next hop, and whether it is in the set.
func (h Hops) Lookup(hop Hop) (more string, has bool) {
	more, has = h[hop.key()]
	return more, has
}

// Remove removes a next hop.
func (h Hops) Remove(hop Hop) { delete(h, hop.key()) }

// Has reports whether a next hop is in the set.
func (h Hops) Has(hop Hop) bool {
	_, has := h.Lookup(hop)
	return has
}

// Hop is a next hop as a subnet's route names it.
type Hop struct {
	Subnet arm.ID
	Addr   netip.Addr
}

func (h Hop) key() string { return h.Subnet.Key() + " " + h.Addr.String() }

// Fork returns a copy. What is read into the copy, or remembered in it, does not change the
// original.
func (f Facts) Fork() Facts {
	f.Snapshot, f.Memory = f.Snapshot.Fork(), maps.Clone(f.Memory)
	return f
}

// Aged returns a copy for a write that begins late, because old content proves nothing. Network
// interfaces become remembered ones, which can only withhold a change. Without fresh interfaces,
// every proof that uses the activity log fails as well.
func (f Facts) Aged(configs []v1alpha1.ClusterRoutes) Facts {
	f = f.Fork()
	f.VNets = map[string]*inventory.VNet{}
	f.Firewalls, f.Balancers = map[string]*inventory.Firewall{}, map[string]*inventory.Balancer{}
	for _, c := range configs {
		id := arm.ID(c.Spec.ClusterID)
		if known := f.Learn(id); known.NICs != nil {
			m := f.Memory.Of(id)
			m.NICs, m.Asked, known.NICs = known.NICs, map[netip.Addr]bool{}, nil
			f.Memory[id.Key()] = &m
		}
	}
	return f
}

// NodePrefixesEver returns the address prefixes of the cluster's node subnets, present and
// remembered, sorted.
func (f Facts) NodePrefixesEver(c *inventory.Cluster) []netip.Prefix {
	return f.prefixesEver(c, f.NodeSubnetIDs(c))
}

// prefixesEver works like NodePrefixesEver for a caller that knows the present node subnets.
func (f Facts) prefixesEver(c *inventory.Cluster, present []arm.ID) []netip.Prefix {
	prefixes := slices.Clone(f.Memory.Of(c.ID).Subnets)
	for _, id := range present {
		if subnet := f.Subnet(id); subnet != nil {
			prefixes = append(prefixes, subnet.Prefixes...)
		}
	}
	return inventory.SortPrefixes(prefixes)
}

// Memory is what is remembered of clusters, by their ID.Key(). Entries are replaced, never changed,
// because forks of Facts share them.
type Memory map[string]*Remembered

// Of returns what is remembered of a cluster.
func (m Memory) Of(cluster arm.ID) Remembered {
	if r, _ := arm.Lookup(m, cluster); r != nil {
		return *r
	}
	return Remembered{}
}

// Remembered is what earlier checks have shown of a cluster.
type Remembered struct {
	// LastTable is the table that the cluster's node subnets last had, if it was identified beyond
	// doubt.
	LastTable arm.ID
	// LastProven is set if the cluster's own actions, and not only an association, identified that
	// table.
	LastProven bool
	// Recalled is set if LastTable is from before a restart, and nothing has confirmed it since.
	Recalled bool
	// Subnets are the prefixes of all node subnets that the cluster was seen with, including those
	// of removed pools: a route to a node that was there is still the cluster's.
	Subnets []netip.Prefix
	// InSync has pod routes by target (ID.Key()), prefix and next hop. For these routes, the target
	// was in sync with the cluster's route table once, and the table has had them at every check
	// since. If a target now lacks one of them, another writer has changed the target.
	InSync map[string]map[netip.Prefix]netip.Addr
	// Settled has the reliable pod routes of the cluster's route table, by prefix: no other prefix
	// has led to the same next hop for longer than the cloud provider needs to repair its table.
	Settled map[netip.Prefix]Settled
	// hops has the next hops in the table, the prefixes that lead to each, and since when; noted is
	// when they were noted.
	hops  map[netip.Addr]ledBy
	noted time.Time
	// etag is the table's ETag at that time. unchanged is the time of the check before, if the ETag
	// was the same then.
	etag      string
	unchanged time.Time
	// Had has pod routes that the cluster's route table had at earlier checks. In a target they
	// belong to the cluster, whatever their names.
	Had map[Pair]bool
	// NICsDue is set if no network interface of the cluster's nodes was read for a long time.
	NICsDue bool
	// Nodes are the nodes and their routes as the previous check left them.
	Nodes NodeRoutes
	// NICs were read by an earlier check; nil if none did. They can withhold a change but never
	// prove one, and only for the addresses that were looked up then.
	NICs  *inventory.NICs
	Asked map[netip.Addr]bool
}

// Settled is a route of a cluster's table that has settled. After is the time of the last check
// that did not see the route, or of the first check: a later write either made it or left it in
// place.
type Settled struct {
	Hop   netip.Addr
	After time.Time
}

// addresses are the addresses of a cluster's nodes. asked is nil if the addresses were read in this
// check. If they are remembered, asked is Remembered.Asked.
type addresses struct {
	*inventory.NICs
	asked map[netip.Addr]bool
}

// addresses returns the addresses of a cluster's nodes as read, or as remembered. If there are
// none, NICs is nil.
func (f Facts) addresses(cluster arm.ID) addresses {
	if nics := f.Known(cluster).NICs; nics != nil {
		return addresses{NICs: nics}
	}
	r := f.Memory.Of(cluster)
	return addresses{r.NICs, r.Asked}
}

// NodeRoutes is what a check of a cluster's nodes and routes passes on to the next check.
type NodeRoutes struct {
	// ETag is the ETag of the cluster's route table.
	ETag string
	// Hops has the next hops of the pod routes, with the node that each route names; nil before the
	// first check.
	Hops map[netip.Addr]string
	// From has the pod routes that Hops was made from.
	From []*inventory.Route
	// Lacks has the nodes without a route, by the name of their machine as NICs show it. With
	// source Nodes, the key is the target and the name of the node.
	Lacks map[string]Lack
	// Crossed is set if a pod route led to another node than it names.
	Crossed bool
	// Drops is set if a node's network interface drops packets for its pods (source Nodes).
	Drops bool
}

func (n *NodeRoutes) note(machine string, lack Lack) {
	if n.Lacks == nil {
		n.Lacks = map[string]Lack{}
	}
	n.Lacks[machine] = lack
}

// Lack is a node without a route.
type Lack struct {
	// Since is the time of the first check that saw this. Lost is set if the check before that one
	// saw the route.
	Since time.Time `json:"since"`
	Lost  bool      `json:"lost,omitempty"`
	// Reported is set once the node was reported. It stays set until the node has its route or is
	// gone.
	Reported bool `json:"reported,omitempty"`
}

// Lacking reports whether a node was reported without a route, and has none yet.
func (n NodeRoutes) Lacking() bool {
	for _, lack := range n.Lacks {
		if lack.Reported {
			return true
		}
	}
	return false
}

// Pair is a pod route without its name.
type Pair struct {
	Prefix netip.Prefix
	Hop    netip.Addr
}
