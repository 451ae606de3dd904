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

// strip is a task that removes a route table.
const strip = "azure_rm_subnet: {resource_group: g, virtual_network_name: v, name: s}"

// repeated returns n texts with %[1]d in the place of their number.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHostileYAML: `iac check` refuses playbooks and manifests that are too large, too deep or no
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
			file := filepath.Join(t.TempDir(), "tasks.yml")
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
			file := filepath.Join(t.TempDir(), "tasks.yml")
			if err := make(file); err != nil {
				t.Fatal(err)
			}
			newBatch(t, "").refuses(t, "iac", "check", filepath.Dir(file))
		})
	}
}

// TestHostileTasks: little code that stands for a lot of it is read up to a limit. What was left
// out is said, and no output grows with what the code stands for.
func TestHostileTasks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: it needs Linux's limit of the address space")
	}
	t.Parallel()
	play := func(text string, args ...any) string {
		return fmt.Sprintf("- hosts: x\n  vars: {t: &t {"+strip+"}}\n  tasks:\n"+text, args...)
	}
	// Each expression has the one before it 20 times; the last would be as long as 10^19 letters.
	chain := "- hosts: x\n  vars:\n    b: '" + strings.Repeat("x", 8000) + "'\n"
	for i := range 12 {
		before := "{{ b" + strings.Repeat("b", i) + " }}"
		chain += "    bb" + strings.Repeat("b", i) + ": '" + strings.Repeat(before, 20) + "'\n"
	}
	many := func(n int, what string) string { return strings.Repeat(what+", ", n) }
	for name, c := range map[string]struct{ text, want string }{
		"conditions": {play("  - when: [%s]\n    block: [%s]\n", many(50_000, "a"),
			many(5000, "*t")), "more conditions hold"},
		"tags": {play("  - tags: [%s]\n    block: [%s]\n", many(50_000, "never"), many(5000, "*t")),
			"more conditions hold"},
		"arguments in a loop": {play("  - loop: [%s]\n    azure_rm_subnet: {name: '{{ item }}', "+
			"%s}\n", many(49_000, "x"), repeated(9000, "k%d: 1, ")), "not evaluated"},
		"defaults": {"- hosts: x\n  module_defaults: {" + repeated(9000, "k%d: 1, ") +
			"}\n  tasks:\n  - &t {" + strip + "}\n  - block: [" + many(10_000, "*t") + "]\n",
			"not all of them were read"},
		"pools in a loop": {play("  - azure_rm_aks: {name: c, network_profile: {network_plugin: "+
			"kubenet}, agent_pool_profiles: [%s]}\n    loop: [%s]\n", many(9000,
			"{vnet_subnet_id: x}"), many(49_000, "x")), "the subnet x is not known"},
		"expressions": {chain + "  tasks:\n" + strings.Repeat(
			"  - azure_rm_subnet: {name: '{{ bbbbbbbbbbbbb }}'}\n", 300), "not evaluated"},
		"an expression in itself": {"- hosts: x\n  vars: {a: '{{ a }}{{ a }}{{ a }}{{ a }}'}\n" +
			"  tasks:\n  - azure_rm_subnet: {name: '{{ a }}'}\n", "not evaluated"},
		"braces in braces": {"- hosts: x\n  tasks:\n  - azure_rm_subnet: {name: '" +
			strings.Repeat("{{ ", 1000) + "x" + strings.Repeat(" }}", 1000) + "'}\n", "not evaluated"},
		"filters": {"- hosts: x\n  vars: {a: b}\n  tasks:\n  - azure_rm_subnet: {name: \"{{ a" +
			strings.Repeat(" | default('x')", 500) + " }}\"}\n", "not evaluated"},
		"subnets": {play("  - loop: [%s]\n    azure_rm_subnet: {name: 's{{ item }}'}\n",
			repeated(3000, "%d, ")), "not evaluated"},
		"removed routes": {play("  - loop: [%s]\n    azure_rm_route: {name: "+
			"'aks-np-12345678-vmss000000____{{ item }}', state: absent}\n",
			repeated(3000, "%d, ")), "not evaluated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "tasks.yml")
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
