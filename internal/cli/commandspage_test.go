package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestCommandsPage: what docs/commands.md shows of init and promote is what they print.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	az, config := filepath.Join(dir, "az"), filepath.Join(dir, "routes.yaml")
	_, server, err := startAzure(az, true, emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	run := func(want int, args ...string) string {
		var out bytes.Buffer
		program := &app{in: strings.NewReader(""), out: &out, err: &out}
		if code := program.run(t.Context(),
			append([]string{"--emulator", az}, args...)); code != want {
			t.Errorf("%v: exit code %d: %s", args, code, out.String())
		}
		return out.String()
	}
	run(0, "init", "--cluster", "shop", "--out", config)
	written, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	promoted := run(2, "promote", "shop", "-f", config, "--dry-run")
	_, section, _ := strings.Cut(string(page), "```yaml\nspec:\n")
	yaml, _, _ := strings.Cut(section, "```")
	lines := strings.Split(string(written), "\n")
	for line := range strings.Lines(yaml) {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(
			strings.TrimRight(line, "\n")), "…", ".*") + "$")
		i := 0
		for i < len(lines) && !pattern.MatchString(lines[i]) {
			i++
		}
		if i == len(lines) {
			t.Fatalf("init does not print %q after what is above it:\n%s", line, written)
		}
		lines = lines[i+1:]
	}
	shown := regexp.MustCompile(`routes\.yaml(:\d+ +spec\..*)`).FindAllStringSubmatch(string(page),
		-1)
	for _, line := range shown {
		if !strings.Contains(promoted, line[1]) {
			t.Errorf("promote does not print %q:\n%s", line[1], promoted)
		}
	}
	if yaml == "" || len(shown) < 3 {
		t.Error("the page has no examples")
	}
}
