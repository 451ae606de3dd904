package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

// readers are the command lines that read files from elsewhere, with FILE in the place of one.
var readers = []string{
	"sync --dry-run -f FILE", "run --once --dry-run -f FILE", "run -f FILE", "status -f FILE",
	"doctor -f FILE", "doctor collect -f FILE", "promote shop -f FILE", "trace a b -f FILE",
	"sync prune -f FILE", "init monitor -f FILE --dry-run",
	"cluster create -f FILE", "cluster verify -f FILE x",
	"sync diff --pod-cidr 10.0.0.0/8 --source FILE --target FILE",
	"doctor --from-bundle FILE", "cluster capacity --from-bundle FILE",
	"trace a b --from-bundle FILE",
	"doctor CLUSTER --from-nodes FILE", "doctor CLUSTER --from-pods FILE",
	"doctor CLUSTER --kubeconfig FILE",
	"cluster verify CLUSTER --kubeconfig FILE", "cluster hello CLUSTER --kubeconfig FILE --image x",
	"notify test -f FILE",
	"iac check FILE", "iac check FOLDER", "iac fix FILE", "iac fix FOLDER", "iac check YAMLFOLDER",
	"iac check GOOD --prevent FILE", "emulator --faults FILE",
	"run -f GOOD --listen 127.0.0.1:0 --event-secret-file FILE",
	"run -f GOOD --listen 127.0.0.1:0 --auth-users-file FILE",
	"run -f GOOD --listen 127.0.0.1:0 --tls-cert FILE --tls-key FILE",
	"trace a b -f GOOD --learned FILE", "iac generate bicep -f FILE",
	"history --history FILE", "history show 1 --history FILE",
}

// controllerReaders are those of routekeeper-controller.
var controllerReaders = []string{"--kubeconfig FILE", "--nodes-kubeconfig FILE --kubeconfig KUBE",
	"--scopes FILE --kubeconfig KUBE", "--notify FILE --kubeconfig KUBE"}

// TestHostileFiles: every reader of files refuses, in one line and within seconds, what is no file,
// too large, too deep, cut off, or a bomb. It never hangs, and a limit of the address space that
// the program itself needs shows that it does not read without a limit.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	az, good, cluster := hostileWorld(t, dir)
	files := hostileFiles(t, dir)
	for _, reader := range readers {
		t.Run(reader, func(t *testing.T) {
			t.Parallel()
			b := newBatch(t, dir)
			for name, file := range files {
				// commands with a config or a kubeconfig share a reader: two of each are enough
				if shared := strings.HasSuffix(reader, "-f FILE") ||
					strings.Contains(reader, "--kubeconfig FILE"); shared &&
					strings.Contains(name, ".") && !slices.Contains([]string{
					"sync --dry-run -f FILE", "cluster create -f FILE",
					"doctor CLUSTER --kubeconfig FILE"}, reader) {
					continue
				}
				folder, tasks := t.TempDir(), t.TempDir()
				if err := errors.Join(os.Symlink(file, filepath.Join(folder, "main.tf")),
					os.Symlink(file, filepath.Join(tasks, "main.yml"))); err != nil {
					t.Fatal(err)
				}
				args := strings.Fields(strings.NewReplacer("YAMLFOLDER", tasks, "FILE", file, "FOLDER",
					folder, "GOOD", good, "CLUSTER", cluster).Replace(reader))
				b.refuses(t, append([]string{"--emulator", az}, args...)...)
			}
		})
	}
}

// TestHostileFilesOfController: so does every reader of routekeeper-controller, which only tests
// with Kubernetes build.
func TestHostileFilesOfController(t *testing.T) {
	kubernetestest.Binaries(t)
	dir := t.TempDir()
	az, good, _ := hostileWorld(t, dir)
	files := hostileFiles(t, dir)
	for _, reader := range controllerReaders {
		t.Run(reader, func(t *testing.T) {
			t.Parallel()
			for _, file := range files {
				refusesController(t, append([]string{"--emulator", az}, strings.Fields(
					strings.NewReplacer("FILE", file, "KUBE", good).Replace(reader))...)...)
			}
		})
	}
}

// hostileWorld serves the demo's network in a folder, and returns the emulator's folder, a config
// and the cluster.
func hostileWorld(t *testing.T, dir string) (az, good, cluster string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: it needs named pipes, /dev/zero and Linux's limit of the address space")
	}
	t.Parallel()
	az, good = filepath.Join(dir, "az"), filepath.Join(dir, "good.yaml")
	a, server, err := startAzure(az, true, emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	cluster = string(a.demo.Cluster)
	routekeeper(t, "--emulator", az, "init", "--cluster", cluster, "--out", good)
	return az, good, cluster
}

// refuses runs a command that has to end with an error of one line.
func (b *batch) refuses(t *testing.T, args ...string) {
	t.Helper()
	a := b.run(t, nil, args...)
	isRefusal(t, "routekeeper", args, a.Code, a.Stderr)
}

// refusesController runs routekeeper-controller, which has to end with an error of one line.
func refusesController(t *testing.T, args ...string) {
	t.Helper()
	var said bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash",
		append([]string{"-c", `ulimit -v 6000000; exec "$@"`, "bash", controllerOf(t)}, args...)...)
	c.Stderr = &said
	_ = c.Run() // its exit code is checked
	isRefusal(t, controllerProgram, args, c.ProcessState.ExitCode(), said.String())
}

func isRefusal(t *testing.T, program string, args []string, code int, text string) {
	t.Helper()
	switch {
	case code != 1:
		t.Errorf("%v: exit code %d, want 1: %.300s", args, code, text)
	case strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, program+": ") ||
		len(text) > 3000:
		t.Errorf("%v: want one line: %.1000s", args, text)
	case strings.Contains(text, "unknown flag") || strings.Contains(text, "unknown command"):
		t.Errorf("%v: no file was read: %s", args, text)
	}
}

// hostileFiles makes files that a reader must not trust, by name.
func hostileFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{"device": "/dev/zero", "folder": filepath.Join(dir, "folder.d")}
	if err := os.MkdirAll(filepath.Join(files["folder"], "folder.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe.tf")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	files["pipe"] = pipe
	huge := filepath.Join(dir, "huge.yaml")
	if err := errors.Join(os.WriteFile(huge, nil, 0o600), os.Truncate(huge, 3<<30)); err != nil {
		t.Fatal(err)
	}
	files["huge"] = huge
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	for name, text := range map[string]string{
		"brackets.json": strings.Repeat("[", n), "objects.json": strings.Repeat(`{"a":`, n),
		"dashes.yaml": strings.Repeat("- ", n), "deep.tf": "a=" + strings.Repeat("(", n),
		"aliases.yaml": "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "bomb.tgz": bomb.String(),
		"cut.tgz": bomb.String()[:1000], "nul.yaml": strings.Repeat("\x00", 1000),
	} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestReadersAreListed: a new flag that names a file has to be read by TestHostileFiles, or be in
// this list with the reason.
func TestReadersAreListed(t *testing.T) {
	fine := map[string]string{
		"out": "is written", "history": "is opened by SQLite, after its head was read",
		"recording": "is written, never over a file", "config": "is written",
		"report": "is written",
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind, usage := pflag.UnquoteUsage(f)
			if !strings.EqualFold(kind, "file") || fine[f.Name] != "" {
				return
			}
			if !slices.ContainsFunc(slices.Concat(readers, controllerReaders), func(r string) bool {
				return strings.Contains(r, "--"+f.Name+" FILE") ||
					f.Shorthand != "" && strings.Contains(r, "-"+f.Shorthand+" FILE")
			}) {
				t.Errorf("%s --%s (%s %s) is not in readers", c.CommandPath(), f.Name, kind, usage)
			}
		})
		for _, s := range c.Commands() {
			walk(s)
		}
	}
	walk((&app{}).newRoot())
	walk(newController(&app{}, nil))
}
