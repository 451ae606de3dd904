package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// nasty is a name for everything in a document. It comes back from strconv.Unquote as it is.
const nasty = "zq$(touch PWNED)`touch PWNED`'; touch PWNED; '\\\"; touch PWNED; \\\"<img src=x>" +
	"\x1b[31m\x1b]0;pwn\a\u009b2J\u202e\u2066\u200b\n::error::x"

// TestHostileSources gives nasty names to what Kubernetes, Terraform, manifests and
// Azure's what-if show. In no format does the output have hidden characters or a line of the
// attacker's. The commands in the findings run nothing else.
func TestHostileSources(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the commands are for a POSIX shell, which Windows does not have")
	}
	t.Parallel()
	_, dir, az, config := promoted(t, emulator.Options{})
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(nasty); err != nil {
		t.Fatal(err)
	}
	asJSON := strings.TrimSpace(encoded.String())
	inJSON := asJSON[1 : len(asJSON)-1]
	rename := strings.NewReplacer("aks-nodes", inJSON, "shop-vnet", inJSON+"2", "shop-nodes-rt",
		inJSON+"3", "aks-userpool", inJSON+"4", "Nodes of the shop", inJSON, "fresh | bool", inJSON,
		"more.yml", inJSON, "pods-rt", inJSON, `"name": "shop"`, `"name": `+asJSON, "shop-net",
		inJSON, `"name": "managed"`, `"name": `+asJSON, "Skip", inJSON, "control-plane", inJSON)
	nodes := write("nodes.json", strings.ReplaceAll(`{"kind":"NodeList","items":[{"metadata":{`+
		`"name":"aks-nodepool1-92750320-vmss000000","labels":{"kubernetes.azure.com/agentpool":NASTY,`+
		`NASTY:NASTY},"annotations":{NASTY:NASTY}},"spec":{"podCIDR":"10.244.7.0/24"},"status":{`+
		`"addresses":[{"type":"InternalIP","address":"10.42.1.4"}],"conditions":[`+
		`{"type":"Ready","status":"False","reason":NASTY,"message":NASTY},`+
		`{"type":"NetworkUnavailable","status":"True","reason":NASTY,"message":NASTY}]}}]}`,
		"NASTY", asJSON))
	pods := write("pods.json", strings.ReplaceAll(`{"kind":"PodList","items":[{"metadata":{`+
		`"namespace":"a","name":"b","annotations":{"x":NASTY}},"spec":{"nodeName":NASTY},"status":{`+
		`"phase":NASTY,"podIP":"192.0.2.7"}}]}`, "NASTY", asJSON))
	terraform := "../../testdata/terraform/s0"
	folder := write("infra/main.tf", strings.ReplaceAll(
		read(terraform+"9-silent-strip-stale-state/main.tf"), `"aks-nodes"`, asJSON))
	all := [][]string{
		{"doctor", "-f", config, "--from-nodes", nodes, "--from-pods", pods},
		{"trace", "a/b", "10.244.1.9", "-f", config, "--from-pods", pods},
		{"iac", "check", write("plan1.json",
			rename.Replace(read(terraform+"1-inline-subnet-strips/plan.json")))},
		{"iac", "check", write("plan9.json", rename.Replace(
			read(terraform+"9-silent-strip-stale-state/plan.json"))), "--subnet", nasty},
		{"iac", "check", filepath.Dir(folder)},
		{"iac", "check", filepath.Dir(folder), "--subnet", nasty},
		{"iac", "check",
			write("whatif.json", rename.Replace(read("../iac/testdata/whatif/modify.json")))},
		{"iac", "check", write("template.json",
			rename.Replace(read("../iac/testdata/bicep/plain.json"))), "--subnet", nasty},
		{"iac", "check", write("site/manifests.yaml",
			rename.Replace(read("../iac/testdata/manifests/quoted.json"))), "--subnet", nasty},
		{"iac", "check", filepath.Join(dir, "site")},
	}
	b := newBatch(t, "")
	for _, args := range all {
		args = append([]string{"--emulator", az}, args...)
		shown := 0
		for _, format := range []string{"text", "short", "markdown", "sarif", "json"} {
			if format == "sarif" && args[2] != "iac" ||
				args[2] == "trace" && (format == "short" || format == "markdown") {
				continue
			}
			a := b.run(t, nil, append(args, "-o", format)...)
			clean(t, a.Out)
			clean(t, a.Stderr)
			if a.Code == 1 {
				t.Errorf("%v: %s", args, a.Stderr)
			}
			if strings.Contains(a.Out, "zq") {
				shown++
			}
			text := strings.ReplaceAll(a.Out, `\<`, "")
			if format == "markdown" && strings.Contains(text, "<img") {
				t.Errorf("%v: an element of the attacker in Markdown:\n%s", args, a.Out)
			}
			var d struct{ Findings []finding.Finding }
			if format == "json" && json.Unmarshal([]byte(a.Out), &d) == nil {
				for _, f := range d.Findings {
					if !strings.HasPrefix(f.Fix, "no command is shown") {
						pasted(t, f.Fix)
					}
				}
			}
		}
		if shown < 2 {
			t.Errorf("%v: only %d formats show a name: the test shows nothing", args, shown)
		}
	}
	b.refuses(t, "doctor", "-f", config, "--from-nodes", write("names.json",
		`{"kind":"NodeList","items":[{"metadata":{"name":`+asJSON+`}}]}`), "--emulator", az)
}
