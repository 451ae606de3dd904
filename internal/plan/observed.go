package plan

import (
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// What Observe withholds. A second planner plans for the same configs, but with Enforce and Sync in
// place of Observe. Observe withholds the additional changes of this planner. They follow the same
// rules and need the same proofs. A delete without proof is not one of them: Enforce would withhold
// it as well.

// enforcing returns configs with Enforce and Sync in place of Observe, and reports whether any
// config says Observe.
func enforcing(configs []v1alpha1.ClusterRoutes) (out []v1alpha1.ClusterRoutes, observing bool) {
	if !slices.ContainsFunc(configs, observes) {
		return nil, false
	}
	out = slices.Clone(configs)
	for i := range out {
		spec := &out[i].Spec
		if spec.Guard.Mode == v1alpha1.GuardObserve {
			spec.Guard.Mode = v1alpha1.GuardEnforce
		}
		spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
		if observesEgress(out[i]) {
			spec.Egress.Mode = v1alpha1.GuardEnforce
		}
		spec.Targets = slices.Clone(spec.Targets)
		for j := range spec.Targets {
			if t := &spec.Targets[j]; t.Policy == v1alpha1.PolicyObserve {
				t.Policy = v1alpha1.PolicySync
			}
		}
	}
	return out, true
}

// observes reports whether a config says Observe anywhere.
func observes(c v1alpha1.ClusterRoutes) bool {
	return c.Spec.Guard.Mode == v1alpha1.GuardObserve ||
		observesEgress(c) ||
		c.Spec.Guard.OfGroups() == v1alpha1.GuardObserve && GuardsGroups(c.Spec.Guard) ||
		slices.ContainsFunc(c.Spec.Targets, func(t v1alpha1.Target) bool {
			return t.Policy == v1alpha1.PolicyObserve
		})
}

// observesEgress reports whether a config only observes egress routes that it could enforce.
func observesEgress(c v1alpha1.ClusterRoutes) bool {
	return c.Spec.Egress.Mode == v1alpha1.GuardObserve && !WatchesOwn(c)
}

// WatchesOwn reports whether a config declares egress routes in the cluster's own table, which are
// never enforced.
func WatchesOwn(c v1alpha1.ClusterRoutes) bool {
	table := arm.ID(c.Spec.Egress.RouteTableID)
	return table != "" && table.Equal(arm.ID(c.Spec.RouteTableID))
}

// observe adds to a plan what Observe withholds, and what must be read to plan it.
func (p *Planner) observe(made *Plan) {
	if p.enforced == nil {
		return
	}
	planned := make(map[ChangeKey]bool, len(made.Changes))
	for _, c := range made.Changes {
		planned[c.Key()] = true
	}
	all := p.enforced.Plan()
	for _, c := range all.Changes {
		if !planned[c.Key()] {
			made.OnlyObserved = append(made.OnlyObserved, c)
		}
	}
	made.Need = inventory.Wanted{
		NICs:      inventory.SortIDs(slices.Concat(made.Need.NICs, all.Need.NICs)),
		VNets:     inventory.SortIDs(slices.Concat(made.Need.VNets, all.Need.VNets)),
		Tables:    inventory.SortIDs(slices.Concat(made.Need.Tables, all.Need.Tables)),
		Subnets:   inventory.SortIDs(slices.Concat(made.Need.Subnets, all.Need.Subnets)),
		Writers:   inventory.SortIDs(slices.Concat(made.Need.Writers, all.Need.Writers)),
		Firewalls: inventory.SortIDs(slices.Concat(made.Need.Firewalls, all.Need.Firewalls)),
		Balancers: inventory.SortIDs(slices.Concat(made.Need.Balancers, all.Need.Balancers)),
	}
	if made.Asked == nil {
		made.Asked = all.Asked
	}
	for cluster, addresses := range all.Asked {
		if made.Asked[cluster] == nil {
			made.Asked[cluster] = addresses
		} else {
			maps.Copy(made.Asked[cluster], addresses)
		}
	}
}
