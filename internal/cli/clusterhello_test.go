package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

// scriptCondition knows [kube]: the control plane of .ci/kube is available. If it is required, a
// missing one is an error.
func scriptCondition(name string) (bool, error) {
	if name != "kube" {
		return false, fmt.Errorf("unknown condition %s", name)
	}
	_, err := kubeBinaries()
	if err != nil && os.Getenv(kubernetestest.NeedKube) == "" {
		return false, nil
	}
	return err == nil, err
}

func kubeBinaries() (kubernetes.Binaries, error) {
	folder, err := kubernetes.BinariesFolder()
	if err != nil {
		return kubernetes.Binaries{}, err
	}
	return kubernetes.Find(folder, "")
}

// withKubernetes gives the clusters of a script's emulator real API servers, as emulator
// --kube-apiserver does.
func withKubernetes(ts *testscript.TestScript) func(*emulator.Emulator) error {
	return func(e *emulator.Emulator) error {
		binaries, err := kubeBinaries()
		if err != nil {
			return err
		}
		ts.Setenv("KUBECTL", filepath.Join(filepath.Dir(binaries.APIServer), "kubectl"))
		o := emulatorOptions{dir: ts.MkAbs("az"), apiServer: binaries.APIServer}
		k, err := playKubernetes(e, o, slog.New(slog.DiscardHandler))
		if err == nil {
			ts.Defer(k.Close)
		}
		return err
	}
}

func scriptKubectl(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(ts.Getenv("KUBECTL"),
		append([]string{"--kubeconfig", ts.MkAbs("kube.yaml"), "--cache-dir",
			ts.MkAbs("kube-cache")}, args...)...)
	if (err != nil) != neg {
		ts.Fatalf("kubectl: %v", err)
	}
}

func scriptMachine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: machine SUBNET PREFIX TABLE")
	}
	a, subnet := running.get(ts.Getenv("WORK")), arm.ID(args[0])
	ts.Check(a.op.Put(subnet, verifyNetwork, map[string]any{"properties": map[string]any{
		"addressPrefix": args[1], "routeTable": map[string]any{"id": args[2]},
	}}))
	nic := arm.ResourceID(subnet.Subscription(), subnet.ResourceGroup(), arm.TypeInterface,
		subnet.Name()+"-nic")
	ts.Check(a.op.Put(nic, verifyNetwork, map[string]any{
		"location": "westeurope", "properties": map[string]any{"ipConfigurations": []any{
			map[string]any{"name": "main",
				"properties": map[string]any{"subnet": map[string]any{"id": args[0]}}},
		}},
	}))
}
