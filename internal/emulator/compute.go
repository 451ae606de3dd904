package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// computeKinds are the resource types of Microsoft.Compute.
func (e *Emulator) computeKinds() []kind {
	return []kind{
		{name: arm.TypeScaleSet, tracked: true, merges: true, facts: scaleSetFacts(),
			settle: e.settleScaleSet},
		{name: typeScaleSetExtension, settle: e.settleExtension},
	}
}

// computeCalls are the calls that lead into a scale set.
func (e *Emulator) computeCalls() []special { return []special{e.scaleSetCall} }
