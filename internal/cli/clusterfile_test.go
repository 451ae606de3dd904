package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/config"
)

// TestClusterExample: the documented file describes a cluster, and its commands are valid.
func TestClusterExample(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(docsAt, "docs", "cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "```yaml\n")
	text, commands, _ := strings.Cut(text, "```\n")
	c, err := config.ReadCluster(config.File{Name: "cluster.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := build.Read(c.Cluster); err != nil {
		t.Error(err)
	}
	_, commands, _ = strings.Cut(commands, "```sh\n")
	commands, _, _ = strings.Cut(commands, "```\n")
	lines := commandLines(strings.ReplaceAll(commands, "$RK", "--emulator=x"))
	if len(lines) != 4 {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		accepts(t, "docs/cluster.md", line)
	}
}
