package plan

import (
	"testing"
	"time"
)

// TestGuardTag: a tag on the network pauses the guard until its time, for the cluster's own table,
// too. A tag that is no time, has passed or is too far ahead pauses nothing. Each is a finding,
// also while nothing is lost.
func TestGuardTag(t *testing.T) {
	for _, test := range []struct{ tag, lost, whole string }{
		{"2026-03-01T13:00:00Z", "", "guard-paused"},
		{"2026-03-01T13:30:00+02:00", "repaired", "guard-tag-invalid"}, // 11:30 UTC
		{"2026-03-08T12:00:00Z", "", "guard-paused"},
		{"2026-03-08T12:00:01Z", "repaired", "guard-tag-invalid"},
		{"2026-03-01T12:00:00Z", "repaired", "guard-tag-invalid"},
		{"tomorrow", "repaired", "guard-tag-invalid"},
		{"", "repaired", "guard-tag-invalid"},
	} {
		t.Run(test.tag, func(t *testing.T) {
			w := quiet(t)
			w.s.Taken = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			w.s.Subnet(nodesA).GuardPausedUntil = &test.tag
			w.expect("", test.whole)
			w.subnet(nodesA, "10.240.0.0/24", "")
			w.s.Subnet(nodesA).GuardPausedUntil = &test.tag
			if test.lost == "" {
				w.expect("", "association-lost\n"+test.whole)
				return
			}
			p := w.expect("associate vnet/shop-nodes - shop-rt", test.whole)
			again := New(w.s, w.configs).AgainSubnet(w.s.Subnet(nodesA))
			if len(again.Changes) != len(p.Changes) {
				t.Errorf("again: %+v", again.Changes)
			}
		})
	}
}
