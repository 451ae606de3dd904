package plan

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is one rule, broken.
type mutant struct{ name, file, old, now string }

// mutants reads testdata/mutants.txt: for each mutant a line with its name and file, the lines that
// it replaces, each after a minus, and the new ones, each after a plus.
func mutants(t *testing.T) (all []mutant) {
	raw, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(raw), "\r\n", "\n")) {
		last := len(all) - 1
		switch text := line[1:]; {
		case strings.HasPrefix(line, "#"), line == "\n":
		case strings.HasPrefix(line, "-"):
			all[last].old += text
		case strings.HasPrefix(line, "+"):
			all[last].now += text
		default:
			file, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			all = append(all, mutant{name: name, file: file})
		}
	}
	return all
}

var (
	brokenRule = regexp.MustCompile(`(?m)^BROKEN (.*)$`)
	brokenIn   = regexp.MustCompile(`(?m)^in (\d+) steps:$`)
)

// TestMutants: each mutant changes one place. With ROUTEKEEPER_MUTANTS, a part of their names or a
// space for all, it tests each and says which rule finds it first.
func TestMutants(t *testing.T) {
	which := os.Getenv("ROUTEKEEPER_MUTANTS")
	for _, m := range mutants(t) {
		path, err := filepath.Abs(m.file)
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.old); n != 1 {
			t.Errorf("%s: %s has these lines %d times:\n%s", m.name, m.file, n, m.old)
			continue
		}
		if which == "" || !strings.Contains(m.file+" "+m.name, which) {
			continue
		}
		dir := t.TempDir()
		broken := filepath.Join(dir, "broken.go")
		overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{broken: strings.Replace(string(source), m.old,
			m.now, 1), filepath.Join(dir, "overlay.json"): string(overlay)} {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tests := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay",
			filepath.Join(dir, "overlay.json"), "-run",
			"^(TestEveryStep|TestEveryState|TestStories)$", ".")
		tests.Env = append(os.Environ(), "ROUTEKEEPER_FIRST=1", "ROUTEKEEPER_MUTANTS=")
		out, err := tests.CombinedOutput()
		rule, in := brokenRule.FindSubmatch(out), brokenIn.FindSubmatch(out)
		switch {
		case err == nil:
			t.Logf("SURVIVES %s: %s", m.file, m.name)
		case rule == nil:
			t.Errorf("%s: %s: %s", m.file, m.name, out)
		case in == nil:
			t.Logf("found %s: %s: by %.110s", m.file, m.name, rule[1])
		default:
			t.Logf("found %s: %s: in %s steps by %.110s", m.file, m.name, in[1], rule[1])
		}
	}
}

// broke ends the test program at the first broken rule, where only that matters.
func broke(rule, story string) {
	if os.Getenv("ROUTEKEEPER_FIRST") != "" {
		_, _ = os.Stdout.WriteString("BROKEN " + rule + "\n" + story + "\n")
		os.Exit(1)
	}
}
