package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// checkCopies finds copies of the cluster's pod routes in tables that no config names as a target.
// Package plan checks targets, and routes whose cluster is gone.
func checkCopies(p *clusterCase) {
	if p.config == nil || p.table == nil {
		return
	}
	own := p.clusterRoutes()
	if len(own) == 0 {
		return // there is nothing to compare with, which another check reports
	}
	for _, key := range slices.Sorted(maps.Keys(p.s.Tables)) {
		table := p.s.Tables[key]
		if table == p.table || p.isTarget(table.ID) || inventory.IsManagedTable(table.ID) ||
			p.onNodes[table.ID.Key()] || p.s.LeadsElsewhere(table, p.cluster) {
			continue // association checks handle tables on node subnets
		}
		copied := plan.PodRoutes(p.s, p.config, table)
		if len(copied) == 0 {
			continue
		}
		missing, stale := drift(sameFamilies(own, copied), copied)
		state := "they still match the cluster's route table"
		if len(missing)+len(stale) > 0 {
			state = fmt.Sprintf("%d are missing or lead to the wrong node, %d are stale",
				len(missing), len(stale))
		}
		f := p.found(finding.RoutesUnkept, table.ID, "%s holds pod routes of cluster %s that no "+
			"config manages (%d; %s has %d): %s",
			table.ID.Short(), p.cluster.ID.Name(), len(copied), p.table.ID.Short(), len(own),
			state).
			With(slices.Concat(missing, stale)...).
			WithAdvice("%s", p.advice(table.ID)).WithFix("%s", p.fillCommand())
		switch {
		case len(table.Subnets) == 0:
			f.Severity = finding.Info
			f = f.With("the table is on no subnet, so it affects no traffic")
		case len(missing) == 0 && !misleads(p, own, copied):
			f.Severity = finding.Info
		}
		p.add(f)
	}
}

// sameFamilies returns the cluster's routes in the address families that the copy has: many copies
// need only one.
func sameFamilies(own, copied map[netip.Prefix]inventory.Route) map[netip.Prefix]inventory.Route {
	has := map[bool]bool{}
	for prefix := range copied {
		has[prefix.Addr().Is6()] = true
	}
	own = maps.Clone(own)
	maps.DeleteFunc(own, func(prefix netip.Prefix, _ inventory.Route) bool {
		return !has[prefix.Addr().Is6()]
	})
	return own
}

// misleads reports whether a copy leads to a node that is gone. A route that only the copy has may
// still be correct: the cluster's route table may have lost it.
func misleads(p *clusterCase, own, copied map[netip.Prefix]inventory.Route) bool {
	living := map[netip.Addr]bool{}
	for _, nic := range p.nics {
		for _, c := range nic.Configs {
			living[c.Address] = true
		}
	}
	for prefix, route := range copied {
		if _, inTable := own[prefix]; !inTable && !living[route.Hop] {
			return true
		}
	}
	return false
}
