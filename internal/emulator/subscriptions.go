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

// newResources makes the service, and gives it its place in the kernel.
func newResources(k *kernel, a *authorization) *resources {
	s := &resources{kernel: k, authorization: a, registration: map[string]string{}}
	k.add(service{
		types: s.types(), waits: s.waits(), above: []special{s.topCall}, refuse: s.deprovisioning,
		calls: []special{s.tagsCall, s.resourcesCall, s.featureCall},
		things: []thing{{"registration", func() any { return s.registration },
			func(read func(into any) error) error { return read(&s.registration) }}},
		resume: resumer{last: s.resumeGroups},
	})
	return s
}

// resumeGroups goes on with the deletion of groups.
func (s *resources) resumeGroups() {
	for _, r := range s.kernel.store.list(arm.TypeResourceGroup, "") {
		if r.deleting {
			s.kernel.at(r.busyUntil, func() { s.emptyGroup(r) })
		}
	}
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
