package controller

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestSyncedUnread: while it is unknown which pod routes a cluster has, a target without any is not
// in sync.
func TestSyncedUnread(t *testing.T) {
	unread := &inventory.Kubernetes{Failed: "its Kubernetes API has not answered yet"}
	for name, c := range map[string]struct {
		plugin string
		source v1alpha1.Source
		nodes  *inventory.Kubernetes
		want   string
	}{
		"nodes before the first answer": {"kubenet", v1alpha1.SourceNodes, unread,
			"Unknown the routes of a/copies are not known: " + unread.Failed},
		"no node": {"kubenet", v1alpha1.SourceNodes, &inventory.Kubernetes{},
			"Unknown the routes of a/copies are not known: its Kubernetes API shows no nodes"},
		"overlay, before the first answer": {"overlay", v1alpha1.SourceNodes, unread,
			"Unknown the routes of a/copies are not known: " + unread.Failed},
		"a table that is not known": {"kubenet", v1alpha1.SourceRouteTable, nil,
			"Unknown the routes of a/copies are not known: the cluster's route table is not known"},
		"nothing to copy": {"overlay", v1alpha1.SourceRouteTable, nil,
			"True the targets have the cluster's pod routes"},
	} {
		s := inventory.NewSnapshot()
		cluster := &inventory.Cluster{Document: of, Plugin: c.plugin,
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
		if c.plugin == "overlay" {
			cluster.Plugin, cluster.PluginMode = "azure", "overlay"
		}
		s.Clusters[arm.ID(clusterA).Key()] = cluster
		table, err := inventory.DecodeRouteTable([]byte(`{"id":"` + tableA + `","properties":{"subnets":[{"id":"` +
			groupA + `/gateway"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		s.Tables[arm.ID(tableA).Key()] = table
		if c.nodes != nil {
			s.Kubernetes[arm.ID(clusterA).Key()] = c.nodes
		}
		config := v1alpha1.ClusterRoutes{Spec: v1alpha1.Spec{ClusterID: clusterA,
			Source: c.source, Targets: []v1alpha1.Target{{RouteTableID: tableA}}}}
		config.SetDefaults()
		r := keeper.Result{Seen: plan.Facts{Snapshot: s}, Configs: []v1alpha1.ClusterRoutes{config}}
		got := Conditions(r, &config)[2]
		is := got.Status + " " + got.Message
		if strings.ReplaceAll(c.want, "a/copies", arm.ID(tableA).Short()) != is {
			t.Errorf("%s: %s, want %s", name, is, c.want)
		}
		v := verdict.Of(r.Seen, r.Configs, r.Configs, plan.TakenBy(r.Configs), nil)[0]
		if (v.State == verdict.Unknown) != (got.Status == "Unknown") {
			t.Errorf("%s: the verdict is %s (%s), and Synced %s", name, v.State, v.Sentence, is)
		}
	}
}
