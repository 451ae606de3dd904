package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is one rule, broken. Path is from this folder, by is the test that finds it.
type mutant struct{ pkg, path, name, by, old, now string }

// mutantLists are the packages with a list of mutants, and the tests for mutants that name none.
var mutantLists = map[string]string{
	"internal/plan":   "^(TestEveryStep|TestEveryState|TestStories)$",
	"internal/keeper": "",
}

// mutants reads a package's testdata/mutants.txt: for each mutant a line with its file and name, a
// line with the test that finds it after an equals sign, the lines that it replaces, each after a
// minus, and the new ones, each after a plus.
func mutants(t *testing.T, pkg string) (all []mutant) {
	raw, err := os.ReadFile(filepath.Join(pkg, "testdata/mutants.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(raw), "\r\n", "\n")) {
		last := len(all) - 1
		switch text := line[1:]; {
		case strings.HasPrefix(line, "#"), line == "\n":
		case strings.HasPrefix(line, "="):
			all[last].by = strings.TrimSpace(text)
		case strings.HasPrefix(line, "-"):
			all[last].old += text
		case strings.HasPrefix(line, "+"):
			all[last].now += text
		default:
			file, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			all = append(all, mutant{pkg: pkg, path: filepath.Join(pkg, file), name: name})
		}
	}
	return all
}

var (
	brokenRule = regexp.MustCompile(`(?m)^BROKEN (.*)$`)
	brokenIn   = regexp.MustCompile(`(?m)^in (\d+) steps:$`)
)

// TestMutants: each mutant changes one place. With ROUTEKEEPER_MUTANTS, a part of a path and name,
// or a space for all, it tries each: the test that it names, or the tests of all states and steps,
// must fail. All of them take longer than the usual timeout of go test.
func TestMutants(t *testing.T) {
	which := os.Getenv("ROUTEKEEPER_MUTANTS")
	tried, found := 0, 0
	for pkg, usual := range mutantLists {
		for _, m := range mutants(t, pkg) {
			source, err := os.ReadFile(m.path)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(source, []byte(m.old)); n != 1 {
				t.Errorf("%s: %s has these lines %d times:\n%s", m.name, m.path, n, m.old)
			} else if m.by == "" && usual == "" {
				t.Errorf("%s: %s: no test is named that finds it", m.path, m.name)
			} else if which != "" && strings.Contains(pkg+" "+m.path+" "+m.name, which) {
				if tried++; m.found(t, source, usual) {
					found++
				}
			}
		}
	}
	if which != "" {
		t.Logf("%d of %d are found", found, tried)
	}
}

// found tries a mutant, and reports whether its test fails.
func (m mutant) found(t *testing.T, source []byte, usual string) bool {
	dir := t.TempDir()
	path, err := filepath.Abs(m.path)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{
		broken:                             bytes.Replace(source, []byte(m.old), []byte(m.now), 1),
		filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := usual
	if m.by != "" {
		run = "^" + strings.ReplaceAll(m.by, "/", "$/^") + "$"
	}
	tests := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off",
		"-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-run", run, "./"+m.pkg)
	tests.Env = append(os.Environ(), "ROUTEKEEPER_FIRST=1", "ROUTEKEEPER_FULL=1",
		"ROUTEKEEPER_MUTANTS=")
	out, err := tests.CombinedOutput()
	rule, in := brokenRule.FindSubmatch(out), brokenIn.FindSubmatch(out)
	switch {
	case err == nil:
		t.Errorf("SURVIVES %s: %s", m.path, m.name)
		return false
	case m.by != "" && bytes.Contains(out, []byte("--- FAIL: "+m.by+" ")):
		t.Logf("found %s: %s: by %s", m.path, m.name, m.by)
	case m.by != "" || rule == nil:
		t.Errorf("%s: %s: %s", m.path, m.name, out)
		return false
	case in == nil:
		t.Logf("found %s: %s: by %.110s", m.path, m.name, rule[1])
	default:
		t.Logf("found %s: %s: in %s steps by %.110s", m.path, m.name, in[1], rule[1])
	}
	return true
}
