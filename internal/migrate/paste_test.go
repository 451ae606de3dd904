package migrate

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands of every step, made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }
