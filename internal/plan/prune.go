package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Orphans reports, for each table in the snapshot, routes to pods of nodes that are gone, if no
// config manages them. Proven ones are a warning. Others are info, with the missing proof.
func (p *Planner) Orphans() []finding.Finding {
	var found []finding.Finding
	for _, key := range slices.Sorted(maps.Keys(p.s.Tables)) {
		found = append(found, reportOrphans(p.s.Tables[key], p.orphansIn(p.s.Tables[key]))...)
	}
	return found
}

func reportOrphans(table *inventory.RouteTable, orphans []orphan) []finding.Finding {
	var proven, unproven []string
	for _, o := range orphans {
		line := fmt.Sprintf("%s to %s (%s): ", o.route.Prefix, o.route.NextHop(), o.route.Name)
		if o.proof != "" {
			proven = append(proven, line+o.proof)
		} else {
			unproven = append(unproven, line+o.lacks)
		}
	}
	var found []finding.Finding
	if n := len(proven); n > 0 {
		found = append(found, finding.New(finding.RoutesOrphaned, "", string(table.ID),
			"%s has leftover routes to pods of nodes that are gone: %d of its %d routes",
			table.ID.Short(), n, len(table.Routes())).With(proven...).
			WithFix("routekeeper sync prune --subscription %s --table %s",
				table.ID.Subscription(), table.ID))
	}
	if n := len(unproven); n > 0 {
		f := finding.New(finding.RoutesOrphaned, "", string(table.ID), "%s has routes that may "+
			"be left over from a cluster that is gone, but there is no proof: %d of its %d routes",
			table.ID.Short(), n, len(table.Routes())).About("not proven").With(unproven...)
		f.Severity = finding.Info
		found = append(found, f)
	}
	return found
}

// Pruner plans to remove orphaned routes of tables: only proven ones, and only the ones that
// existed when it was made.
type Pruner struct {
	p      *Planner
	tables []arm.ID
	// seen has the routes that existed when the network interfaces were read, by table and name.
	// The interfaces prove nothing about later routes.
	seen map[string]map[string]inventory.Route
}

// Prune makes a Pruner for tables of the snapshot.
func (p *Planner) Prune(tables []arm.ID) *Pruner {
	pr := &Pruner{p: p, tables: inventory.SortIDs(slices.Clone(tables)),
		seen: map[string]map[string]inventory.Route{}}
	for _, id := range pr.tables {
		routes := map[string]inventory.Route{}
		if table := p.s.Table(id); table != nil {
			for _, r := range table.Routes() {
				routes[strings.ToLower(r.Name)] = r
			}
		}
		pr.seen[id.Key()] = routes
	}
	return pr
}

// Seen returns the snapshot behind the proofs.
func (pr *Pruner) Seen() Facts { return pr.p.s }

// Plan plans for all tables.
func (pr *Pruner) Plan() Plan {
	w := pr.p.planning()
	var state State
	for _, id := range pr.tables {
		if table := pr.p.s.Table(id); table != nil {
			orphans := pr.p.orphansIn(table)
			w.found = append(w.found, slices.DeleteFunc(reportOrphans(table, orphans),
				func(f finding.Finding) bool { return f.Severity > finding.Info })...)
			state.Tables = append(state.Tables, pr.without(table, orphans))
		}
	}
	return w.plan(state, pr.p.s.Subnet)
}

// Again plans by the same rules for one table that was read again.
func (pr *Pruner) Again(table *inventory.RouteTable) Plan {
	w := pr.p.planning()
	state := State{Tables: []Table{pr.without(table, pr.p.orphansIn(table))}}
	return w.plan(state, pr.p.s.Subnet)
}

// without returns the desired state of a table: without the routes that are proven orphans.
func (pr *Pruner) without(table *inventory.RouteTable, orphans []orphan) Table {
	t, gone := Table{ID: table.ID}, map[string]bool{}
	for _, o := range orphans {
		was, there := pr.seen[table.ID.Key()][strings.ToLower(o.route.Name)]
		if o.proof != "" && there && was.Prefix == o.route.Prefix && was.SameHop(o.route) {
			gone[o.route.Name] = true
			t.Changes = append(t.Changes, Change{Verb: Delete, Resource: table.ID,
				Cluster: o.cluster, Route: o.route.Name, Old: valueOf(o.route), Why: o.proof})
		}
	}
	for _, r := range table.Routes() {
		if !gone[r.Name] {
			t.Routes = append(t.Routes, r)
		}
	}
	return t
}
