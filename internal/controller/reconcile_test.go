package controller

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// leading returns a controller that has the lease, whose keeper has some objects. They are in its
// copy, and not in the API.
func leading(t *testing.T, w *way, objects ...ClusterRoutes) *controller {
	t.Helper()
	o, api := testOptions(), w.client(t)
	c := &controller{o: o, log: o.Daemon.Log, objects: newObjects(api, o), metrics: newMetrics(
		func() int { return 0 }), events: newEvents(api, o), lease: &lease{valid: time.Hour,
		renewed: time.Now()}, set: newSet(o, func() {}), specs: map[string]*ClusterRoutes{}}
	c.led.Store(true)
	c.board.clear()
	for _, object := range objects {
		if err := c.objects.informers[0].GetStore().Add(&unstructured.Unstructured{
			Object: raw(t, object)}); err != nil {
			t.Fatal(err)
		}
		c.specs[object.name()] = &object
		c.board.shown[object.name()] = shown{conditions: []v1alpha1.Condition{{
			Type: v1alpha1.ConditionReady, Status: "True"}}}
	}
	return c
}

// TestStatusBehindOldCopy: after an outage of the API server the status is written at once, though
// the copy still has an older version of the object. The spec stays.
func TestStatusBehindOldCopy(t *testing.T) {
	w := &way{fakeAPI: newFakeAPI()}
	old := refusable("shop", "1", 1)
	old.ResourceVersion = "0"
	c := leading(t, w, old)
	now := refusable("shop", "1", 2, tableA)
	w.store(t, now)
	if err := c.reconcile(t.Context(), old.key()); err != nil {
		t.Fatal(err)
	}
	is := w.read(t, "team", "shop")
	if got := is.Status.Conditions; len(got) != 1 || got[0].Status != "True" ||
		is.Status.Controller != "team/routekeeper" || len(is.Spec.Targets) != 1 {
		t.Errorf("it is %+v", is)
	}
	// A status that is right is not written again.
	before := is.ResourceVersion
	if err := c.reconcile(t.Context(), old.key()); err != nil ||
		w.read(t, "team", "shop").ResourceVersion != before {
		t.Errorf("it is written again: %v", err)
	}
}

// TestFinalizer: an object with onRemoval: Prune gets the finalizer, and others' stay. In the same
// reconciliation it gets its status.
func TestFinalizer(t *testing.T) {
	w := &way{fakeAPI: newFakeAPI()}
	object := refusable("shop", "1", 1)
	object.Spec.OnRemoval = v1alpha1.RemovalPrune
	object.Finalizers, object.ResourceVersion = []string{"other/one"}, "1"
	w.store(t, object)
	c := leading(t, w, object)
	if err := c.reconcile(t.Context(), object.key()); err != nil {
		t.Fatal(err)
	}
	is := w.read(t, "team", "shop")
	if len(is.Finalizers) != 2 || is.Finalizers[0] != "other/one" ||
		is.Finalizers[1] != v1alpha1.Finalizer || len(is.Status.Conditions) != 1 ||
		len(w.calls) != 2 {
		t.Errorf("after %q it is %+v", w.calls, is)
	}
}

// TestPrunedIsSaid: an Event says that the routes of a deleted object were deleted, although the
// set forgets the object as soon as it is released.
func TestPrunedIsSaid(t *testing.T) {
	w := &way{fakeAPI: newFakeAPI()}
	object := refusable("shop", "1", 1)
	object.UID, object.Finalizers = "it", []string{v1alpha1.Finalizer}
	object.Spec.OnRemoval, object.ResourceVersion = v1alpha1.RemovalPrune, "1"
	c := leading(t, w)
	c.set.build([]ClusterRoutes{object})
	object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	w.store(t, object)
	c.set.removals[object.UID] = &removal{ordered: true, done: true}
	w.received = func(r *http.Request) error {
		if r.Method == http.MethodPatch {
			c.set.build(nil)
		}
		return nil
	}
	if err := c.finalize(t.Context(), &object); err != nil || len(c.events.queue) != 1 {
		t.Fatalf("%v, %d Events", err, len(c.events.queue))
	}
	if h := <-c.events.queue; h.note != "the routes were deleted from the targets" {
		t.Errorf("the Event is %q", h.note)
	}
}
