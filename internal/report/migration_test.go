package report

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/migrate"
)

// TestMigrationFleet: the plan of several clusters sums them up, and tells apart what is blocked,
// what is unknown, what migrates, and clusters with the same name.
func TestMigrationFleet(t *testing.T) {
	cluster := func(name, group string, minutes int, codes ...finding.Code) migrate.Cluster {
		c := migrate.Cluster{Name: name, ID: arm.ID("/subscriptions/s/resourceGroups/" + group +
			"/providers/" + arm.TypeCluster + "/" + name), Ready: len(codes) == 0,
			Work: migrate.Work{Nodes: 3, Batches: 3, WaitMinutes: minutes}}
		for _, code := range codes {
			c.Blockers = append(c.Blockers, finding.Finding{Code: code})
		}
		return c
	}
	optional := cluster("e", "one", 30, finding.MigrationWindows)
	optional.Plugin, optional.Goal = "overlay", "cilium"
	m := Migration{Plan: migrate.Plan{Days: 10, Migrating: []string{"moving"},
		Others: []string{"overlaid"}, Optional: []migrate.Cluster{optional},
		Clusters: []migrate.Cluster{
			cluster("a", "one", 90), cluster("A", "two", 30),
			cluster("b", "one", 60, finding.MigrationPolicy, finding.MigrationPolicy,
				finding.MigrationVersion),
			cluster("c", "one", 60, finding.MigrationPolicy, finding.ReadFailed),
			cluster("d", "one", 60, finding.ReadFailed),
		}}}
	var b strings.Builder
	if err := m.Write(&b, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"5 kubenet clusters: 2 ready, 2 blocked, 1 unknown. ",
		"a (one)  ready", "A (two)  ready", "c        blocked  migration-policy, read-failed",
		"d        unknown  read-failed",
		"15 nodes. One cluster after another waits at most 5.0 h; until the deadline that is one " +
			"cluster every 2 days.",
		"Clusters blocked: migration-policy 2, read-failed 2, migration-version 1. ",
		"migrate plan /subscriptions/s/resourceGroups/one/",
		"Migrating now: moving. Follow it: routekeeper migrate watch moving",
		"Not on kubenet: overlaid",
		"e        overlay  cilium  blocked  migration-windows  3\nThe steps of one: ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	m.Clusters, m.Days = m.Clusters[:1], 0
	b.Reset()
	if err := m.Write(&b, Text, Style{}); err != nil || strings.Contains(b.String(), "another") {
		t.Errorf("one cluster: %v\n%s", err, b.String())
	}
}
