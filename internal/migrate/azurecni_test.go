package migrate

import (
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// optionalPlans plans for the world's cluster with Azure CNI.
func (w *world) optionalPlans(t *testing.T) []Cluster {
	t.Helper()
	c := diagnose.Case{Snapshot: w.snapshot(t), Clusters: []arm.ID{shop}, Proposed: true}
	pastetest.Again(func(rename func(string) string) {
		again := pastetest.Rename(c, rename)
		Make(again, diagnose.Check(again))
	})
	p := Make(c, diagnose.Check(c))
	if len(p.Clusters) > 0 || !slices.Equal(p.Others, []string{"shop"}) {
		t.Errorf("kubenet: %v, others: %v", p.Clusters, p.Others)
	}
	return p.Optional
}

// TestOptional: which moves a cluster with Azure CNI can make, what blocks each, and the order of
// the steps.
func TestOptional(t *testing.T) {
	node := object{"networkPlugin": "azure", "serviceCidr": "10.0.0.0/16"}
	with := func(more object) object {
		profile := object{}
		for _, from := range []object{node, more} {
			for key, value := range from {
				profile[key] = value
			}
		}
		return profile
	}
	type plan struct {
		goal   string
		blocks []finding.Code
		says   []string // in steps, notes and questions, in this order
	}
	for _, c := range []struct {
		name    string
		profile object
		change  func(*world)
		want    []plan
	}{
		{"node subnet", node, nil, []plan{
			{"overlay", nil, []string{"azure-ip-masq-agent-config", "iac check",
				"a /22 or larger for the 4 nodes",
				"--network-plugin azure --network-plugin-mode overlay --pod-cidr PREFIX",
				"podnetwork-type", "source: Nodes", "cluster verify", "no way back"}},
			{"cilium", nil, []string{"iac check",
				"--network-dataplane cilium --network-policy cilium", "cluster verify"}}}},
		{"node subnet with Calico", with(object{"networkPolicy": "calico"}), nil, []plan{
			{"cilium", nil, []string{"AKS uninstalls the network policy engine calico",
				"calico-typha"}},
			{"overlay", []finding.Code{finding.MigrationPolicy}, []string{"--network-policy none",
				"--network-plugin-mode overlay", "--network-policy cilium"}}}},
		{"old, with node auto-provisioning", node, func(w *world) {
			w.set("kubernetesVersion", "1.26.9")
			w.set("nodeProvisioningProfile", object{"mode": "Auto"})
		}, []plan{
			{"cilium", nil, []string{"karpenter.sh/nodepool", "--node-provisioning-mode Manual",
				"--network-dataplane cilium", "--node-provisioning-mode Auto"}},
			{"overlay", []finding.Code{finding.MigrationVersion}, []string{"az aks upgrade"}}}},
		{"a Windows pool", with(object{"networkPluginMode": "overlay", "podCidr": "10.244.0.0/16"}),
			func(w *world) { w.pool()["osType"] = "Windows" }, []plan{
				{"cilium", []finding.Code{finding.MigrationWindows}, []string{"delete the pool"}}}},
		{"pod subnet", node, func(w *world) { w.pool()["podSubnetID"] = string(appgw) }, []plan{
			{"cilium", nil, []string{"cannot move to overlay: that needs a new cluster"}}}},
		{"node subnet on Cilium",
			with(object{"networkDataplane": "cilium", "networkPolicy": "cilium"}), nil, []plan{
				{"overlay", nil, nil}}},
		{"overlay on Cilium", with(object{"networkPluginMode": "overlay",
			"networkDataplane": "cilium", "podCidr": "10.244.0.0/16"}), nil, nil},
		{"no plugin", object{"networkPlugin": "none"}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.cluster["properties"].(object)["networkProfile"] = c.profile
			w.subnet(0)["routeTable"] = nil
			if c.change != nil {
				c.change(w)
			}
			got := w.optionalPlans(t)
			if len(got) != len(c.want) {
				t.Fatalf("%d plans, want %d: %+v", len(got), len(c.want), got)
			}
			for i, want := range c.want {
				p := got[i]
				var codes []finding.Code
				for _, f := range p.Blockers {
					codes = append(codes, f.Code)
				}
				if p.Goal != want.goal || !slices.Equal(codes, want.blocks) ||
					p.Ready != (len(want.blocks) == 0) || p.Order != i+1 {
					t.Errorf("plan %d: %s, ready %v, blockers %v; want %+v", i, p.Goal, p.Ready,
						codes, want)
				}
				text := ""
				for _, s := range p.Steps {
					text += s.Title + "\n" + s.Why + "\n" + strings.Join(s.Commands, "\n") + "\n"
					if s.Source == "" || s.Phase == "" || s.Commands == nil {
						t.Errorf("a step lacks something: %+v", s)
					}
				}
				for _, n := range p.Meanwhile {
					text += n.Text + "\n" + n.Source + "\n"
				}
				for _, q := range p.Questions {
					text += q.Text + "\n" + q.Source + "\n"
				}
				rest := text
				for _, says := range want.says {
					_, after, found := strings.Cut(rest, says)
					if !found {
						t.Errorf("no %q after the others in\n%s", says, text)
					}
					rest = after
				}
			}
		})
	}
}
