package diagnose

import (
	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// checkProvisioned checks the subnets of node auto-provisioning that no pool names. They must have
// what the cluster's node subnets have, and if the config guards any subnet, it must guard them.
func checkProvisioned(p *clusterCase) {
	for _, id := range p.s.Provisioned(p.cluster, p.nics) {
		subnet := p.s.Subnet(id)
		if subnet == nil {
			continue
		}
		lacking := false
		for _, property := range inventory.Properties {
			want, all := sharedValue(p.subnets, property)
			has := subnet.Has(property)
			if !all || has.Equal(want) {
				continue
			}
			lacking = true
			state := "no " + property.Name()
			if has != "" {
				state = property.Name() + " " + has.Short()
			}
			p.add(p.found(finding.AutoProvisionedSubnet, id,
				"nodes of cluster %s that auto-provisioning made are in subnet %s, which has %s, "+
					"but its node subnets have %s", p.cluster.ID.Short(), id.Short(), state,
				want.Short()).About(string(property)).
				WithFix("%s", plan.Attach(id, property, want)))
		}
		if lacking || p.config == nil {
			continue
		}
		guard := p.config.Spec.Guard
		if guard.Mode != v1alpha1.GuardOff && len(guard.Subnets) > 0 && !plan.Guards(p.config, id) {
			p.add(p.found(finding.AutoProvisionedSubnet, id,
				"nodes of cluster %s that auto-provisioning made are in subnet %s, which the "+
					"config does not guard", p.cluster.ID.Short(), id.Short()).About("guard"))
		}
	}
}

// sharedValue returns the value of a property if all of the subnets have the same one.
func sharedValue(subnets []*inventory.Subnet, property inventory.Property) (arm.ID, bool) {
	var value arm.ID
	for i, subnet := range subnets {
		if has := subnet.Has(property); i > 0 && !has.Equal(value) {
			return "", false
		} else if i == 0 {
			value = has
		}
	}
	return value, value != ""
}
