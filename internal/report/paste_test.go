package report

import (
	"io"
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/migrate"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedMigrations: the next commands of migrations.
func TestPastedMigrations(t *testing.T) {
	for _, rename := range pastetest.Names() {
		id := arm.ID(pastetest.Rename("/subscriptions/s/resourceGroups/g/providers/"+
			"Microsoft.ContainerService/managedClusters/shop", rename))
		for _, state := range []migrate.State{migrate.NotStarted, migrate.Done} {
			m := Migrating{migrate.Progress{Cluster: rename("shop"), ID: id, State: state}}
			if err := m.Write(io.Discard, Text, Style{}); err != nil {
				t.Error(err)
			}
		}
		m := Migration{Plan: migrate.Plan{Clusters: []migrate.Cluster{
			{Name: rename("shop"), ID: id}},
			Optional:  []migrate.Cluster{{Name: rename("shop"), ID: id}},
			Migrating: []string{rename("shop")}}}
		if err := m.Write(io.Discard, Text, Style{}); err != nil {
			t.Error(err)
		}
	}
}
