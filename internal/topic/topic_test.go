package topic

import (
	"strings"
	"testing"
)

func TestTopics(t *testing.T) {
	all := All()
	if len(all) != 6 || all[0].Name != "kubenet" || all[5].Name != "application-gateway" {
		t.Fatalf("%d topics", len(all))
	}
	for _, each := range all {
		if !strings.Contains(each.Text, "https://learn.microsoft.com/azure/") {
			t.Errorf("%s names no page of Microsoft's", each.Name)
		}
		if len(each.Title) < 30 || strings.Contains(each.Plain(), "`") {
			t.Errorf("%s: title %q, plain text\n%s", each.Name, each.Title, each.Plain())
		}
		for line := range strings.Lines(each.Plain()) {
			if len(line) > 81 && !strings.Contains(line, "https://") {
				t.Errorf("%s: %d columns: %s", each.Name, len(line)-1, line)
			}
		}
	}
}
