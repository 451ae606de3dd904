package controller

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// refusable is an object of a namespace; a later generation is an edit.
func refusable(name, cluster string, generation int64, targets ...string) ClusterRoutes {
	o := ClusterRoutes{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name,
		UID: types.UID(name), Generation: generation}, Spec: v1alpha1.Spec{
		ClusterID: clusterA + cluster}}
	for _, t := range targets {
		o.Spec.Targets = append(o.Spec.Targets, v1alpha1.Target{RouteTableID: t})
	}
	return o
}

// TestRefusedEdit: while an edit is refused, for whatever reason, the last accepted spec is in
// force, and neither a mistake nor a scope ends the protection of a cluster.
func TestRefusedEdit(t *testing.T) {
	twice := refusable("shop", "1", 2, tableA, strings.ToUpper(tableA))
	outside := refusable("shop", "1", 2, tableAB)
	for name, edited := range map[string]ClusterRoutes{"Invalid": twice, "OutOfScope": outside} {
		s := newSet(Options{Scopes: Scopes{"team": {groupA}}}, func() {})
		s.build([]ClusterRoutes{refusable("shop", "1", 1, tableA)})
		s.reset() // another term of this replica
		configs, _ := s.build([]ClusterRoutes{edited})
		if len(configs) != 1 || len(configs[0].Spec.Targets) != 1 ||
			configs[0].Spec.Targets[0].RouteTableID != tableA ||
			configs[0].Spec.Guard.Mode != v1alpha1.GuardEnforce {
			t.Errorf("%s: in force is %+v", name, configs)
		}
		r, _ := s.state(&edited)
		if r.reason != name || r.generation != 2 || r.inForce != 1 ||
			s.current(&edited).Generation != 1 {
			t.Errorf("%s: %+v", name, r)
		}
		if configs, _ = s.build([]ClusterRoutes{refusable("shop", "1", 3, tableA)}); len(
			configs) != 1 || len(s.refusals()) != 0 {
			t.Errorf("%s, corrected: %+v", name, s.refusals())
		}
	}
	s := newSet(Options{Scopes: Scopes{"team": {Everything}}}, func() {})
	configs, _ := s.build([]ClusterRoutes{twice}) // a replica that starts after the edit
	if r, _ := s.state(&twice); len(configs) != 0 || r.inForce != 0 ||
		!strings.Contains(r.String(), "this replica has seen no spec of it that is accepted") {
		t.Errorf("%+v: %s", configs, r)
	}
	s.observe([]ClusterRoutes{refusable("shop", "1", 1, tableA)}) // it waits for the lease
	if configs, _ = s.build([]ClusterRoutes{twice}); len(configs) != 1 {
		t.Errorf("what was accepted while it waited: %+v", configs)
	}
	again := refusable("shop", "2", 1, tableA) // created again under the name
	again.UID, again.Spec.PodCIDRs = "other", []string{"nonsense"}
	if configs, _ = s.build([]ClusterRoutes{again}); len(configs) != 0 {
		t.Errorf("another object's spec is in force: %+v", configs)
	}
}

// TestRefusedEditContradicts: a spec in force counts against other objects, and older ones count
// against it.
func TestRefusedEditContradicts(t *testing.T) {
	s := newSet(Options{Scopes: Scopes{"team": {Everything}}}, func() {})
	old, young := refusable("a", "1", 1), refusable("b", "2", 1)
	old.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	young.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	old.Spec.RouteTableID = tableA
	s.build([]ClusterRoutes{old, young})
	old.Spec.PodCIDRs, old.Generation = []string{"nonsense"}, 2
	young.Spec.Targets, young.Generation = []v1alpha1.Target{{RouteTableID: tableA}}, 2
	configs, _ := s.build([]ClusterRoutes{young, old})
	if r := s.refusals(); len(configs) != 2 || r["team.a"].inForce != 1 ||
		r["team.b"].inForce != 1 || len(configs[1].Spec.Targets) != 0 {
		t.Errorf("%+v\n%+v", configs, r)
	}
	// now an older object takes the cluster of one whose edit is refused
	oldest := refusable("c", "1", 1)
	configs, _ = s.build([]ClusterRoutes{oldest, young, old})
	if r := s.refusals()["team.a"]; r.inForce != 0 || len(configs) != 2 ||
		!strings.Contains(r.String(), "contradicts another object now: spec.clusterID") {
		t.Errorf("%+v\n%s", configs, r)
	}
}

// TestRefusedAndDeleted: the routes of a deleted object are deleted only if the spec in force and
// the refused one want that.
func TestRefusedAndDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		was, is v1alpha1.OnRemoval
		orders  int
	}{
		"prune":  {v1alpha1.RemovalPrune, v1alpha1.RemovalPrune, 1},
		"keep":   {v1alpha1.RemovalPrune, v1alpha1.RemovalKeep, 0},
		"prunes": {v1alpha1.RemovalKeep, v1alpha1.RemovalPrune, 0},
	} {
		s := newSet(Options{Scopes: Scopes{"team": {Everything}}}, func() {})
		o := refusable("shop", "1", 1, tableA)
		o.Spec.OnRemoval, o.Finalizers = c.was, []string{v1alpha1.Finalizer}
		s.build([]ClusterRoutes{o})
		s.read[o.name()], s.read[strings.ToLower(clusterA+"1")] = true, true
		o.Spec.OnRemoval, o.Spec.PodCIDRs, o.Generation = c.is, []string{"nonsense"}, 2
		o.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		_, orders := s.build([]ClusterRoutes{o})
		if done, _ := s.removed(&o); len(orders) != c.orders || done != (c.orders == 0) {
			t.Errorf("%s: %+v, done %v", name, orders, done)
		}
	}
}

// TestStatusOfRefusedEdit: Ready says which spec is refused and which is in force; the others show
// what is true of the one in force.
func TestStatusOfRefusedEdit(t *testing.T) {
	r := refusal{reason: "Invalid", message: "spec.targets[1]: twice", generation: 5, inForce: 4}
	s := shown{generation: 4, conditions: []v1alpha1.Condition{
		{Type: "Ready", Status: "True", Reason: "NoErrors", Message: "no finding is an error"},
		{Type: "Guarded", Status: "True", Reason: "Enforced", Message: "1 subnet has its table"},
		{Type: "Synced", Status: "True", Reason: "InSync", Message: "in sync"}},
		targets: []v1alpha1.TargetStatus{{RouteTableID: tableA, Expected: 3, Correct: 3}}}
	o := refusable("shop", "1", 5, tableA)
	got, _ := statusOf(&o, s, true, r, "", time.Now())
	if got.ObservedGeneration != 5 || got.LastError != r.message || got.Routes != "3/3" ||
		len(got.Conditions) != 3 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []v1alpha1.Condition{
		{Status: "False", Reason: "Invalid", ObservedGeneration: 5, Message: "the spec of " +
			"generation 5 is refused, and the one of generation 4 stays in force: " +
			"spec.targets[1]: twice"},
		{Status: "True", Reason: "Enforced", ObservedGeneration: 4,
			Message: "1 subnet has its table; the spec of generation 4 is in force"},
		{Status: "True", Reason: "InSync", ObservedGeneration: 4,
			Message: "in sync; the spec of generation 4 is in force"},
	} {
		is := got.Conditions[i]
		is.Type, is.LastTransitionTime = "", ""
		if is != want {
			t.Errorf("%+v, want %+v", is, want)
		}
	}
}

// TestLogRefusals: a refusal is logged when it begins, when it changes, and when it ends.
func TestLogRefusals(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	first := map[string]refusal{"team.shop": {reason: "Invalid", message: "no", generation: 2,
		inForce: 1}}
	logRefusals(log, nil, first)
	logRefusals(log, first, first)
	logRefusals(log, first, nil)
	if lines := strings.Split(strings.TrimSpace(text.String()), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[0], "level=ERROR") ||
		!strings.Contains(lines[0], "generation 1 stays in force: no") ||
		!strings.Contains(lines[1], "no longer refused") {
		t.Errorf("%s", &text)
	}
}

// TestObjectWithoutCluster: an object without a cluster is in force, also after its spec was
// accepted before and an edit is refused.
func TestObjectWithoutCluster(t *testing.T) {
	hub := refusable("hub", "", 1)
	hub.Spec = v1alpha1.Spec{Guard: v1alpha1.Guard{Subnets: []v1alpha1.GuardedSubnet{{
		SubnetID: hubSubnet, RouteTableID: tableA}}}}
	s := newSet(Options{Scopes: Scopes{"team": {Everything}}}, func() {})
	configs, _ := s.build([]ClusterRoutes{hub})
	if len(configs) != 1 || !configs[0].Clusterless() ||
		configs[0].Spec.ClusterID != v1alpha1.NoCluster+"team.hub" {
		t.Fatalf("%+v %+v", configs, s.refusals())
	}
	edited := hub
	edited.Generation, edited.Spec.Targets = 2, []v1alpha1.Target{{RouteTableID: tableAB}}
	configs, _ = s.build([]ClusterRoutes{edited})
	if r, _ := s.state(&edited); len(configs) != 1 || len(configs[0].Spec.Targets) > 0 ||
		r.inForce != 1 || !strings.Contains(r.String(), "spec.targets: it needs a cluster") {
		t.Errorf("%+v: %s", configs, r)
	}
}

const hubSubnet = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net/" +
	"providers/Microsoft.Network/virtualNetworks/hub/subnets/shared"
