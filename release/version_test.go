package main

import (
	"testing"
	"time"
)

// TestSnapshotTag compares versions of commits with what semantic versions allow: a hash can be
// digits alone, and begin with 0, and Helm refused the chart of such a commit.
func TestSnapshotTag(t *testing.T) {
	date := time.Date(2026, 11, 26, 13, 26, 17, 0, time.UTC)
	for _, commit := range []string{"094508229751a0", "194508229751a0", "a94508229751a0"} {
		tag := snapshotTag(date, commit)
		if want := "v0.0.0-snapshot.20261126132617.g" + commit[:12]; tag != want ||
			!semver.MatchString(tag) {
			t.Errorf("snapshotTag(%q) = %q, want %q", commit, tag, want)
		}
	}
	for tag, valid := range map[string]bool{"v1.2.3": true, "v1.2.3-rc.1": true, "v1.2.3-0": true,
		"v1.2.3-01": false, "v1.2.3-rc.01": false, "v1.2.3-01a": true, "v1.2.3-": false,
		"v01.2.3": false, "v1.2.3+x": false, "1.2.3": false} {
		if semver.MatchString(tag) != valid {
			t.Errorf("semver.MatchString(%q) is not %v", tag, valid)
		}
	}
}
