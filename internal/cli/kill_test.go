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

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestKilled kills a running keeper before and after each of its ARM writes during a scale-out and
// a strip, starts it again, and finds the same network as without the kill.
func TestKilled(t *testing.T) {
	t.Parallel()
	want, writes := killed(t, 0, "")
	if writes != 3 {
		t.Fatalf("scale-out and strip take %d writes, want 3: one table, two subnets", writes)
	}
	for n := 1; n <= writes; n++ {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s write %d", when, n), func(t *testing.T) {
				t.Parallel()
				got, _ := killed(t, n, when)
				for id, doc := range want {
					if paths, err := arm.Differences([]byte(doc), []byte(got[id])); err != nil ||
						len(paths) > 0 {
						t.Errorf("%s differs in %v, %v", id, paths, err)
					}
				}
			})
		}
	}
}

// killed lets a keeper work through a scale-out and a strip, kills it before or after its n-th
// write took effect (0: never) and starts it again. It returns the final network, and how many
// writes of the first keeper Azure took.
func killed(t *testing.T, n int, when string) (state map[string]string, writes int) {
	a, dir, az, config := promoted(t, emulator.Options{OperationTime: 200 * time.Millisecond})
	routekeeper(t, "--emulator", az, "sync", "-f", config, "--yes")
	if err := a.scale(6); err != nil {
		t.Fatal(err)
	}
	for _, id := range []arm.ID{a.demo.NodeSubnet, a.demo.GatewaySubnet} {
		if err := a.strip(id); err != nil {
			t.Fatal(err)
		}
	}
	before := a.e.LastRequest()
	if n > 0 {
		if _, err := a.e.Inject(emulator.Fault{Principal: emulator.DefaultPrincipal.Name,
			Method: "PUT", Skip: n - 1, Hold: when}); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("routekeeper", "--emulator", az, "run", "-f", config, "--interval", "1s")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	run.Stderr = log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for n > 0 && a.e.Faults()[0].Held == 0 || n == 0 && !whole(t, a, 6) {
		if time.Now().After(deadline) {
			run.Process.Kill()
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the keeper did not get there:\n%s", text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // it was killed
	for _, r := range a.e.Requests(before) {
		// On a busy machine the node subnet does not wait for the other subnet's turn, and Azure
		// refuses one of the two: 412 or 409.
		if r.Method == "PUT" && r.Principal == emulator.DefaultPrincipal.Name && r.Status < 300 {
			writes++
		}
	}
	a.e.ClearFaults()
	routekeeper(t, "--emulator", az, "run", "-f", config, "--once")
	if !whole(t, a, 6) {
		t.Error("not everything is correct")
	}
	onceInHistory(t, config, 8, n > 0)
	state = map[string]string{}
	for _, id := range []arm.ID{a.demo.ClusterTable, a.demo.GatewayTable, a.demo.NodeSubnet,
		a.demo.GatewaySubnet} {
		state[string(id)] = a.document(t, id)
	}
	return state, writes
}

// whole reports whether the gateway's table has the pod routes of this many nodes, and both subnets
// have their tables.
func whole(t *testing.T, a *azureOf, nodes int) bool {
	routes, err := a.routes(a.demo.GatewayTable)
	if err != nil {
		t.Fatal(err)
	}
	return len(routes) == nodes+1 && strings.Contains(a.document(t, a.demo.NodeSubnet),
		`"routeTable"`) && strings.Contains(a.document(t, a.demo.GatewaySubnet), `"routeTable"`)
}

// onceInHistory checks that the history has this many different changes, each made once, and that
// none is left open. If the program was killed, one check has no end.
func onceInHistory(t *testing.T, config string, want int, killed bool) {
	t.Helper()
	r, err := history.Read(historyNextTo([]string{config}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	made, cut := map[string]int{}, 0
	if err := r.Each(history.Query{}, func(e history.Entry) error {
		if e.ElapsedMs == nil {
			cut++
		}
		for _, c := range e.Changes {
			switch what := string(c.Verb) + " " + c.Resource.Short() + " " + c.Route + " " +
				c.New.String(); c.State {
			case plan.Done, history.Found:
				made[what]++
			case history.Interrupted:
			default:
				t.Errorf("%s is %s in check %d", what, c.State, e.ID)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for what, n := range made {
		if n != 1 {
			t.Errorf("%s was made %d times by the history", what, n)
		}
	}
	if len(made) != want || cut > 1 || killed && cut == 0 {
		t.Errorf("%d changes, want %d; %d checks without an end, killed: %v", len(made), want, cut,
			killed)
	}
}

// TestKilledThenAnother kills a keeper before its write takes effect. Another writer then makes the
// same change. The history does not say that the keeper made it.
func TestKilledThenAnother(t *testing.T) {
	t.Parallel()
	a, _, az, config := promoted(t, emulator.Options{})
	routekeeper(t, "--emulator", az, "sync", "-f", config, "--yes")
	before, err := a.op.Get(a.demo.NodeSubnet, "2025-05-01")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.strip(a.demo.NodeSubnet); err != nil {
		t.Fatal(err)
	}
	if _, err := a.e.Inject(emulator.Fault{Principal: emulator.DefaultPrincipal.Name,
		Method: "PUT", Hold: "before"}); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("routekeeper", "--emulator", az, "run", "-f", config)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); a.e.Faults()[0].Held == 0; time.Sleep(
		20 * time.Millisecond) {
		if time.Now().After(deadline) {
			run.Process.Kill()
			t.Fatal("the keeper wrote nothing")
		}
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // it was killed
	a.e.ClearFaults()
	delete(before, "etag")
	if err := a.op.Put(a.demo.NodeSubnet, "2025-05-01", before); err != nil {
		t.Fatal(err)
	}
	routekeeper(t, "--emulator", az, "run", "-f", config, "--once")

	r, err := history.Read(historyNextTo([]string{config}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var states []string
	if err := r.Each(history.Query{}, func(e history.Entry) error {
		for _, c := range e.Changes {
			if c.Resource.Equal(a.demo.NodeSubnet) {
				states = append(states, string(c.State))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(states) != 1 || states[0] != string(history.Found) {
		t.Errorf("the history says %q of another's write, want found", states)
	}
	out, err := exec.Command("routekeeper", "history", "-f", config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 change interrupted, and found in place") {
		t.Errorf("%v\n%s", err, out)
	}
}

// document reads a resource without the fields that differ between emulators.
func (a *azureOf) document(t *testing.T, id arm.ID) string {
	doc, err := a.op.Get(id, "2025-05-01")
	if err != nil {
		t.Fatal(err)
	}
	delete(doc["properties"].(map[string]any), "resourceGuid")
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// promoted starts an emulator with the demo cluster, and writes a config that manages it. The
// emulator is in the folder az, the config in the folder dir.
func promoted(t *testing.T, opts emulator.Options) (a *azureOf, dir, az, config string) {
	t.Helper()
	dir = t.TempDir()
	az, config = filepath.Join(dir, "az"), filepath.Join(dir, "routes.yaml")
	a, server, err := startAzure(az, true, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	routekeeper(t, "--emulator", az, "init", "--cluster", string(a.demo.Cluster), "--out", config)
	routekeeper(t, "--emulator", az, "promote", string(a.demo.Cluster), "-f", config, "--yes")
	return a, dir, az, config
}

// routekeeper runs the program to its end.
func routekeeper(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("routekeeper", args...).CombinedOutput(); err != nil {
		t.Fatalf("routekeeper %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestInterrupted: Ctrl-C during an operation ends the program only after the write is finished and
// read back.
func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: on Windows no process can send another one an interrupt")
	}
	t.Parallel()
	a, _, az, config := promoted(t, emulator.Options{OperationTime: 3 * time.Second})
	var log bytes.Buffer
	run := exec.Command("routekeeper", "--emulator", az, "run", "-f", config)
	run.Stderr = &log
	before := a.e.LastRequest()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	written := func() (at time.Time) {
		for _, r := range a.e.Requests(before) {
			if r.Method == "PUT" && r.Principal == emulator.DefaultPrincipal.Name {
				at = r.Time
			}
		}
		return at
	}
	for deadline := time.Now().Add(time.Minute); written().IsZero(); time.Sleep(
		10 * time.Millisecond) {
		if time.Now().After(deadline) {
			run.Process.Kill()
			t.Fatalf("it wrote nothing:\n%s", log.String())
		}
	}
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("%v, want exit code 0:\n%s", err, log.String())
	}
	if took := time.Since(written()); took < 3*time.Second {
		t.Errorf("it left %s after the write, whose operation takes three seconds", took)
	}
	if n := strings.Count(log.String(), `"msg":"changed"`); n != 3 {
		t.Errorf("%d changes are reported done, want 3:\n%s", n, log.String())
	}
}
