package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// set turns the ClusterRoutes objects into the keeper's configs. How it works: after every change
// of an object, the set is built again from all objects. A spec that is wrong, or names what its
// namespace may not use, is refused and affects no other object (refused.go). An object that is
// being deleted leaves the set. With onRemoval: Prune, an order to the keeper deletes its routes
// first.
type set struct {
	scopes Scopes
	dirty  func() // causes the set to be built again

	mu sync.Mutex
	// own is the node resource group of the cluster that the controller runs in, "" if it runs in
	// none, or that is not known. unplaced says why it is not known yet.
	own      arm.ID
	unplaced string
	refused  map[string]refusal     // by config name
	accepted map[types.UID]accepted // the last spec of each object that was not refused
	judged   map[string]judgement   // by the cluster's ID.Key()
	// clusters that a check has read, by ID.Key(); false: they do not exist
	read     map[string]bool
	removals map[types.UID]*removal
}

func newSet(o Options, dirty func()) *set {
	s := &set{scopes: o.Scopes, dirty: dirty, accepted: map[types.UID]accepted{}}
	if o.Inside {
		s.unplaced = unplacedYet
	}
	s.reset()
	return s
}

// reset forgets what earlier checks have shown. Accepted specs stay: a replica that waits for the
// lease notes them, too.
func (s *set) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.judged = map[string]refusal{}, map[string]judgement{}
	s.read, s.removals = map[string]bool{}, map[types.UID]*removal{}
}

// build returns the configs of all objects, and the removals to order.
func (s *set) build(objects []ClusterRoutes) ([]v1alpha1.ClusterRoutes, []keeper.Removal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	valid := s.acceptLocked(objects)
	byName := map[string]*ClusterRoutes{}
	for i := range objects {
		byName[objects[i].name()] = &objects[i]
	}
	var configs []v1alpha1.ClusterRoutes
	var orders []keeper.Removal
	for _, c := range valid {
		o := byName[c.Metadata.Name]
		if o.DeletionTimestamp == nil {
			configs = append(configs, s.judgedConfig(c))
			continue
		}
		observed, order := s.leave(o, c)
		if observed != nil {
			configs = append(configs, *observed)
		}
		if order != nil {
			orders = append(orders, *order)
		}
	}
	for uid := range s.removals {
		if !slices.ContainsFunc(objects, func(o ClusterRoutes) bool { return o.UID == uid }) {
			delete(s.removals, uid)
		}
	}
	return configs, orders
}

// judgedConfig returns a config whose guard only observes if the controller cannot guard the
// cluster.
func (s *set) judgedConfig(c v1alpha1.ClusterRoutes) v1alpha1.ClusterRoutes {
	if s.own == "" || c.Spec.Guard.Mode != v1alpha1.GuardEnforce {
		return c
	}
	if j := s.judged[arm.ID(c.Spec.ClusterID).Key()]; !j.made || j.refuse != "" {
		c.Spec.Guard.Mode = v1alpha1.GuardObserve
	}
	return c
}

// note notes what a check has shown about its clusters.
func (s *set) note(r keeper.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for _, c := range r.Checked() {
		id := arm.ID(c.Spec.ClusterID)
		if r.Seen.Snapshot == nil {
			continue
		}
		was, known := s.read[id.Key()]
		switch {
		case r.Seen.Cluster(id) != nil:
			s.read[id.Key()] = true
			changed = changed || !known || !was
		case r.Seen.Unread[id.Key()].Absent && !was:
			s.read[id.Key()] = false
			changed = changed || !known
		}
		if s.own != "" {
			if j := judge(s.own, r, &c); j.made && j != s.judged[id.Key()] {
				s.judged[id.Key()], changed = j, true
			}
		}
	}
	if changed {
		s.dirty()
	}
}

// state says why an object is refused, and why its cluster cannot be guarded from here.
func (s *set) state(o *ClusterRoutes) (refused refusal, unguarded string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.inForce(o); in != nil && in.Spec.Guard.Mode == v1alpha1.GuardEnforce {
		unguarded = s.judged[arm.ID(in.Spec.ClusterID).Key()].refuse
	}
	return s.refused[o.name()], unguarded
}
