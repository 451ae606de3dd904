package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

// TestWalkthrough types the commands of docs/walkthrough.md in order and in one shell, and compares
// their output with the page.
func TestWalkthrough(t *testing.T) {
	binaries := kubernetestest.Binaries(t)
	t.Parallel()
	page, err := os.ReadFile("../../docs/walkthrough.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{".ci", "testdata"} { // .ci/kube is typed in the source folder
		source, err := filepath.Abs(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(source, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	typed := typedOn(string(page))
	if len(typed) < 10 {
		t.Fatalf("the page has %d commands", len(typed))
	}
	var script strings.Builder
	script.WriteString("trap 'kill $! 2>/dev/null; wait' EXIT\n")
	for i, c := range typed {
		fmt.Fprintf(&script, "{ %s\n} >%d.out 2>&1 || exit\n", c.command, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script.String())
	// the trap ends the emulator
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "AZURE_CONFIG_DIR="+filepath.Join(dir, "no-azure"),
		"PATH="+filepath.Dir(binaries.APIServer)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	failed := cmd.Run()
	for i, c := range typed {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i, ".out")))
		if err != nil {
			t.Fatalf("the command before this one failed (%v): %s", failed, c.command)
		}
		if got, want := steady(string(got)), steady(c.prints); got != want {
			t.Errorf("%s\nprints\n%s\nand the page shows\n%s", c.command, got, want)
		}
	}
	if failed != nil {
		t.Error(failed)
	}
}

// typedCommand is a command of a page, and its output on the page.
type typedCommand struct{ command, prints string }

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// typedOn are the commands in a page's console blocks: after "$ ", until a line without a
// backslash.
func typedOn(page string) (out []typedCommand) {
	for _, block := range consoleBlock.FindAllStringSubmatch(page, -1) {
		goesOn := false
		for line := range strings.Lines(block[1]) {
			command, begins := strings.CutPrefix(line, "$ ")
			if begins {
				out = append(out, typedCommand{})
			}
			c := &out[len(out)-1]
			if begins || goesOn {
				c.command += command
				goesOn = strings.HasSuffix(line, "\\\n")
			} else {
				c.prints += line
			}
		}
	}
	return out
}

// unsteady matches what differs from run to run: times and ages, the random ends of pods' names,
// and which node has which pod with which address of its subnet.
var unsteady = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\((\d+ ms|[\d.]+ s)\)`), "(TIME)"},
	{regexp.MustCompile(`(?m)(^| )\d+\.\d( |$)`), "${1}MS${2}"},
	{regexp.MustCompile(`(?m)(^| )(\d+m)?\d+s( |$)`), "${1}AGE${3}"},
	{regexp.MustCompile(`hello-(node|web-\w+)-\w+`), "hello-POD"},
	{regexp.MustCompile(`\b(web|azure-[a-z-]+|kube-proxy|metrics-agent)-[a-z0-9]{5} `), "$1-POD "},
	{regexp.MustCompile(`(-vmss)\d+`), "${1}NODE"},
	{regexp.MustCompile(`(10\.24[23])\.\d+\.\d+( |$)`), "$1.ADDRESS$2"},
}

// steady is output with placeholders for everything unsteady, and one space for each gap.
func steady(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		for _, u := range unsteady {
			for again := ""; again != line; { // a match includes the space before the next one
				again, line = line, u.find.ReplaceAllString(line, u.put)
			}
		}
		out.WriteString(line + "\n")
	}
	return strings.TrimRight(out.String(), "\n")
}
