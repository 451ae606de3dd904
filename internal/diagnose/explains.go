package diagnose

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Explains selects the findings that explain why packets of a cluster's pods are dropped now.
// Findings about subnets, tables and gateways count only if they concern the cluster's subnets or
// the given other subnets.
func Explains(s *inventory.Snapshot, cluster arm.ID, others []arm.ID,
	found []finding.Finding) (why []finding.Finding) {
	c := s.Cluster(cluster)
	if c == nil {
		return nil
	}
	subnets := slices.Concat(s.NodeSubnetIDs(c), c.PodSubnets(), others)
	near := func(id arm.ID) bool {
		switch {
		case id.Is(arm.TypeSubnet):
			return slices.ContainsFunc(subnets, id.Equal)
		// an unassociated table may be the one that the cluster lost
		case id.Is(arm.TypeRouteTable):
			on, here := false, false
			for _, subnet := range s.Subnets {
				if subnet.RouteTable.Equal(id) {
					on, here = true, here || slices.ContainsFunc(subnets, subnet.ID.Equal)
				}
			}
			return !on || here
		case id.Is(arm.TypeGateway):
			return false
		}
		return true
	}
	for _, f := range found {
		if f.Severity == finding.Error && finding.BreaksTraffic(f.Code) &&
			near(arm.ID(f.Resource)) {
			why = append(why, f)
		}
	}
	return why
}
