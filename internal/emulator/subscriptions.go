package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// resources is Microsoft.Resources, but for deployments: subscriptions, resource groups, tags,
// providers, features, and lists of resources of all types.
type resources struct {
	kernel        *kernel
	authorization *authorization

	// registration is the state of resource providers and features, where it was changed.
	registration map[string]string
}

// types are the resource types of Microsoft.Resources, but for deployments.
func (s *resources) types() []kind {
	return []kind{
		{name: arm.TypeResourceGroup, tracked: true, immediate: true, settle: s.checkRegion},
	}
}

// calls are tags, lists of resources of all types, and features.
func (s *resources) calls() []special {
	return []special{s.tagsCall, s.resourcesCall, s.featureCall}
}
