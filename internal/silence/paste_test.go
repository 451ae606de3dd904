package silence

import (
	"os"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedEntries: what entries say about themselves, whatever their clusters and the config are
// called.
func TestPastedEntries(t *testing.T) {
	defer finding.Repeat(nil, nil)
	now := time.Now()
	for _, rename := range pastetest.Names() {
		finding.Repeat(nil, []string{rename("routes.yaml")})
		at := now.Add(-2 * Forgotten)
		found := append(Findings([]Entry{{ID: 1, Kind: Silence, Code: "conflict"},
			{ID: 2, Kind: Pause, Cluster: rename("shop"), At: at}}, now),
			ForgottenPause("", at, "tomorrow"))
		if len(found) != 4 || found[0].Code != finding.Silenced ||
			found[1].Code != finding.Paused || found[2].Code != finding.PauseForgotten {
			t.Errorf("%+v", found)
		}
	}
}
