package keeper

import (
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/survey"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// proposed returns the config that init writes for a cluster, as it is and as promote leaves it.
func (w *world) proposed(cluster arm.ID) (observing, promoted v1alpha1.ClusterRoutes) {
	w.t.Helper()
	ctx, ones := w.t.Context(), []arm.ID{cluster}
	client := emulatortest.Client(w.t, w.e, emulatortest.Keeper)
	s, err := survey.Of(ctx, client, cluster.SubscriptionID(), ones)
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := survey.Propose(ctx, client, s, ones)
	if err != nil || len(all) != 1 || all[0].Skip != "" {
		w.t.Fatalf("%+v, %v", all, err)
	}
	f := config.File{Name: "routes.yaml", Data: []byte(report.ConfigYAML(
		[]plan.Proposal{all[0].Observing()}, "the cluster", survey.NotSeen(s)))}
	read := func() v1alpha1.ClusterRoutes {
		configs, err := config.Read(f)
		if err != nil {
			w.t.Fatalf("%v\n%s", err, f.Data)
		}
		return configs[0]
	}
	observing = read()
	text, _, err := config.Promote(f, map[string]config.Parts{observing.Metadata.Name: {
		Guard: true, Target: func(arm.ID) bool { return true }}})
	if err != nil {
		w.t.Fatal(err)
	}
	f.Data = text
	return observing, read()
}

// TestGuardProposed: the config that init writes, promoted, puts back what one PUT of the network
// took from the cluster's subnets, in the same time as a config that someone wrote
// (TestGuardEveryPlugin). Until it is promoted it says what is lost, and writes nothing.
func TestGuardProposed(t *testing.T) { forEveryPlugin(t, guardProposed) }

func guardProposed(t *testing.T, plugin, outbound string) {
	w := emptyWorld(t, slow)
	g := w.addGuarded(plugin, outbound)
	observing, promoted := w.proposed(g.cluster)
	subnets := []string{"nodes."}
	if strings.HasPrefix(plugin, "pod-subnet") {
		subnets = append(subnets, "pods.")
	}
	has := func() string { // only the cluster's subnets: init guards no others
		return strings.Join(slices.DeleteFunc(strings.Split(w.properties(g), "\n"),
			func(line string) bool {
				return !slices.ContainsFunc(subnets, func(s string) bool {
					return strings.HasPrefix(line, s)
				})
			}), "\n")
	}
	before, observer := has(), w.keep(observing)
	state := func() verdict.Verdict { return w.reconcile(observer).Verdicts[0] }
	if v := state(); v.State != verdict.Observed {
		t.Errorf("before: %s: %s", v.State, v.Sentence)
	}
	k := w.run(10*time.Second, promoted)
	k.since(time.Minute)
	puts := w.mark()
	w.stripNetwork(g)
	stripped, want := state(), during[outbound]
	if plugin == "kubenet" {
		want.state, want.sentence = verdict.Broken, "are dropped"
	}
	if stripped.State != want.state || !strings.Contains(strings.ReplaceAll(stripped.Sentence,
		"has lost its", "have lost their"), want.sentence) {
		t.Errorf("during: %s: %s", stripped.State, stripped.Sentence)
	}
	k.since(12*time.Second + time.Duration(len(subnets))*slow.OperationTime)
	if now := has(); now != before {
		t.Errorf("later:\n%s\nbefore:\n%s", now, before)
	}
	wrote := 0
	for _, r := range puts() {
		if r.Method == "PUT" && r.Status < 300 {
			wrote++
		}
	}
	if wrote != len(subnets) { // each once
		t.Errorf("%d writes", wrote)
	}
	if v := state(); v.State != verdict.Observed {
		t.Errorf("after: %s: %s", v.State, v.Sentence)
	}
	for _, r := range k.since(time.Minute) {
		if len(r.Changes) > 0 {
			t.Errorf("afterwards: %v", did(r))
		}
	}
}
