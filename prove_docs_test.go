package main

import (
	"os"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/prove"
	"routekeeper.dev/routekeeper/internal/report"
)

// TestProvePage: the table in docs/prove.md is the table of facts. go test . -run ProvePage -update
// writes it.
func TestProvePage(t *testing.T) {
	const path, mark = "docs/prove.md", "<!-- facts: go test . -run ProvePage -update -->\n"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), "\r\n", "\n")
	head, _, found := strings.Cut(text, mark)
	if !found {
		t.Fatalf("%s has no line %q", path, mark)
	}
	want := head + mark + report.ProofTable(prove.Facts())
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Errorf("%s is old: go test . -run ProvePage -update", path)
	}
}
