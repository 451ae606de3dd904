package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/topic"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

// isPage compares a page with what generates it, or writes it.
func isPage(t *testing.T, path, run, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(have), "\r\n", "\n") != want {
		t.Errorf("%s is old: go test . -run %s -update", path, run)
	}
}

// TestFindingsPage: docs/findings.md is what the table of codes says. go test . -run FindingsPage
// -update writes it.
func TestFindingsPage(t *testing.T) {
	isPage(t, "docs/findings.md", "FindingsPage", report.FindingsPage(finding.All()))
}

// rulesOf are the files of package plan that answer one question each, with a table of the answers.
var rulesOf = []struct{ question, file string }{
	{"Which table is the cluster's?", "owntable.go"},
	{"May this table be written?", "writable.go"},
	{"Whose is this route?", "ownership.go"},
	{"Whose machine is behind it?", "machine.go"},
	{"What happens to a route of a target?", "target.go"},
	{"What happens to a route of a former pod CIDR?", "former.go"},
}

// TestRulesPage: docs/rules.md has the tables of rules that head the files of package plan. go test
// . -run RulesPage -update writes it.
func TestRulesPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# The rules of a plan\n\nEach question has one file in `internal/plan`. " +
		"These are the tables at their heads; rows are tried\nin this order. " +
		"`gone.go` proves that a node is gone ([design](design.md#proof-of-deletes)).\n")
	for _, r := range rulesOf {
		source, err := os.ReadFile(filepath.Join("internal/plan", r.file))
		if err != nil {
			t.Fatal(err)
		}
		var rows []string
		for line := range strings.Lines(strings.ReplaceAll(string(source), "\r\n", "\n")) {
			row, isRow := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
			if isRow && strings.Contains(row, "|") {
				rows = append(rows, strings.TrimRight(row, " "))
			} else if len(rows) > 0 {
				break
			}
		}
		if len(rows) < 3 {
			t.Errorf("%s has no table of rules", r.file)
		}
		fmt.Fprintf(&page, "\n## %s\n\n`internal/plan/%s`\n\n```\n%s\n```\n", r.question, r.file,
			strings.Join(rows, "\n"))
	}
	isPage(t, "docs/rules.md", "RulesPage", page.String())
}

// TestNetworkingPage: docs/networking.md is what explain prints. go test . -run NetworkingPage
// -update writes it.
func TestNetworkingPage(t *testing.T) {
	isPage(t, "docs/networking.md", "NetworkingPage", topic.Page())
}

// TestEmulatorPage: the table of evidence in docs/emulator.md is what the emulator's code says. go
// test . -run EmulatorPage -update writes it.
func TestEmulatorPage(t *testing.T) {
	const path, begins, ends = "docs/emulator.md", "<!-- evidence: generated -->\n",
		"<!-- end -->\n"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	have := strings.ReplaceAll(string(raw), "\r\n", "\n")
	before, rest, begun := strings.Cut(have, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	want := before + begins + emulator.EvidenceTable() + ends + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if have != want {
		t.Errorf("%s is old: go test . -run EmulatorPage -update", path)
	}
}

// TestEveryCodeIsUsed: a documented code that nothing reports would be a false promise.
func TestEveryCodeIsUsed(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir("internal", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			filepath.Dir(path) != filepath.Join("internal", "finding") {
			raw, err := os.ReadFile(path)
			source.Write(raw)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	codes, err := os.ReadFile("internal/finding/codes.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) +Code = "`).FindAllStringSubmatch(
		string(codes), -1) {
		if !strings.Contains(source.String(), "finding."+m[1]) {
			t.Errorf("finding.%s is reported nowhere", m[1])
		}
	}
}

// TestLinksInDocs: what the documents link to is there, with the heading that a link names.
func TestLinksInDocs(t *testing.T) {
	pages, err := exec.Command("git", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^)]*))?\)`)
	anchors := map[string][]string{} // of each page that a link has led to
	for _, page := range strings.Fields(string(pages)) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
				continue
			}
			if m[2] != "" && anchors[target] == nil {
				anchors[target] = headings(t, target)
			}
			if m[2] != "" && !slices.Contains(anchors[target], m[2]) {
				t.Errorf("%s links to %s#%s, and there is no such heading", page, target, m[2])
			}
		}
	}
}

// headings returns the link targets of a document's headings, as GitHub makes them.
func headings(t *testing.T, page string) (targets []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+?)\r?$`).FindAllStringSubmatch(string(text),
		-1) {
		target := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		targets = append(targets, regexp.MustCompile(`[^\pL\pN_-]`).ReplaceAllString(target, ""))
	}
	return targets
}

// TestNoAddressOfOurs: the module's path is a name, not an address. Nothing can be installed or
// looked up there, so nothing tells anybody to.
func TestNoAddressOfOurs(t *testing.T) {
	files, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	named := strings.TrimSuffix(module, "/routekeeper")
	domain := regexp.QuoteMeta(named)
	wrong := regexp.MustCompile(`(?i)(https?|git|ssh)://[\w@./-]*` + domain +
		`|\b(go (install|run|get|mod download)|docker pull|pip install|brew install|curl|wget|repo:)\b[^\n"]*` + domain)
	if bad := "go install -v " + module + "@latest"; !wrong.MatchString(bad) ||
		!wrong.MatchString("https://"+module) || wrong.MatchString(module+"/v1alpha1") {
		t.Fatal("the test does not tell them apart")
	}
	for _, name := range strings.Split(strings.TrimSpace(string(files)), "\n") {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // removed, and not committed yet
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(strings.ToLower(line), strings.ToLower(named)) {
				continue // far faster than the pattern
			}
			for _, found := range wrong.FindAllString(line, -1) {
				t.Errorf("%s: %s", name, found)
			}
		}
	}
}

// TestIntervals: no example and no unit has the keeper check more rarely than it does by default,
// ten seconds: a lost association cuts pods off until it is seen.
func TestIntervals(t *testing.T) {
	examples := []string{"README.md", "internal/cli/run.go"}
	for _, pattern := range []string{"docs/*.md", "docs/pipelines/*", "deploy/*/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		examples = append(examples, found...)
	}
	for _, path := range examples {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`--interval[ =](\d+\w*)`).FindAllStringSubmatch(
			string(raw), -1) {
			if m[1] != "10s" {
				t.Errorf("%s says %s", path, m[0])
			}
		}
	}
}
