package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/docs"
	"routekeeper.dev/routekeeper/internal/prove"
)

// TestProvePage: docs/prove.md has a row for each fact. The rows about rights are made from the
// keeper's roles: go test . -run ProvePage -update writes them.
func TestProvePage(t *testing.T) {
	var rights strings.Builder
	rights.WriteString("| fact | question | expected | judged by | where it differs |\n" +
		"| --- | --- | --- | --- | --- |\n")
	facts := prove.Facts()
	for _, f := range facts {
		if f.Question == "" || f.Expected == "" || f.Source == "" || f.Judged == "" ||
			f.Follows == "" {
			t.Errorf("the fact %s is not whole: %+v", f.Name, f)
		}
		if f.Family == "Rights" {
			fmt.Fprintf(&rights, "| `%s` | %s | %s (%s) | %s | %s |\n", f.Name, f.Question,
				f.Expected, f.Source, f.Judged, f.Follows)
		}
	}
	isPart(t, "docs/prove.md", "rights", "ProvePage", rights.String())
	_, tables, _ := strings.Cut(docs.Prove, "\n### ")
	rows := regexp.MustCompile("(?m)^\\| `").FindAllString(tables, -1)
	if len(rows) != len(facts) {
		t.Errorf("docs/prove.md has %d rows, and there are %d facts", len(rows), len(facts))
	}
}
