package plan

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Facts are what a plan rests on: what was read, and what is remembered from earlier checks.
type Facts struct {
	*inventory.Snapshot
	Memory Memory
	// AnyHop is set where the node subnets cannot be known (saved files): the address of any
	// appliance is taken for a node's.
	AnyHop bool
}

// Fork returns a copy that can be read into, and remember more, without changing the original.
func (f Facts) Fork() Facts {
	f.Snapshot, f.Memory = f.Snapshot.Fork(), maps.Clone(f.Memory)
	return f
}

// NodePrefixesEver returns the address prefixes of the cluster's node subnets, present and
// remembered, sorted.
func (f Facts) NodePrefixesEver(c *inventory.Cluster) []netip.Prefix {
	return f.prefixesEver(c, f.NodeSubnetIDs(c))
}

// prefixesEver is NodePrefixesEver where the present node subnets are known.
func (f Facts) prefixesEver(c *inventory.Cluster, present []arm.ID) []netip.Prefix {
	prefixes := slices.Clone(f.Memory.Of(c.ID).Subnets)
	for _, id := range present {
		if subnet := f.Subnet(id); subnet != nil {
			prefixes = append(prefixes, subnet.Prefixes...)
		}
	}
	return inventory.SortPrefixes(prefixes)
}

// Memory is what is remembered of clusters, by their ID.Key(). What is in it is replaced, and not
// changed: forks of Facts share it.
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
	// LastTable is the table that the cluster's node subnets were last seen associated with, when
	// it was beyond doubt.
	LastTable arm.ID
	// LastProven is set where what the cluster itself did spoke for that table, and not only an
	// association.
	LastProven bool
	// Subnets are the prefixes of all node subnets the cluster was seen with, also of pools since
	// removed: a route to a node that was there is still the cluster's.
	Subnets []netip.Prefix
	// True are pod routes by target (ID.Key()), prefix and next hop: the target was seen with them
	// as the cluster's own table had them, and that table has had them at every check since. Where
	// a target lacks one of them, another writer changed the target.
	True map[string]map[netip.Prefix]netip.Addr
	// Settled are the pod routes of the cluster's own table, by prefix and next hop, that can be
	// believed: no other prefix has led to the same next hop for longer than the cloud provider
	// takes to repair its table.
	Settled map[netip.Prefix]netip.Addr
	// Had are pod routes that the cluster's own table has or had: what of them is in a target is
	// the cluster's, whatever its name.
	Had map[Pair]bool
	// Nodes are the nodes and their routes as the check before this one left them.
	Nodes NodeRoutes
	// NICs were read a moment ago; nil where they were not. They can withhold a change, but prove
	// none, and count only for the addresses that were asked about then.
	NICs  *inventory.NICs
	Asked map[netip.Addr]bool
}

// addresses are those of a cluster's nodes. Asked is nil where they were read in this check, and as
// in Remembered where they are remembered.
type addresses struct {
	*inventory.NICs
	asked map[netip.Addr]bool
}

// addresses returns the addresses of a cluster's nodes as they were read, or as they are
// remembered; without NICs where neither is so.
func (f Facts) addresses(cluster arm.ID) addresses {
	if nics := f.Known(cluster).NICs; nics != nil {
		return addresses{NICs: nics}
	}
	r := f.Memory.Of(cluster)
	return addresses{r.NICs, r.Asked}
}

// NodeRoutes is what one check of a cluster's nodes and their routes leaves to the next.
type NodeRoutes struct {
	// ETag is that of the cluster's route table.
	ETag string
	// Hops are the next hops of the pod routes, with the node that each route names; nil where
	// there was no check yet.
	Hops map[netip.Addr]string
	// From are the pod routes that Hops was made of.
	From []*inventory.Route
	// Lacks are the nodes without a route, by their machine as NICs name it.
	Lacks map[string]Lack
}

func (n *NodeRoutes) note(machine string, lack Lack) {
	if n.Lacks == nil {
		n.Lacks = map[string]Lack{}
	}
	n.Lacks[machine] = lack
}

// Lack is a node without a route.
type Lack struct {
	// Since is when the first check saw it so. Lost is set where the check before that saw its
	// route.
	Since time.Time
	Lost  bool
	// Reported is set once it has been reported: it stays so until the node has its route or is
	// gone.
	Reported bool
}

// Pair is a pod route without its name.
type Pair struct {
	Prefix netip.Prefix
	Hop    netip.Addr
}
