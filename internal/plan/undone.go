package plan

import (
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// InSync is Remembered.InSync of a cluster for the next check: the routes that are in sync in its
// targets, and the routes that a plan restores. Routes that are missing for lack of room are not
// included: no other writer removed them.
func (p *Planner) InSync(cluster arm.ID, made Plan) map[string]map[netip.Prefix]netip.Addr {
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
			routes := map[netip.Prefix]netip.Addr{}
			for prefix, hop := range before[target] {
				if want, _ := part.wanted.at(prefix); want.Hop == hop &&
					back[place{target, prefix.String()}] {
					routes[prefix] = hop
				}
			}
			if table := p.s.Tables[target]; table != nil {
				for _, r := range table.Routes() {
					if want, ours := part.wanted.at(r.Prefix); ours && want.SameHop(r) {
						routes[r.Prefix] = want.Hop
					}
				}
			}
			now[target] = routes
		}
	}
	return now
}

// Had is Remembered.Had of a cluster for the next check: the pod routes of its table, and the
// earlier ones that are still in a target. For a target that was not read, all earlier ones stay.
func (p *Planner) Had(cluster arm.ID) map[Pair]bool {
	had := map[Pair]bool{}
	_, routes := p.Source(cluster)
	for prefix, r := range routes {
		had[Pair{Prefix: prefix, Hop: r.Hop}] = true
	}
	before := p.s.Memory.Of(cluster).Had
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
