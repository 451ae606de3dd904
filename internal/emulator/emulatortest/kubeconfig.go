package emulatortest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// Serve serves an emulator over HTTPS on loopback, until the test ends.
func Serve(t testing.TB, e *emulator.Emulator) *emulator.Server {
	t.Helper()
	server, err := e.Start(t.TempDir(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

// Kubeconfig writes the kubeconfig of a cluster's user into a file of the test and returns its
// name, as az aks get-credentials does. The emulator serves already.
func Kubeconfig(t testing.TB, e *emulator.Emulator, cluster arm.ID) string {
	t.Helper()
	status, body := client(t, e, Keeper).Do(http.MethodPost, cluster+"/listClusterUserCredential",
		"2025-10-01", nil)
	var answer struct {
		Kubeconfigs []struct {
			Value []byte `json:"value"`
		} `json:"kubeconfigs"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Kubeconfigs) != 1 {
		t.Fatalf("the credentials of %s: %d, %v", cluster, status, err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, answer.Kubeconfigs[0].Value, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
