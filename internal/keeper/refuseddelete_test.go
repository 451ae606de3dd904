package keeper

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestRefusedDelete: an operator takes everything off the subnets and then deletes it, as terraform
// destroy does. The keeper has put it back by then, Azure refuses the deletes, and findings name
// the operator, until the config no longer requires what should go. The strip alone is no such
// attempt.
func TestRefusedDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		g := w.addGuarded("overlay", "")
		g.config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
		k := w.run(time.Minute, g.config)
		k.since(time.Minute)
		refused := func(results []Result) (all []finding.Finding) {
			for _, f := range results[len(results)-1].Findings {
				if f.Code == finding.DeleteRefused {
					all = append(all, f)
				}
			}
			return all
		}
		w.stripNetwork(g)
		if found := refused(k.since(40 * time.Minute)); len(found) != 0 {
			t.Fatalf("nothing was deleted: %+v", found)
		}
		w.stripNetwork(g)
		k.since(time.Minute)
		for _, id := range []arm.ID{g.table, g.nat, g.group} {
			if status, body := w.op.Do("DELETE", id, networkAPI, nil); status < 400 {
				t.Fatalf("%s was deleted: %d %s", id.Short(), status, body)
			}
		}
		found := refused(k.since(10 * time.Minute))
		if len(found) != 3 {
			t.Fatalf("%+v", found)
		}
		for _, id := range []arm.ID{g.table, g.nat, g.group} {
			if !slices.ContainsFunc(found, func(f finding.Finding) bool {
				return id.Equal(arm.ID(f.Resource)) &&
					strings.Contains(f.Message, emulatortest.Operator.ObjectID) &&
					strings.Contains(f.Message, " tried to delete "+id.Short())
			}) {
				t.Errorf("%s: %+v", id.Short(), found)
			}
		}
		for i := range g.config.Spec.Guard.Subnets {
			g.config.Spec.Guard.Subnets[i].NATGatewayID = ""
		}
		k.Reload([]v1alpha1.ClusterRoutes{g.config})
		if found = refused(k.since(time.Minute)); len(found) != 2 {
			t.Errorf("without the NAT gateway: %+v", found)
		}
		if found = refused(k.since(24 * time.Hour)); len(found) != 0 {
			t.Errorf("after a day: %+v", found)
		}
	})
}
