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
// name, as az aks get-credentials does.
func Kubeconfig(t testing.TB, e *emulator.Emulator, server *emulator.Server,
	cluster arm.ID) string {
	t.Helper()
	token, _, err := e.Token(Keeper, "https://management.core.windows.net/")
	if err != nil {
		t.Fatal(err)
	}
	client, err := server.Info.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.Info.HTTPS+
		string(cluster)+"/listClusterUserCredential?api-version=2025-10-01", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Kubeconfigs []struct {
			Value []byte `json:"value"`
		} `json:"kubeconfigs"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil ||
		len(answer.Kubeconfigs) != 1 {
		t.Fatalf("the credentials of %s: %s, %v", cluster, response.Status, err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, answer.Kubeconfigs[0].Value, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
