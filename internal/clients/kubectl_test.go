package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v6"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

// TestKubectl calls a cluster's API server with kubectl, with the kubeconfig of az aks
// get-credentials.
func TestKubectl(t *testing.T) {
	program, err := exec.LookPath("kubectl")
	if err != nil || os.Getenv(kubernetestest.NeedKube) != "" {
		program = kubernetestest.Kubectl(t) // the one that .ci/kube builds
	}
	t.Parallel()
	a := start(t, emulator.Options{})
	demo, err := emulator.BuildDemo(a.e, emulator.DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	credentials := call(client(a, armcontainerservice.NewManagedClustersClient).
		ListClusterUserCredentials(a.ctx, demo.Cluster.ResourceGroup(), demo.Cluster.Name(), nil)).
		ok(t).Kubeconfigs
	home := t.TempDir()
	config := filepath.Join(home, "config")
	if err := os.WriteFile(config, credentials[0].Value, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := func(args ...string) (string, error) {
		c := exec.CommandContext(a.ctx, program, args...)
		c.Env = append(os.Environ(), "KUBECONFIG="+config, "HOME="+home, "NO_PROXY=127.0.0.1")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, test := range []struct {
		args, path string
		want       int64
	}{
		{"get nodes -o json", "items.#", 3},
		{"get pods -A -o json --chunk-size=5", "items.#", 12},
		{"get pods -n default -o json", "items.#", 3},
		{`get nodes -o json`,
			`items.#(status.conditions.#(type=="NetworkUnavailable").status=="False")#|#`, 3},
		{"version -o json", "serverVersion.major", 1},
	} {
		if out, err := kubectl(strings.Fields(test.args)...); err != nil ||
			gjson.Get(out, test.path).Int() != test.want {
			t.Errorf("kubectl %s: %v, %s is %s\n%s", test.args, err, test.path,
				gjson.Get(out, test.path), out)
		}
	}
	if out, err := kubectl("--token=wrong", "get", "nodes"); err == nil ||
		!strings.Contains(out, "Unauthorized") {
		t.Errorf("with another token: %v %s", err, out)
	}
}
