package controller

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// apiServer is an API server with one object, behind a cache that is old.
type apiServer struct {
	client.Client // what is not used
	cached, is    ClusterRoutes
}

// statusOfIt is its subresource status.
type statusOfIt struct {
	client.SubResourceWriter // what is not used
	*apiServer
}

func (s *apiServer) Get(_ context.Context, _ client.ObjectKey, to client.Object,
	_ ...client.GetOption) error {
	s.cached.copyInto(to.(*ClusterRoutes))
	return nil
}

func (s *apiServer) List(_ context.Context, to client.ObjectList, _ ...client.ListOption) error {
	to.(*ClusterRoutesList).Items = []ClusterRoutes{s.is}
	return nil
}

func (s *apiServer) Status() client.SubResourceWriter { return statusOfIt{nil, s} }

func (s statusOfIt) Update(_ context.Context, o client.Object,
	_ ...client.SubResourceUpdateOption) error {
	if o.GetResourceVersion() != s.is.ResourceVersion {
		return errors.NewConflict(schema.GroupResource{}, o.GetName(), nil)
	}
	o.(*ClusterRoutes).copyInto(&s.is)
	return nil
}

// TestStatusBehindOldCache: after an outage of the API server the status is written at once, though
// the cache still has an older version of the object.
func TestStatusBehindOldCache(t *testing.T) {
	object := refusable("shop", "1", 1)
	s := &apiServer{cached: object, is: object}
	s.cached.ResourceVersion, s.is.ResourceVersion = "1", "2"
	o := Options{Namespace: object.Namespace, Scopes: Scopes{object.Namespace: {Everything}}}
	c := &controller{o: o, client: s, reader: s, lease: newLease(&lock{me: "me"}, time.Hour),
		set: newSet(o, func() {}), objects: map[string]*ClusterRoutes{object.name(): &object}}
	c.lease.renewed = time.Now()
	c.led.Store(true)
	c.board.clear()
	c.board.shown[object.name()] = shown{conditions: []v1alpha1.Condition{{
		Type: v1alpha1.ConditionReady, Status: "True"}}}
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if got := s.is.Status.Conditions; len(got) != 1 || got[0].Status != "True" {
		t.Errorf("the status is %+v", got)
	}
}

// released is an API server whose object is gone once its finalizer is removed: the set is made
// without it before the call returns.
type released struct {
	client.Client // what is not used
	set           *set
}

func (r released) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	r.set.make(nil)
	return nil
}

// TestPrunedIsSaid: an Event says that the routes of a deleted object were deleted, although the
// set forgets the object as soon as it is released.
func TestPrunedIsSaid(t *testing.T) {
	object := refusable("shop", "1", 1)
	object.UID, object.Finalizers = "it", []string{v1alpha1.Finalizer}
	object.Spec.OnRemoval = v1alpha1.RemovalPrune
	o := Options{Namespace: object.Namespace, Scopes: Scopes{object.Namespace: {Everything}}}
	set, r := newSet(o, func() {}), &recorder{}
	set.make([]ClusterRoutes{object})
	object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	set.removals[object.UID] = &removal{ordered: true, done: true}
	c := &controller{o: o, client: released{set: set}, set: set, events: r}
	if err := c.finalize(t.Context(), &object); err != nil || len(r.texts) != 4 ||
		r.texts[3] != "the routes were deleted from the targets" {
		t.Errorf("%v, the Events are %q", err, r.texts)
	}
}
