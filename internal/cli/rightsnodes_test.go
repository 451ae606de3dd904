package cli

import (
	"strings"
	"testing"
)

// TestLeastRightsOfNodes: with source Nodes the generated rights suffice to read the nodes with the
// credentials that AKS gives, on this cluster only. Without that right they are refused.
func TestLeastRightsOfNodes(t *testing.T) {
	t.Parallel()
	l := newLeastRights(t, func(config string) string {
		return strings.Replace(config, "source: RouteTable", "source: Nodes", 1)
	})
	if got := l.roles["credentials"]; len(got) != 1 {
		t.Fatalf("the role credentials has the actions %q", got)
	}
	sync := func(want int) []string {
		l.disturb()
		since := l.a.e.LastRequest()
		l.run(want, "--emulator", l.login, "sync", "-f", l.config, "--yes")
		return l.refused(since)
	}
	if refused := sync(0); len(refused) > 0 {
		t.Errorf("with all rights, refused: %q", refused)
	}
	if lines, err := l.a.routes(l.a.demo.GatewayTable); err != nil || len(lines) != 4 {
		t.Errorf("the target has %q, %v", lines, err)
	}
	l.define("credentials", []string{"Microsoft.ContainerService/managedClusters/read"})
	if refused := sync(2); len(refused) != 1 ||
		!strings.Contains(refused[0], "listClusterUserCredential") {
		t.Errorf("without the right, refused: %q", refused)
	}
}
