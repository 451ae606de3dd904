package finding

import (
	"regexp"
	"testing"
)

// TestDescriptions: each section of docs/findings.md is whole, and most name one of Microsoft's
// pages.
func TestDescriptions(t *testing.T) {
	address := regexp.MustCompile(`^https://learn\.microsoft\.com/azure/[a-z-]+/[a-z/-]+$`)
	pages := 0
	for _, d := range All() {
		if d.Title == "" || d.Meaning == "" || d.Remedy == "" ||
			regexp.MustCompile(`What to do:|Microsoft's page:|^\*\*`).MatchString(d.Meaning+d.Remedy) {
			t.Errorf("%s: expected a title, a meaning and what to do, each one paragraph: %+v",
				d.Code, d)
		}
		if d.Page != "" {
			pages++
		}
		if d.Page != "" && !address.MatchString(d.Page) {
			t.Errorf("%s: %s is not an address of Microsoft's documentation", d.Code, d.Page)
		}
	}
	if pages < len(All())*2/3 {
		t.Errorf("%d of %d codes name a page", pages, len(All()))
	}
}
