package plan

import (
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// migrates makes clusterA migrate, with the first nodes moved.
func (w *world) migrates(moved int) *world {
	w.s.Taken = noon
	c := *w.s.Cluster(clusterA)
	c.Plugin, c.PluginMode, c.Updating = "azure", "overlay", true
	w.s.Clusters[clusterA.Key()] = c.Leaving(nil)
	if k := w.s.Kubernetes[clusterA.Key()]; k != nil {
		for i := range moved {
			k.Nodes[i].Overlay = true
		}
	}
	return w
}

const threeCopies = `
	create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
	create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
	create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`

// TestMigrating: while a cluster migrates, the routes in its table count, whether their nodes have
// moved or not. Without any, it has left kubenet.
func TestMigrating(t *testing.T) {
	migrating := string(finding.ClusterMigrating)
	shop(t).migrates(0).expect(threeCopies, migrating)

	// The nodes are counted if they were read, and the count makes the finding a new one.
	for _, moved := range []int{0, 1, 3} {
		p := shop(t).kubernetes(threeNodes...).migrates(moved).expect(threeCopies, migrating)
		if want := map[int]string{0: "0 of 3 nodes have moved", 1: "1 of 3 nodes have moved",
			3: "3 of 3 nodes have moved"}[moved]; p.Findings[0].Subject != want {
			t.Errorf("about %q, expected %q", p.Findings[0].Subject, want)
		}
	}

	// A moved node with another pod CIDR gets a route to it. Its old route must not shadow the node
	// that has that pod CIDR now.
	w := shop(t).migrates(0)
	w.table(tableA, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102447024 10.244.7.0/24 10.240.0.5", "n2____102441024 10.244.1.0/24 10.240.0.6").
		table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
			"n1____102441024 10.244.1.0/24 10.240.0.5", "n2____102442024 10.244.2.0/24 10.240.0.6")
	w.settle("10.244.7.0/24", "10.240.0.5")
	w.expect(`
		delete gw-rt n1____102441024 10.244.1.0/24>10.240.0.5 -
		create gw-rt n2____102441024 - 10.244.1.0/24>10.240.0.6
		create gw-rt n1____102447024 - 10.244.7.0/24>10.240.0.5`, "deletes-withheld warning\n"+migrating)

	// The end: the table has no pod routes any more, or is gone. The copies stay.
	copied := []string{"n0____102440024 10.244.0.0/24 10.240.0.4"}
	w = shop(t).migrates(0).table(tableA, "egress 0.0.0.0/0 10.1.0.4").table(gateway, copied...)
	w.s.Learn(clusterA).LogRead = true
	w.expect("", string(finding.ClusterNotKubenet))
	w = shop(t).migrates(0).subnet(nodesA, "10.240.0.0/24", "").table(gateway, copied...)
	delete(w.s.Tables, tableA.Key())
	w.s.Learn(clusterA).LogRead, w.s.Learn(clusterA).ManagedRead = true, true
	w.expect("", string(finding.ClusterNotKubenet))

	// A cluster that only looks as if it migrated: its table could not be read. Nothing is removed.
	w = shop(t).migrates(0).table(gateway, copied...)
	delete(w.s.Tables, tableA.Key())
	w.s.Learn(clusterA).LogRead = true
	w.s.Unread[tableA.Key()] = inventory.Unread{ID: tableA, Status: 403,
		Code: "AuthorizationFailed"}
	w.expect("", "read-failed\ncluster-migrating")
}

// TestMigratingFromNodes: with source Nodes, every node keeps its routes before, during and after
// the migration, moved or not. Meanwhile the cluster's own table is a second opinion about nodes
// that have not moved; AKS removes the routes of the others.
func TestMigratingFromNodes(t *testing.T) {
	from := func(moved int, own ...string) *world {
		w := shop(t)
		w.configs[0].Spec.Source = v1alpha1.SourceNodes
		return w.table(tableA, own...).kubernetes(threeNodes...).migrates(moved)
	}
	all := []string{"n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.240.0.5", "n2____102442024 10.244.2.0/24 10.240.0.6"}
	const migrating = "cluster-migrating"
	from(0, all...).expect(threeCopies, migrating)
	from(2, all...).expect(threeCopies, migrating)
	from(3).expect(threeCopies, migrating)
	from(1, all[1:]...).expect(threeCopies, migrating)
	// The third has not moved, and its route is gone from the cluster's table.
	from(2, all[:2]...).expect(threeCopies, "node-without-route\n"+migrating)

	// In sync, a node that moves changes nothing, and neither does the end.
	w := inSync(t).migrates(2)
	w.expect("", migrating)
	c := w.s.Cluster(clusterA).Left()
	w.s.Clusters[clusterA.Key()] = c
	w.s.Taken = noon.Add(time.Minute)
	w.expect("", "overlay-routes")
	w.configs[0].Spec.RouteTableID = string(tableA)
	w.table(tableA, "egress 0.0.0.0/0 10.1.0.4")
	w.expect("", "overlay-routes")
}

// TestMigratingOrphans: while a cluster migrates, no route to its pods is called a leftover, in no
// table and without a config, too. The same document without an operation is one of a cluster that
// has left kubenet.
func TestMigratingOrphans(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*inventory.Cluster)
		want   int
	}{
		"migrates":     {func(c *inventory.Cluster) { c.Updating = true }, 0},
		"has migrated": {func(*inventory.Cluster) {}, 1},
	} {
		for _, read := range []bool{true, false} { // the node subnet
			w := shop(t).table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
				"aks-np-12345678-vmss000009____102449024 10.244.9.0/24 10.240.0.99")
			cluster := *w.s.Cluster(clusterA)
			cluster.Plugin, cluster.PluginMode = "azure", "overlay"
			c.change(&cluster)
			w.s.Clusters[clusterA.Key()] = &cluster
			delete(w.s.Tables, tableA.Key())
			if !read {
				delete(w.s.Subnets, nodesA.Key())
			}
			if found := New(w.s, nil).Orphans(); len(found) != c.want {
				t.Errorf("%s, subnet read %t: %v", name, read, found)
			}
		}
	}
}
