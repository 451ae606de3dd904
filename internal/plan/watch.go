package plan

import (
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// Watch returns a plan that only reports: it has findings instead of changes. A diagnosis uses it
// to run the same checks as the keeper.
func Watch(s Facts, configs []v1alpha1.ClusterRoutes) Plan {
	p := New(s, Observing(configs))
	p.watching, p.enforced = true, nil
	return p.Plan()
}

// Observing returns configs that report differences and change nothing.
func Observing(configs []v1alpha1.ClusterRoutes) []v1alpha1.ClusterRoutes {
	out := slices.Clone(configs)
	for i := range out {
		spec := &out[i].Spec
		spec.Guard.Mode, spec.Guard.SecurityGroups = v1alpha1.GuardObserve, v1alpha1.GuardObserve
		if spec.Egress.Mode == v1alpha1.GuardEnforce {
			spec.Egress.Mode = v1alpha1.GuardObserve
		}
		spec.Targets = slices.Clone(spec.Targets)
		for j := range spec.Targets {
			spec.Targets[j].Policy = v1alpha1.PolicyObserve
		}
	}
	return out
}

// Managed reports whether the configs want a target, or a table with egress routes, to be managed
// and not only observed.
func Managed(configs []v1alpha1.ClusterRoutes, cluster string, target arm.ID) bool {
	return slices.ContainsFunc(configs, func(c v1alpha1.ClusterRoutes) bool {
		return c.Metadata.Name == cluster && (c.Spec.Egress.Mode == v1alpha1.GuardEnforce &&
			target.Equal(arm.ID(c.Spec.Egress.RouteTableID)) ||
			slices.ContainsFunc(c.Spec.Targets, func(t v1alpha1.Target) bool {
				return target.Equal(arm.ID(t.RouteTableID)) && t.Policy != v1alpha1.PolicyObserve
			}))
	})
}
