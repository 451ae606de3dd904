package plan

import (
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

// TestAgain: planning again for one resource that was just read gives that resource's part of the
// plan.
func TestAgain(t *testing.T) {
	w := shop(t)
	w.config("unused", clusterA)
	w.configs = nil
	c := w.config("shop", clusterA, gateway, hub)
	c.Spec.RouteTableID = string(tableA)
	w.s.Learn(clusterA).LogRead = true // it shows nothing
	w.table(hub).subnet(nodesA, "10.240.0.0/24", "")
	whole := Make(w.s, w.configs)
	if len(whole.Changes) != 7 {
		t.Fatalf("%d changes:\n%s", len(whole.Changes), changes(whole))
	}
	planner := New(w.s, w.configs)
	for _, id := range []arm.ID{gateway, hub, nodesA} {
		var want Plan
		for _, c := range whole.Changes {
			if c.Resource.Equal(id) {
				want.Changes = append(want.Changes, c)
			}
		}
		var got Plan
		if table := w.s.Table(id); table != nil {
			got = planner.Again(table)
		} else {
			got = planner.AgainSubnet(w.s.Subnet(id))
		}
		if changes(got) != changes(want) || len(want.Changes) == 0 {
			t.Errorf("%s again:\n%s\nwant:\n%s", id.Short(), changes(got), changes(want))
		}
	}
	// clusters' route tables, and tables that are not targets, are never planned for
	for _, id := range []arm.ID{tableA, tableB} {
		w.table(id, "stale 10.244.9.0/24 10.240.0.9")
		if got := planner.Again(w.s.Table(id)); len(got.Changes) > 0 {
			t.Errorf("%s would be written:\n%s", id.Short(), changes(got))
		}
	}
	c.Spec.Targets[0].RouteTableID = string(tableA)
	if got := New(w.s, w.configs).Again(w.s.Table(tableA)); len(got.Changes) > 0 {
		t.Errorf("the cluster's own table would be written:\n%s", changes(got))
	}
}
