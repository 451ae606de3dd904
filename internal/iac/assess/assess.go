// Package assess says what infrastructure code would do to a network. It judges each change, and
// diagnoses the network that results. It is pure, and must not read files.
package assess

import (
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Following has the codes of findings that follow from a lost route table or lost routes.
var Following = []finding.Code{
	finding.AssociationLost, finding.AssociationOther, finding.SubnetMissing, finding.SourceEmpty,
	finding.TargetDrift, finding.PoolWithoutTable,
	finding.GatewayNoTable, finding.GatewayRoutesMissing, finding.EgressRouteMissing,
	finding.EgressBypassed, finding.NodeWithoutRoute, finding.RouteUnnoticed,
}

// Findings returns the findings about files: about each change, and about the network that results.
// A file's own facts count even against the real network, which may have been read with too few
// permissions, or belong to another subscription.
func Findings(whole *iac.Reading, readings []*iac.Reading, configs []v1alpha1.ClusterRoutes,
	known iac.Known) []finding.Finding {
	told := whole.Findings(known)
	out := slices.Clone(told)
	at := map[string]int{} // the index of a finding in out, by its key
	add := func(found []finding.Finding) {
		for _, f := range found {
			i, known := at[f.Key()]
			switch {
			case !known:
				at[f.Key()] = len(out)
				out = append(out, f)
			case f.Severity > out[i].Severity:
				out[i] = f
			}
		}
	}
	for _, c := range configs {
		if known.Live != nil {
			add(diagnose.Opposed(known.Live, c, c.Metadata.Name, arm.ID(c.Spec.RouteTableID)))
		}
	}
	for _, r := range readings {
		if known.Live != nil { // first, because the real network shows more
			add(introduced(known.Live, r.Overlay(known.Live), configs, told))
		}
		if r.Before != nil && r.After != nil {
			add(introduced(r.Before, r.After, configs, told))
		}
	}
	return finding.Sort(out)
}

// introduced returns the findings of a diagnosis that a plan adds, for clusters that exist before
// and after it. told has the findings about the plan itself. Findings about the same resources that
// follow from them and are no worse are left out.
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
	// A plan has no activity log, so the tables of a cluster's node subnets count as the cluster's.
	for _, id := range clusters {
		for _, subnet := range before.NodeSubnetIDs(before.Cluster(id)) {
			if at := before.Subnet(subnet); at != nil && at.RouteTable != "" {
				before.Learn(id).Written = inventory.SortIDs(append(before.Known(id).Written,
					at.RouteTable))
			}
			after.NoteBefore(before, subnet, "before this is applied")
		}
		before.Learn(id).LogRead, after.Learn(id).LogRead = true, true
		after.Learn(id).Written = before.Known(id).Written
	}
	c := diagnose.Case{Clusters: clusters, Configs: slices.Clone(configs),
		Proposed: len(configs) == 0}
	if c.Proposed {
		for _, p := range plan.Propose(before) { // for the present network, so that changes show
			if p.Skip == "" {
				p.Config.Spec.Egress = v1alpha1.Egress{} // the user declared none: see checkDefault
				c.Configs = append(c.Configs, p.Config)
			}
		}
	}
	known := map[string]bool{}
	c.Snapshot = before
	for _, f := range diagnose.Check(c) {
		known[f.Key()] = true
	}
	about := map[string]finding.Severity{}
	for _, f := range told {
		if worst, is := about[strings.ToLower(f.Resource)]; !is || f.Severity > worst {
			about[strings.ToLower(f.Resource)] = f.Severity
		}
	}
	var out []finding.Finding
	c.Snapshot = after
	checked := diagnose.Check(c)
	if both, to := rotating(before, after); len(to) > 0 {
		c.Snapshot = both
		for _, f := range diagnose.Check(c) {
			if f.Code == finding.PoolWithoutTable &&
				slices.ContainsFunc(to, arm.ID(f.Resource).Equal) {
				checked = append(checked, f)
			}
		}
	}
	for _, f := range checked {
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
				continue // told says that the cluster leaves kubenet
			}
		}
		worst, is := about[strings.ToLower(f.Resource)]
		follows := is && worst >= f.Severity && slices.Contains(Following, f.Code)
		if f.Severity > finding.Info && !known[f.Key()] && !follows {
			out = append(out, f.With("this is the case after applying, but not now"))
		}
	}
	return out
}

// rotating returns the network while pools move to other subnets, and these subnets. It still has
// the old nodes, whose subnet has the cluster's table: without them, nothing shows that the pools
// had this table.
func rotating(before, after *inventory.Snapshot) (both *inventory.Snapshot, to []arm.ID) {
	both = after.Fork()
	for key, cluster := range after.Clusters {
		if before.Clusters[key] == nil {
			continue
		}
		during := *cluster
		during.Pools = slices.Clone(cluster.Pools)
		for _, old := range before.Clusters[key].Pools {
			for _, pool := range cluster.Pools {
				if strings.EqualFold(pool.Name, old.Name) && pool.Subnet != "" &&
					old.Subnet != "" && !pool.Subnet.Equal(old.Subnet) {
					during.Pools, to = append(during.Pools, old), append(to, pool.Subnet)
				}
			}
		}
		both.Clusters[key] = &during
	}
	return both, to
}
