package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/openfiles"
)

// TestAlone: the second keeper of a history says that there is another one, until that one has
// ended.
func TestAlone(t *testing.T) {
	history := filepath.Join(t.TempDir(), "routes.history.db")
	keeper := func() *alone {
		a := newAlone(history, slog.New(slog.DiscardHandler), openfiles.Is)
		t.Cleanup(a.end)
		return a
	}
	first, second := keeper(), keeper()
	for range 2 {
		if found := first.findings(); len(found) > 0 {
			t.Errorf("the first one: %+v", found)
		}
		found := second.findings()
		if len(found) != 1 || found[0].Code != finding.AnotherKeeper ||
			!strings.Contains(strings.Join(found[0].Evidence, ""),
				fmt.Sprintf("process %d, since ", os.Getpid())) {
			t.Errorf("the second one: %+v", found)
		}
	}
	first.end()
	if found := second.findings(); len(found) > 0 {
		t.Errorf("the second one, by itself: %+v", found)
	}
	if found := keeper().findings(); len(found) != 1 {
		t.Errorf("a third one: %+v", found)
	}
	elsewhere := newAlone(filepath.Join(history, "missing", "x"), slog.New(slog.DiscardHandler),
		openfiles.Is)
	if found := elsewhere.findings(); len(found) > 0 {
		t.Errorf("a lock that cannot be made: %+v", found)
	}
}
