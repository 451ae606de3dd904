package capacity

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Setup is a cluster to be planned for.
type Setup struct {
	Plugin Plugin
	// MaxPods is how many pods a node holds; 0 is the plugin's default.
	MaxPods int
	Surge   Surge
	// Subnet is the nodes' subnet, PodSubnet the pods' own where the plugin has one, PodCIDR what nodes get their /24 of.
	Subnet, PodSubnet, PodCIDR netip.Prefix
	// Other is how many addresses of the nodes' subnet something else uses.
	Other int
	// RouteLimit is how many routes a table holds. With DualStack each node has two.
	RouteLimit int
	DualStack  bool
}

// Limit is one thing that limits the number of nodes, those of the surge among them.
type Limit struct {
	What    string `json:"what"`
	Nodes   int    `json:"nodes"`
	Formula string `json:"formula"`
}

// Fit is how much fits.
type Fit struct {
	Plugin  Plugin `json:"plugin"`
	MaxPods int    `json:"maxPods"`
	// Nodes is how many fit while Surge more are kept free for an upgrade, Pods how many run on them.
	Nodes int `json:"nodes"`
	Surge int `json:"surge"`
	Pods  int `json:"pods"`
	// LimitedBy names the tightest limit; Limits are all, the tightest first.
	LimitedBy string  `json:"limitedBy"`
	Limits    []Limit `json:"limits"`
}

const (
	// reserved are the addresses of a subnet that Azure keeps: the first four and the last (virtual-networks-faq).
	reserved = 5
	// mostNodes is how many nodes AKS lets a cluster have (AKS, azure-cni-overlay and quotas-skus-regions).
	mostNodes = 5000
	// mostDynamicPods is how many pods a cluster may have whose pods take single addresses of a subnet (AKS,
	// configure-azure-cni-dynamic-ip-allocation).
	mostDynamicPods = 65_000
	// podBatch is how many addresses a node takes at once from a pod subnet; it takes more when fewer than podSpare are free
	// (AKS, configure-azure-cni-dynamic-ip-allocation). A block of a static allocation holds as many.
	podBatch = 16
	podSpare = 8
	// widestPodSubnet is the largest pod subnet that dynamic allocation uses (AKS,
	// configure-azure-cni-dynamic-ip-allocation).
	widestPodSubnet = 16
)

// Addresses is how many addresses a prefix has, up to 2^30: more than any limit here needs.
func addresses(p netip.Prefix) int { return 1 << min(p.Addr().BitLen()-p.Bits(), 30) }

// Usable is how many addresses of a subnet Azure gives out.
func Usable(p netip.Prefix) int { return max(0, addresses(p)-reserved) }

// name is a prefix as it was meant: one at 0.0.0.0 is only a size.
func name(p netip.Prefix) string {
	if p.Addr().IsUnspecified() {
		return fmt.Sprintf("/%d", p.Bits())
	}
	return p.String()
}

func (s Setup) maxPods() int {
	if s.MaxPods == 0 {
		return s.Plugin.DefaultMaxPods()
	}
	return s.MaxPods
}

// perNode is how many addresses of the nodes' subnet a node takes.
func (s Setup) perNode() int {
	if s.Plugin == NodeSubnet {
		return 1 + s.maxPods() // its own, and those of its pods up front
	}
	return 1
}

// podsPerNode is how many addresses of the pod subnet a node takes when it is full of pods.
func (s Setup) podsPerNode() int {
	if s.Plugin == PodSubnetStatic {
		return podBatch * ceil(s.maxPods()+1, podBatch)
	}
	return podBatch * ceil(s.maxPods()+podSpare, podBatch)
}

// podSubnetNodes is how many nodes a pod subnet serves. Whether Azure gives out the first and the last block of a static
// allocation, which hold reserved addresses, no source says: they are not counted on.
func (s Setup) podSubnetNodes() Limit {
	size := addresses(s.PodSubnet)
	if s.Plugin == PodSubnetStatic {
		blocks, each := max(0, size/podBatch-2), s.podsPerNode()/podBatch
		return Limit{"pod subnet " + name(s.PodSubnet), blocks / each,
			fmt.Sprintf("(%d blocks of %d - 2 that hold reserved addresses) / %d blocks a node = (%d + 1) / %d", size/podBatch, podBatch, each, s.maxPods(), podBatch)}
	}
	widest := ""
	if most := 1 << (32 - widestPodSubnet); size > most {
		size, widest = most, fmt.Sprintf(" of a /%d, the widest that AKS uses", widestPodSubnet)
	}
	return Limit{"pod subnet " + name(s.PodSubnet), max(0, size-reserved) / s.podsPerNode(),
		fmt.Sprintf("(%d addresses%s - %d reserved) / %d per node: batches of %d for %d pods with %d spare",
			size, widest, reserved, s.podsPerNode(), podBatch, s.maxPods(), podSpare)}
}

// Fits counts what fits.
func (s Setup) Fits() Fit {
	var limits []Limit
	if s.Subnet.IsValid() {
		size := addresses(s.Subnet)
		limits = append(limits, Limit{"node subnet " + name(s.Subnet), max(0, size-reserved-s.Other) / s.perNode(),
			fmt.Sprintf("(%d addresses - %d reserved - %d other) / %d a node", size, reserved, s.Other, s.perNode())})
	}
	if s.Plugin.hasPodCIDR() && s.PodCIDR.IsValid() {
		limits = append(limits, Limit{"pod CIDR " + name(s.PodCIDR), podCIDRNodes(s.PodCIDR), "one /24 a node"})
	}
	if s.Plugin.hasPodSubnet() && s.PodSubnet.IsValid() {
		limits = append(limits, s.podSubnetNodes())
	}
	limits = append(limits, s.fixed()...)
	slices.SortStableFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Nodes, b.Nodes) })
	f := Fit{Plugin: s.Plugin, MaxPods: s.maxPods(), LimitedBy: limits[0].What, Limits: limits}
	f.Nodes = s.Surge.within(limits[0].Nodes)
	f.Surge = s.Surge.Of(f.Nodes)
	f.Pods = f.Nodes * f.MaxPods
	return f
}

// fixed are the limits that no prefix changes.
func (s Setup) fixed() []Limit {
	limits := []Limit{{"AKS", mostNodes, "the most nodes of a cluster"}}
	switch s.Plugin {
	case Kubenet:
		each, formula := 1, "one route a node"
		if s.DualStack {
			each, formula = 2, "two routes a node, one for each address family"
		}
		limits = append(limits, Limit{"route table", s.RouteLimit / each, formula})
	case PodSubnet:
		limits = append(limits, Limit{"AKS", mostDynamicPods / s.maxPods(), fmt.Sprintf("%d pods of a cluster / %d a node", mostDynamicPods, s.maxPods())})
	}
	return limits
}

// podCIDRNodes is how many nodes get a /24 of a pod CIDR, or for IPv6 a prefix 16 bits longer.
func podCIDRNodes(p netip.Prefix) int {
	if p.Addr().Is6() {
		return 1 << 16
	}
	return 1 << max(0, 24-p.Bits())
}
