package plan

import (
	"fmt"
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: this file decides whether a table may be written. A cluster's route table is never
// written: its cloud provider owns it. Every plan asks notWritable about a target, and
// mayBeClusterTable about any other table.
//
//	the table                                          | is not written, because
//	---------------------------------------------------|------------------------------------------------
//	has a configured cluster's pod routes; or, if that | it is or may be that cluster's
//	  is not proven, is on its node subnets, is on no  |   (noteClusterTables)
//	  subnet and leads to its nodes, or was written by |
//	  the cluster                                      |
//	could not be read                                  | what is in it is unknown
//	is on a subnet that contains its own next hops     | it is or was a cluster's, possibly of one that
//	                                                   |   was not read (tableOfUnread)
//	is empty, on a subnet with nodes of a cluster that | it may be that cluster's
//	  was not read                                     |
//	is no target, and in a node resource group, on a   | it may be that cluster's (mayBeClusterTable)
//	  node subnet, or written by a cluster             |

// clusterTable is a table that is or may be a cluster's route table, with the reason.
type clusterTable struct {
	v   *clusterState
	how string
	// flat is set if the cluster does not use kubenet, and its config does not name the table as
	// the cluster's. Then no cloud provider writes the table.
	flat bool
}

// noteClusterTables collects the tables that must not be written because they are, or may be, a
// cluster's route table. If another config names a table as its cluster's, the table stays in the
// list: that config may have confused two tables.
func (p *Planner) noteClusterTables(v *clusterState) {
	flat := false
	note := func(id arm.ID, how func() string) {
		was, known := arm.Lookup(p.clusterTables, id)
		if id != "" && (!known || was.flat && !flat) {
			p.clusterTables[id.Key()] = clusterTable{v, how(), flat}
		}
	}
	note(v.source, func() string { return "the cluster's pod routes are in it" })
	if v.cluster == nil || v.proven {
		return
	}
	flat = !v.cluster.Kubenet()
	for _, id := range v.rivals {
		note(id, func() string { return "it leads to the cluster's nodes, and no subnet has it" })
	}
	for _, id := range v.subnets {
		if subnet := p.s.Subnet(id); subnet != nil {
			note(subnet.RouteTable, func() string {
				return "the node subnet " + id.Short() + " is associated with it"
			})
		}
	}
	if len(v.wanted) == 0 {
		for _, id := range p.s.Known(v.cluster.ID).Written {
			note(id, func() string { return "the cluster's identity wrote it" })
		}
	}
}

// notWritable reports whether a target must not be written, and adds a finding with the reason.
// table is nil if it was not read.
func (w *planning) notWritable(id arm.ID, table *inventory.RouteTable, first *clusterState) bool {
	if own, taken := arm.Lookup(w.clusterTables, id); taken {
		f := finding.New(finding.TargetIsSource, first.name, string(id),
			"target %s is not written: %s, so it may be the route table of cluster %s",
			id.Short(), own.how, own.v.name)
		w.add(w.misplaced(f, own.v, id, advise(fmt.Sprintf("remove the target from %s, or check "+
			"the association and spec.routeTableID of %s", first.name, own.v.name))))
		return true
	}
	if table == nil {
		w.reportUnread(w.add, first.config, id, finding.TargetMissing, "target %s",
			advise(fmt.Sprintf("create the route table %s, or remove the target from %s",
				id.Short(), first.name)))
		return true
	}
	if how := w.s.tableOfUnread(table); how != "" {
		w.add(w.misplaced(finding.New(finding.TargetIsSource, first.name, string(id),
			"target %s is not written: %s", id.Short(), how), first, id, advise(fmt.Sprintf(
			"remove the target from %s; if the cluster no longer exists, dissociate the table "+
				"from that subnet", first.name))))
		return true
	}
	return false
}

// misplaced adds the next step to a finding about a target that is not written. If the target is on
// a node subnet of a cluster in place of the cluster's table, the association is the mistake.
func (w *planning) misplaced(f finding.Finding, v *clusterState, target arm.ID,
	do next) finding.Finding {
	for _, id := range v.subnets {
		if subnet := w.s.Subnet(id); subnet != nil && subnet.RouteTable.Equal(target) &&
			v.source != "" && !v.source.Equal(target) {
			do = advise(fmt.Sprintf("if %s is the route table of cluster %s, associate it with "+
				"%s; otherwise correct spec.routeTableID of %[2]s", v.source.Short(), v.name,
				id.Short()))
		}
	}
	return do.on(f)
}

// mayBeClusterTable says why a table is or may be a cluster's route table, even if no config names
// the cluster. Otherwise it returns "". A table on a node subnet counts with any network plugin,
// and so does a table that a cluster's identity wrote.
func (p *Planner) mayBeClusterTable(table *inventory.RouteTable) string {
	if own, known := p.clusterTables[table.ID.Key()]; known {
		return fmt.Sprintf("%s may be the route table of the cluster of %s, which routekeeper "+
			"never writes: %s", table.ID.Short(), own.v.name, own.how)
	}
	for _, key := range slices.Sorted(maps.Keys(p.s.Clusters)) {
		cluster := p.s.Clusters[key]
		may := func(how string) string {
			return fmt.Sprintf("%s may be the route table of cluster %s, which routekeeper never "+
				"writes: %s", table.ID.Short(), cluster.ID.Name(), how)
		}
		if table.ID.Group().Equal(cluster.NodeGroup()) {
			return may("it is in its node resource group")
		}
		for _, id := range p.s.NodeSubnetIDs(cluster) {
			if subnet := p.s.Subnet(id); slices.ContainsFunc(table.Subnets, id.Equal) ||
				subnet != nil && subnet.RouteTable.Equal(table.ID) {
				return may("the node subnet " + id.Short() + " is associated with it")
			}
		}
		if slices.ContainsFunc(p.s.Known(cluster.ID).Written, table.ID.Equal) {
			return may("the cluster's identity wrote it")
		}
		if cluster.Kubenet() && !p.knowsSource(cluster.ID) &&
			slices.ContainsFunc(table.Routes(), func(r inventory.Route) bool {
				return ownsRoute(p.s, cluster, r)
			}) {
			return may("it has routes to its nodes, and the cluster's route table is unknown")
		}
	}
	return p.s.tableOfUnread(table)
}

// tableOfUnread says why a table may be or have been the route table of a cluster that was not read
// and is in no config. Either it is on a subnet that contains its own next hops. Or it has no pod
// route yet, and is on a subnet with nodes of such a cluster. Subnets that were not read are
// ignored.
func (f Facts) tableOfUnread(table *inventory.RouteTable) string {
	for _, id := range table.Subnets {
		subnet := f.Subnet(id)
		if subnet == nil {
			continue
		}
		if slices.ContainsFunc(table.Routes(), func(r inventory.Route) bool {
			return within(subnet.Prefixes, r.Hop) && podRouteStyle(r)
		}) {
			return fmt.Sprintf("%s is associated with %s, which contains its next hops: it is or "+
				"was the route table of a cluster, possibly one that was not read",
				table.ID.Short(), id.Short())
		}
		node := f.unreadNode(subnet)
		if node != "" && !slices.ContainsFunc(table.Routes(), podRouteStyle) {
			return fmt.Sprintf("%s is associated with %s, which has a node of a cluster that was "+
				"not read (%s): it may be that cluster's route table, still empty",
				table.ID.Short(), id.Short(), node)
		}
	}
	return ""
}

// needSubnets returns the subnets that tableOfUnread must see before tables are changed.
func (f Facts) needSubnets(changes []Change) []arm.ID {
	var ids []arm.ID
	for i, c := range changes {
		if i > 0 && c.Resource == changes[i-1].Resource {
			continue
		}
		table := f.Table(c.Resource)
		if table == nil {
			continue
		}
		for _, id := range table.Subnets {
			if _, tried := f.Unread[id.Key()]; !tried && f.Subnet(id) == nil {
				ids = append(ids, id)
			}
		}
	}
	return inventory.SortIDs(ids)
}

// knowsSource reports whether it is certain which route table is a cluster's.
func (p *Planner) knowsSource(cluster arm.ID) bool {
	return slices.ContainsFunc(p.clusters, func(v *clusterState) bool {
		return v.source != "" && !v.doubtful && cluster.Equal(arm.ID(v.config.Spec.ClusterID))
	})
}
