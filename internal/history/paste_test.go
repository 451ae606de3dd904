package history

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestPastedRecovery: the command that recovers a damaged history, whatever it is called.
func TestPastedRecovery(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: Windows has no such file names")
	}
	for _, rename := range pastetest.Names() {
		path := filepath.Join(t.TempDir(), rename("routes")+Extension)
		if err := os.WriteFile(path, []byte(strings.Repeat("garbage ", 2000)), 0o600); err != nil {
			t.Fatal(err)
		}
		found := open1(t, path).change(create(1))
		if len(found) != 1 || !strings.HasPrefix(found[0].Fix, "sqlite3 ") &&
			!strings.HasPrefix(found[0].Fix, "no command is shown") {
			t.Errorf("%q: %+v", path, found)
		}
	}
}
