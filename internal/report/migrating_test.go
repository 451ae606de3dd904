package report

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/migrate"
)

// TestMigratingCounts: what remains of a migration is counted in the singular and in the plural.
func TestMigratingCounts(t *testing.T) {
	for want, p := range map[string]migrate.Progress{
		"1 of 2 nodes moved, still with routes: b; 1 batch left, at most 30 minutes of waiting": {
			Moved: 1, Batches: 1, WaitMinutes: 30,
			Nodes: []migrate.Node{{Name: "a", Moved: true}, {Name: "b"}}},
		"0 of 1 node moved, still with routes: a; 3 batches left, at most 90 minutes of waiting": {
			Batches: 3, WaitMinutes: 90, Nodes: []migrate.Node{{Name: "a"}}},
	} {
		p.Cluster, p.State = "shop", migrate.Running
		var out strings.Builder
		if err := (Migrating{p}).Write(&out, Text, Style{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out.String()); got != "shop: "+want {
			t.Errorf("%s, want shop: %s", got, want)
		}
	}
}
