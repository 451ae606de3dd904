package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// node is a node of the cluster: its network interface, its object in Kubernetes, or both.
type node struct {
	name  string // in lower case; "" if only its NIC is known and does not show the name
	addrs []netip.Addr
	nic   *inventory.Interface
	kube  *inventory.Node
}

// String returns the node's name and address, for people.
func (n *node) String() string {
	name := n.name
	if name == "" {
		name = n.nic.Holder()
	}
	if len(n.addrs) == 0 {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, n.addrs[0])
}

// newNodeFor is how long a new node may lack its route, and how long any node may be not Ready. The
// cloud provider writes in batches of 30 seconds, from a copy of the table that it caches for two
// minutes.
const newNodeFor = 3 * time.Minute

// young reports whether a node is too new to be reported. Only Kubernetes shows a node's age.
func (p *clusterCase) young(n *node) bool {
	return n.kube != nil && !n.kube.Created.IsZero() && !p.s.Taken.IsZero() &&
		p.s.Taken.Sub(n.kube.Created) < newNodeFor
}

// waits reports whether a node may still be waiting for its route. If Kubernetes says that the
// route exists (NetworkUnavailable is False), the node's age does not matter. Then the table only
// has to be newer than the condition.
func (p *clusterCase) waits(n *node) bool {
	if n.kube != nil && n.kube.NetworkUnavailable != nil && !n.kube.NetworkUnavailable.True {
		return !p.s.Taken.IsZero() && !n.kube.NetworkUnavailable.Since.Before(p.s.Taken)
	}
	return p.young(n)
}

// nodeSet is the nodes of a cluster.
type nodeSet struct {
	// all has the nodes in Kubernetes or, if Kubernetes was not read, the machines of the pools,
	// sorted by name.
	all    []*node
	byName map[string]*node
	byAddr map[netip.Addr]*node
	// unjoined has the machines of the pools without a node in Kubernetes, if Kubernetes was read.
	unjoined []*node
	// asked is set if Kubernetes listed the nodes.
	asked bool
	// complete is set if NICs of at least as many machines were seen as the pools count: a list
	// shows only what the identity may see. exact is set if there are no more machines, and no
	// operation runs on the cluster. Then no machine comes or goes.
	complete, exact bool
}

// nodes combines what Azure and Kubernetes show of the cluster's nodes.
func (p *clusterCase) nodes() nodeSet {
	set := nodeSet{byName: map[string]*node{}, byAddr: map[netip.Addr]*node{}}
	machines := p.machines(&set)
	if p.kube == nil || p.kube.Nodes == nil {
		set.all = machines
	} else {
		set.asked = true
		p.join(&set, machines)
	}
	slices.SortStableFunc(set.all, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	for _, n := range set.all {
		if n.name != "" {
			set.byName[n.name] = n
		}
		for _, a := range n.addrs {
			set.byAddr[a] = n
		}
	}
	return set
}

// machines returns the machines of the pools, by their NICs, and notes in the set whether all were
// seen.
func (p *clusterCase) machines(set *nodeSet) []*node {
	var machines []*node
	seen := map[string]map[string]bool{} // machines by pool
	readable := true
	for _, nic := range p.nics {
		pool := p.cluster.PoolOf(nic.Holder())
		if pool == "" {
			continue
		}
		if seen[pool] == nil {
			seen[pool] = map[string]bool{}
		}
		seen[pool][strings.ToLower(nic.Holder())] = true
		readable = readable && !nic.Unreadable
		n := &node{name: nic.Node(), nic: nic}
		for _, c := range nic.Configs {
			if c.Address.IsValid() {
				n.addrs = append(n.addrs, c.Address)
			}
		}
		machines = append(machines, n)
	}
	state := inventory.ProvisioningState(p.cluster.Raw)
	set.complete = len(machines) > 0 && readable
	set.exact = set.complete &&
		(state == "" || strings.EqualFold(state, "Succeeded") || strings.EqualFold(state, "Failed"))
	for _, pool := range p.cluster.Pools {
		set.complete = set.complete && len(seen[pool.Name]) >= pool.Count
		set.exact = set.exact && len(seen[pool.Name]) == pool.Count
	}
	return machines
}

// join matches the nodes in Kubernetes with the machines that have their addresses. It skips
// virtual nodes, which are not machines: they have no provider ID of Azure.
func (p *clusterCase) join(set *nodeSet, machines []*node) {
	byAddr := map[netip.Addr]*node{}
	for _, m := range machines {
		for _, a := range m.addrs {
			byAddr[a] = m
		}
	}
	joined := map[*node]bool{}
	for i := range p.kube.Nodes {
		k := &p.kube.Nodes[i]
		if k.ProviderID != "" && !strings.HasPrefix(k.ProviderID, "azure://") {
			continue
		}
		n := &node{name: strings.ToLower(k.Name), addrs: k.Addresses, kube: k}
		for _, a := range k.Addresses {
			if m := byAddr[a]; m != nil {
				n.nic, joined[m] = m.nic, true
			}
		}
		set.all = append(set.all, n)
	}
	for _, m := range machines {
		if !joined[m] {
			set.unjoined = append(set.unjoined, m)
		}
	}
}
