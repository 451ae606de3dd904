package report

import (
	"encoding/json"
	"testing"
)

// TestSafeJSON checks that programs read the same values.
func TestSafeJSON(t *testing.T) {
	want := "a\u202e\u009b\x7f\U000e0001 → \"\\ \uFFFD"
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	safe := SafeJSON(raw)
	var got string
	if err := json.Unmarshal(safe, &got); err != nil || got != want ||
		plain(string(safe)) != string(safe) {
		t.Errorf("%v: %q is written as %s", err, got, safe)
	}
}
