package trace

import (
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Targets returns the subnets that must reach a cluster's pods, by their tables and gateways. They
// do not include the cluster's own subnets.
func (t *Tracer) Targets(cluster arm.ID) []*inventory.Subnet {
	c := t.s.Cluster(cluster)
	if c == nil {
		return nil
	}
	g := grid{Tracer: t, cluster: c}
	return g.targets()
}
