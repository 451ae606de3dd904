package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// node is one of the cluster's nodes: as its network interface shows it, as Kubernetes does, or
// both.
type node struct {
	name  string // in lower case, "" where only a NIC is known that does not show it
	addrs []netip.Addr
	nic   *inventory.Interface
	kube  *inventory.Node
}

// String names the node as a person looks for it.
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

// settling is how long a new node may be without its route: its cloud provider writes in batches of
// 30 seconds, from a copy that it keeps for two minutes.
const settling = 3 * time.Minute

// young reports whether a node is so new that nothing is wrong yet. Without Kubernetes nothing
// shows its age.
func (p *patient) young(n *node) bool {
	return n.kube != nil && !n.kube.Created.IsZero() && !p.s.Taken.IsZero() &&
		p.s.Taken.Sub(n.kube.Created) < settling
}

// waits reports whether a node may still be without its route. While Kubernetes says that the route
// is there (NetworkUnavailable is False), it needs no patience: only a table that was read after
// that.
func (p *patient) waits(n *node) bool {
	if n.kube != nil && n.kube.NetworkUnavailable != nil && !n.kube.NetworkUnavailable.True {
		return !p.s.Taken.IsZero() && !n.kube.NetworkUnavailable.Since.Before(p.s.Taken)
	}
	return p.young(n)
}

// nodeSet are a cluster's nodes.
type nodeSet struct {
	// all are those that Kubernetes names, where it was asked, and else the machines of the pools;
	// by name.
	all    []*node
	byName map[string]*node
	byAddr map[netip.Addr]*node
	// strangers are machines of the pools that are no nodes in Kubernetes, where it was asked.
	strangers []*node
	// asked is set where Kubernetes said which nodes there are.
	asked bool
	// complete is set where NICs of as many machines as the pools count were seen: a list shows
	// only what the identity may see. exact is set where they were no more than that, and nothing
	// is being done to the cluster: no machine comes or goes.
	complete, exact bool
}

// nodes puts together what Azure and Kubernetes show of the cluster's nodes.
func (p *patient) nodes() nodeSet {
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

// machines are the NICs of the pools' machines, and says of the set whether they are all.
func (p *patient) machines(set *nodeSet) []*node {
	var machines []*node
	seen := map[string]map[string]bool{} // holders by pool
	readable := true
	for _, nic := range p.interfaces() {
		pool := p.poolOf(nic.Holder())
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
	set.exact = set.complete && (state == "" || strings.EqualFold(state, "Succeeded") ||
		strings.EqualFold(state, "Failed"))
	for _, pool := range p.cluster.Pools {
		set.complete = set.complete && len(seen[pool.Name]) >= pool.Count
		set.exact = set.exact && len(seen[pool.Name]) == pool.Count
	}
	return machines
}

// poolOf is the pool that a machine is of, or "".
func (p *patient) poolOf(machine string) string { return p.cluster.PoolOf(machine) }

// join takes the nodes that Kubernetes names, with the machines that hold their addresses. Virtual
// nodes are no machines: they have no provider ID of Azure's.
func (p *patient) join(set *nodeSet, machines []*node) {
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
			set.strangers = append(set.strangers, m)
		}
	}
}
