package azure_test

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedGroup: the command that creates a missing resource group, whatever it is called.
func TestPastedGroup(t *testing.T) {
	e := emulatortest.New(t, emulator.Options{})
	c := emulatortest.Client(t, e, emulatortest.Keeper)
	for _, rename := range pastetest.Names() {
		group := arm.ID(pastetest.Rename("/subscriptions/"+emulator.DefaultSubscription+
			"/resourceGroups/gone", rename))
		if _, err := c.AlertResources(t.Context(), []arm.ID{group}); err == nil {
			t.Errorf("%s exists", group)
		}
	}
}
