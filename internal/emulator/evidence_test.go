package emulator

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestEvidence: every type has its evidence, and every mark [U] in the code is a guess that the
// table lists.
func TestEvidence(t *testing.T) {
	raw, err := os.ReadFile("testdata/evidence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var evidences []struct {
		Name, Clients, Documented, Guessed string
		Types, GuessedIn                   []string
		Recorded                           map[string]float64
	}
	if err := yaml.UnmarshalStrict(raw, &evidences); err != nil {
		t.Fatal(err)
	}
	kinds := newBench(t, Options{}).e.kernel.Kinds
	told, guessed := map[string]bool{}, map[string]bool{}
	for _, e := range evidences {
		for _, name := range e.Types {
			if kinds[strings.ToLower(name)] == nil || told[strings.ToLower(name)] {
				t.Errorf("%s: %s is not a kind, or is listed twice", e.Name, name)
			}
			told[strings.ToLower(name)] = true
		}
		if len(e.Recorded) == 0 && e.Clients+e.Documented+e.Guessed == "" ||
			len(e.GuessedIn) > 0 && e.Guessed == "" {
			t.Errorf("%s: by what?", e.Name)
		}
		for _, file := range e.GuessedIn {
			guessed[file] = true
		}
	}
	for key, k := range kinds {
		if !told[key] {
			t.Errorf("%s is without evidence", k.Name)
		}
	}
	marked := map[string]bool{}
	for _, pattern := range []string{"*.go", "*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(source), "[U]") && !strings.HasSuffix(file, "_test.go") {
				marked[filepath.ToSlash(file)] = true
			}
		}
	}
	if !maps.Equal(marked, guessed) {
		t.Errorf("files with [U] are %v, the table says %v", slices.Sorted(maps.Keys(marked)),
			slices.Sorted(maps.Keys(guessed)))
	}
}
