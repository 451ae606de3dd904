package controller

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestReadyByVerdict: Ready is the state of the cluster's verdict, whatever its findings are: an
// error threatens packets that are delivered. The error is in lastError, unless it is silenced.
func TestReadyByVerdict(t *testing.T) {
	lost := finding.New(finding.AssociationLost, "shop", "/subscriptions/s/nodes", "lost")
	quiet := lost
	quiet.Silenced = &finding.Silence{Reason: "known"}
	other := finding.New(finding.WriteRefused, "play", "x", "of another cluster")
	for state, want := range map[verdict.State]string{verdict.Broken: "False Broken",
		verdict.Bypassed: "False Bypassed", verdict.Unknown: "Unknown Unknown",
		verdict.AtRisk: "True AtRisk", verdict.Stopped: "True Stopped",
		verdict.Observed: "True Observed", verdict.InSync: "True InSync"} {
		r := keeper.Result{Findings: []finding.Finding{lost, other}, Verdicts: []verdict.Verdict{
			{Cluster: "play", State: verdict.Broken}, {Cluster: "shop", State: state,
				Sentence: "so it is", Silenced: state == verdict.AtRisk}}}
		c := ready(r, "shop")
		if c.Status+" "+c.Reason != want || !strings.HasPrefix(c.Message, "so it is") ||
			strings.HasSuffix(c.Message, " (silenced)") != (state == verdict.AtRisk) {
			t.Errorf("%s: %+v", state, c)
		}
		if got := worstError(r, "shop"); got != "lost" {
			t.Errorf("lastError %q", got)
		}
		r.Findings[0] = quiet
		if got := worstError(r, "shop"); got != "" {
			t.Errorf("lastError %q of a silenced error", got)
		}
	}
	if c := ready(keeper.Result{}, "shop"); c.Status != "Unknown" {
		t.Errorf("without a verdict: %+v", c)
	}
}

// TestGuardedSilenced: Guarded says what is, silenced or not.
func TestGuardedSilenced(t *testing.T) {
	nodes, gateway := arm.ID(groupA+"/nodes"), arm.ID(groupA+"/gateway")
	p := picture.Cluster{Subnets: []picture.Subnet{
		{ID: nodes, Role: picture.RoleNodes, State: picture.Lost},
		{ID: gateway, Role: picture.RoleNodes, State: picture.Right}}}
	config := &v1alpha1.ClusterRoutes{}
	config.Spec.Guard.Mode = v1alpha1.GuardEnforce
	why := func(arm.ID) string { return "" }
	for name, tt := range map[string]struct {
		quiet map[string]bool
		loud  bool
	}{
		"nothing silenced": {nil, true}, "silenced": {map[string]bool{nodes.Key(): true}, false},
		"another one silenced": {map[string]bool{gateway.Key(): true}, true},
	} {
		c := guarded(p, config, why, tt.quiet)
		if c.Status != "False" || c.Reason != reasonLost ||
			strings.Contains(c.Message, "(silenced)") == tt.loud {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
