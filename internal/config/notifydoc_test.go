package config

import (
	"os"
	"strings"
	"testing"
)

// TestNotificationsPage: the example in the docs is a valid document.
func TestNotificationsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	n, err := ReadNotify(File{Name: "routes.yaml", Data: []byte(example)})
	if err != nil || n == nil || len(n.Spec.Places) != 3 {
		t.Errorf("%+v, %v", n, err)
	}
}
