package plan

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: what a check remembers. Before it plans, Decide (decide.go) notes what was read,
// and the plan uses these notes. Then it remembers what the plan says. Both steps make a new value
// from the facts of the planner, so a plan and the next memory depend on nothing else.

// ledBy says which prefixes lead to a next hop in a cluster's route table, and since when. After is
// the time of the last check that did not see this, or of the first check.
type ledBy struct {
	prefixes     []netip.Prefix
	since, after time.Time
}

// steadyAfter is longer than a cloud provider needs to repair its table: it trusts its cache for
// two minutes and writes in batches of 30 seconds (docs/azure.md).
const steadyAfter = 5 * time.Minute

// note returns the memory of a cluster once its route table was read.
func (p *Planner) note(cluster arm.ID, now time.Time) Remembered {
	r := p.s.Memory.Of(cluster)
	if table, routes := p.Source(cluster); routes != nil {
		if r.unchanged = r.noted; table.ETag == "" || table.ETag != r.etag {
			r.unchanged = time.Time{}
		}
		r.etag = table.ETag
		r.noteRows(routes, now)
	}
	r.Settled = r.settled(now)
	return r
}

// noteRows notes the routes of the cluster's route table.
func (r *Remembered) noteRows(routes map[netip.Prefix]inventory.Route, now time.Time) {
	led := map[netip.Addr][]netip.Prefix{}
	for prefix, row := range routes {
		led[row.Hop] = append(led[row.Hop], prefix)
	}
	hops := make(map[netip.Addr]ledBy, len(led))
	for hop, prefixes := range led {
		was, there := r.hops[hop]
		if inventory.SortPrefixes(prefixes); !there || !slices.Equal(was.prefixes, prefixes) {
			was = ledBy{prefixes, now, r.noted}
			if r.noted.IsZero() {
				was.after = now
			}
		}
		hops[hop] = was
	}
	r.hops, r.noted = hops, now
}

// settled returns the routes to the next hops to which the same prefixes have led for at least
// steadyAfter.
func (r *Remembered) settled(now time.Time) map[netip.Prefix]Settled {
	routes := map[netip.Prefix]Settled{}
	for hop, led := range r.hops {
		if now.Sub(led.since) >= steadyAfter {
			for _, prefix := range led.prefixes {
				routes[prefix] = Settled{Hop: hop, After: led.after}
			}
		}
	}
	return routes
}

// remember returns what the next check must know about a cluster after a plan: its table, all node
// subnets it ever had, its nodes, and which routes are correct or were its own.
func (p *Planner) remember(cluster arm.ID, made Plan) Remembered {
	r := p.s.Memory.Of(cluster)
	r.InSync, r.Had = p.inSync(cluster, made), p.had(cluster)
	if nodes, checked := made.Nodes[cluster.Key()]; checked {
		r.Nodes = nodes
	}
	i := slices.IndexFunc(p.configs, func(c v1alpha1.ClusterRoutes) bool {
		return cluster.Equal(arm.ID(c.Spec.ClusterID))
	})
	doc := p.s.Cluster(cluster)
	if i < 0 || doc == nil {
		return r
	}
	r.Subnets = p.s.NodePrefixesEver(doc)
	d := Discover(p.s, &p.configs[i], p.taken)
	r.Recalled = r.Recalled && !d.Proven && r.LastTable.Equal(d.Table)
	switch table := p.s.Table(d.Table); {
	case p.s.Unread[d.Table.Key()].Absent:
		r.LastTable, r.LastProven = "", false // it is gone: from now on associations count
	// Someone may have put a wrong table on the subnets before this keeper saw them. A table
	// without routes is not remembered: the keeper would defend it against the correct one.
	case table != nil && (d.Proven || LeadsToNodes(p.s, &p.configs[i], table)):
		r.LastTable, r.LastProven = d.Table, d.Proven
	}
	return r
}

// inSync returns a cluster's Remembered.InSync for the next check: the routes that are in sync in
// its targets, and the routes that a plan restores. Routes that are missing because there is no
// room are not included: no other writer removed them. For a target that was not read, earlier
// routes stay.
func (p *Planner) inSync(cluster arm.ID, made Plan) map[string]map[netip.Prefix]netip.Addr {
	before := p.s.Memory.Of(cluster).InSync
	type place struct{ target, prefix string }
	back := map[place]bool{}
	for _, c := range slices.Concat(made.Changes, made.OnlyObserved) {
		if c.Repair {
			back[place{c.Resource.Key(), c.New.AddressPrefix}] = true
		}
	}
	now := map[string]map[netip.Prefix]netip.Addr{}
	for target, parts := range p.targets {
		for _, part := range parts {
			if !cluster.Equal(arm.ID(part.config.Spec.ClusterID)) {
				continue
			}
			if part.wanted == nil { // not read in this check
				now[target] = before[target]
				continue
			}
			routes, table := map[netip.Prefix]netip.Addr{}, p.s.Tables[target]
			for prefix, hop := range before[target] {
				if want, _ := part.wanted.at(prefix); want.Hop == hop &&
					(table == nil || back[place{target, prefix.String()}]) {
					routes[prefix] = hop
				}
			}
			if table != nil {
				for _, r := range table.Routes() {
					if want, ours := part.wanted.at(r.Prefix); ours && want.SameHop(r) {
						routes[r.Prefix] = want.Hop
					}
				}
			}
			now[target] = routes
		}
	}
	for key, configs := range p.egress {
		for _, e := range configs {
			if !cluster.Equal(arm.ID(e.config.Spec.ClusterID)) {
				continue
			}
			routes := maps.Clone(now[key])
			if routes == nil {
				routes = map[netip.Prefix]netip.Addr{}
			}
			for _, want := range e.routes {
				table := p.s.Tables[key]
				in := table != nil &&
					slices.ContainsFunc(table.Routes(), func(r inventory.Route) bool {
						return r.Prefix == want.Prefix && r.SameHop(want)
					})
				if hop := rememberedHop(want); in || before[key][want.Prefix] == hop &&
					(table == nil || back[place{key, want.Prefix.String()}]) {
					routes[want.Prefix] = hop
				}
			}
			now[key] = routes
		}
	}
	return now
}

// rememberedHop returns a next hop in the form that Remembered.InSync has: its address. A type
// without an address becomes :: with the type as its zone, which no route's address has.
func rememberedHop(r inventory.Route) netip.Addr {
	if r.Hop.IsValid() {
		return r.Hop
	}
	return netip.IPv6Unspecified().WithZone(r.HopType)
}

// had returns a cluster's Remembered.Had for the next check: the pod routes of its table, and the
// earlier ones that are still in a target. For a target that was not read, all earlier ones stay.
func (p *Planner) had(cluster arm.ID) map[Pair]bool {
	had, before := map[Pair]bool{}, p.s.Memory.Of(cluster).Had
	_, routes := p.Source(cluster)
	if routes == nil { // not read in this check
		return before
	}
	for prefix, r := range routes {
		had[Pair{Prefix: prefix, Hop: r.Hop}] = true
	}
	for target, parts := range p.targets {
		if !slices.ContainsFunc(parts, func(part targetConfig) bool {
			return cluster.Equal(arm.ID(part.config.Spec.ClusterID))
		}) {
			continue
		}
		table := p.s.Tables[target]
		if table == nil {
			maps.Copy(had, before)
			continue
		}
		for _, r := range table.Routes() {
			if pair := (Pair{Prefix: r.Prefix, Hop: r.Hop}); before[pair] {
				had[pair] = true
			}
		}
	}
	return had
}
