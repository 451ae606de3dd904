package page

import (
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// starting is the content of the first page until the first check has ended: what is configured,
// and what the keeper waits for.
type starting struct {
	Clusters []configured
	More     int           // clusters that are not listed
	Every    time.Duration // between two checks; 0: not known
}

// configured is what the config says of a cluster.
type configured struct {
	Name    string
	ID      arm.ID // "" without a cluster
	Mode    string // of the guard
	Guarded int    // subnets in addition to the node subnets
	Targets []arm.ID
}

// mostConfigured limits the list of what is configured.
const mostConfigured = 20

// Configure sets the configs before the first check.
func (b *Board) Configure(configs []v1alpha1.ClusterRoutes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.show(b.configure(configs))
}

// starting returns what is configured, or nil after the first check.
func (b *Board) starting() *starting {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.checked().IsZero() || len(b.configs) == 0 {
		return nil
	}
	s := &starting{Every: b.every, More: max(0, len(b.configs)-mostConfigured)}
	for _, c := range b.configs[:len(b.configs)-s.More] {
		to := configured{Name: c.Metadata.Name, ID: arm.ID(c.Spec.ClusterID),
			Mode: string(c.Spec.Guard.Mode), Guarded: len(c.Spec.Guard.Subnets)}
		if c.Clusterless() {
			to.ID = ""
		}
		for _, t := range c.Spec.Targets {
			to.Targets = append(to.Targets, arm.ID(t.RouteTableID))
		}
		s.Clusters = append(s.Clusters, to)
	}
	return s
}
