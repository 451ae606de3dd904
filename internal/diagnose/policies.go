package diagnose

import (
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prevent"
)

// checkPolicies reports assigned policies that refuse, undo or overwrite the writes of the guard of
// a cluster's subnets or of target repairs, with one finding for each policy.
func checkPolicies(p *clusterCase) {
	if p.config != nil && len(p.s.Policies) > 0 {
		p.add(Opposed(p.s.Snapshot, *p.config, p.name, p.source.Table)...)
	}
}

// Opposed reports the assigned policies that refuse or undo what a config requires. table is the
// cluster's own route table, or "".
func Opposed(s *inventory.Snapshot, config v1alpha1.ClusterRoutes, name string,
	table arm.ID) []finding.Finding {
	needs := prevent.Gather(s, []v1alpha1.ClusterRoutes{config}).Needs
	cluster := s.Cluster(arm.ID(config.Spec.ClusterID))
	if cluster != nil && cluster.Kubenet() && table != "" &&
		config.Spec.Guard.Mode != v1alpha1.GuardOff {
		for _, id := range s.NodeSubnetIDs(cluster) {
			needs = append(needs,
				prevent.Need{Subnet: id, Property: inventory.PropertyTable, Value: table})
		}
	}
	tables := []arm.ID{arm.ID(config.Spec.Egress.RouteTableID)}
	for _, target := range config.Spec.Targets {
		tables = append(tables, arm.ID(target.RouteTableID))
	}
	var found []finding.Finding
	for _, o := range prevent.Opposing(s, needs, tables) {
		may := map[bool]string{true: "may oppose", false: "opposes"}[o.Perhaps]
		line := fmt.Sprintf("%s on %s: %s", o.Effect, o.Resource.Short(), o.How)
		scope := o.Resource
		if scope.Is(arm.TypeSubnet) {
			scope = scope.Parent()
		}
		i := slices.IndexFunc(found, func(f finding.Finding) bool {
			return f.Subject == subjectOf(o.Policy)
		})
		if i >= 0 {
			found[i] = found[i].With(line)
			continue
		}
		f := finding.New(finding.PolicyOpposes, name, string(o.Resource), "policy %s, assigned to "+
			"%s, %s the guard of %s: %s %s", o.Policy.Name, o.Policy.Scope, may, name,
			o.Effect, o.How).About(subjectOf(o.Policy)).With(line, "assignment "+
			o.Policy.Assignment)
		if o.Perhaps {
			f.Severity = finding.Info
		}
		found = append(found, f.WithAdvice("change the policy, or exempt %s from it",
			scope.Short()).WithFix("%s", Exempt(o.Policy, scope)))
	}
	return found
}

// Exempt returns the command that exempts a resource from an assigned policy.
func Exempt(p inventory.AssignedPolicy, scope arm.ID) finding.CommandLine {
	if p.Reference != "" {
		return finding.Command("az policy exemption create --name routekeeper --policy-assignment "+
			"%s --policy-definition-reference-ids %s --exemption-category Waiver --scope %s",
			p.Assignment, p.Reference, scope)
	}
	return finding.Command("az policy exemption create --name routekeeper --policy-assignment %s "+
		"--exemption-category Waiver --scope %s", p.Assignment, scope)
}

// subjectOf returns a text that distinguishes the policies of assignments.
func subjectOf(p inventory.AssignedPolicy) string {
	id := p.Assignment
	if p.Reference != "" {
		id += " " + p.Reference
	}
	return id
}
