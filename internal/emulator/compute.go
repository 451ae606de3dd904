package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// compute is Microsoft.Compute: scale sets and their instances.
type compute struct {
	kernel  *kernel
	network *network
	// aks owns the scale sets of node pools.
	aks *aks
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

// calls are the calls that lead into a scale set.
func (s *compute) calls() []special { return []special{s.scaleSetCall} }
