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

	"sigs.k8s.io/yaml"

	"routekeeper.dev/routekeeper/internal/finding"
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

// TestFindingsPage: docs/findings.md begins with a table of its sections. go test . -run
// FindingsPage -update writes it.
func TestFindingsPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| code | severity | what |\n| --- | --- | --- |\n")
	for _, d := range finding.All() {
		fmt.Fprintf(&table, "| [%s](#%s) | %s | %s |\n", d.Code, d.Code, d.Severity, d.Title)
	}
	isPart(t, "docs/findings.md", "codes", "FindingsPage", table.String())
}

// TestChartCopies: a chart cannot refer to files outside it, so these files are copies.
func TestChartCopies(t *testing.T) {
	for name, original := range map[string]string{
		"clusterroutes.crd.yaml": "api/v1alpha1/clusterroutes.crd.yaml",
		"routekeeper.rules.yaml": "deploy/prometheus/routekeeper.rules.yaml",
		"routekeeper.json":       "deploy/grafana/routekeeper.json",
	} {
		text, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		isPage(t, "charts/routekeeper/files/"+name, "ChartCopies",
			strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
}

// rulesOf are the files of package plan that answer one question each, with a table of the answers.
var rulesOf = []struct{ question, file string }{
	{"Which table is the cluster's?", "owntable.go"},
	{"May this table be written?", "writable.go"},
	{"Whose is this route?", "ownership.go"},
	{"Whose machine is behind it?", "machine.go"},
	{"What happens to a route of a target?", "target.go"},
	{"What happens to a route of a former pod CIDR?", "former.go"},
	{"Is its node gone?", "gone.go"},
}

// TestRulesPage: docs/rules.md has the tables of rules that head the files of package plan. go test
// . -run RulesPage -update writes it.
func TestRulesPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# The rules of a plan\n\nEach question has one file in `internal/plan`. " +
		"These are the tables at their heads; rows are tried\nin this order. " +
		"The last table says who uses which proof.\n")
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
	page.WriteString(proofs(t))
	isPage(t, "docs/rules.md", "RulesPage", page.String())
}

// TestEmulatorPage: the table of evidence in docs/emulator.md is what the emulator's data says. go
// test . -run EmulatorPage -update writes it.
func TestEmulatorPage(t *testing.T) {
	isPart(t, "docs/emulator.md", "evidence", "EmulatorPage", evidenceTable(t))
}

// isPart is isPage for the part of a page between the comment that names it and the next end.
func isPart(t *testing.T, path, part, run, want string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begins, ends := "<!-- "+part+": generated -->\n", "<!-- end -->\n"
	before, rest, begun := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", "\n"), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		t.Fatalf("%s has no place for %s", path, part)
	}
	isPage(t, path, run, before+begins+want+ends+after)
}

// TestDesignPage: the map in docs/design.md is the first sentence of each package's comment, and
// the page names no file, test or type that does not exist. go test . -run DesignPage -update
// writes it.
func TestDesignPage(t *testing.T) {
	const page = "docs/design.md"
	var rooms strings.Builder
	rooms.WriteString("| package | pure | what it does |\n| --- | --- | --- |\n")
	declared := map[string]bool{}
	for _, p := range packages(t) {
		pkg := strings.Trim(strings.TrimPrefix(p.ImportPath, module), "/")
		if pkg == "" {
			continue
		}
		says := strings.TrimPrefix(strings.TrimPrefix(p.Doc, "Package "), p.Name+" ")
		mark := ""
		if slices.Contains(pure, pkg) {
			mark = "yes"
		}
		fmt.Fprintf(&rooms, "| `%s` | %s | %s |\n", pkg, mark, says)
		for _, name := range p.GoFiles {
			source, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^(?:type|func|var|const|\t) ?([A-Z]\w*)`).
				FindAllStringSubmatch(string(source), -1) {
				declared[p.Name+"."+m[1]] = true
			}
		}
	}
	isPart(t, page, "packages", "DesignPage", rooms.String())

	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`([a-z]+/[a-z_]+\\.go)`").FindAllStringSubmatch(
		string(text), -1) {
		if _, err := os.Stat(filepath.Join("internal", filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("%s names %s: %v", page, m[1], err)
		}
	}
	for _, m := range regexp.MustCompile(`\b([a-z]+\.[A-Z]\w+)`).FindAllStringSubmatch(
		string(text), -1) {
		if !declared[m[1]] {
			t.Errorf("%s names %s, which is not declared", page, m[1])
		}
	}
	tests, err := exec.Command("git", "grep", "-ho", "^func Test[A-Za-z0-9]*").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(tests), "func "+m[1]+"\n") {
			t.Errorf("%s names %s, which is not there", page, m[1])
		}
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
	files, err := filepath.Glob("internal/finding/*.go")
	if err != nil {
		t.Fatal(err)
	}
	constant, seen := regexp.MustCompile(`(?m)^(?:const |\t)(\w+) +Code = "(.+)"`), 0
	for _, file := range files {
		codes, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constant.FindAllStringSubmatch(string(codes), -1) {
			if seen++; !regexp.MustCompile(`finding\.` + m[1] + `\b`).MatchString(source.String()) {
				t.Errorf("finding.%s is reported nowhere", m[1])
			}
			if finding.Describe(finding.Code(m[2])).Title == "" {
				t.Errorf("docs/findings.md has no section %s", m[2])
			}
		}
	}
	if all := len(finding.All()); seen != all {
		t.Errorf("%d of %d codes were seen", seen, all)
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

// evidenceTable returns the table of docs/emulator.md.
func evidenceTable(t *testing.T) string {
	raw, err := os.ReadFile("internal/emulator/testdata/evidence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name, Clients, Documented, Guessed string
		Recorded                           map[string]float64
	}
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| what | recorded | real client | documented | guess |\n| --- | --- | --- | " +
		"--- | --- |\n")
	for _, e := range all {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", e.Name, recorded(e.Recorded), orDash(e.Clients),
			orDash(e.Documented), orDash(e.Guessed))
	}
	return b.String()
}

// recorded returns the smallest share of all rows.
func recorded(shares map[string]float64) string {
	if len(shares) == 0 {
		return "–"
	}
	least := 100.0
	for _, share := range shares {
		least = min(least, share)
	}
	if least == 0 {
		return "compared"
	}
	return fmt.Sprintf("%.0f %%", least)
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
