package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/report"
)

// proving is an emulator for prove, and the folder of a test.
type proving struct {
	t       *testing.T
	a       *azureOf
	az, dir string
	n       int
}

func newProving(t *testing.T, opts emulator.Options) *proving {
	t.Helper()
	p := &proving{t: t, dir: t.TempDir()}
	p.az = filepath.Join(p.dir, "az")
	a, server, err := startAzure(p.az, false, opts)
	if err != nil {
		t.Fatal(err)
	}
	p.a = a
	t.Cleanup(func() { server.Close(); a.e.Close() })
	return p
}

// command is prove with flags and a new file for its recording.
func (p *proving) command(flags ...string) *exec.Cmd {
	p.n++
	recording := filepath.Join(p.dir, fmt.Sprintf("calls-%d.jsonl", p.n))
	args := []string{"--emulator", p.az, "prove", "--subscription", emulator.DefaultSubscription,
		"--location", "westeurope", "--yes", "--recording", recording, "--activity-wait", "1s"}
	cmd := exec.Command("routekeeper", append(args, flags...)...)
	cmd.Dir = p.dir
	return cmd
}

// groups are the existing throwaway groups.
func (p *proving) groups() (names []string) {
	p.t.Helper()
	status, body := p.a.op.Do("GET", "/subscriptions/"+emulator.DefaultSubscription+
		"/resourceGroups",
		"2024-11-01", nil)
	if status != 200 {
		p.t.Fatalf("%d %s", status, body)
	}
	for _, name := range gjson.GetBytes(body, "value.#.name").Array() {
		if strings.HasPrefix(name.String(), "routekeeper-prove-") {
			names = append(names, name.String())
		}
	}
	return names
}

// untilHeld starts prove and waits until its n-th write is held, before or after it took effect.
func (p *proving) untilHeld(n int, when string) *exec.Cmd {
	p.t.Helper()
	if _, err := p.a.e.Inject(emulator.Fault{Principal: emulator.DefaultPrincipal.Name,
		Method: "PUT",
		Path:   "/resourceGroups/", Skip: n - 1, Hold: when}); err != nil {
		p.t.Fatal(err)
	}
	run := p.command()
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = run.Process.Kill() })
	for deadline := time.Now().Add(time.Minute); p.a.e.Faults()[0].Held == 0; {
		if time.Now().After(deadline) {
			p.t.Fatalf("it did not get there:\n%s", out.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
	return run
}

// TestProveKilled: at whatever write it is killed, the next run deletes what is left.
func TestProveKilled(t *testing.T) {
	t.Parallel()
	// the group, the first resource in it, the network, a trial
	for _, n := range []int{1, 2, 5, 9} {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s write %d", when, n), func(t *testing.T) {
				t.Parallel()
				p := newProving(t, emulator.Options{})
				run := p.untilHeld(n, when)
				if err := run.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = run.Wait() // it was killed
				p.a.e.ClearFaults()
				left, want := p.groups(), 1
				if n == 1 && when == "before" {
					want = 0
				}
				if len(left) != want {
					t.Fatalf("killed, it leaves %v", left)
				}
				told, code := p.json("--fact", "shared-etag")
				if code != 0 || !told.Deleted || len(told.Leftovers) != want {
					t.Errorf("exit code %d, %+v", code, told)
				}
				for _, l := range told.Leftovers {
					if !l.Stale || !l.Deleted || !strings.HasSuffix(string(l.Group), left[0]) {
						t.Errorf("%+v", l)
					}
				}
				if left := p.groups(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// json runs prove -o json to its end.
func (p *proving) json(flags ...string) (told report.Proof, code int) {
	p.t.Helper()
	run := p.command(append(flags, "-o", "json")...)
	var errs bytes.Buffer
	run.Stderr = &errs
	out, err := run.Output()
	if _, is := err.(*exec.ExitError); err != nil && !is {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(out, &told); err != nil {
		p.t.Fatalf("%v: %s\n%s", err, out, errs.String())
	}
	return told, run.ProcessState.ExitCode()
}

// TestProveAtOnce: the group of a running run is left alone, but --clean deletes it.
func TestProveAtOnce(t *testing.T) {
	t.Parallel()
	p := newProving(t, emulator.Options{})
	going := p.untilHeld(9, "before")
	first := p.groups()
	p.a.e.ClearFaults()
	told, code := p.json("--fact", "shared-etag")
	if code != 0 || len(told.Leftovers) != 1 || told.Leftovers[0].Stale ||
		told.Leftovers[0].Deleted {
		t.Errorf("exit code %d, %+v", code, told.Leftovers)
	}
	if left := p.groups(); len(left) != 1 || left[0] != first[0] {
		t.Errorf("left: %v", left)
	}
	if err := going.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = going.Wait()
	out, err := p.command("--clean").CombinedOutput()
	if left := p.groups(); err != nil || len(left) > 0 ||
		!strings.Contains(string(out), "answers 404") {
		t.Errorf("%v: left %v\n%s", err, left, out)
	}
}

// TestProveInterrupted: Ctrl-C ends the trials, and the group is deleted before the program ends.
func TestProveInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: on Windows no process can send another one an interrupt")
	}
	t.Parallel()
	for _, n := range []int{1, 3, 9} {
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
			t.Parallel()
			p := newProving(t, emulator.Options{OperationTime: 300 * time.Millisecond})
			run := p.untilHeld(n, "after")
			p.a.e.ClearFaults()
			if err := run.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := run.Wait(); err == nil || run.ProcessState.ExitCode() != 1 {
				t.Error(err)
			}
			if left := p.groups(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
