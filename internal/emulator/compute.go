package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// compute is Microsoft.Compute: scale sets and their instances.
type compute struct {
	kernel  *kernel
	network *network
	entra   *entra
	pools   pools
}

// newCompute makes the service, and gives it its place in the kernel.
func newCompute(k *kernel, n *network, d *entra) *compute {
	s := &compute{kernel: k, network: n, entra: d}
	n.instances = s
	k.add(service{types: s.types(), waits: s.waits(), calls: []special{s.scaleSetCall},
		resume: resumer{first: s.resumeScaleSets}})
	return s
}

// pools are the node pools of clusters, whose scale sets have the instances that AKS says.
type pools interface {
	// poolInstances are the instances of a pool's scale set and the subnet that they are in; ours
	// is false where the scale set is no pool's.
	poolInstances(set *resource) (instances []instance, subnet arm.ID, ours bool)
	// removeInstances takes the nodes on instances of a pool's scale set away.
	removeInstances(set *resource, gone func(number int) bool) *failure
}

// types are the resource types of Microsoft.Compute.
func (s *compute) types() []kind {
	return []kind{
		{name: arm.TypeScaleSet, tracked: true, merges: true,
			facts:  scaleSetFacts(s.kernel.tenantOf),
			settle: s.settleScaleSet, stored: s.storedScaleSet, show: s.showScaleSet},
		{name: typeAvailabilitySet, tracked: true, immediate: true},
		{name: typeScaleSetExtension, settle: s.settleExtension},
	}
}

// waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE.
func (s *compute) waits() map[string][2]int {
	return map[string][2]int{arm.TypeScaleSet: {10, 10}}
}

const typeAvailabilitySet = "Microsoft.Compute/availabilitySets"
