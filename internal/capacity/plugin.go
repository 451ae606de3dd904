// Package capacity plans addresses for each of AKS's network plugins: how many nodes and pods fit,
// and how large subnets must be.
//
// How it works. Setup.Fits counts the nodes that each limit allows (subnets, pod CIDR, route table,
// AKS), and takes the smallest number, less the surge nodes of an upgrade. Setup.SizesFor computes
// the reverse: sizes from the number of nodes and pods. Grow works like Setup.Fits for the pools of
// an existing cluster, which share some of the limits.
//
// The package is pure: it must not read anything, or know how numbers are shown.
package capacity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Plugin is a way to give pods their addresses.
type Plugin string

// The network plugins of AKS, by their names on the command line.
const (
	// Kubenet gives pods addresses of the pod CIDR, a /24 for each node, and needs one route for
	// each node.
	Kubenet Plugin = "kubenet"
	// NodeSubnet is Azure CNI where pods share the nodes' subnet.
	NodeSubnet Plugin = "node-subnet"
	// PodSubnet is Azure CNI where pods have their own subnet, and take addresses in batches as
	// needed.
	PodSubnet Plugin = "pod-subnet"
	// PodSubnetStatic is PodSubnet with blocks that each node takes in advance.
	PodSubnetStatic Plugin = "pod-subnet-static"
	// Overlay is Azure CNI Overlay: a /24 of the pod CIDR for each node, and no routes.
	Overlay Plugin = "overlay"
)

// Plugins returns all of them.
func Plugins() []Plugin {
	return []Plugin{Kubenet, NodeSubnet, PodSubnet, PodSubnetStatic, Overlay}
}

// ParsePlugin reads a plugin's name.
func ParsePlugin(name string) (Plugin, error) {
	if slices.Contains(Plugins(), Plugin(name)) {
		return Plugin(name), nil
	}
	names := make([]string, len(Plugins()))
	for i, p := range Plugins() {
		names[i] = string(p)
	}
	return "", fmt.Errorf("unknown plugin %q, expected %s", name, strings.Join(names, ", "))
}

// The range of --max-pods, for every plugin (AKS, azure-cni-overview).
const (
	LeastMaxPods = 10
	MostMaxPods  = 250
)

// DefaultMaxPods returns the number of pods per node that AKS sets by default (AKS,
// concepts-network-ip-address-planning). For pod subnets, pages before 2026 said 250.
func (p Plugin) DefaultMaxPods() int {
	switch p {
	case Kubenet, PodSubnet, PodSubnetStatic:
		return 110
	case NodeSubnet:
		return 30
	case Overlay:
		return 250
	}
	return 250 // no plugin
}

// hasPodCIDR reports whether each node takes a /24 of a pod CIDR.
func (p Plugin) hasPodCIDR() bool { return p == Kubenet || p == Overlay }

// hasPodSubnet reports whether pods have their own subnet.
func (p Plugin) hasPodSubnet() bool { return p == PodSubnet || p == PodSubnetStatic }

// Surge is the number of extra nodes during an upgrade: a number, or a percentage of the nodes,
// rounded up.
type Surge struct {
	Nodes, Percent int
}

// ParseSurge reads 1 or 10%.
func ParseSurge(text string) (Surge, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 0:
		return Surge{}, fmt.Errorf("%q is not a surge, expected a number such as 1 or a "+
			"percentage such as 10%%", text)
	case percent && n > 100:
		return Surge{}, fmt.Errorf("%q is more than all nodes, expected 0%% to 100%%", text)
	case percent:
		return Surge{Percent: n}, nil
	}
	return Surge{Nodes: n}, nil
}

// usualSurge is AKS's default for a pool without maxSurge (AgentPoolUpgradeSettings.maxSurge).
var usualSurge = Surge{Percent: 10}

// SurgeOf returns the surge of a pool: its maxSurge, or AKS's default.
func SurgeOf(maxSurge string) Surge {
	if maxSurge == "" {
		return usualSurge
	}
	if surge, err := ParseSurge(maxSurge); err == nil {
		return surge
	}
	return usualSurge
}

// Of returns the number of extra nodes for a number of nodes.
func (s Surge) Of(nodes int) int {
	if nodes == 0 {
		return 0
	}
	return s.Nodes + ceil(nodes*s.Percent, 100)
}

// within returns how many of total nodes fit together with their own surge nodes.
func (s Surge) within(total int) int {
	// nodes + nodes*percent/100 + s.Nodes <= total. Rounding up costs at most one more.
	nodes := max(0, (total-s.Nodes)*100/(100+s.Percent))
	for nodes > 0 && nodes+s.Of(nodes) > total {
		nodes--
	}
	return nodes
}

func (s Surge) String() string {
	if s.Percent > 0 {
		return fmt.Sprintf("%d%%", s.Percent)
	}
	return strconv.Itoa(s.Nodes)
}

func ceil(a, b int) int { return (a + b - 1) / b }
