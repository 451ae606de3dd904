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
		{name: arm.TypeResourceGroup, tracked: true, immediate: true, settle: s.checkRegion,
			deleting: s.deleteGroup},
	}
}

// waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE.
func (s *resources) waits() map[string][2]int {
	return map[string][2]int{arm.TypeResourceGroup: {15, 15}}
}

// keep keeps what was registered, and goes on with the deletion of groups.
func (s *resources) keep() {
	s.kernel.keepPart("registration", func() any { return s.registration },
		func(read func(into any) error) error { return read(&s.registration) })
	s.kernel.resumers = append(s.kernel.resumers, resumer{last: func() {
		for _, r := range s.kernel.store.list(arm.TypeResourceGroup, "") {
			if r.deleting {
				s.kernel.at(r.busyUntil, func() { s.emptyGroup(r) })
			}
		}
	}})
}

// calls are tags, lists of resources of all types, and features.
func (s *resources) calls() []special {
	return []special{s.tagsCall, s.resourcesCall, s.featureCall}
}
