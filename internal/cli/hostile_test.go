package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// Names as a person could write them into a bundle: visible ones, and invisible ones.
var (
	visible = []string{"x$(touch PWNED)", "x`touch PWNED`", "x'; touch PWNED; '",
		`x"; touch PWNED; "`, "x && touch PWNED", "x;touch PWNED", "x|touch PWNED", "x>PWNED",
		"a b", "~", "*", `back\slash`}
	unseen = []string{"x\ntouch PWNED", "x\n::error::injected", "x\x1b[31m\x1b]0;pwn\x07",
		"x\u202etouch", "x\u2066", "x\u200b", "x\u009b2J", "x\x7f", "x\r"}
)

// TestHostileBundle diagnoses a bundle with hostile names, and pastes every command of the findings
// into a shell: each reaches its program with unchanged names, and nothing else runs. No output
// moves the cursor or hides anything.
func TestHostileBundle(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the commands are for a POSIX shell, which Windows does not have")
	}
	t.Parallel()
	_, dir, az, config := promoted(t, emulator.Options{})
	honest, hostile := filepath.Join(dir, "honest.tgz"), filepath.Join(dir, "hostile.tgz")
	routekeeper(t, "--emulator", az, "doctor", "collect", "-f", config, "--out", honest)
	if info, err := os.Stat(honest); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the bundle: %v, %v", info.Mode(), err)
	}
	rewrite(t, honest, hostile, func(name string, document map[string]any) {
		id, _ := document["id"].(string)
		switch {
		case arm.ID(id).Is(arm.TypeRouteTable):
			properties := document["properties"].(map[string]any)
			routes, _ := properties["routes"].([]any)
			for i, name := range append(slices.Clone(visible), unseen...) {
				routes = append(routes, map[string]any{"name": name, "properties": map[string]any{
					"addressPrefix": fmt.Sprintf("10.244.%d.128/25",
						i), "nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.99.0.4",
				}})
			}
			properties["routes"] = routes
		case arm.ID(id).Is(arm.TypeVNet):
			document["location"] = visible[0]
		}
	})

	for _, format := range []string{"text", "short", "markdown"} {
		out, _ := exec.Command("routekeeper", "doctor", "--from-bundle", hostile, "-o",
			format).CombinedOutput()
		if len(out) < 100 {
			t.Fatalf("doctor -o %s: %s", format, out)
		}
		clean(t, string(out))
	}
	out, err := exec.Command("routekeeper", "doctor", "--from-bundle", hostile, "-o",
		"json").Output()
	if len(out) == 0 {
		t.Fatal(err)
	}
	clean(t, string(out))
	var d struct{ Findings []finding.Finding }
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, f := range d.Findings {
		withheld := strings.Contains(f.Fix, "no command is shown")
		if slices.Contains(unseen, f.Subject) {
			said[f.Subject] = said[f.Subject] || withheld
			if strings.Contains(f.Fix, "az ") {
				t.Errorf("a name that cannot be seen is in a command: %q", f.Fix)
			}
		}
		for _, args := range pasted(t, f.Fix) {
			for _, name := range visible {
				said[name] = said[name] ||
					f.Subject == name && slices.ContainsFunc(args, func(arg string) bool {
						return strings.HasSuffix(arg, "/routes/"+name)
					})
			}
		}
	}
	for _, name := range append(slices.Clone(visible), unseen...) {
		if !said[name] {
			t.Errorf("no finding about %q: the test shows nothing", name)
		}
	}
}

var placeholder = regexp.MustCompile(`<[a-z][^>']*>`)

// pasted runs the command of a finding in a shell whose programs only print their arguments.
func pasted(t *testing.T, fix string) (calls [][]string) {
	t.Helper()
	i := regexp.MustCompile(`\b(az|kubectl|terraform|routekeeper) `).FindStringIndex(fix)
	if i == nil {
		return nil
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"az", "kubectl", "terraform", "routekeeper"} {
		if err := os.WriteFile(filepath.Join(bin, program),
			[]byte("#!/bin/sh\nprintf '%s\\000' \"$@\" >>\"$CALLS\"; printf '\\001' "+
				">>\"$CALLS\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", placeholder.ReplaceAllString(fix[i[0]:], "PLACEHOLDER"))
	cmd.Dir, cmd.Env = work, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CALLS="+
		filepath.Join(dir, "calls"), "HOME=/nowhere")
	said, err := cmd.CombinedOutput()
	if left, _ := os.ReadDir(work); len(left) > 0 {
		t.Errorf("%q made %s", fix, left[0].Name())
	}
	if err != nil && !strings.Contains(string(said), "not found") { // words after a command
		t.Errorf("%q: %v\n%s", fix, err, said)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatalf("%q calls nothing: %v\n%s", fix, err, said)
	}
	for _, call := range strings.Split(strings.TrimSuffix(string(raw), "\x01"), "\x01") {
		calls = append(calls, strings.Split(strings.TrimSuffix(call, "\x00"), "\x00"))
	}
	return calls
}

// clean checks that output has no hidden characters, and no line that is a command to GitHub
// Actions.
func clean(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if line = strings.TrimSuffix(line, "\n"); finding.Show(line) != line {
			t.Errorf("hidden characters: %q", line)
		}
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("a command for a pipeline: %q", line)
		}
	}
}

// TestHostileManifest checks the errors about bundles and configs from other people.
func TestHostileManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const bad = "shop\n::error::injected\x1b[2J\u202e"
	quoted, _ := json.Marshal(bad)
	config := filepath.Join(dir, "routes.yaml")
	if err := os.WriteFile(config,
		[]byte("apiVersion: routekeeper.dev/v1alpha1\nkind: ClusterRoutes\nmetadata:\n  name: "+
			string(quoted)+"\nspec:\n  clusterID: /x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bundles := map[string]map[string]string{
		"metadata.name of config 1: ": {
			"manifest.json": `{"format":1,"configs":[{"metadata":{"name":` + string(quoted) +
				`}}]}`},
		"it was written by ": {"manifest.json": `{"format":99,"program":` + string(quoted) + `}`},
		`.json: `:            {"arm/" + bad + ".json": "no JSON"},
	}
	tries := map[string][]string{"metadata.name: ": {"sync", "-f", config}}
	for want, files := range bundles {
		path := filepath.Join(dir, strings.Trim(want, ".: ")+".tgz")
		pack(t, path, files)
		tries[want] = []string{"doctor", "--from-bundle", path}
	}
	for want, args := range tries {
		out, err := exec.Command("routekeeper", args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) ||
			strings.Count(string(out), "\n") != 1 {
			t.Errorf("%v: %v %q, want one line with %q", args, err, out, want)
		}
		clean(t, string(out))
	}
}

// rewrite changes the ARM documents of a bundle.
func rewrite(t *testing.T, from, to string, change func(name string, document map[string]any)) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(header.Name, "arm/") {
			var document map[string]any
			if err := json.Unmarshal(data, &document); err != nil {
				t.Fatal(err)
			}
			change(header.Name, document)
			if data, err = json.Marshal(document); err != nil {
				t.Fatal(err)
			}
		}
		files[header.Name] = string(data)
	}
	pack(t, to, files)
}

func pack(t *testing.T, path string, files map[string]string) {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	archive := tar.NewWriter(compressed)
	for name, data := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)),
			Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close(),
		os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
