package history

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestHad: a history knows what a subnet had from the associations that were made, and better from
// the keeper's memory. Reading it changes nothing, and no other file is taken for one.
func TestHad(t *testing.T) {
	p := newPast(t)
	had := func(want ...inventory.Former) {
		t.Helper()
		before, err := os.ReadFile(p.path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Former(p.path, []arm.ID{nodes})
		if err != nil || len(all[nodes.Key()]) != len(want) {
			t.Fatalf("%+v %v", all, err)
		}
		for i, h := range all[nodes.Key()] {
			if want[i].How = "the history " + p.path; h != want[i] {
				t.Errorf("%+v, want %+v", h, want[i])
			}
		}
		if after, err := os.ReadFile(p.path); err != nil || string(after) != string(before) {
			t.Errorf("the file has changed, or %v", err)
		}
	}
	had()
	older := associate()
	older.New = &plan.Value{RouteTable: table + "-old"}
	p.change(older)
	p.change(associate())
	had(inventory.Former{Property: inventory.PropertyTable, Value: table})
	p.Keep(map[string]keeper.Lasting{"shop": {Had: map[string]map[inventory.Property]arm.ID{
		nodes.Key(): {inventory.PropertyTable: table + "-new", inventory.PropertyNAT: "/nat"}}}})
	had(inventory.Former{Property: inventory.PropertyTable, Value: table + "-new"},
		inventory.Former{Property: inventory.PropertyNAT, Value: "/nat"})

	text := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(text, []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, t.TempDir(), text + "2"} {
		if all, err := Former(path, []arm.ID{nodes}); err == nil {
			t.Errorf("%s: %v", path, all)
		}
	}
}

// TestClockGoesBack: nothing that a keeper recalls began later than now.
func TestClockGoesBack(t *testing.T) {
	p := newPast(t)
	past, future := time.Now().Add(-time.Hour).UTC(), time.Now().Add(time.Hour)
	p.Keep(map[string]keeper.Lasting{"shop": {
		Lacks:   map[string]plan.Lack{"a": {Since: future, Lost: true}, "b": {Since: past}},
		Verdict: &verdict.Verdict{State: verdict.Broken, Since: future}}})
	known := p.Recall()["shop"]
	if a := known.Lacks["a"]; a.Since.After(time.Now()) || !a.Lost ||
		!known.Lacks["b"].Since.Equal(past) || known.Verdict.Since.After(time.Now()) ||
		known.Verdict.State != verdict.Broken {
		t.Errorf("%+v %+v", known.Lacks, known.Verdict)
	}
}
