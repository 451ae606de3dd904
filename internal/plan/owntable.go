package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// What the cluster does counts before what people did to its subnets: people can give a subnet any
// table, a copy leads to the same nodes, and a config can confuse the two. One identity can serve
// several clusters, and an unused managed table can exist next to a bring-your-own table. If there
// is no better candidate, an associated table without routes to the nodes is read, but is not put
// on subnets, remembered or defended.
//
// The activity log is read once, page by page until it answers. It is not read if AKS made the
// table. It is not read either if config and node subnets agree, and no target also leads to the
// nodes. If the log shows nothing, a target that leads to the nodes and is on no subnet may be the
// cluster's table as well. Then it is not written.
//
// The keeper never replaces a table that, as far as it knows, belongs to another configured
// cluster. A cluster that was gone, or that shares no node subnet with its previous document,
// counts as a new cluster. Several candidates, or none, are a finding, and nothing is written.

// Discovery says which route table is a cluster's.
type Discovery struct {
	// Table is the table, or "" if none is identified yet.
	Table arm.ID
	// How says how it was identified.
	How string
	// Proven is set if the cluster's own actions identify the table. A config or an association
	// alone may be a mistake.
	Proven bool
	// Doubtful is set if the best candidate has no route to any of the cluster's nodes. The table
	// is read, but associated with no subnet.
	Doubtful bool
	// Rivals has tables that may be the cluster's, too: they lead to its nodes and are on no
	// subnet. They are never written.
	Rivals []arm.ID
	// Want names what must be read first. It is empty once there is an answer, even if the answer
	// is that there is no table.
	Want inventory.Wanted
	// Finding says why there is no answer.
	Finding *finding.Finding
}

// Taken has the tables that cannot be a cluster's route table: the targets of all configs, which
// look like one after a sync, and the tables that other configs name for their clusters.
type Taken struct {
	targets  map[string]bool
	owner    map[string]string // the cluster's key by the table's key
	clusters int               // the number of configs
	last     map[string]arm.ID // the tables that clusters were last seen with, by the cluster's key
}

// Last adds the tables that clusters were last seen with, by the cluster's ID.Key(). On a subnet,
// the guard of another cluster never replaces them. The map is not copied and must not change
// afterwards.
func (t Taken) Last(tables map[string]arm.ID) Taken {
	t.last = tables
	return t
}

// ofOther reports whether a table is known to be another cluster's.
func (t Taken) ofOther(table, cluster arm.ID) bool {
	if owner, owned := t.owner[table.Key()]; owned && owner != cluster.Key() {
		return true
	}
	for owner, last := range t.last {
		if owner != cluster.Key() && table.Equal(last) {
			return true
		}
	}
	return false
}

// TakenBy returns the tables that configs take, without the last known ones.
func TakenBy(configs []v1alpha1.ClusterRoutes) Taken {
	t := Taken{targets: map[string]bool{}, owner: map[string]string{}, clusters: len(configs)}
	for _, c := range configs {
		for _, target := range c.Spec.Targets {
			t.targets[arm.ID(target.RouteTableID).Key()] = true
		}
		if c.Spec.RouteTableID != "" {
			t.owner[arm.ID(c.Spec.RouteTableID).Key()] = arm.ID(c.Spec.ClusterID).Key()
		}
	}
	return t
}

// excludes reports whether a table cannot be the cluster's.
func (t Taken) excludes(cluster, table arm.ID) bool {
	owner, owned := t.owner[table.Key()]
	return t.targets[table.Key()] || owned && owner != cluster.Key()
}

// Discover finds the cluster's route table.
//
// How it works: the first of these that identifies one table wins. What the cluster itself does
// counts before what people did to it: a subnet can have any table, a copy of the cluster's table
// looks like the original, and a config can confuse the two.
//
//	the table                                   | counts if
//	--------------------------------------------|---------------------------------------------------
//	the config names it                         | the cluster's identity wrote it, or wrote no other
//	                                            |   that leads to its nodes
//	it was the cluster's at the last check, or  | no associated table leads to its nodes, too, and
//	  before a restart                          |   no node stays without a route; or the identity
//	                                            |   wrote it, or no other
//	the cluster's identity wrote it             | it leads to its nodes, and is no target
//	AKS made it in the node resource group      | it leads to its nodes
//	the node subnets are associated with it     | it leads to its nodes, and so does no table that
//	                                            |   is on no subnet
//
// The activity log is not read for a table that AKS made, or that an earlier check identified while
// every node has its route. It is not read either if the config and the node subnets agree on the
// table, and no target also leads to the nodes. If it shows nothing, and nothing else distinguishes
// two tables, a finding reports them and neither is written.
func Discover(s Facts, config *v1alpha1.ClusterRoutes, taken Taken) Discovery {
	cluster := s.Cluster(arm.ID(config.Spec.ClusterID))
	if id := config.Spec.RouteTableID; id != "" {
		d := Discovery{Table: arm.ID(id), How: "the config names it"}
		if cluster == nil || !cluster.Kubenet() {
			return d
		}
		return candidates{s, config, cluster, taken, s.NodeSubnetIDs(cluster)}.named(d)
	}
	if cluster == nil || !cluster.Kubenet() {
		return Discovery{}
	}
	c := candidates{s, config, cluster, taken, s.NodeSubnetIDs(cluster)}
	last := s.Memory.Of(cluster.ID).LastTable
	if last != "" && !taken.excludes(cluster.ID, last) {
		return c.remembered()
	}
	known := s.Known(cluster.ID)

	associated, want := c.present(c.associated())
	if len(want) > 0 {
		return Discovery{Want: inventory.Wanted{Tables: want}}
	}
	leading := c.leading(associated)
	const byAssociation = "the node subnets are associated with it"
	if len(associated) == 1 && len(leading) == 0 && cluster.Nodes() == 0 {
		return Discovery{Table: associated[0], How: byAssociation}
	}
	rivals, want := c.rivals(leading)
	if len(want) > 0 {
		return Discovery{Want: inventory.Wanted{Tables: want}}
	}
	if len(leading) == 1 && madeByAKS(cluster, leading[0]) {
		return Discovery{Table: leading[0], How: byAssociation, Proven: true}
	}

	if d, answered := c.byLog(leading); answered {
		return d
	}
	switch {
	case len(leading) > 1:
		return c.unknown("its node subnets have several tables with routes to its nodes: %s",
			shortNames(leading))
	case len(leading) == 1 && len(c.loose(rivals)) > 0:
		return c.unknown("its node subnets have %s, but %s leads to its nodes, too, and is on no "+
			"subnet; nothing shows which of them the cluster writes", leading[0].Short(),
			shortNames(c.loose(rivals)))
	case len(leading) == 1:
		return Discovery{Table: leading[0], How: byAssociation}
	case len(associated) == 1:
		return Discovery{Table: associated[0], How: byAssociation, Doubtful: true}
	case len(associated) > 1:
		return c.unknown("its node subnets have different tables, and none holds a route to its "+
			"nodes: %s", shortNames(associated))
	}
	if !known.ManagedRead {
		return Discovery{Want: inventory.Wanted{Managed: []arm.ID{cluster.ID}}}
	}
	managed, want := c.present(known.Managed)
	if len(want) > 0 {
		return Discovery{Want: inventory.Wanted{Tables: want}}
	}
	written, _ := c.existing(known.Written)
	return c.managed(managed, written)
}

const itWrote = "the cluster's identity wrote it"

// byLog finds the table that leads to the nodes and that the cluster's identity wrote. If there are
// several, preferred ones win. It reports whether there is an answer, or something to read first.
func (c candidates) byLog(preferred []arm.ID) (d Discovery, answered bool) {
	known := c.s.Known(c.cluster.ID)
	readOn := Discovery{Want: inventory.Wanted{Written: []arm.ID{c.cluster.ID}}}
	if !known.LogRead {
		return readOn, true
	}
	written, want := c.existing(known.Written)
	if len(want) > 0 {
		return Discovery{Want: inventory.Wanted{Tables: want}}, true
	}
	inLog := c.leading(written)
	if len(inLog) > 1 { // the node subnets may show which of them it is
		if both := slices.DeleteFunc(slices.Clone(inLog), func(id arm.ID) bool {
			return !slices.ContainsFunc(preferred, id.Equal)
		}); len(both) > 0 {
			inLog = both
		}
	}
	switch {
	case len(inLog) == 0 && len(known.LogNext) > 0:
		return readOn, true
	case len(inLog) == 1 && c.taken.excludes(c.cluster.ID, inLog[0]):
		return c.unknown("its identity wrote %s, which is a target or another cluster's",
			inLog[0].Short()), true
	case len(inLog) == 1:
		return Discovery{Table: inLog[0], How: itWrote, Proven: true}, true
	case len(inLog) > 1:
		return c.unknown("the cluster's identity wrote several tables with routes to its nodes: %s",
			shortNames(inLog)), true
	}
	return Discovery{}, false
}

// named checks the table that the config names: a config can confuse two tables. If the cluster's
// identity wrote another table with routes to its nodes, but not this one, the answer is unknown.
func (c candidates) named(d Discovery) Discovery {
	if madeByAKS(c.cluster, d.Table) {
		d.Proven = true
		return d
	}
	if last := c.s.Memory.Of(c.cluster.ID); last.LastTable.Equal(d.Table) && !last.Recalled {
		d.Proven = last.LastProven
		return d
	}
	rivals, want := c.rivals([]arm.ID{d.Table})
	if len(want) > 0 {
		return Discovery{Want: inventory.Wanted{Tables: want}}
	}
	present := c.associated()
	recalled := c.s.Memory.Of(c.cluster.ID).Recalled
	if len(c.subnets) == 0 || !recalled && len(rivals) == 0 && len(present) == 1 &&
		present[0].Equal(d.Table) && !c.bare() {
		return d
	}
	known := c.s.Known(c.cluster.ID)
	if !known.LogRead {
		return Discovery{Want: inventory.Wanted{Written: []arm.ID{c.cluster.ID}}}
	}
	if slices.ContainsFunc(known.Written, d.Table.Equal) {
		d.Proven = true
		return d
	}
	written, want := c.existing(known.Written)
	if len(want) > 0 {
		return Discovery{Want: inventory.Wanted{Tables: want}}
	}
	switch others := c.leading(written); {
	case len(others) > 0:
		return c.unknown("the config names %s, but its identity wrote %s, which holds routes to "+
			"its nodes", d.Table.Short(), shortNames(others))
	case len(rivals) > 0 && len(known.LogNext) > 0:
		return Discovery{Want: inventory.Wanted{Written: []arm.ID{c.cluster.ID}}}
	}
	d.Rivals = c.loose(rivals)
	return d
}

// bare reports whether one of the node subnets has no table.
func (c candidates) bare() bool {
	for _, id := range c.subnets {
		if subnet := c.s.Subnet(id); subnet != nil && subnet.RouteTable == "" {
			return true
		}
	}
	return false
}

// remembered returns the table that the node subnets last had. Unless the cluster's actions prove
// it, it may be a copy if another associated table also leads to its nodes, or if a node lacks its
// route: the cluster may have written that route to another table. Only the activity log can show
// this.
func (c candidates) remembered() Discovery {
	last := c.s.Memory.Of(c.cluster.ID)
	d := Discovery{Table: last.LastTable, How: "the node subnets last had it",
		Proven: last.LastProven}
	if d.Proven {
		return d
	}
	others, want := c.present(slices.DeleteFunc(c.associated(), last.LastTable.Equal))
	if len(want) > 0 {
		return Discovery{Want: inventory.Wanted{Tables: want}}
	}
	rivals := c.leading(others)
	switch {
	case len(rivals) == 0 && last.Nodes.Lacking():
		if found, answered := c.byLog([]arm.ID{last.LastTable}); answered {
			return found
		}
		return d
	case len(rivals) == 0 && !last.Recalled:
		return d
	}
	known := c.s.Known(c.cluster.ID)
	if !known.LogRead {
		return Discovery{Want: inventory.Wanted{Written: []arm.ID{c.cluster.ID}}}
	}
	all := append(rivals, last.LastTable)
	written := slices.DeleteFunc(slices.Clone(all), func(id arm.ID) bool {
		return !slices.ContainsFunc(known.Written, id.Equal)
	})
	if len(written) == 1 {
		return Discovery{Table: written[0], How: itWrote, Proven: true}
	}
	if len(rivals) == 0 {
		return d
	}
	return c.unknown("its node subnets had several tables with routes to its nodes: %s",
		shortNames(inventory.SortIDs(all)))
}

// candidates looks for a cluster's route table.
type candidates struct {
	s       Facts
	config  *v1alpha1.ClusterRoutes
	cluster *inventory.Cluster
	taken   Taken
	subnets []arm.ID // the cluster's node subnets
}

// associated returns the tables on the cluster's node subnets now.
func (c candidates) associated() []arm.ID {
	var ids []arm.ID
	for _, id := range c.subnets {
		if subnet := c.s.Subnet(id); subnet != nil && subnet.RouteTable != "" {
			ids = append(ids, subnet.RouteTable)
		}
	}
	return inventory.SortIDs(ids)
}

// present returns the tables that may be the cluster's and may exist, and the ones that must still
// be read.
func (c candidates) present(ids []arm.ID) (there, want []arm.ID) {
	for _, id := range ids {
		unread, tried := c.s.Unread[id.Key()]
		switch {
		case c.taken.excludes(c.cluster.ID, id) || unread.Absent:
			continue
		case c.s.Table(id) == nil && !tried:
			want = append(want, id)
		}
		there = append(there, id)
	}
	return there, want
}

// existing works like present, but includes tables that a config names as targets.
func (c candidates) existing(ids []arm.ID) (there, want []arm.ID) {
	c.taken.targets = nil
	return c.present(ids)
}

// rivals returns the other tables that lead to the cluster's nodes, among the ones that the config
// and the node subnets name, and the ones that must still be read.
func (c candidates) rivals(than []arm.ID) (leading, want []arm.ID) {
	ids := c.associated()
	for _, t := range c.config.Spec.Targets {
		ids = append(ids, arm.ID(t.RouteTableID))
	}
	ids = slices.DeleteFunc(inventory.SortIDs(ids), func(id arm.ID) bool {
		return slices.ContainsFunc(than, id.Equal)
	})
	there, want := c.existing(ids)
	return c.leading(there), want
}

// loose returns the tables that are on no subnet.
func (c candidates) loose(ids []arm.ID) []arm.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id arm.ID) bool {
		return len(c.s.Table(id).Subnets) > 0
	})
}

// leading returns the tables with a route to one of the cluster's nodes.
func (c candidates) leading(ids []arm.ID) []arm.ID {
	var out []arm.ID
	for _, id := range ids {
		if table := c.s.Table(id); table != nil && LeadsToNodes(c.s, c.config, table) {
			out = append(out, id)
		}
	}
	return out
}

// LeadsToNodes reports whether a table has a route to one of the cluster's nodes.
func LeadsToNodes(s Facts, config *v1alpha1.ClusterRoutes, table *inventory.RouteTable) bool {
	return len(podRoutesOf(s, config, table)) > 0
}

// PodRoutes returns a cluster's routes in a table, by prefix: to the pod CIDR of one node, with a
// next hop in one of its node subnets.
func PodRoutes(s Facts, config *v1alpha1.ClusterRoutes,
	table *inventory.RouteTable) map[netip.Prefix]inventory.Route {
	return podRoutesOf(s, config, table).byPrefix()
}

func podRoutesOf(s Facts, config *v1alpha1.ClusterRoutes, table *inventory.RouteTable) podRoutes {
	return newClusterState(s, config, s.Cluster(arm.ID(config.Spec.ClusterID))).podRoutes(table)
}

// managed returns the only managed table of the node resource group. A cluster with a
// bring-your-own table can also have an unused, empty managed one (AKS#1460). So if the cluster
// uses existing subnets, the managed table must have the cluster's routes.
func (c candidates) managed(managed, written []arm.ID) Discovery {
	const how = "it is the only managed table of the node resource group"
	switch leading := c.leading(managed); {
	case len(leading) == 1:
		return Discovery{Table: leading[0], How: how, Proven: true}
	case len(managed) == 1 && len(c.cluster.ExistingSubnets()) == 0:
		return Discovery{Table: managed[0], How: how}
	case len(managed) > 1:
		return c.unknown("the node resource group %s holds several managed tables: %s",
			c.cluster.NodeResourceGroup, shortNames(managed))
	case len(managed) == 0 && len(written) == 0 && c.allGone():
		return Discovery{Table: c.s.Known(c.cluster.ID).Written[0],
			How: "the cluster's identity wrote it last"}
	case len(written) > 0:
		return c.unknown("no node subnet has a suitable table, and no table that its identity "+
			"wrote holds a route to its nodes: %s", shortNames(written))
	case len(managed) == 1:
		return c.unknown("the managed table %s holds no route to a node of this cluster, so it "+
			"must use a bring-your-own table", managed[0].Short())
	}
	return c.unknown("no node subnet has a suitable table, the activity log shows none, and the "+
		"node resource group %s holds no managed table", c.cluster.NodeResourceGroup)
}

// allGone reports whether the complete activity log shows tables that the cluster's identity wrote,
// but none of them exists any more.
func (c candidates) allGone() bool {
	known := c.s.Known(c.cluster.ID)
	return len(known.Written) > 0 && len(known.LogNext) == 0 && !known.LogCut &&
		!slices.ContainsFunc(known.Written, func(id arm.ID) bool {
			return !c.s.Unread[id.Key()].Absent
		})
}

func (c candidates) unknown(format string, args ...any) Discovery {
	f := finding.New(finding.TableUnknown, c.config.Metadata.Name, c.config.Spec.ClusterID,
		"the route table of cluster %s cannot be identified: %s", c.cluster.ID.Short(), fmt.Sprintf(
			format, args...)).
		WithAdvice("set spec.routeTableID in the config of %s", c.config.Metadata.Name)
	known := c.s.Known(c.cluster.ID)
	if known.LogCut {
		f = f.With("only the newest part of the activity log could be read")
	}
	for _, id := range known.Written {
		if c.s.Unread[id.Key()].Absent {
			f = f.With("the cluster's identity wrote " + string(id) + ", which no longer exists")
		}
	}
	// the answer may be in a group or subscription that could not be read
	for _, scope := range []arm.ID{c.cluster.NodeGroup(), c.cluster.ID.SubscriptionID()} {
		if u, failed := c.s.Unread[scope.Key()]; failed {
			f = f.With(scope.Type() + " " + scope.Name() + " could not be read: " + u.Reason())
		}
	}
	return Discovery{Finding: &f}
}

func shortNames(ids []arm.ID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.Short()
	}
	return strings.Join(names, ", ")
}
