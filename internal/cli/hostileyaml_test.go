package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// strip is a manifest that removes a route table.
const strip = "{apiVersion: network.azure.com/v1, kind: VirtualNetworksSubnet, " +
	"metadata: {name: s}, spec: {owner: {name: v}}}"

// repeated returns n texts with %[1]d in the place of their number.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHostileYAML: `iac check` refuses manifests that are too large, too deep or no
// text, in one line, alone and in a folder. With ROUTEKEEPER_FULL texts have five times their size.
func TestHostileYAML(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: it needs named pipes, /dev/zero and Linux's limit of the address space")
	}
	t.Parallel()
	n := 20_000
	if os.Getenv("ROUTEKEEPER_FULL") != "" {
		n = 100_000
	}
	const manifest = "apiVersion: v1\nkind: List\nitems: "
	laughs := "a: &a0 [x, x, x, x, x, x, x, x, x]\n"
	merges := "a: &a0 {x: 1, y: 2}\n"
	indented := "- hosts: x\n  tasks:\n"
	for i := range 9 {
		laughs += fmt.Sprintf("b%d: &a%d [%s]\n", i, i+1, repeated(9, fmt.Sprintf("*a%d, ", i)))
		merges += fmt.Sprintf("b%d: &a%d {<<: [%s], k%d: *a%d}\n", i, i+1,
			repeated(9, fmt.Sprintf("*a%d, ", i)), i, i)
	}
	for i := range 1000 {
		indented += strings.Repeat(" ", i+2) + "a:\n"
	}
	for name, text := range map[string]string{
		"brackets":         manifest + strings.Repeat("[", n),
		"braces":           manifest + strings.Repeat("{a: ", n),
		"dashes":           strings.Repeat("- ", n),
		"question marks":   strings.Repeat("? ", n),
		"anchors":          "- hosts: " + strings.Repeat("&a ", n) + "x\n",
		"aliases":          "- hosts: " + strings.Repeat("*a ", n) + "\n",
		"tags":             "- hosts: " + strings.Repeat("!!a ", n/2) + "x\n",
		"bars":             "- hosts: " + strings.Repeat("| ", n) + "\n",
		"a long alias":     "- hosts: x\n  <<: *" + strings.Repeat("a", n) + "\n",
		"indented":         indented,
		"lists in lists":   manifest + strings.Repeat("[{items: ", 40),
		"a billion laughs": laughs,
		"merge keys":       merges,
		"keys":             manifest + "[]\n" + repeated(20_000, "k%d: 1\n"),
		"items":            "- hosts: x\n  vars: [" + strings.Repeat("a,", 100_001) + "]\n",
		"documents":        strings.Repeat("---\n- debug:\n", 20_100),
		"separators":       strings.Repeat("---\n", n),
		"aliases in documents": strings.Repeat("---\n- hosts: x\n  vars: {t: &t ["+strings.Repeat(
			"{a: b}, ", 20)+"]}\n  tasks: ["+strings.Repeat("*t, ", 2000)+"]\n", 200),
		"not UTF-8":             "- hosts: \xff\xfe\n",
		"control characters":    "- hosts: \x1b]0;pwn\a\u009b2J\n  \x1b[2J: [\n",
		"bidi":                  "- hosts: x\n  \u202ea\u2066: [\n",
		"a carriage return":     "- hosts: x\r::error::pwned\n  a: [\n",
		"no YAML":               "- hosts: x\n" + strings.Repeat("'", n),
		"larger than the limit": "- hosts: x\n#" + strings.Repeat("x", 16<<20),
		"braces of a template":  "- hosts: " + strings.Repeat("{{ ", 1000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "code.yml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			b := newBatch(t, "")
			b.refuses(t, "iac", "check", file)
			b.refuses(t, "iac", "check", filepath.Dir(file))
			b.refuses(t, "iac", "fix", filepath.Dir(file))
		})
	}
	for name, make := range map[string]func(file string) error{
		"a pipe":   func(file string) error { return exec.Command("mkfifo", file).Run() },
		"a device": func(file string) error { return os.Symlink("/dev/zero", file) },
		"a link to itself": func(file string) error {
			return os.Symlink(filepath.Base(file), file)
		},
		"a link to its folder": func(file string) error { return os.Symlink(".", file) },
		"a link to nothing":    func(file string) error { return os.Symlink("nothing.yml", file) },
		"only folders": func(file string) error {
			return os.MkdirAll(filepath.Join(file, "\u202e.yml", "c.yaml"), 0o700)
		},
		"a name that writes": func(file string) error {
			return os.Symlink("/dev/zero",
				filepath.Join(filepath.Dir(file), "\x1b]0;pwn\a\u202e\n::error::x.yml"))
		},
		"a large file": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 3<<30))
		},
		"many files": func(file string) (err error) {
			err = os.WriteFile(file, nil, 0o600)
			for i := range 5000 { // more names of one file: a new file is dear
				err = errors.Join(err,
					os.Link(file, strings.Replace(file, ".", fmt.Sprintf("%d.", i), 1)))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "code.yml")
			if err := make(file); err != nil {
				t.Fatal(err)
			}
			newBatch(t, "").refuses(t, "iac", "check", filepath.Dir(file))
		})
	}
}

// TestHostileManifests: little code that stands for a lot of it is read up to a limit. What was
// left out is said, and no output grows with what the code stands for.
func TestHostileManifests(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: it needs Linux's limit of the address space")
	}
	t.Parallel()
	list := func(text string, args ...any) string {
		return fmt.Sprintf("apiVersion: v1\nkind: List\nt: &t "+strip+"\n"+text, args...)
	}
	many := func(n int, what string) string { return strings.Repeat(what+", ", n) }
	cluster := "{apiVersion: containerservice.azure.com/v1, kind: ManagedCluster, metadata: " +
		"{name: c}, spec: {networkProfile: {networkPlugin: kubenet}, agentPoolProfiles: [%s]}}"
	for name, c := range map[string]struct{ text, want string }{
		"an object again and again": {list("items: [%s]\n", many(9000, "*t")), "may lose"},
		"lists of lists": {list("l: &l {apiVersion: v1, kind: List, items: [%s]}\nitems: [%s]\n",
			many(300, "*t"), many(30, "*l")), "lose"},
		"pools": {list("items: ["+cluster+"]\n", many(3000, "{vnetSubnetReference: {armId: x}}")),
			"the subnet x is not known"},
		"pools of nothing": {list("items: ["+cluster+"]\n",
			repeated(3000, "{vnetSubnetReference: {name: x%[1]d}}, ")),
			"which is not in the files"},
		"placeholders": {list("items: [{apiVersion: network.azure.com/v1, kind: "+
			"VirtualNetworksSubnet, metadata: {name: '%s'}, spec: {owner: {name: v}}}]\n",
			strings.Repeat("${a}", 1000)), "lose"},
		"braces in braces": {list("items: [{apiVersion: network.azure.com/v1, kind: "+
			"VirtualNetworksSubnet, metadata: {name: '%sx%s'}, spec: {owner: {name: v}}}]\n",
			strings.Repeat("{{ ", 1000), strings.Repeat(" }}", 1000)), "lose"},
		"subnets": {repeated(3000, "---\napiVersion: network.azure.com/v1\nkind: "+
			"VirtualNetworksSubnet\nmetadata: {name: s%[1]d}\nspec: {owner: {name: v}}\n"),
			"there are more than 2000 subnets"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "code.yml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			out := withLimit(t, "iac", "check", file, "-o", "text")
			if !strings.Contains(out, c.want) || len(out) > 4<<20 {
				t.Errorf("%d bytes, want %q: %.1000s", len(out), c.want, out)
			}
			clean(t, out)
		})
	}
}

// withLimit runs a command with a limit of its memory. It must not crash, and ends at some time.
func withLimit(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	line := `ulimit -v 6000000; exec routekeeper "$@"`
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", line, "routekeeper"}, args...)...)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "goroutine ") || ctx.Err() != nil {
		t.Fatalf("%v: %v %.1000s", args, err, out)
	}
	return string(out)
}

// TestCheckIsInterrupted: the first SIGTERM ends a check that waits for the rest of its input.
func TestCheckIsInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: Windows does not have SIGTERM")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "routekeeper", "iac", "check", "-")
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: afterwards the command reads.
	if _, err := io.WriteString(in, strings.Repeat("# comment\n", 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		said.String() != "routekeeper: standard input: interrupted\n" {
		t.Errorf("%v: %q", err, said.String())
	}
}
