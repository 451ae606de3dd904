package generate

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedDeployment: the commands at the head of templates. Groups can have parentheses in their
// names.
func TestPastedDeployment(t *testing.T) {
	for _, rename := range pastetest.Names() {
		c := build.Cluster{Blueprint: capacity.Kubenet, Name: "shop"}
		c.Group, c.Subscription = rename("shop(1)"), rename("s")
		Blueprint{Cluster: c}.head("main.bicep")
	}
}
