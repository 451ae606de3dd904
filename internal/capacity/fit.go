package capacity

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Setup describes a planned cluster.
type Setup struct {
	Plugin Plugin
	// MaxPods is the number of pods per node; 0 is the plugin's default.
	MaxPods int
	Surge   Surge
	// Subnet is the node subnet, PodSubnet the separate subnet of the pods if the plugin has one,
	// and PodCIDR the range that nodes get their /24 from.
	Subnet, PodSubnet, PodCIDR netip.Prefix
	// Other is the number of addresses in the node subnet that other resources use.
	Other int
	// RouteLimit is the number of routes that a table holds. With DualStack each node has two.
	RouteLimit int
	DualStack  bool
}

// Limit is one limit of the number of nodes, including surge nodes.
type Limit struct {
	What    string `json:"what"`
	Nodes   int    `json:"nodes"`
	Formula string `json:"formula"`
}

// Fit is the result of Fits.
type Fit struct {
	Plugin  Plugin `json:"plugin"`
	MaxPods int    `json:"maxPods"`
	// Nodes is the number of nodes that fit, with room for Surge more during an upgrade. Pods is
	// the number of pods on them.
	Nodes int `json:"nodes"`
	Surge int `json:"surge"`
	Pods  int `json:"pods"`
	// LimitedBy names the tightest limit. Limits has all, the tightest first.
	LimitedBy string  `json:"limitedBy"`
	Limits    []Limit `json:"limits"`
}

const (
	// reserved is the number of addresses in each subnet that Azure keeps: the first four and the
	// last (virtual-networks-faq).
	reserved = 5
	// mostNodes is the number of nodes that AKS allows a cluster to have (AKS, azure-cni-overlay
	// and quotas-skus-regions).
	mostNodes = 5000
	// mostDynamicPods is the maximum number of pods of a cluster with dynamic allocation (AKS,
	// configure-azure-cni-dynamic-ip-allocation).
	mostDynamicPods = 65_000
	// podBatch is the number of addresses that a node takes at once from a pod subnet. It takes
	// another batch when fewer than podSpare are free (AKS,
	// configure-azure-cni-dynamic-ip-allocation). A static block has the same size.
	podBatch = 16
	podSpare = 8
	// widestPodSubnet is the largest pod subnet that dynamic allocation uses (AKS,
	// configure-azure-cni-dynamic-ip-allocation).
	widestPodSubnet = 16
)

// addresses returns the number of addresses in a prefix, or 2^30 if there are more. All limits here
// are lower.
func addresses(p netip.Prefix) int { return 1 << min(p.Addr().BitLen()-p.Bits(), 30) }

// Usable returns how many addresses of a subnet Azure assigns.
func Usable(p netip.Prefix) int { return max(0, addresses(p)-reserved) }

// name shows a prefix. For a prefix at 0.0.0.0, only the length is known.
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

// PerNode returns the number of addresses in the node subnet per node.
func (s Setup) PerNode() int {
	if s.Plugin == NodeSubnet {
		return 1 + s.maxPods() // its own, and in advance those of its pods
	}
	return 1
}

// PodsPerNode returns the number of addresses in the pod subnet that a node with the maximum number
// of pods takes.
func (s Setup) PodsPerNode() int {
	if s.Plugin == PodSubnetStatic {
		return podBatch * ceil(s.maxPods()+1, podBatch)
	}
	return podBatch * ceil(s.maxPods()+podSpare, podBatch)
}

// podSubnetNodes returns how many nodes a pod subnet has room for. No source says whether Azure
// assigns the first and the last static block, which contain reserved addresses, so they do not
// count.
func (s Setup) podSubnetNodes() Limit {
	size := addresses(s.PodSubnet)
	if s.Plugin == PodSubnetStatic {
		blocks, each := max(0, size/podBatch-2), s.PodsPerNode()/podBatch
		return Limit{"pod subnet " + name(s.PodSubnet), blocks / each,
			fmt.Sprintf("(%d blocks of %d - 2 that hold reserved addresses) / %d blocks a node = "+
				"(%d + 1) / %d", size/podBatch, podBatch, each, s.maxPods(), podBatch)}
	}
	widest := ""
	if most := 1 << (32 - widestPodSubnet); size > most {
		size, widest = most, fmt.Sprintf(" of a /%d, the widest that AKS uses", widestPodSubnet)
	}
	return Limit{"pod subnet " + name(s.PodSubnet), max(0, size-reserved) / s.PodsPerNode(),
		fmt.Sprintf("(%d addresses%s - %d reserved) / %d per node: batches of %d for %d pods "+
			"with %d spare",
			size, widest, reserved, s.PodsPerNode(), podBatch, s.maxPods(), podSpare)}
}

// Fits counts what fits.
func (s Setup) Fits() Fit {
	var limits []Limit
	if s.Subnet.IsValid() {
		size := addresses(s.Subnet)
		limits = append(limits, Limit{"node subnet " + name(s.Subnet),
			max(0, size-reserved-s.Other) / s.PerNode(),
			fmt.Sprintf("(%d addresses - %d reserved - %d other) / %d a node", size, reserved,
				s.Other, s.PerNode())})
	}
	if s.Plugin.hasPodCIDR() && s.PodCIDR.IsValid() {
		limits = append(limits,
			Limit{"pod CIDR " + name(s.PodCIDR), PodCIDRNodes(s.PodCIDR), "one /24 a node"})
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

// fixed returns the limits that do not depend on prefixes.
func (s Setup) fixed() []Limit {
	limits := []Limit{{"AKS", mostNodes, "the largest number of nodes of a cluster"}}
	switch s.Plugin {
	case Kubenet:
		each, formula := 1, "one route a node"
		if s.DualStack {
			each, formula = 2, "two routes a node, one for each address family"
		}
		limits = append(limits, Limit{"route table", s.RouteLimit / each, formula})
	case PodSubnet:
		limits = append(limits, Limit{"AKS", mostDynamicPods / s.maxPods(),
			fmt.Sprintf("%d pods of a cluster / %d a node", mostDynamicPods, s.maxPods())})
	// only AKS and the sizes of their prefixes limit them
	case NodeSubnet, PodSubnetStatic, Overlay:
	}
	return limits
}

// PodCIDRNodes returns how many nodes a pod CIDR has room for: each takes a /24, or for IPv6 a
// prefix 16 bits longer than the pod CIDR.
func PodCIDRNodes(p netip.Prefix) int {
	if p.Addr().Is6() {
		return 1 << 16
	}
	return 1 << max(0, 24-p.Bits())
}
