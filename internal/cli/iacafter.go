package cli

import (
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// following are the codes of findings that are consequences of a lost route table or lost routes.
var following = []finding.Code{
	finding.AssociationLost, finding.AssociationOther, finding.SubnetMissing, finding.SourceEmpty,
	finding.TargetDrift, finding.PoolWithoutTable,
	finding.GatewayNoTable, finding.GatewayRoutesMissing, finding.EgressRouteMissing,
	finding.NodeWithoutRoute, finding.RouteUnnoticed,
}

// introduced returns the findings of a diagnosis that a plan adds, for clusters that exist before
// and after it. told are the findings about the plan itself; other findings about their resources
// are left out.
func introduced(before, after *inventory.Snapshot, configs []v1alpha1.ClusterRoutes,
	told []finding.Finding) []finding.Finding {
	var clusters []arm.ID
	for _, key := range slices.Sorted(maps.Keys(before.Clusters)) {
		if after.Clusters[key] != nil {
			clusters = append(clusters, before.Clusters[key].ID)
		}
	}
	if len(clusters) == 0 {
		return nil
	}
	c := diagnose.Case{Clusters: clusters, Configs: slices.Clone(configs),
		Proposed: len(configs) == 0}
	if c.Proposed {
		for _, p := range plan.Propose(before) { // as it is now, so that changes show
			if p.Skip == "" {
				c.Configs = append(c.Configs, p.Config)
			}
		}
	}
	known := map[string]bool{}
	c.Snapshot = before
	for _, f := range diagnose.Check(c) {
		known[f.Key()] = true
	}
	about := map[string]bool{}
	for _, f := range told {
		about[strings.ToLower(f.Resource)] = true
	}
	var out []finding.Finding
	c.Snapshot = after
	for _, f := range diagnose.Check(c) {
		switch f.Code {
		case finding.AzureUnreachable, finding.ReadFailed:
			continue // a plan does not show everything, and the rest cannot be read
		case finding.TargetIsSource:
			if c.Proposed {
				continue // the user gave no config with this target
			}
		case finding.ClusterNotKubenet:
			if slices.ContainsFunc(told, func(t finding.Finding) bool {
				return t.Code == finding.IaCMigrates && strings.EqualFold(t.Resource, f.Resource)
			}) {
				continue // told says that it leaves kubenet
			}
		}
		if f.Severity > finding.Info && !known[f.Key()] && !(about[strings.ToLower(f.Resource)] &&
			slices.Contains(following, f.Code)) {
			out = append(out, f.With("this is the case after applying, but not now"))
		}
	}
	return out
}
