package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

const pastTable = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/gw-rt"

// past is a check with a change in each state that only the history knows, and in two other states.
func past() Past {
	at := time.Date(2026, 1, 31, 15, 4, 5, 0, time.Local)
	change := func(verb plan.Verb, route string, state plan.OutcomeState) PastChange {
		c := plan.Change{Verb: verb, Resource: pastTable, Cluster: "shop", Route: route,
			Why: "it is wanted"}
		value := &plan.Value{AddressPrefix: "10.244.0.0/24", NextHopType: "VirtualAppliance",
			NextHopIPAddress: "10.42.1.4"}
		if c.New = value; verb == plan.Delete {
			c.Old, c.New = value, nil
		}
		return PastChange{Outcome: plan.Outcome{Change: c, State: state}}
	}
	open, lost := change(plan.Create, "a", "intended"), change(plan.Create, "b", "interrupted")
	open.Open, lost.Lost, lost.Note = true, true, "the next check did not find it"
	done, failed := change(plan.Delete, "c", plan.Done), change(plan.Create, "d\u202e", plan.Failed)
	done.Settled, done.Note, done.ChangedBy = at, "ARM only: no right", "ann@example.com"
	failed.Error = "403 AuthorizationFailed"
	found := finding.New(finding.TargetDrift, "play", pastTable, "it differs")
	return Past{ID: 4, Started: at, By: "event", Caller: "a webhook",
		Observed: [][]string{{"gw-rt", "routes: 1"}},
		Changes:  []PastChange{open, lost, done, failed},
		Findings: []PastFinding{{"new", true, found}, {"resolved", false, found}}}
}

func written(t *testing.T, write func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPast(t *testing.T) {
	text := written(t, func(b *bytes.Buffer) error { return past().Write(b, Text, Style{}) })
	want := `Check 4, 2026-01-31 15:04:05, started by event from a webhook
did not end

Read before
  gw-rt  routes: 1

Changes
  gw-rt  ` + pastTable + `
    + a  10.244.0.0/24 to 10.42.1.4
      under way, or interrupted: outcome unknown: it is wanted
    + b  10.244.0.0/24 to 10.42.1.4
      interrupted (the next check did not find it): it is wanted
    - c  10.244.0.0/24 to 10.42.1.4
      done at 15:04:05: it is wanted
      ARM only: no right
      changed before by: ann@example.com
    + d\u202e  10.244.0.0/24 to 10.42.1.4
      failed: it is wanted
      403 AuthorizationFailed

Findings that are gone
  resolved  target-drift  play  it differs
`
	if !strings.HasPrefix(text, want) || strings.Count(text, "it differs") != 2 {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	short := written(t, func(b *bytes.Buffer) error { return past().Write(b, Short, Style{}) })
	first := "gw-rt create a nothing 10.244.0.0/24 to 10.42.1.4 under way"
	if strings.Count(short, "\n") != 6 || !strings.HasPrefix(short, first) {
		t.Errorf("short: %s", short)
	}
	markdown := written(t, func(b *bytes.Buffer) error {
		return past().Write(b, Markdown, Style{})
	})
	for _, part := range []string{"\nRead before:\n", "\nChanges:\n", "\nFindings:\n",
		"| resolved | target-drift | play | it differs |"} {
		if !strings.Contains(markdown, part) {
			t.Errorf("Markdown lacks %q:\n%s", part, markdown)
		}
	}
}

func TestHistory(t *testing.T) {
	whole := past()
	elapsed := time.Second
	whole.ID, whole.Caller, whole.Elapsed = 3, "", &elapsed
	whole.Changes = whole.Changes[2:3]
	whole.Findings = append(whole.Findings, whole.Findings[0])
	text := written(t, func(b *bytes.Buffer) error {
		return History{Checks: []Past{past(), whole}, Limit: 2}.Write(b, Text, Style{})
	})
	want := `id  when                 started by            names       what
4   2026-01-31 15:04:05  event from a webhook  play, shop  1 route deleted, 1 route to create failed, 1 change under way, or interrupted: outcome unknown, 1 change interrupted and not made, target-drift new, target-drift resolved
3   2026-01-31 15:04:05  event                 play, shop  1 route deleted, 2 × target-drift new, target-drift resolved

These are the newest 2: --limit 0 shows all.
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	fleet := past()
	for _, name := range []string{"a", "b", "c", "d"} {
		fleet.Findings = append(fleet.Findings,
			PastFinding{"new", true, finding.New(finding.ReadFailed, name, pastTable, "no answer")})
	}
	if text := written(t, func(b *bytes.Buffer) error {
		return History{Checks: []Past{fleet}}.Write(b, Text, Style{})
	}); !strings.Contains(text, "  a, b, c, d and 2 more  ") {
		t.Error(text)
	}
}
