package report

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestNothingHidden writes hostile text in every place where a report takes text from outside, in
// every format.
func TestNothingHidden(t *testing.T) {
	const bad = "x\n::error::y\x1b[31m\x1b]0;pwn\x07\u009b\u202e\u2066\u200b\x7f|`z`"
	id := arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/" + bad)
	f := finding.New(finding.PrefixTaken, bad, string(id), "%s", bad).With(bad).About(bad).At(bad,
		3)
	f.Fix = bad
	findings := []finding.Finding{f}
	change := plan.Outcome{Change: plan.Change{Cluster: bad, Verb: plan.Create, Resource: id,
		Route: bad, New: &plan.Value{AddressPrefix: bad, NextHopType: bad}, Why: bad},
		State: plan.Failed, Error: bad}
	for name, write := range map[string]func(io.Writer, Format, Style) error{
		"changes":   Result{Changes: []plan.Outcome{change}, Findings: findings}.Write,
		"diagnosis": Diagnosis{Clusters: []string{bad}, Findings: findings}.Write,
		"check":     Checked{Files: []CheckedFile{{bad, bad}}, Findings: findings}.Write,
		"alerts": Alerts{
			Changes: []AlertChange{{Verb: "create", Resource: bad, Kind: bad, Group: bad, Name: bad,
				Why: []string{bad}, State: AlertFailed, Error: bad}},
			Watched: []AlertScopes{{bad, []string{bad}}}, Unknown: []string{bad}}.Write,
		"table": Table{Header: []string{"h"}, Rows: [][]string{{bad}}, Lines: []string{bad},
			Value: bad}.Write,
	} {
		for _, format := range []Format{Text, Short, Markdown, JSON, SARIF} {
			if format == SARIF && name != "check" {
				continue // nothing else writes it
			}
			for _, style := range []Style{{}, {Color: true}} {
				var b bytes.Buffer
				if err := write(Safe(&b, format, style), format, style); err != nil {
					t.Fatal(err)
				}
				if format == JSON && !json.Valid(b.Bytes()) {
					t.Errorf("%s: no JSON: %q", name, b.String())
				}
				for line := range strings.Lines(b.String()) {
					line = strings.TrimSuffix(line, "\n")
					if style.Color {
						for _, code := range paints {
							line = strings.ReplaceAll(line, "\x1b["+code+"m", "")
						}
					}
					if plain(line) != line || strings.HasPrefix(strings.TrimSpace(line), "::") {
						t.Errorf("%s, %s, %v: %q", name, format, style, line)
					}
				}
			}
		}
	}
}

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
