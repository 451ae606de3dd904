package plan

import (
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// Watch finds what is not as the configs want it, without planning to change anything: whatever
// they say is to be put right is only reported. It is how a diagnosis looks at what keeping looks
// at.
func Watch(s Facts, configs []v1alpha1.ClusterRoutes) Plan {
	p := New(s, Observing(configs))
	p.watching, p.enforced = true, nil
	return p.Plan()
}

// Observing makes configs that report what is not in sync instead of changing it.
func Observing(configs []v1alpha1.ClusterRoutes) []v1alpha1.ClusterRoutes {
	out := slices.Clone(configs)
	for i := range out {
		spec := &out[i].Spec
		spec.Guard.Mode = v1alpha1.GuardObserve
		spec.Targets = slices.Clone(spec.Targets)
		for j := range spec.Targets {
			spec.Targets[j].Policy = v1alpha1.PolicyObserve
		}
	}
	return out
}

// Kept reports whether the configs ask for a target to be kept, and not only watched.
func Kept(configs []v1alpha1.ClusterRoutes, cluster string, target arm.ID) bool {
	return slices.ContainsFunc(configs, func(c v1alpha1.ClusterRoutes) bool {
		return c.Metadata.Name == cluster &&
			slices.ContainsFunc(c.Spec.Targets, func(t v1alpha1.Target) bool {
				return target.Equal(arm.ID(t.RouteTableID)) && t.Policy != v1alpha1.PolicyObserve
			})
	})
}
