package controller

import (
	"errors"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// Deleted objects with onRemoval: Prune. How it works: the finalizer holds the object until an
// order to the keeper has deleted the routes from the targets. An order that fails is repeated.
// While one is carried out, the keeper does not have the cluster. An object whose spec cannot be
// decoded waits: it is neither released nor are its routes deleted.

// removal is the state of the routes of a deleted object.
type removal struct {
	ordered, done bool
	failed        error // of the last order
	again         time.Time
}

// retryRemoval is the wait after a failed removal.
const retryRemoval = 30 * time.Second

// leave takes a deleted object out of the set. If its routes must be deleted, the keeper must have
// read the cluster once. Until then, and between two orders, the targets are only observed, and the
// subnets are guarded as before.
func (s *set) leave(o *ClusterRoutes, c v1alpha1.ClusterRoutes) (*v1alpha1.ClusterRoutes,
	*keeper.Removal) {
	if !slices.Contains(o.Finalizers, v1alpha1.Finalizer) || !s.prunes(o) && !o.unclear() {
		return nil, nil
	}
	uid, key := o.UID, arm.ID(c.Spec.ClusterID).Key()
	r := s.removals[uid]
	if r == nil {
		r = &removal{}
		s.removals[uid] = r
	}
	exists, read := s.read[key]
	if read && !exists { // no check has seen the cluster, so it is unknown which routes are its own
		r.done = true
	}
	switch {
	case r.done:
		return nil, nil
	case r.ordered && r.failed == nil: // under way
		return nil, nil
	case r.ordered && time.Now().Before(r.again), !read, o.unclear():
		c = s.judgedConfig(c)
		c.Spec.Egress = v1alpha1.Egress{}
		c.Spec.Targets = slices.Clone(c.Spec.Targets)
		for i := range c.Spec.Targets {
			c.Spec.Targets[i].Policy = v1alpha1.PolicyObserve
		}
		return &c, nil
	}
	r.ordered, r.failed = true, nil
	return nil, &keeper.Removal{Config: c, Ended: func(err error) {
		s.mu.Lock()
		r.done, r.failed, r.again = err == nil, err, time.Now().Add(retryRemoval)
		s.mu.Unlock()
		s.dirty()
		if err != nil {
			time.AfterFunc(retryRemoval, s.dirty)
		}
	}}
}

// removed reports whether a deleted object can be released, or why the last removal of its routes
// failed.
func (s *set) removed(o *ClusterRoutes) (done bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.removals[o.UID]
	switch {
	case o.unclear():
		return false, errors.New(o.undecodable)
	case !s.prunes(o):
		return true, nil
	case r == nil:
		return false, nil
	}
	return r.done, r.failed
}

// unclear reports whether it is unknown if an object's routes are deleted with it: its spec cannot
// be decoded, and does not say Keep.
func (o *ClusterRoutes) unclear() bool {
	return o.undecodable != "" && o.Spec.OnRemoval != v1alpha1.RemovalKeep
}

// prunes reports whether the routes of an object are deleted with it: the spec in force says so,
// and so does a later one that is refused.
func (s *set) prunes(o *ClusterRoutes) bool {
	in := s.inForce(o)
	return in != nil && in.Spec.OnRemoval == v1alpha1.RemovalPrune &&
		o.Spec.OnRemoval == v1alpha1.RemovalPrune
}

// pruned reports whether an order deleted the routes of an object.
func (s *set) pruned(o *ClusterRoutes) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.removals[o.UID]
	return r != nil && r.ordered && r.done && r.failed == nil
}

// leaving is the progress of the removal of an object's routes.
type leaving struct {
	reason, message string // "": the object stays, or leaves without its routes
	underWay        bool
}

const (
	reasonRemoving      = "Removing"
	reasonRemovalFailed = "RemovalFailed"
	whileRemoving       = "the object is being deleted, and its routes are deleted from the targets"
)

// leaving returns the progress of the removal of an object's routes.
func (s *set) leaving(o *ClusterRoutes) leaving {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.DeletionTimestamp == nil || !slices.Contains(o.Finalizers, v1alpha1.Finalizer) ||
		!s.prunes(o) && !o.unclear() {
		return leaving{}
	}
	switch r := s.removals[o.UID]; {
	case o.unclear():
		return leaving{reasonRemovalFailed, stays(errors.New(o.undecodable)), false}
	case r == nil || !r.ordered:
		return leaving{reasonRemoving, whileRemoving + " once the cluster was read", false}
	case r.failed != nil:
		return leaving{reasonRemovalFailed, stays(r.failed), false}
	}
	return leaving{reasonRemoving, whileRemoving, true}
}

// stays says why the routes of a deleted object are still in the targets.
func stays(why error) string {
	return "the routes stay in the targets for now: " + why.Error() + "; set spec.onRemoval to " +
		"Keep to delete the object without them"
}

// showIn returns what the status of an object shows while it leaves.
func (l leaving) showIn(s shown) shown {
	if l.reason == "" {
		return s
	}
	if l.reason == reasonRemovalFailed {
		s.failed = l.message
	}
	s.conditions = slices.Clone(s.conditions)
	for i := range s.conditions {
		c := &s.conditions[i]
		switch {
		case c.Type != v1alpha1.ConditionGuarded:
			c.Status, c.Reason, c.Message = "False", l.reason, l.message
		case l.underWay:
			c.Status, c.Reason = "False", l.reason
			c.Message = "a lost route table is put back once the routes are deleted, or " +
				"deleting them has failed"
		}
	}
	return s
}
