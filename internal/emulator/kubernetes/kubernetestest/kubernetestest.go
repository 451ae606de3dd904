// Package kubernetestest finds the control plane that .ci/kube builds, for tests.
package kubernetestest

import (
	"os"
	"path/filepath"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator/kubernetes"
)

// NeedKube is the environment variable that makes a missing control plane a failure.
const NeedKube = "ROUTEKEEPER_NEED_KUBE"

// Binaries returns the programs of the control plane that .ci/kube builds. Without them the test is
// skipped.
func Binaries(t testing.TB) kubernetes.Binaries {
	t.Helper()
	folder, err := kubernetes.BinariesFolder()
	if err != nil {
		t.Fatal(err)
	}
	b, err := kubernetes.Find(folder, "")
	if err == nil {
		return b
	}
	if os.Getenv(NeedKube) != "" {
		t.Fatalf("%s is set: %v", NeedKube, err)
	}
	t.Skipf("NOT RUN: %v", err)
	return b
}

// Helm returns the program that .ci/helm builds. Without it the test is skipped.
func Helm(t testing.TB) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(Binaries(t).APIServer), "helm")
	if _, err := os.Stat(path); err != nil {
		if os.Getenv(NeedKube) != "" {
			t.Fatalf("%s is set: %v", NeedKube, err)
		}
		t.Skipf("NOT RUN: %v; .ci/helm builds it", err)
	}
	return path
}

// Kubectl returns the one that .ci/kube builds with the control plane.
func Kubectl(t testing.TB) string {
	t.Helper()
	return filepath.Join(filepath.Dir(Binaries(t).APIServer), "kubectl")
}
