package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

// TestWorkflows: actionlint finds nothing in the workflows and the action. Every action of others
// is official and pinned to a commit, and no job has more rights than it lists.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := linter.LintFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	pinned := regexp.MustCompile(
		`^(\./.*|(actions|sigstore)/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, path := range append(files, "../action.yml") {
		text := read(t, path)
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`).FindAllStringSubmatch(
			text, -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %s is not an official action, pinned to a commit", path, m[1])
			}
		}
		if strings.Contains(path, "workflows") &&
			!strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s does not begin without rights", path)
		}
	}
}

// TestWorkflowCommands: the release workflow calls this program with flags that it has.
func TestWorkflowCommands(t *testing.T) {
	text := strings.ReplaceAll(read(t, "../.github/workflows/release.yml"), "\n          --", " --")
	calls := regexp.MustCompile(`go -C release run \. (\w+)((?: --[\w-]+ "?[\w$./]+"?)*)`).
		FindAllStringSubmatch(text, -1)
	called := ""
	for _, m := range calls {
		called += m[1] + " "
		for _, flag := range regexp.MustCompile(`--[\w-]+`).FindAllString(m[2], -1) {
			if source, err := os.ReadFile("main.go"); err != nil ||
				!strings.Contains(string(source), `f.String("`+flag[2:]+`"`) {
				t.Errorf("%s %s: there is no such flag (%v)", m[1], flag, err)
			}
		}
	}
	if !strings.Contains(called, "build push") {
		t.Errorf("the workflow calls %s", called)
	}
}
