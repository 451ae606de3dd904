package capacity

import "fmt"

// Need describes what must fit.
type Need struct{ Nodes, Pods int }

// Sizes has the sizes that a need requires, as lengths of IPv4 prefixes. 0 means that the plugin
// has no such prefix.
type Sizes struct {
	Plugin  Plugin `json:"plugin"`
	MaxPods int    `json:"maxPods"`
	// Nodes is the number of nodes needed. Surge is the number of extra nodes during an upgrade.
	Nodes int `json:"nodes"`
	Surge int `json:"surge"`
	// SubnetAddresses is the number of addresses that nodes take in the node subnet, without the
	// reserved ones. With node-subnet it includes the pods' addresses.
	SubnetAddresses    int `json:"subnetAddresses"`
	Subnet             int `json:"subnet"`
	PodSubnetAddresses int `json:"podSubnetAddresses,omitempty"`
	PodSubnet          int `json:"podSubnet,omitempty"`
	PodCIDR            int `json:"podCIDR,omitempty"`
	// TooMuch names the limit that no larger prefix can raise, or is "".
	TooMuch string `json:"tooMuch,omitempty"`
}

// smallestSubnet is the smallest subnet Azure allows (virtual-networks-faq).
const smallestSubnet = 29

// SizesFor returns the sizes that a need requires.
func (s Setup) SizesFor(need Need) Sizes {
	out := Sizes{Plugin: s.Plugin, MaxPods: s.maxPods()}
	out.Nodes = max(need.Nodes, ceil(need.Pods, s.maxPods()))
	out.Surge = s.Surge.Of(out.Nodes)
	total := out.Nodes + out.Surge
	out.SubnetAddresses = total*s.PerNode() + s.Other
	out.Subnet = subnetFor(out.SubnetAddresses + reserved)
	switch {
	case s.Plugin == PodSubnetStatic:
		out.PodSubnetAddresses = total * s.PodsPerNode()
		out.PodSubnet = subnetFor(out.PodSubnetAddresses + 2*podBatch)
	case s.Plugin == PodSubnet:
		out.PodSubnetAddresses = total * s.PodsPerNode()
		out.PodSubnet = subnetFor(out.PodSubnetAddresses + reserved)
		if out.PodSubnet < widestPodSubnet {
			out.TooMuch = fmt.Sprintf("pod subnet /%d", widestPodSubnet)
		}
	case s.Plugin.hasPodCIDR():
		out.PodCIDR = 24
		for 1<<(24-out.PodCIDR) < total {
			out.PodCIDR--
		}
	}
	for _, limit := range s.fixed() {
		if total > limit.Nodes {
			out.TooMuch = limit.What
		}
	}
	return out
}

// Meets reports whether a result of Fits satisfies the need.
func (f Fit) Meets(need Need) bool { return f.Nodes >= need.Nodes && f.Pods >= need.Pods }

// SubnetFor returns the length of the smallest subnet that can assign this many addresses.
func SubnetFor(addresses int) int { return subnetFor(addresses + reserved) }

// subnetFor returns the length of the smallest subnet with this many addresses.
func subnetFor(n int) int {
	bits := smallestSubnet
	for bits > 0 && 1<<(32-bits) < n {
		bits--
	}
	return bits
}
