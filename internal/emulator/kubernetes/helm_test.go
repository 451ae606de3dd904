package kubernetes_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

// TestHelm installs, upgrades, rolls back and uninstalls a chart with Helm's library, which stores
// releases as Secrets and waits for the pods.
func TestHelm(t *testing.T) {
	program := kubernetestest.Helm(t)
	t.Parallel()
	j := join(t)
	helm := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir = "../../../testdata/helm"
		c.Env = append(os.Environ(), "KUBECONFIG="+j.config, "HOME="+t.TempDir(),
			"NO_PROXY=127.0.0.1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	replicas := func() string {
		t.Helper()
		return j.kubectl("get", "deployment", "-n", "shop", "greeting", "-o",
			"jsonpath={.spec.replicas} {.status.readyReplicas}")
	}
	releases := func() string {
		t.Helper()
		return j.kubectl("get", "secrets", "-n", "shop", "-l", "owner=helm", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.type} {.metadata.labels.status};{end}")
	}
	const first, second, third = "sh.helm.release.v1.greeting.v1 helm.sh/release.v1 ",
		"sh.helm.release.v1.greeting.v2 helm.sh/release.v1 ",
		"sh.helm.release.v1.greeting.v3 helm.sh/release.v1 "

	helm("install", "shop", "greeting")
	if got := replicas(); got != "2 2" {
		t.Errorf("installed: replicas %s, want 2 2", got)
	}
	if got, want := releases(), first+"deployed;"; got != want {
		t.Errorf("the releases are %s, want %s", got, want)
	}
	if page := j.forward("service/greeting", "80", "/", "-n", "shop"); !strings.Contains(page,
		"registry.k8s.io/pause:3.10 does not run") {
		t.Errorf("the page of the service: %s", page)
	}
	helm("upgrade", "shop", "greeting", "3")
	if got := replicas(); got != "3 3" {
		t.Errorf("upgraded: replicas %s, want 3 3", got)
	}
	helm("rollback", "shop", "greeting")
	if got := replicas(); got != "2 2" {
		t.Errorf("rolled back: replicas %s, want 2 2", got)
	}
	if got := helm("list", "shop", "greeting"); got != "greeting 3 deployed" {
		t.Errorf("helm lists %q", got)
	}
	if got, want := releases(), first+"superseded;"+second+"superseded;"+third+
		"deployed;"; got != want {
		t.Errorf("the releases are %s, want %s", got, want)
	}
	helm("uninstall", "shop", "greeting")
	if left := j.kubectl("get", "all,secrets", "-n", "shop", "-o", "name"); left != "" {
		t.Errorf("left: %s", left)
	}
}
