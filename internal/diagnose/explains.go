package diagnose

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Explains picks the findings that say why packets of a cluster's pods are lost now. A finding
// about a subnet, a table or a gateway counts only where it concerns the cluster's own subnets or
// one of the others that are named: what is wrong elsewhere is no reason.
func Explains(s *inventory.Snapshot, cluster arm.ID, others []arm.ID,
	found []finding.Finding) (why []finding.Finding) {
	c := s.Cluster(cluster)
	if c == nil {
		return nil
	}
	subnets := slices.Concat(s.NodeSubnetIDs(c), others)
	for _, pool := range c.Pools {
		if pool.PodSubnet != "" {
			subnets = append(subnets, pool.PodSubnet)
		}
	}
	near := func(id arm.ID) bool {
		switch {
		case id.Is(arm.TypeSubnet):
			return slices.ContainsFunc(subnets, id.Equal)
		// one that is on no subnet may be the cluster's that was lost
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
