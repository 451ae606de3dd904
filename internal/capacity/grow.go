package capacity

import (
	"cmp"
	"slices"
)

// Pool is a node pool of an existing cluster.
type Pool struct {
	Name  string
	Setup Setup
	Nodes int
	// Used and PodsUsed are the addresses in use in its subnets, including those of its own nodes.
	Used, PodsUsed int
	// Autoscaler is the autoscaler's maximum, or 0 without one.
	Autoscaler int
}

// Growth is how far a pool can grow while all others stay the same.
type Growth struct {
	Pool  string `json:"pool"`
	Nodes int    `json:"nodes"`
	// Most is the largest number of nodes, without the surge nodes of an upgrade.
	Most      int    `json:"most"`
	Surge     int    `json:"surge"`
	LimitedBy string `json:"limitedBy"`
	// Autoscaler is the autoscaler's maximum, and Enough whether it fits with the surge nodes.
	// Without an autoscaler both are absent.
	Autoscaler int   `json:"autoscaler,omitempty"`
	Enough     *bool `json:"enough,omitempty"`
}

// Grow computes how far each pool of a cluster can grow. A pool's limits are the free addresses in
// its subnets, and what the other pools leave of the pod CIDR, the route table and AKS's own limit.
func Grow(pools []Pool) []Growth {
	total := 0
	for _, p := range pools {
		total += p.Nodes
	}
	out := make([]Growth, len(pools))
	for i, p := range pools {
		others := total - p.Nodes
		var limits []Limit
		add := func(what string, more int) {
			limits = append(limits, Limit{What: what, Nodes: max(p.Nodes, p.Nodes+more)})
		}
		if p.Setup.Subnet.IsValid() {
			add("node subnet "+name(p.Setup.Subnet),
				(Usable(p.Setup.Subnet)-p.Used)/p.Setup.PerNode())
		}
		if p.Setup.Plugin.hasPodSubnet() && p.Setup.PodSubnet.IsValid() {
			// Present nodes may still take more pod addresses. These are reserved for them.
			all := p.Setup.podSubnetNodes()
			others := max(0, p.PodsUsed-p.Nodes*p.Setup.PodsPerNode())
			add(all.What, all.Nodes-ceil(others, p.Setup.PodsPerNode())-p.Nodes)
		}
		if p.Setup.Plugin.hasPodCIDR() && p.Setup.PodCIDR.IsValid() {
			add("pod CIDR "+name(p.Setup.PodCIDR), PodCIDRNodes(p.Setup.PodCIDR)-others-p.Nodes)
		}
		for _, l := range p.Setup.fixed() {
			add(l.What, l.Nodes-others-p.Nodes)
		}
		slices.SortStableFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Nodes, b.Nodes) })
		g := Growth{Pool: p.Name, Nodes: p.Nodes, LimitedBy: limits[0].What,
			Autoscaler: p.Autoscaler}
		g.Most = p.Setup.Surge.within(limits[0].Nodes)
		g.Surge = p.Setup.Surge.Of(g.Most)
		if p.Autoscaler > 0 {
			enough := p.Autoscaler <= g.Most
			g.Enough = &enough
		}
		out[i] = g
	}
	return out
}

// GrowAtMaximum works like Grow for each pool after all others have grown to their autoscalers'
// maximum.
func GrowAtMaximum(pools []Pool) []Growth {
	out := make([]Growth, len(pools))
	for i := range pools {
		grown := slices.Clone(pools)
		for j, other := range pools {
			more := max(0, other.Autoscaler-other.Nodes)
			if j == i || more == 0 {
				continue
			}
			grown[j].Nodes += more
			if other.Setup.Subnet == pools[i].Setup.Subnet {
				grown[i].Used += more * other.Setup.PerNode()
			}
			if other.Setup.PodSubnet == pools[i].Setup.PodSubnet {
				grown[i].PodsUsed += more * other.Setup.PodsPerNode()
			}
		}
		out[i] = Grow(grown)[i]
	}
	return out
}
