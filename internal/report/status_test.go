package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestOutageStatus: in an outage one line says so, and the clusters are shown as they were before.
func TestOutageStatus(t *testing.T) {
	out := finding.Outage([]finding.Finding{finding.New(finding.AzureUnreachable, "c0", "", "x"),
		finding.New(finding.AzureUnreachable, "c1", "", "x")}, time.Now(), nil)
	s := Status{Live: true, Checked: time.Now(), Now: time.Now(), Findings: out,
		Sentence: out[0].Message}
	for i := range 10 {
		v := verdict.Verdict{State: verdict.Unknown, Sentence: "not read",
			Before: &verdict.Before{State: verdict.InSync, Sentence: "fine"}}
		if i == 7 {
			v.Before = &verdict.Before{State: verdict.Broken, Sentence: "lost"}
		}
		s.Clusters = append(s.Clusters, ClusterStatus{Name: fmt.Sprintf("c%d", i),
			State: v.State.Color(), Sentence: v.Sentence, Verdict: &v})
	}
	var b strings.Builder
	if err := s.Write(&b, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "Azure has not answered since") ||
		lines[1] != "Before the outage:" || !strings.HasPrefix(lines[2], "✗  c7  broken") ||
		!strings.Contains(lines[3], "the other 9 were fine") {
		t.Error(b.String())
	}
	if s.Good() {
		t.Error("an outage is good")
	}
}
