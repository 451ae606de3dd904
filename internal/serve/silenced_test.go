package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestMetricsSilenced: what a person silenced is in another metric, so that nothing fires for it,
// and a change to its resource counts neither as unmade nor as a failure. All of it counts again
// when the silence has ended.
func TestMetricsSilenced(t *testing.T) {
	const subnet, table = "/subscriptions/s/nodes", "/subscriptions/s/rt"
	m, h := NewMetrics(), NewHealth(time.Second)
	record := func(silenced *finding.Silence) string {
		lost := finding.New(finding.AssociationLost, "shop", subnet, "lost")
		refused := finding.New(finding.WriteRefused, "shop", subnet, "refused")
		lost.Silenced, refused.Silenced = silenced, silenced
		r := keeper.Result{Managed: []string{"shop"}, Started: time.Unix(1000, 0),
			Findings: []finding.Finding{lost, refused,
				finding.New(finding.TargetDrift, "shop", table, "drift")},
			Changes: []plan.Outcome{
				{Change: plan.Change{Verb: plan.Associate, Cluster: "shop", Resource: subnet},
					State: plan.Failed},
				{Change: plan.Change{Verb: plan.Create, Cluster: "shop", Resource: table},
					State: plan.Planned}}}
		m.Record(r)
		h.Record(r)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	const (
		lost     = `{cluster="shop",code="association-lost",severity="error"} 1`
		unmade   = `routekeeper_changes_unmade{cluster="shop",verb="associate"} 1`
		success  = `routekeeper_cluster_last_success_timestamp_seconds{cluster="shop"} 1000`
		elsewise = `routekeeper_changes_unmade{cluster="shop",verb="create"} 1`
	)
	check := func(text string, wants, not []string) {
		t.Helper()
		for _, want := range append(wants, elsewise) {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("no %s", want)
			}
		}
		for _, no := range not {
			if strings.Contains(text, no+"\n") {
				t.Errorf("there is %s", no)
			}
		}
	}
	loud := []string{"routekeeper_findings" + lost, unmade}
	quiet := []string{"routekeeper_findings_silenced" + lost}
	check(record(nil), loud, append(quiet, success))
	if h.Ready() == nil {
		t.Error("ready, although a write was refused")
	}
	check(record(&finding.Silence{Reason: "known"}), append(quiet, success), loud)
	if err := h.Ready(); err != nil {
		t.Errorf("silenced, and not ready: %v", err)
	}
	check(record(nil), loud, quiet)
}
