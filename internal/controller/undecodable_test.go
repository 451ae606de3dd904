package controller

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// TestUndecodable: an object of other types than this version's takes away only itself. What was
// accepted of it stays in force, and its condition and the log name the field.
func TestUndecodable(t *testing.T) {
	w, log := &way{fakeAPI: newFakeAPI()}, new(lines)
	c := leading(t, w)
	c.log = slog.New(slog.NewTextHandler(log, nil))
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[string]())
	defer c.queue.ShutDown()
	put := func(o ClusterRoutes, field string, value any) {
		t.Helper()
		w.store(t, o)
		w.mu.Lock()
		defer w.mu.Unlock()
		is := w.objects[fmt.Sprintf(objectsAt, o.Namespace, o.Name)]
		if fields := strings.Split(field, "."); field != "" {
			if err := unstructured.SetNestedField(is, value, fields...); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.objects.informers[0].GetStore().Add(&unstructured.Unstructured{
			Object: is}); err != nil {
			t.Fatal(err)
		}
	}
	known := refusable("known", "1", 1, tableA)
	known.Spec.OnRemoval, known.Finalizers = v1alpha1.RemovalPrune, []string{v1alpha1.Finalizer}
	put(known, "", nil)
	put(refusable("new", "2", 1), "spec.guard.mode", int64(3))
	put(refusable("words", "4", 1), "spec", "all of it")
	put(refusable("status", "5", 1), "status.conditions", "newer")
	put(refusable("fine", "3", 1), "", nil)
	in := func(want string) {
		t.Helper()
		configs, orders := c.configs()
		var names []string
		for _, config := range configs {
			names = append(names, config.Metadata.Name)
		}
		if got := strings.Join(names, " "); got != want || len(orders) > 0 {
			t.Errorf("in force are %s, want %s; removals %+v", got, want, orders)
		}
	}
	in("team.fine team.known team.status")
	// The schema can change the types without an edit.
	put(known, "spec.targets", map[string]any{"routeTableID": tableA})
	in("team.fine team.known team.status")
	if got := c.object("team.known"); len(got.Spec.Targets) != 1 {
		t.Errorf("in force is %+v", got.Spec)
	}
	c.board.shown["team.known"] = shown{conditions: []v1alpha1.Condition{{
		Type: v1alpha1.ConditionReady, Status: "True"}}}
	for name, field := range map[string]string{"known": "spec.targets", "new": "spec.guard.mode",
		"words": "spec"} {
		if err := c.reconcile(t.Context(), "team/"+name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		conditions, _, _ := unstructured.NestedSlice(w.objects[fmt.Sprintf(objectsAt, "team",
			name)], "status", "conditions")
		if got := fmt.Sprint(conditions); !strings.Contains(got, field+": found ") ||
			!strings.Contains(got, "Invalid") {
			t.Errorf("%s: the conditions are %s", name, got)
		}
		if line := "object=team." + name; strings.Count(log.text.String(), line) != 1 {
			t.Errorf("%s: the log is %s", name, log.text.String())
		}
	}
	// It is deleted: while its spec cannot be decoded, neither it nor its routes leave.
	known.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	c.set.read[strings.ToLower(clusterA+"1")] = true
	put(known, "spec.targets", "none")
	in("team.fine team.known team.status")
	if err := c.reconcile(t.Context(), "team/known"); err != nil {
		t.Error(err)
	}
	if is := c.objects.get("team/known"); len(is.Finalizers) != 1 {
		t.Error("it is released")
	}
}
