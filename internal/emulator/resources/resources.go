// Package resources is Microsoft.Resources without deployments: subscriptions, groups, providers,
// tags, lists; and Microsoft.Features.
package resources

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/names"
)

// Resources is Microsoft.Resources, but for deployments, and Microsoft.Features.
type Resources struct {
	kernel        *kernel.Kernel
	authorization *authorization.Authorization

	// registration is the state of resource providers and features, if it was changed.
	registration map[string]string
}

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel, a *authorization.Authorization) *Resources {
	s := &Resources{kernel: k, authorization: a, registration: map[string]string{}}
	k.Add(kernel.Service{
		Types: s.types(), Names: names.Of("resources"), Above: []kernel.Special{s.topCall},
		Refuse: s.deprovisioning, Waits: map[string][2]int{arm.TypeResourceGroup: {15, 15}},
		Calls:  []kernel.Special{s.tagsCall, s.tagNamesCall, s.resourcesCall, s.featureCall},
		Things: []kernel.Thing{kernel.ThingAt("registration", &s.registration)},
		Resume: kernel.Resumer{Last: s.resume},
	})
	return s
}

// resume continues the deletion of groups, and ends the registration of providers.
func (s *Resources) resume() {
	for key, state := range s.registration {
		if began, busy := strings.CutSuffix(state, "ing"); busy {
			s.registration[key] = began + "ed"
		}
	}
	for _, r := range s.kernel.Store.List(arm.TypeResourceGroup, "") {
		if r.Deleting {
			s.kernel.At(r.BusyUntil, func() { s.emptyGroup(r) })
		}
	}
}

// types returns the resource types of Microsoft.Resources, but for deployments.
func (s *Resources) types() []kernel.Kind {
	return []kernel.Kind{
		{Name: arm.TypeResourceGroup, Tracked: true, Immediate: true, Settle: s.checkRegion,
			Deleting: s.deleteGroup},
	}
}
