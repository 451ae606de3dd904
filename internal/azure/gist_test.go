package azure

import (
	"errors"
	"net/url"
	"testing"
)

// TestGist: the same trouble of a connection has the same text each time.
func TestGist(t *testing.T) {
	for from, want := range map[string]string{
		"stream error: stream ID 981; INTERNAL_ERROR; received from peer": "the connection ended " +
			"without an answer (INTERNAL_ERROR)",
		"unexpected EOF": "the connection ended without an answer (unexpected EOF)",
		"EOF":            "the connection ended without an answer (EOF)",
		"dial tcp: lookup management.azure.com: no such host": "dial tcp: lookup " +
			"management.azure.com: no such host",
	} {
		err := &url.Error{Op: "Get", URL: "https://x", Err: errors.New(from)}
		if got := gist(err); got != want {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
}
