package generate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

var monitors = []struct {
	name    string
	monitor Monitor
}{
	{"monitor", Monitor{
		Name: "routekeeper", ShortName: "routekeeper", Receiver: "routekeeper",
		Description: "Wakes it's keeper.", Operations: []string{
			"Microsoft.Network/routeTables/delete", "Microsoft.Network/routeTables/write"},
		Parts: []MonitorPart{{"11111111-1111-1111-1111-111111111111", "ops-rg",
			[]arm.ID{shopSub + "/resourceGroups/MC_shop", shopSub +
				"/resourceGroups/net-rg/providers/Microsoft.Network/routeTables/shop-rt"}}},
	}},
	{"monitor-secure", Monitor{
		Name: "routekeeper-two", ShortName: "routekeeper", Receiver: "routekeeper",
		Description: "Wakes.", Operations: []string{"Microsoft.Network/routeTables/write"},
		Parts: []MonitorPart{
			{"11111111-1111-1111-1111-111111111111", "ops-rg",
				[]arm.ID{shopSub + "/resourceGroups/MC_shop"}},
			{"22222222-2222-2222-2222-222222222222", "hub-rg",
				[]arm.ID{"/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/hub-rg"}},
		},
		Webhook: MonitorWebhook{ObjectID: "0b0b0000-0000-4000-8000-000000000009",
			Audience: "api://routekeeper", Tenant: "7e4a0000-0000-4000-8000-000000000001"},
	}},
}

// TestMonitor: the code equals the golden file, is formatted, and fits the provider's schema.
func TestMonitor(t *testing.T) {
	p := loadProvider(t, 5)
	for _, c := range monitors {
		tf, err := c.monitor.Terraform()
		if err != nil {
			t.Fatal(err)
		}
		bicep, err := c.monitor.Bicep()
		if err != nil {
			t.Fatal(err)
		}
		config, err := parse(tf)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, m := range config.mistakes(p) {
			t.Errorf("%s: %s", c.name, m)
		}
		code := bicepNoCode.ReplaceAllString(string(bicep[0].Text), "")
		for _, pair := range []string{"{}", "[]", "()"} {
			if a, b := strings.Count(code, pair[:1]), strings.Count(code, pair[1:]); a != b {
				t.Errorf("%s: Bicep has %d %s and %d %s", c.name, a, pair[:1], b, pair[1:])
			}
		}
		for language, file := range map[string]Output{"terraform": tf[0], "bicep": bicep[0]} {
			for _, part := range c.monitor.Parts {
				for _, id := range part.Scopes {
					if !bytes.Contains(file.Text, []byte(id)) {
						t.Errorf("%s: %s lacks %s", c.name, language, id)
					}
				}
			}
			path := filepath.Join("testdata", "golden", language, c.name, file.Name)
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, file.Text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			} else if want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")); !bytes.Equal(
				file.Text, want) {
				t.Errorf("%s is not what is written now: go test ./internal/iac/generate -run "+
					"Monitor -update\n%s", path, file.Text)
			}
		}
	}
}

// TestMonitorFormat checks the format with terraform fmt, if terraform is installed.
func TestMonitorFormat(t *testing.T) {
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skipf("NOT RUN: terraform is not installed here (%v); TestMonitor compares with "+
			"hclwrite's format", err)
	}
	for _, c := range monitors {
		if out, err := exec.Command(terraform, "fmt", "-check", "-diff",
			filepath.Join("testdata", "golden", "terraform", c.name)).CombinedOutput(); err != nil {
			t.Errorf("%s: terraform fmt: %v\n%s", c.name, err, out)
		}
	}
}
