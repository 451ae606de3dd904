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
	run := func(args ...string) string {
		var out bytes.Buffer
		Run(t.Context(), &out, append(args, "--emulator", az)...)
		return out.String()
	}
	run("init", "--cluster", "shop", "--out", config)
	written, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	promoted := run("promote", "shop", "-f", config, "--dry-run")
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
