package notify

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedTest: the command that sends a message to try a place, whatever the config is called.
func TestPastedTest(t *testing.T) {
	defer finding.Repeat(nil, nil)
	for _, rename := range pastetest.Names() {
		finding.Repeat(nil, []string{rename("routes.yaml")})
		bubble(t, func(n *Notifier, c *chat, _ func()) {
			c.set(http.StatusServiceUnavailable, 0)
			n.check(errorOn("shop"))
			time.Sleep(15 * time.Second)
			if f := n.Findings(); len(f) != 1 || f[0].Code != finding.NotifyFailed {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestWholeCommands: a line has a whole command or none. A chat cuts long lines, and gets other
// characters in place of mentions.
func TestWholeCommands(t *testing.T) {
	for fix, want := range map[string]bool{
		"az network show --ids /a": true, "az x --ids " + strings.Repeat("a", mostRunes): false,
		"az role list --assignee ada@example.com": false, "": false,
	} {
		m := compose([]Event{{Kind: Error, Code: "conflict", Text: "lost", Fix: fix}}, 0, "")
		if got := strings.Contains(m.Lines[0], "; next: "); got != want ||
			want && !strings.HasSuffix(m.Lines[0], fix) {
			t.Errorf("%s: %q", fix, m.Lines[0])
		}
	}
}
