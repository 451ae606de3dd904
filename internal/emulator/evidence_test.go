package emulator

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEvidence: every kind says how we know what it does, and every mark [U] in the code is a guess
// that the table tells.
func TestEvidence(t *testing.T) {
	kinds := newBench(t, Options{}).e.kernel.kinds
	told, guessed := map[string]bool{}, map[string]bool{}
	for _, e := range Evidences {
		for _, name := range e.Types {
			if kinds[kindKey(name)] == nil || told[kindKey(name)] {
				t.Errorf("%s: %s is no kind, or told twice", e.Name, name)
			}
			told[kindKey(name)] = true
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
			t.Errorf("%s is without evidence", k.name)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	marked := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "[U]") && !strings.HasSuffix(file, "_test.go") &&
			file != "evidence.go" {
			marked[file] = true
		}
	}
	if !maps.Equal(marked, guessed) {
		t.Errorf("files with [U] are %v, the table says %v", slices.Sorted(maps.Keys(marked)),
			slices.Sorted(maps.Keys(guessed)))
	}
}
