package keeper

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestGuardTag: an operator tags the network, takes everything off its subnets, and may delete it.
// While the tag lasts nothing is put back, and findings and state say what is lost. Once its time
// has passed, the rest is put back, and a finding says that the tag has no effect. A subnet that is
// read alone has the tag, too.
func TestGuardTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		g := w.addGuarded("kubenet", "userDefinedRouting")
		g.config.Spec.Guard.Subnets = nil // the node subnet is guarded as the cluster's
		k := w.run(10*time.Second, g.config)
		k.since(time.Minute)
		tag := func(name, value string) {
			doc := w.get(g.vnet)
			doc["tags"] = object{name: value}
			w.put(g.vnet, doc)
		}
		last := func(d time.Duration) Result {
			results := k.since(d)
			return results[len(results)-1]
		}
		tag("Routekeeper-Guard-Paused-Until",
			time.Now().Add(time.Hour).In(time.FixedZone("", 7200)).Format(time.RFC3339))
		if got := codes(last(time.Minute)); !slices.Equal(got,
			[]finding.Code{finding.GuardPaused}) {
			t.Errorf("tagged: %v", got)
		}
		w.stripNetwork(g)
		r := last(50 * time.Minute)
		w.expect(r, "", finding.AssociationLost, finding.GuardPaused)
		if v := r.Verdicts[0]; v.State != verdict.Broken {
			t.Errorf("%s: %s", v.State, v.Sentence)
		}
		if text := strings.Join(r.Findings[0].Evidence, "; "); !strings.Contains(text,
			"not put back until 2000-01-01") {
			t.Errorf("evidence %q", text)
		}
		if w.tableOf(g.nodes) != "" {
			t.Error("it was put back")
		}
		if status, _ := w.op.Do("DELETE", g.nat, networkAPI, nil); status >= 400 {
			t.Errorf("the delete was answered with %d", status)
		}
		r = last(20 * time.Minute)
		w.expect(r, "", finding.GuardTag)
		if !w.tableOf(g.nodes).Equal(g.table) {
			t.Error("it was not put back after the tag's time")
		}
		doc := w.get(g.vnet)
		delete(doc, "tags")
		w.put(g.vnet, doc)
		w.expect(last(time.Minute), "")
	})
}
