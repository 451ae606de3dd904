package page

import (
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestBecause: under a cluster in a list are the cause of its state, then its errors and warnings,
// and not what a person silenced.
func TestBecause(t *testing.T) {
	said := func(code finding.Code, message string) finding.Finding {
		return finding.New(code, "shop", "r", "%s", message)
	}
	silenced := said(finding.AssociationLost, "silenced")
	silenced.Silenced = &finding.Silence{Reason: "known"}
	c := Cluster{Findings: []finding.Finding{silenced, said(finding.ReadFailed, "an error"),
		said(finding.StaleKept, "info"), said(finding.TargetDrift, "the cause"),
		said(finding.AssociationLost, "another error")},
		Verdict: verdict.Verdict{Cause: &verdict.Cause{Code: finding.TargetDrift,
			Message: "the cause"}}}
	b := c.Because()
	if b == nil || len(b.Top) != 2 || b.Top[0].Message != "the cause" ||
		b.Top[1].Message != "an error" {
		t.Errorf("%+v", b)
	}
	shown := 0
	for _, f := range c.Findings {
		if f.Silenced == nil && f.Severity != finding.Info {
			shown++
		}
	}
	if b.More != shown-2 {
		t.Errorf("%d more of %d", b.More, shown)
	}
	if b := (Cluster{Findings: []finding.Finding{silenced}}).Because(); b != nil {
		t.Errorf("a silenced finding: %+v", b)
	}
}
