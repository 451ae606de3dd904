package kube

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestMain runs the tests, side by side if they wait. Then it pastes the commands that they made
// with hostile names.
func TestMain(m *testing.M) {
	emulatortest.Overlap(8)
	os.Exit(pastetest.Main(m.Run))
}

// TestPastedLogins: what to run to log in, to start a cluster and to get rights, whatever the
// cluster is called.
func TestPastedLogins(t *testing.T) {
	for _, rename := range pastetest.Names() {
		c := &inventory.Cluster{
			Document: arm.Document{ID: arm.ID(pastetest.Rename("/subscriptions/s/"+
				"resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop",
				rename))}}
		getCredentials(c)
		c.Stopped = true
		if _, err := Load(Options{Cluster: c}); err == nil {
			t.Error("a stopped cluster has an API")
		}
		for _, resource := range []string{"nodes", "pods"} {
			(&Client{cluster: c}).grant(resource, `User "ada" has no access in Azure`)
			(&Client{cluster: c}).grant(resource, `User "`+rename("ada")+`" cannot list`)
		}
	}
}
