package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// resourceKinds are the resource types of Microsoft.Resources, but for deployments.
func (e *Emulator) resourceKinds() []kind {
	return []kind{
		{name: arm.TypeResourceGroup, tracked: true, immediate: true, settle: e.checkRegion},
	}
}

// resourceCalls are tags, lists of resources of all types, and features.
func (e *Emulator) resourceCalls() []special {
	return []special{e.tagsCall, e.resourcesCall, e.featureCall}
}
