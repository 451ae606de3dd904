package plan

import (
	"fmt"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: a cluster that migrates from kubenet to overlay. Its document names overlay from
// the start of the operation, but AKS moves the nodes one after another, and removes the routes at
// the end.
//
//	its document           | its route table                   | the cluster is
//	-----------------------|-----------------------------------|------------------------------
//	kubenet                | any                               | kubenet
//	overlay, being updated | routes to its nodes, or unread    | migrating: planned as kubenet,
//	                       |                                   |   moved nodes keep their routes
//	overlay, being updated | no routes to its nodes, or none   | overlay
//	overlay                | any                               | overlay
//
// So a keeper that starts in the middle sees the same as one that saw the start. With source Nodes
// the routes come from the nodes, moved or not, before, during and after the migration.

// HasLeft reports whether a cluster that may be migrating counts as overlay: nothing shows any more
// that its own table has routes to its nodes.
func HasLeft(s Facts, c *v1alpha1.ClusterRoutes, taken Taken) bool {
	cluster := s.Cluster(arm.ID(c.Spec.ClusterID))
	// with source Nodes, the migration ends with the operation
	if cluster == nil || !cluster.Migrating || fromNodes(c) {
		return false
	}
	d := Discover(s, c, taken)
	switch table := s.Table(d.Table); {
	case !d.Want.Empty():
		return false
	case table != nil:
		return !LeadsToNodes(s, c, table)
	case d.Table != "":
		return s.Unread[d.Table.Key()].Absent
	}
	for _, id := range s.NodeSubnetIDs(cluster) {
		if s.Subnet(id) == nil && !s.Unread[id.Key()].Absent {
			return false
		}
	}
	for _, table := range s.Tables {
		if !taken.excludes(cluster.ID, table.ID) && LeadsToNodes(s, c, table) {
			return false
		}
	}
	return true
}

// migrating reports a cluster that migrates, and how many of its nodes have moved if they were
// read. The count is part of the finding's identity, so that the history shows each count.
func (p *Planner) migrating(v *clusterState) finding.Finding {
	id := arm.ID(v.config.Spec.ClusterID)
	known := p.s.Kubernetes[id.Key()]
	if known != nil && known.Failed == "" && len(known.Nodes) > 0 {
		count := fmt.Sprintf("%d of %s moved", overlayNodes(known.Nodes),
			finding.CountOf(len(known.Nodes), "node has", "nodes have"))
		return Migrating(v.name, id, ", "+count+": they need").About(count)
	}
	f := Migrating(v.name, id, ": its nodes need")
	if known != nil && known.Failed != "" {
		f = f.With("which nodes have moved is unknown: " + known.Failed)
	}
	return f
}

// Migrating reports a cluster that migrates. who continues the sentence and says which nodes need
// their routes, such as: its nodes need.
func Migrating(name string, id arm.ID, who string) finding.Finding {
	return finding.New(finding.ClusterMigrating, name, string(id),
		"cluster %s migrates to overlay%s their routes until the last one has moved", id.Short(),
		who).WithFix("routekeeper migrate watch %s", id)
}

// overlayNodes counts the nodes that have moved.
func overlayNodes(nodes []inventory.Node) (n int) {
	for _, node := range nodes {
		if node.Overlay {
			n++
		}
	}
	return n
}
