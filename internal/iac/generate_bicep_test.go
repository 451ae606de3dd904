package iac

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/network"
)

var update = flag.Bool("update", false, "write golden files anew")

func TestGenerateBicep(t *testing.T) {
	files := GenerateBicep(Network{Name: "shop"})
	for _, f := range files {
		golden := filepath.Join("testdata", "generated", f.Name)
		if *update {
			if err := os.WriteFile(golden, f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(f.Data) {
			t.Errorf("%s is not what is generated: go test ./internal/iac -run GenerateBicep -update", golden)
		}
		if strings.Contains(string(f.Data), "NAME") {
			t.Errorf("%s: a name was not filled in", f.Name)
		}
		// Brackets close, and what is used is declared.
		b := parseBicep(string(f.Data))
		for _, pair := range []string{"{}", "[]", "()"} {
			if strings.Count(b.mask, pair[:1]) != strings.Count(b.mask, pair[1:]) {
				t.Errorf("%s: %s do not match", f.Name, pair)
			}
		}
	}
	// Each subnet has its table: nothing is to be repaired, and no deployment strips one.
	fix := FixBicep(files[0], nil)
	if len(fix.Done)+len(fix.Left) > 0 {
		t.Errorf("to repair: %v %v", fix.Done, fix.Left)
	}
	// Tables are made once: written again they would lose the cluster's routes.
	b := parseBicep(string(files[0].Data))
	tables := 0
	for _, r := range b.resources {
		if r.kind == network.TypeRouteTable {
			tables++
			if head := b.text[r.at:r.body.from]; !strings.Contains(head, "if (firstDeployment)") {
				t.Errorf("%s", head)
			}
		}
	}
	if tables != 2 {
		t.Errorf("%d tables", tables)
	}
	// The actions are those that the cluster and the keeper need, and no more.
	text := string(files[0].Data)
	for _, tooMuch := range []string{"*'", "subnets/delete", "routeTables/delete'"} {
		if strings.Contains(text, tooMuch) {
			t.Errorf("a role has %s", tooMuch)
		}
	}
}
