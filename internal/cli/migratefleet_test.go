package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestMigratePlanFleet: on the emulator's fleet, migrate plan finds exactly the planted blockers.
func TestMigratePlanFleet(t *testing.T) {
	t.Parallel()
	planted := map[string]string{
		"shop-05": "association-lost",        // broken from the start
		"shop-09": "association-other-table", // the nodes have the gateway's table
		"shop-10": "migration-gateway-on-table",
		"shop-12": "migration-policy",
		"shop-13": "migration-version",
		"shop-14": "migration-pod-cidr",
		"shop-15": "migration-vm-size",
		"shop-16": "cluster-stopped",
		"shop-17": "resource-locked",
		"shop-18": "migration-agc-subnet",
		"shop-19": "migration-name-length",
		"shop-20": "migration-gateway-on-table, migration-policy",
		"shop-21": "surge-does-not-fit",
		"shop-28": "read-failed",        // its network is not readable
		"big-50":  "node-without-route", // its table is empty
	}
	dir := t.TempDir()
	a, server, err := startAzure(dir, false, emulator.Options{CheckClusterIdentity: true,
		RouteBatch: 50 * time.Millisecond},
		func(e *emulator.Emulator) error {
			_, err := emulator.BuildFleet(e, operator)
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	var out, errs bytes.Buffer
	program := &app{in: strings.NewReader(""), out: &out, err: &errs}
	if code := program.run(t.Context(),
		[]string{"--emulator", dir, "migrate", "plan", "--check", "-o", "json"}); code != 2 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var plan struct {
		Migrating, Others []string
		Clusters          []struct {
			Cluster  string
			Ready    bool
			Blockers []struct{ Code, Message string }
			Steps    []struct{ Blocker string }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Clusters) != 29 || !slices.Equal(plan.Migrating, []string{"shop-03"}) ||
		len(plan.Others) > 0 {
		t.Errorf("%d clusters, migrating %v, others %v", len(plan.Clusters), plan.Migrating,
			plan.Others)
	}
	for _, c := range plan.Clusters {
		codes, solved := map[string]bool{}, map[string]bool{}
		for _, f := range c.Blockers {
			codes[f.Code] = true
		}
		for _, s := range c.Steps {
			solved[s.Blocker] = true
		}
		got := strings.Join(slices.Sorted(maps.Keys(codes)), ", ")
		if got != planted[c.Cluster] || c.Ready != (got == "") {
			t.Errorf("%s: blocked by %q, expected %q: %v", c.Cluster, got, planted[c.Cluster],
				c.Blockers)
		}
		for code := range codes {
			if !solved[code] {
				t.Errorf("%s: no step removes %s", c.Cluster, code)
			}
		}
	}
}
