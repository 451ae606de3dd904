package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestMigrateWatch: watch follows a migration of the emulator from the first node to the last, also
// if it was started in the middle, and says what is left. A route that is lost meanwhile is
// reported.
func TestMigrateWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, server, err := startAzure(dir, true, emulator.Options{RouteBatch: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	text, err := a.kubeconfig(dir, a.demo.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kube.yaml")
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	watch := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		program := &app{in: strings.NewReader(""), out: &out, err: &errs}
		if code := program.run(t.Context(), append([]string{"--emulator", dir, "migrate", "watch",
			"shop", "--kubeconfig", kubeconfig}, args...)); code != want {
			t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
		}
		return out.String()
	}
	expect := func(text, want string) {
		t.Helper()
		if !regexp.MustCompile("(?m)" + want).MatchString(text) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	ask := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		program := &app{in: strings.NewReader(""), out: &out, err: &errs}
		code := program.run(t.Context(), append([]string{"--emulator", dir}, args...))
		return code, out.String() + errs.String()
	}
	config := filepath.Join(dir, "routes.yaml")
	for _, args := range [][]string{
		{"init", "--cluster", "shop", "--out", config}, {"promote", "shop", "-f", config, "--yes"},
		{"sync", "-f", config, "--yes"},
	} {
		if code, said := ask(args...); code != 0 {
			t.Fatalf("%v: %d %s", args, code, said)
		}
	}
	const api = "2025-10-01"
	if _, err := a.e.Inject(emulator.Fault{Method: http.MethodPut, Path: "/managedClusters/shop$",
		Slow: 8}); err != nil {
		t.Fatal(err)
	}
	doc, err := a.op.Get(a.demo.Cluster, api)
	if err != nil {
		t.Fatal(err)
	}
	doc["properties"].(map[string]any)["networkProfile"] = map[string]any{
		"networkPlugin": "azure", "networkPluginMode": "overlay", "podCidr": "10.244.0.0/16"}
	if err := a.op.Put(a.demo.Cluster, api, doc); err != nil {
		t.Fatal(err)
	}
	expect(watch(0, "--once"), `^shop: \d of \d nodes moved, still with routes: aks-nodepool1-`)
	// Between the nodes that were there before, and from the gateway to their pods, no pair breaks:
	// only a surge node waits for its routes, as on Azure.
	code, said := ask("trace", "--all", "-f", config, "--kubeconfig", kubeconfig, "-o", "json")
	var matrix struct {
		Pairs, Delivered int
		Broken           []struct{ From, To []string }
	}
	if err := json.Unmarshal([]byte(said), &matrix); err != nil || matrix.Delivered == 0 {
		t.Fatalf("%v: %d %s", err, code, said)
	}
	for _, b := range matrix.Broken {
		if !strings.Contains(strings.Join(slices.Concat(b.From, b.To), " "), "vmss000003") {
			t.Errorf("broken while nodes move: %v -> %v", b.From, b.To)
		}
	}
	// A table that is lost meanwhile breaks pods, and is seen: the nodes are not all overlay yet.
	if err := a.strip(a.demo.NodeSubnet); err != nil {
		t.Fatal(err)
	}
	if code, said := ask("trace", "--all", "-f", config, "--kubeconfig", kubeconfig); code != 2 {
		t.Errorf("after a strip: %d %s", code, said)
	}
	followed := watch(0, "--interval", "1s")
	// which of these it sees depends on how fast the machine is
	expect(followed, `^shop: [1-3] of 4 nodes moved, still with routes: aks-nodepool1-[^;]+; `+
		`(1 batch left, at most 30 minutes|[23] batches left, at most (1 hour|90 minutes)) `+
		`of waiting$`)
	expect(followed, `^done: shop: 3 of 3 nodes moved\. Next: set spec\.source: Nodes and `+
		`remove spec\.routeTableID, or set spec\.onRemoval: Prune and .*; then routekeeper `+
		`cluster verify \S+/shop$`)
	expect(watch(0, "--once", "-o", "json"), `"state":"done","moved":3,`)
}
