package diagnose

import (
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestUndecoded: a document that may not be read is a hint; one that makes no sense is an error, so
// that no diagnosis without it looks healthy. Both are named.
func TestUndecoded(t *testing.T) {
	other := arm.ID(netGroup + "/providers/Microsoft.Network/virtualNetworks/other")
	for status, want := range map[int]finding.Severity{403: finding.Info, 200: finding.Error} {
		f := healthy(t).also(func(s *inventory.Snapshot) {
			s.Unread[other.Key()] = inventory.Unread{ID: other, Status: status, Message: "why"}
		}).finds(finding.ReadFailed)
		is(t, f, want)
		if f.Resource != string(other) {
			t.Errorf("the finding is on %s", f.Resource)
		}
	}
}
