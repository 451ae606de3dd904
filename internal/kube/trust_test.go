package kube

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestForeignKubeconfig: a kubeconfig from elsewhere runs no program and sends no file unless the
// user says so. The user's own kubeconfig always may.
func TestForeignKubeconfig(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the plugin is a shell script")
	}
	dir := t.TempDir()
	ran, sent := filepath.Join(dir, "ran"), ""
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		apiServer{}.ServeHTTP(w, r)
	}))
	plugin, secret := filepath.Join(dir, "plugin"), filepath.Join(dir, "secret")
	for name, text := range map[string]string{
		plugin: "#!/bin/sh\ntouch " + ran + `
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"x"}}'
`, secret: "mine",
	} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for user, happened := range map[string]func() bool{
		"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: " +
			plugin + "}": func() bool { _, err := os.Stat(ran); return err == nil },
		"tokenFile: " + secret: func() bool { return sent == "Bearer mine" },
	} {
		file := kubeconfig(t, server, user)
		_, err := Load(Options{Kubeconfig: file})
		says(t, err, "--trust-kubeconfig")
		if happened() || sent != "" {
			t.Errorf("%s: it was used", user)
		}
		if _, err := load(t, Options{Kubeconfig: file, Trusted: true}).Read(
			t.Context()); err != nil ||
			!happened() {
			t.Errorf("%s: trusted: %v", user, err)
		}
		t.Setenv("KUBECONFIG", file)
		if _, err := Load(Options{Kubeconfig: file}); err != nil {
			t.Errorf("%s: the user's own: %v", user, err)
		}
		t.Setenv("KUBECONFIG", "")
		sent = ""
	}
}
