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

// TestReadySilenced: an error that a person silenced leaves Ready True, which says how many there
// are. Another error, also one of all clusters, makes it False.
func TestReadySilenced(t *testing.T) {
	quiet := finding.New(finding.AssociationLost, "shop", "/subscriptions/s/nodes", "lost")
	quiet.Silenced = &finding.Silence{Reason: "known"}
	result := func(more ...finding.Finding) keeper.Result {
		return keeper.Result{Findings: append([]finding.Finding{quiet,
			finding.New(finding.WriteRefused, "play", "x", "of another cluster")}, more...)}
	}
	c, failed := ready(result(), "shop")
	if c.Status != "True" || c.Reason != "ErrorsSilenced" || failed != "" ||
		!strings.Contains(c.Message, "1 silenced") {
		t.Errorf("silenced: %+v, %q", c, failed)
	}
	for _, other := range []finding.Finding{
		finding.New(finding.AssociationLost, "shop", "/subscriptions/s/more", "lost, too"),
		finding.New(finding.AzureUnreachable, "", "", "no answer"),
	} {
		if c, failed := ready(result(other), "shop"); c.Status != "False" ||
			c.Message != other.Message || failed != other.Message {
			t.Errorf("%s: %+v, %q", other.Code, c, failed)
		}
	}
}

// TestReadyByVerdict: without an error, Ready is what the cluster's verdict says.
func TestReadyByVerdict(t *testing.T) {
	for state, want := range map[verdict.State]string{verdict.Broken: "False",
		verdict.Unknown: "Unknown", verdict.Bypassed: "True", verdict.AtRisk: "True",
		verdict.Stopped: "True", verdict.Observed: "True", verdict.InSync: "True"} {
		r := keeper.Result{Verdicts: []verdict.Verdict{{Cluster: "shop", State: state},
			{Cluster: "play", State: verdict.Broken}}}
		if c, _ := ready(r, "shop"); c.Status != want {
			t.Errorf("%s: %+v", state, c)
		}
	}
}

// TestGuardedSilenced: Guarded says what is, silenced or not. A silenced loss does not make the
// cluster unready.
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
		c, loud := guarded(p, config, why, tt.quiet)
		if c.Status != "False" || c.Reason != reasonLost || loud != tt.loud ||
			strings.Contains(c.Message, "(silenced)") == tt.loud {
			t.Errorf("%s: %+v, loud: %t", name, c, loud)
		}
	}
}
