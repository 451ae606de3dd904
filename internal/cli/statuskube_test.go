package cli

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/kube"
)

// TestStatusOfObjects: an object's state is the one of its condition Ready, as the page has it.
// That it only observes is no reason for a warning.
func TestStatusOfObjects(t *testing.T) {
	for _, c := range []struct{ status, reason, state, want string }{
		{"", "", "unseen", ""}, {"True", "Observed", "good", "observed"},
		{"True", "InSync", "good", "in-sync"}, {"True", "Stopped", "good", "stopped"},
		{"True", "AtRisk", "noted", "at-risk"}, {"False", "Bypassed", "noted", "bypassed"},
		{"False", "Broken", "bad", "broken"}, {"Unknown", "Unknown", "unseen", "unknown"},
		{"False", "NamespaceNotAllowed", "bad", ""},
	} {
		var o kube.ClusterRoutes
		o.Metadata.Name, o.Metadata.Namespace, o.Status.Routes = "shop", "team", "3/3"
		for _, kind := range []string{v1alpha1.ConditionGuarded, v1alpha1.ConditionReady} {
			o.Status.Conditions = append(o.Status.Conditions, v1alpha1.Condition{Type: kind,
				Status: "False", Reason: "Observe", Message: "so it is"})
		}
		o.Status.Conditions[1].Status, o.Status.Conditions[1].Reason = c.status, c.reason
		got, state := clusterStatus(o), ""
		if got.Verdict != nil {
			state = string(got.Verdict.State)
		}
		if got.State != c.state || state != c.want || got.Name != "team.shop" || c.status != "" &&
			got.Sentence != "so it is (3/3 routes)" {
			t.Errorf("%s %s: %+v", c.status, c.reason, got)
		}
		o.Status.Conditions[0].Reason = "EgressInTable"
		if got := clusterStatus(o).Sentence; (c.reason == "InSync") != strings.HasSuffix(got,
			"; so it is") {
			t.Errorf("%s %s that cannot be guarded: %s", c.status, c.reason, got)
		}
		if o.Metadata.Generation++; clusterStatus(o).State != "unseen" {
			t.Errorf("%s %s of an earlier spec counts", c.status, c.reason)
		}
	}
}
