package finding

import (
	"regexp"
	"testing"
)

// TestPages: each page is the address of one of Microsoft's pages, and belongs to a code that
// exists. Most codes have one.
func TestPages(t *testing.T) {
	known := map[Code]bool{}
	for _, d := range All() {
		known[d.Code] = true
	}
	address := regexp.MustCompile(`^https://learn\.microsoft\.com/azure/[a-z-]+/[a-z/-]+$`)
	for code, page := range pages {
		if !known[code] {
			t.Errorf("%s is not a code", code)
		}
		if !address.MatchString(page) {
			t.Errorf("%s: %s is not an address of Microsoft's documentation", code, page)
		}
	}
	if len(pages) < len(known)*2/3 {
		t.Errorf("%d of %d codes name a page", len(pages), len(known))
	}
}
