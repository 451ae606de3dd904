package page

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/picture"
)

// How it works: a drawing starts with the routes as the tables have them. If the verdict says that
// packets are dropped, the route in the sender's table is drawn as cut, although it is correct by
// itself: another route hides it. If the cluster's table is empty, the routes that the copies show
// are drawn as missing in it.

// severed is the state of a route that is correct, but whose packets are dropped.
const severed = "cut"

// roleOther is the role of a table that is on a subnet in place of the right one, and that is not
// one of the cluster's tables.
const roleOther = "other"

// tables returns the tables of a cluster as its packets find them.
func (c Cluster) tables() []picture.Table {
	tables := slices.Clone(c.Cluster.Tables)
	for _, s := range c.Subnets {
		i := c.at(s.Table)
		if i < 0 {
			continue
		}
		missed := c.Verdict.Missed(s.ID, s.Role == picture.RoleNodes)
		if len(missed) == 0 {
			continue
		}
		tables[i].Routes = slices.Clone(tables[i].Routes)
		for j := range tables[i].Routes {
			if r := &tables[i].Routes[j]; r.State == picture.Works && missed[r.Node] {
				r.State = severed
			}
		}
	}
	if !c.Unrouted() {
		return tables
	}
	known := map[string]bool{}
	for _, t := range tables[1:] {
		for _, r := range t.Routes {
			if r.State == picture.Kept && !known[r.Destination] {
				known[r.Destination] = true
				r.State, r.Wanted, r.NextHop = picture.Missing, r.NextHop, ""
				tables[0].Routes = append(slices.Clip(tables[0].Routes), r)
			}
		}
	}
	return tables
}

// at returns the index of a table, or -1.
func (c Cluster) at(table arm.ID) int {
	return slices.IndexFunc(c.Cluster.Tables, func(t picture.Table) bool {
		return table != "" && t.ID.Equal(table)
	})
}

// others returns the tables that are on subnets in place of the right ones, and are not drawn yet.
func (c Cluster) others() (tables []picture.Table) {
	for _, s := range c.Subnets {
		if s.State == picture.Other && c.at(s.Table) < 0 {
			t := picture.Table{ID: s.Table, Role: roleOther}
			tables = append(tables, t)
			c.Cluster.Tables = append(slices.Clip(c.Cluster.Tables), t)
		}
	}
	return tables
}
