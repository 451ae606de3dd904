package cli

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

// TestPastedCommands runs commands whose files and emulator have hostile names, so that the next
// commands that they print contain these. TestMain pastes them.
func TestPastedCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: Windows has no such file names")
	}
	defer finding.Repeat(nil, nil)
	pastetest.Again(func(rename func(string) string) {
		dir := t.TempDir()
		local := filepath.Join(dir, rename("az"))
		in := func(name string) string { return filepath.Join(dir, rename(name)) }
		run := func(code int, says string, args ...string) {
			t.Helper()
			var out bytes.Buffer
			a := &app{in: strings.NewReader(""), out: &out, err: &out, repeat: finding.Repeat}
			got := a.run(context.Background(), append([]string{"--emulator", local}, args...))
			if got != code || !strings.Contains(out.String(), says) {
				t.Errorf("%q: exit code %d, want %d and %q:\n%s", args, got, code, says, &out)
			}
			clean(t, out.String())
		}
		run(1, "start one with", "doctor", "--cluster", "shop")
		a, server, err := startAzure(local, true, emulator.Options{
			OperationTime: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer a.e.Close()
		defer server.Close()
		cluster, config := string(a.demo.Cluster), in("routes.yaml")
		run(0, "; next: ", "init", "--cluster", cluster, "--out", config)
		run(2, "; next: ", "sync", "-f", config, "--dry-run")
		run(0, "", "promote", cluster, "-f", config, "--yes")
		run(1, "to confirm: ", "sync", "-f", config)
		run(0, "; next: ", "doctor", "collect", "-f", config, "--out", in("bundle.tgz"))
		run(2, "", "doctor", "-f", config)
		run(2, "", "doctor", "--from-bundle", in("bundle.tgz"))
		run(0, "", "migrate", "plan", "--from-bundle", in("bundle.tgz"), "-o", "markdown")

		client, err := (&app{emulatorDir: local}).connect(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := build.Cluster{Name: a.demo.Cluster.Name(), Blueprint: capacity.Kubenet,
			Group: a.demo.Cluster.ResourceGroup(), Subscription: a.demo.Cluster.Subscription(),
			Location: "westeurope", Pools: []build.Pool{{Name: "system", Count: 1}}}
		for i, o := range []createOptions{{kubeconfig: in("kubeconfig"), config: in("built.yaml")},
			{}} {
			if i > 0 {
				c.Group = rename(c.Group)
			}
			if next, err := o.finish(t.Context(), client, c); err != nil || len(next) < 2 {
				t.Errorf("cluster create: %v, %q", err, next)
			}
		}

		name := rename("rt")
		if finding.Show(name) != name {
			return // the emulator's client does not send it
		}
		table := arm.ResourceID(c.Subscription, rename("net-rg"), arm.TypeRouteTable, name)
		body := map[string]any{"location": "westeurope", "properties": map[string]any{
			"routes": []any{map[string]any{"name": "n", "properties": map[string]any{
				"addressPrefix": "10.244.0.0/24", "nextHopType": "VirtualAppliance",
				"nextHopIpAddress": "10.42.0.4"}}}}}
		if err := a.op.Put(table.Group(), "2024-11-01", map[string]any{
			"location": "westeurope"}); err != nil {
			t.Fatal(err)
		}
		if err := a.op.Put(table, "2025-05-01", body); err != nil {
			t.Fatal(err)
		}
		k := &copies{source: table, had: map[plan.Pair]bool{{
			Prefix: netip.MustParsePrefix("10.244.0.0/24"),
			Hop:    netip.MustParseAddr("10.42.0.4")}: true}}
		if err := k.check(t.Context(), client); err != nil || len(k.left) != 1 {
			t.Errorf("cluster delete: %v, %q", err, k.left)
		}
	})
}

// TestPastedExaminations: the commands that verify a cluster and trace a packet again, whatever the
// cluster and the bundle are called.
func TestPastedExaminations(t *testing.T) {
	for _, rename := range pastetest.Names() {
		id := arm.ID(pastetest.Rename("/subscriptions/s/resourceGroups/g/providers/"+
			"Microsoft.ContainerService/managedClusters/shop", rename))
		e := &examination{bundle: rename("bundle.tgz")}
		e.Snapshot, e.Clusters = inventory.NewSnapshot(), []arm.ID{id}
		at := netip.MustParseAddr("10.0.0.1")
		if len(e.verifying()) != 1 || e.tracing(at, at, string(id)).String() == "" {
			t.Error("no command")
		}
		stripped := packetsTrial{subnet: id, table: id,
			cluster: &inventory.Cluster{Document: arm.Document{ID: id}}}
		if stripped.back().String() == "" || stripped.hello().String() == "" {
			t.Error("no command")
		}
		repeated := (&app{args: []string{"sync", "-f", rename("routes.yaml")}}).repeated("--yes")
		if repeated.String() == "" {
			t.Error("no command to confirm")
		}
		var observed bytes.Buffer
		choice{}.sayObserved(&observed, keeper.Result{OnlyObserved: []plan.Outcome{
			{Change: plan.Change{Cluster: rename("shop")}}}}, report.Text)
		if !strings.Contains(observed.String(), "not made; next: ") {
			t.Errorf("%q", observed.String())
		}
	}
}

// TestSay: what goes to standard error goes through say, which escapes values from outside.
func TestSay(t *testing.T) {
	var errs bytes.Buffer
	const bad = "x\n::error::y\x1b[31m\u202e\u200b"
	say(&errs, "%s %s %v %s %d\n", bad, arm.ID(bad), errors.New(bad),
		finding.Command("az %s", "a b"), 3)
	clean(t, errs.String())
	if got := errs.String(); strings.Count(got, "\n") != 1 ||
		!strings.HasSuffix(got, " az 'a b' 3\n") {
		t.Errorf("%q", got)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			direct := strings.Contains(line, "(a.err, ") && strings.Contains(line, "fmt.Fprint")
			if direct && !strings.Contains(line, "report.") && name != "root.go" &&
				!strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s:%d: %s: use say", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}
