package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAction runs the script of the GitHub action on a plan that strips a table, on code that does
// not, and on a file that is not there.
func TestAction(t *testing.T) {
	t.Parallel()
	var action struct {
		Name, Description string
		Inputs            map[string]struct{ Description, Default string }
		Outputs           map[string]struct{ Description, Value string }
		Runs              struct {
			Using string
			Steps []struct {
				ID, Uses, Shell, Run string
				With, Env            map[string]string
			}
		}
	}
	readYAML(t, "action.yml", &action)
	script := ""
	var env map[string]string
	for _, s := range action.Runs.Steps {
		if s.ID == "check" {
			script, env = s.Run, s.Env
		}
	}
	for _, c := range []struct {
		paths, subnets, failOn string
		code                   int
		summary, outputs       string
	}{
		{"s01-inline-subnet-strips/plan.json", "aks-nodes", "", 2, "aks-nodes", "findings=true"},
		{"s01-inline-subnet-strips/plan.json", "a b", "error", 0, "", "findings=false"},
		{"nowhere.json", "", "", 1, "", ""},
	} {
		temp := t.TempDir()
		given := map[string]string{"paths": c.paths, "subnets": c.subnets, "fail-on": c.failOn}
		run := exec.Command("bash", "-euo", "pipefail", "-c", script)
		run.Dir = filepath.Join(docsAt, "testdata", "terraform")
		run.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GITHUB_OUTPUT="+temp+"/outputs",
			"GITHUB_STEP_SUMMARY="+temp+"/summary")
		for name, from := range env {
			input := strings.TrimSuffix(strings.TrimPrefix(from, "${{ inputs."), " }}")
			about, is := action.Inputs[input]
			if !is {
				t.Fatalf("%s comes from %s", name, from)
			}
			value := given[input]
			if value == "" {
				value = about.Default
			}
			run.Env = append(run.Env, name+"="+value)
		}
		out, _ := run.CombinedOutput() // the exit code is compared
		if got := run.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.paths, got, c.code, out)
		}
		for name, want := range map[string]string{"summary": c.summary, "outputs": c.outputs} {
			raw, err := os.ReadFile(filepath.Join(temp, name))
			if want != "" && (err != nil || !strings.Contains(string(raw), want)) {
				t.Errorf("%s: the %s is %s, want %s (%v)", c.paths, name, raw, want, err)
			}
		}
		raw, err := os.ReadFile(filepath.Join(temp, "routekeeper.sarif"))
		if c.code != 1 && (err != nil || !strings.Contains(string(raw), `"version":"2.1.0"`) &&
			!strings.Contains(string(raw), `"version": "2.1.0"`)) {
			t.Errorf("%s: no SARIF: %v, %s", c.paths, err, raw)
		}
	}
}
