//go:build unix

package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestReadme types the commands of the README in order, in a folder with the README's testdata, on
// the emulator, and answers each question with yes. Nothing fails, and the promised results appear.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, tour := range []string{"Try it", "When something breaks", "In a pipeline",
		"A cluster from nothing"} {
		_, text, found := strings.Cut(string(readme), "\n## "+tour+"\n")
		if !found {
			t.Fatalf("the README has no %q", tour)
		}
		text, _, _ = strings.Cut(text, "\n## ")
		blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Fatalf("%q says nothing to type", tour)
		}
		for _, block := range blocks {
			script.WriteString(block[1])
		}
	}
	text := strings.ReplaceAll(script.String(), "\\\n", " ")
	for _, answer := range []struct{ question, yes string }{
		{`(?m)^routekeeper (promote|doctor .*--fix|cluster create).*$`, "$0 --yes"},
		{`(?m)^routekeeper cluster delete web.*$`, "$0 --yes"},
		{`(?m)^sleep 15$`, "sleep 15; until routekeeper status --url http://127.0.0.1:8080 > " +
			"/dev/null; do sleep 1; done"},
		// A person reads what the keeper says before the next command: its first check has ended.
		{`(?m)^routekeeper run .*&$`, "$0\nuntil routekeeper status --url http://127.0.0.1:8080 > " +
			"/dev/null 2>&1; do sleep 0.2; done"},
		{`127\.0\.0\.1:8080`, freeAddress(t)},
	} {
		text = regexp.MustCompile(answer.question).ReplaceAllString(text, answer.yes)
	}
	dir := t.TempDir()
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testdata, filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	// Job control gives %2 in the README its meaning.
	cmd := exec.CommandContext(ctx, "bash", "-m", "-c", text+"kill %1; wait")
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("bash: %v", err)
	}
	for _, want := range []string{
		"3 routes would be created", "wrote routes.yaml", "stripped shop-vnet/nodes", "✓  shop",
		"1 route created",
		"association-lost", "dropped", "iac-strips", "web: all ", "nothing is left",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q was not seen", want)
		}
	}
	if failed := regexp.MustCompile(`(?m)^routekeeper: .*`).FindAllString(string(out),
		-1); len(failed) > 0 {
		t.Errorf("failed: %q", failed)
	}
	if t.Failed() {
		t.Logf("typed:\n%s\nseen:\n%s", text, out)
	}
}
