package report

import (
	"strings"
	"testing"
)

// TestFold: long lines break at the terminal's width, below their last column, and what people
// paste stays whole. Without a width, nothing changes.
func TestFold(t *testing.T) {
	const long = "✗  shop  broken  \x1b[31msubnet nodes has lost its route table; packets are " +
		"dropped\x1b[0m"
	for name, test := range map[string]struct {
		columns    int
		text, want string
	}{
		"a table": {42, long + "\n", "✗  shop  broken  \x1b[31msubnet nodes has lost its\n" +
			strings.Repeat(" ", 17) + "route table; packets are\n" + strings.Repeat(" ", 17) +
			"dropped\x1b[0m\n"},
		"no terminal": {0, long, long},
		"columns early": {30, "a-very-long-name  broken  its table is empty now",
			"a-very-long-name  broken  its\n  table is empty now"},
		"a paragraph": {20, "  means: pods cannot reach others\n",
			"  means: pods cannot\n    reach others\n"},
		"a command": {20, "  next: az network vnet subnet update\n",
			"  next: az network vnet subnet update\n"},
		"a long word": {20, "  on: /subscriptions/1/resourceGroups/rg is there",
			"  on: /subscriptions/1/resourceGroups/rg\n    is there"},
	} {
		var b strings.Builder
		n, err := Fold(&b, func() int { return test.columns }).Write([]byte(test.text))
		if b.String() != test.want || n != len(test.text) || err != nil {
			t.Errorf("%s: %d %v\n%s\nwant\n%s", name, n, err, b.String(), test.want)
		}
	}
}
