package recordings

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/agreement.md from what was measured")

const pageFile = "../../docs/agreement.md"

// page is docs/agreement.md: the resource types, and how far the answers of each agree.
func page(recordings int, results []*result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What the emulator emulates, and how well\n\n"+
		"Measured by `internal/recordings` on %d recorded conversations with the real Azure\n"+
		"([emulator.md](emulator.md#recorded-answers)), which also makes this page:\n\n"+
		"```sh\nROUTEKEEPER_RECORDINGS=recordings.tgz go test ./internal/recordings -update\n```\n\n"+
		"## Resource types\n\nA type that has no rows was not in the recordings; what is known of it "+
		"is in\n[emulator.md](emulator.md#evidence). All other types are stored as clients send "+
		"them.\n\n| what | resource types | rows below | real clients |\n"+
		"| --- | --- | --- | --- |\n", recordings)
	for _, e := range evidences() {
		if len(e.Types) > 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", e.Name, strings.Join(e.Types, ", "),
				orDash(strings.Join(slices.Sorted(maps.Keys(e.Recorded)), ", ")), orDash(e.Clients))
		}
	}
	b.WriteString("\n## Agreement\n\nIn percent of the answers; core fields are what clients " +
		"of routes, networks and clusters use.\n\n| | calls |")
	for _, column := range columns {
		b.WriteString(" " + column + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", 2+len(columns)) + "\n")
	line := func(name string, of []*result) {
		f := figuresOf(of)
		if f.calls == 0 {
			return
		}
		fmt.Fprintf(&b, "| %s | %d |", name, f.calls)
		for _, column := range columns {
			if f.of[column] == 0 {
				b.WriteString(" – |")
			} else {
				fmt.Fprintf(&b, " %.1f |", f.share[column])
			}
		}
		b.WriteString("\n")
	}
	line("all", results)
	for _, k := range kinds {
		line(k[1],
			slices.DeleteFunc(slices.Clone(results), func(r *result) bool { return r.row != k[1] }))
	}
	return b.String()
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// TestAgreementPage: docs/agreement.md lists every type, and a measure of every row that the
// evidence names. TestRecordings writes it, with -update.
func TestAgreementPage(t *testing.T) {
	have, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evidences() {
		for _, name := range e.Types {
			if !strings.Contains(string(have), name) {
				t.Errorf("the page lacks %s: add it to its row, or write the page with "+
					"recordings", name)
			}
		}
		for row := range e.Recorded {
			if !strings.Contains(string(have), "\n| "+row+" |") {
				t.Errorf("the page has no measure of %s", row)
			}
		}
	}
}
