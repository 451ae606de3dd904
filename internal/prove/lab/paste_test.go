package lab

import (
	"errors"
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedCleanup: the command that deletes a group that was left.
func TestPastedCleanup(t *testing.T) {
	for _, rename := range pastetest.Names() {
		l := &lab{group: arm.ID(pastetest.Rename("/subscriptions/s/resourceGroups/g", rename))}
		if stillExists(l, errors.New("no answer")) == nil {
			t.Error("nothing is left")
		}
	}
}
