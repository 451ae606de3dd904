package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// needAZ is set by .ci/run: then a machine without the Azure CLI fails the test that needs it.
const needAZ = "ROUTEKEEPER_NEED_AZ"

// TestPastedFixes strips a subnet with the Azure CLI, runs doctor, which names the finding and the
// caller, pastes its command into a shell, and checks that nothing is wrong afterwards.
func TestPastedFixes(t *testing.T) {
	if _, err := exec.LookPath("az"); err != nil {
		if os.Getenv(needAZ) != "" {
			t.Fatalf("%s is set, but the Azure CLI is not installed: %v", needAZ, err)
		}
		t.Skipf("NOT RUN: the Azure CLI is not installed here (%v). On Debian: apt-get install "+
			"azure-cli. With %s=1 this is a failure.", err, needAZ)
	}
	t.Parallel()
	dir := t.TempDir()
	local := filepath.Join(dir, "az")
	a, server, err := startAzure(local, true, emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.e.Close()
	defer server.Close()
	info, err := emulator.ReadInfo(local)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "routes.yaml")
	routekeeper(t, "--emulator", local, "init", "--cluster", string(a.demo.Cluster), "--out",
		config)
	routekeeper(t, "--emulator", local, "promote", string(a.demo.Cluster), "-f", config, "--yes")
	routekeeper(t, "--emulator", local, "sync", "-f", config, "--yes")

	testdata, err := filepath.Abs("../../testdata/az")
	if err != nil {
		t.Fatal(err)
	}
	shell := func(command string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", command, filepath.Join(testdata, "script.sh"))
		cmd.Env = append(os.Environ(),
			"HTTPS="+info.HTTPS, "NODES="+string(a.demo.NodeSubnet), "TENANT="+info.TenantID,
			"CLIENT_ID="+info.ClientID, "CLIENT_SECRET="+info.ClientSecret, "OUT="+t.TempDir(),
			"REQUESTS_CA_BUNDLE="+info.CAFile, "PYTHONPATH="+filepath.Join(testdata, "shim"),
			"AZURE_CONFIG_DIR="+filepath.Join(dir, "config"), "AZURE_CORE_COLLECT_TELEMETRY=no",
			"AZURE_CORE_NO_COLOR=yes", "AZURE_CORE_ONLY_SHOW_ERRORS=yes", "NO_PROXY=127.0.0.1",
		)
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said)
		}
		return string(said)
	}
	// One process of the CLI's Python logs in and strips the subnet.
	shell(`. "$(dirname "$0")/session.sh"
call network vnet subnet update --ids "$NODES" --remove routeTable`)

	d := doctorSays(t, local, config)
	i := slices.IndexFunc(d.Findings, func(f finding.Finding) bool {
		return f.Code == finding.AssociationLost
	})
	if i < 0 {
		t.Fatalf("the lost association is not found: %+v", d.Findings)
	}
	lost := d.Findings[i]
	if evidence := strings.Join(lost.Evidence, "\n"); !strings.Contains(evidence,
		"last written by "+emulator.DefaultPrincipal.ObjectID) {
		t.Errorf("who did it is not said: %q", lost.Evidence)
	}
	shell(lost.Fix)
	for _, f := range doctorSays(t, local, config).Findings {
		if f.Severity > finding.Info {
			t.Errorf("after pasting %q: %+v", lost.Fix, f)
		}
	}
}

// doctorSays runs doctor, whatever its exit code.
func doctorSays(t *testing.T, local, config string) (d struct{ Findings []finding.Finding }) {
	t.Helper()
	out, err := exec.Command("routekeeper", "--emulator", local, "doctor", "-f", config, "-o",
		"json").Output()
	if len(out) == 0 {
		t.Fatalf("doctor: %v", err)
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	return d
}
