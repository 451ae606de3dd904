package keeper

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedPauses: what ends a pause of the keeper or of a cluster, whatever the cluster and the
// config are called.
func TestPastedPauses(t *testing.T) {
	defer finding.Repeat(nil, nil)
	w := newWorld(t, emulator.Options{})
	w.strip(w.demo.NodeSubnet)
	pastetest.Again(func(rename func(string) string) {
		finding.Repeat(nil, []string{rename("routes.yaml")})
		config := w.demoConfig()
		config.Metadata.Name = rename("shop")
		k := w.keep(config)
		k.opts.Paused = func() string { return "until tomorrow" }
		w.expect(w.reconcile(k), "1 planned associate shop-vnet/nodes\n3 planned create appgw-rt",
			finding.AssociationLost, finding.Paused)
		k = w.keep(config)
		k.opts.ClusterPaused = func(string) string { return "until tomorrow" }
		w.expect(w.reconcile(k), "1 planned associate shop-vnet/nodes\n3 planned create appgw-rt",
			finding.AssociationLost)
	})
}

// unreadable is an Azure that answers no read.
type unreadable struct{ Azure }

func (unreadable) Read(context.Context, *inventory.Snapshot, inventory.Wanted,
	azure.ReadOptions) error {
	return errors.New("no answer")
}

// TestPastedRepairs: the commands about repairs that a check leaves to the next one, that have not
// ended, or that lack a proof.
func TestPastedRepairs(t *testing.T) {
	for _, rename := range pastetest.Names() {
		id := func(text string) arm.ID {
			return arm.ID(pastetest.Rename("/subscriptions/s/resourceGroups/g/providers/"+text,
				rename))
		}
		cluster := id("Microsoft.ContainerService/managedClusters/shop")
		subnet := id("Microsoft.Network/virtualNetworks/net/subnets/nodes")
		change := plan.Change{Cluster: rename("shop"), Verb: plan.Associate, Resource: subnet,
			New: &plan.Value{RouteTable: id("Microsoft.Network/routeTables/rt")}}
		config := configure(change.Cluster, cluster)
		k := New(unreadable{}, []v1alpha1.ClusterRoutes{config}, Options{})
		lost := finding.New(finding.AssociationLost, change.Cluster, string(subnet), "lost")
		k.findings.byCluster = map[string][]finding.Finding{keyOf(config): {lost}}
		began := time.Now()
		c := &check{observation: observation{k: k, configs: k.configs, began: began,
			life: t.Context()}, request: &request{}}
		none := func(plan.Change) bool { return false }
		if found := leftLost(c, []plan.Change{change}, none); len(found) != 1 {
			t.Errorf("left: %+v", found)
		}
		f := c.notGuarded(t.Context(), inventory.NewSnapshot(), []arm.ID{""}, change,
			&inventory.Subnet{Document: arm.Document{ID: subnet}})
		if f == nil || f.Code != finding.AssociationLost {
			t.Errorf("not proven: %+v", f)
		}
		tried := repaired{change: change, tried: &azure.RefusedDelete{}}
		if f := tried.finding(change.Cluster); f.Code != finding.DeleteRefused {
			t.Errorf("tried: %+v", f)
		}
		k.writes.under[subnet.Key()] = underWay{since: began.Add(-time.Minute)}
		c.request = nil
		if found := c.unfinished([]plan.Change{change}); len(found) != 1 {
			t.Errorf("unfinished: %+v", found)
		}
	}
}
