package inventory

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Pool is a node pool.
type Pool struct {
	Name   string
	Subnet arm.ID // "" when AKS made the virtual network itself
	Count  int
	// MaxPods is the number of pods that a node can have; 0 if the document does not say. MaxCount
	// is the autoscaler's limit, 0 without an autoscaler.
	MaxPods, MaxCount int
	// PodSubnet is the pods' subnet, or "". With StaticBlocks, each node gets whole blocks of
	// addresses from it.
	PodSubnet    arm.ID
	StaticBlocks bool
	Windows      bool
	// Kind is VirtualMachineScaleSets, VirtualMachines or AvailabilitySet; "" if the document does
	// not say.
	Kind string
	// MaxSurge is how many extra nodes an upgrade creates, such as 1 or 10%; "" if the document
	// does not say.
	MaxSurge string
	// PublicIPs is set if each node has a public IP address.
	PublicIPs bool
	// DrainMinutes is how long an upgrade waits for a node's pods to leave, and SoakMinutes how
	// long it waits between nodes; 0 if the document does not say.
	DrainMinutes, SoakMinutes int
	// Size is the size of its machines, such as Standard_D4s_v5; "" if the document does not say.
	Size string
}

// Holds reports whether a machine belongs to the pool, given the machine's or its NIC's name. AKS
// names scale sets, machines and NICs aks-<pool>-…, and for Windows pools aks<pool>….
func (p Pool) Holds(machine string) bool {
	if _, linux := cutPrefixFold(machine, "aks-"+p.Name+"-"); linux {
		return true
	}
	rest, windows := cutPrefixFold(machine, "aks"+p.Name)
	letter := rest != "" && (rest[0] >= 'a' && rest[0] <= 'z' || rest[0] >= 'A' && rest[0] <= 'Z')
	return windows && !letter
}

// cutPrefixFold works like strings.CutPrefix, ignoring case.
func cutPrefixFold(s, prefix string) (rest string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// PoolOf returns the name of a machine's pool, or "". The name of one Windows pool can be a prefix
// of another's.
func (c *Cluster) PoolOf(machine string) string {
	name := ""
	for _, pool := range c.Pools {
		if pool.Holds(machine) && len(pool.Name) > len(name) {
			name = pool.Name
		}
	}
	return name
}
