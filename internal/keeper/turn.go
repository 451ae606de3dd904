package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// turn is a round under way: of which clusters, and why. Those that share something are in one turn together.
type turn struct {
	*Keeper
	agenda *agenda // nil where it is the only one
	part   []v1alpha1.ClusterRoutes
	cause  Cause
	serial int64
	began  time.Time
	calls  *azure.Calls

	asked map[string]ring // clusters that events named, by ID.Key()
	wish  *question       // what a person wants of it, nil where nobody asked
	yield bool            // nobody waits for it
	// patience is for how long the answer to one call is waited for; 0: as long as it takes.
	patience time.Duration
	late     map[string]bool // clusters that it waited for in vain, by ID.Key()
	left     map[string]bool // clusters that are not in it any more, by ID.Key()
}

const (
	// shared is for how long clusters wait for each other that share nothing: whoever needs longer gets a round of its own.
	shared = 5 * time.Second
	// apart is for how long those wait that share something, or have been late before.
	apart = 10 * time.Second
)

// newTurn begins a round.
func (k *Keeper) newTurn(part []v1alpha1.ClusterRoutes, cause Cause) *turn {
	k.serial++
	return &turn{Keeper: k, part: part, cause: cause, serial: k.serial, began: time.Now(), calls: &azure.Calls{}, left: map[string]bool{}}
}

// manners says how calls are made while it is looked.
func (t *turn) manners(ctx context.Context) context.Context {
	ctx = azure.Counting(ctx, t.calls)
	if t.yield {
		ctx = azure.Yielding(ctx)
	}
	return ctx
}

// round is what there is to tell of it from the beginning.
func (t *turn) round() Round {
	return Round{Serial: t.serial, Started: t.began, Woke: t.cause, Asked: firstRing(t.asked)}
}

// end notes what a round cost.
func (t *turn) end(round *Round) {
	round.Reads, round.Writes, round.Polls = t.calls.Counts()
	round.Elapsed = time.Since(round.Started)
}

// keeps reports whether a cluster is in the round still: it can be taken out of it, for a round that somebody waits for.
func (t *turn) keeps(cluster network.ID) bool { return !t.left[cluster.Key()] }

// errLate ends a look in which some clusters kept the others waiting.
var errLate = errors.New("no answer in time")

// read reads, while others may have their rounds.
func (t *turn) read(ctx context.Context, s *network.Snapshot, w network.Wanted) (err error) {
	if w.Empty() {
		return nil
	}
	switch t.patience {
	case shared:
		ctx = azure.Within(ctx, shared, shared)
	case apart: // what Azure puts off does not come sooner by asking again
		ctx = azure.Within(ctx, apart, 0)
	}
	t.unlocked(func() { err = t.azure.Read(ctx, s, w) })
	if err == nil && t.patience == shared {
		if t.late = t.waitedFor(s, w); len(t.late) > 0 {
			return errLate
		}
	}
	return err
}

// waitedFor returns the clusters of the round for which something was not answered in time.
func (t *turn) waitedFor(s *network.Snapshot, w network.Wanted) map[string]bool {
	late := map[string]bool{}
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		keys := slices.Concat(t.memory[id.Key()].rests, seenResting(s, id), []string{id.Key()})
		if cluster := s.Cluster(id); cluster != nil {
			keys = append(keys, cluster.NodeGroup().Key())
			if slices.ContainsFunc(w.Written, id.Equal) { // the logs
				for _, subnet := range append(slices.Clone(s.NodeSubnetIDs(cluster)), id) {
					keys = append(keys, network.ID("/subscriptions/"+subnet.Subscription()).Key())
				}
			}
		}
		if slices.ContainsFunc(keys, func(key string) bool { return s.Unread[key].Late }) {
			late[id.Key()] = true
		}
	}
	return late
}

// withoutLate leaves the late clusters to a round of their own. Where no others remain, they are waited for longer. False where nobody is
// late.
func (t *turn) withoutLate() bool {
	late := t.together(t.of(func(key string) bool { return t.late[key] }))
	if rest := without(t.part, late); len(rest) < len(t.part) && len(rest) > 0 {
		t.agenda.leave(t, late, true)
	} else {
		t.patience = apart
	}
	return len(t.late) > 0
}

// without are the clusters that are not among others.
func without(clusters, others []v1alpha1.ClusterRoutes) []v1alpha1.ClusterRoutes {
	in := map[string]bool{}
	for _, c := range others {
		in[keyOf(c)] = true
	}
	return slices.DeleteFunc(slices.Clone(clusters), func(c v1alpha1.ClusterRoutes) bool { return in[keyOf(c)] })
}

func keyOf(c v1alpha1.ClusterRoutes) string { return network.ID(c.Spec.ClusterID).Key() }

// split parts a round that is about to write: each group of clusters that share something goes on by itself, so that none waits for the
// writes of another. Those with nothing to write are the first part, and the turn itself.
func (t *turn) split(d decision) map[*turn]decision {
	changed := map[string]bool{}
	for _, c := range d.wanted {
		changed[c.Cluster] = true
	}
	var groups [][]v1alpha1.ClusterRoutes
	rest := t.part
	for _, c := range t.part {
		if changed[c.Metadata.Name] && len(without([]v1alpha1.ClusterRoutes{c}, rest)) == 0 {
			group := t.together([]v1alpha1.ClusterRoutes{c})
			rest = without(rest, group)
			groups = append(groups, group)
		}
	}
	if len(rest) == 0 && len(groups) > 0 {
		groups = groups[1:]
	}
	parts := map[*turn]decision{}
	for _, group := range groups {
		o := t.newTurn(group, t.cause)
		o.agenda, o.began, o.wish, o.asked = t.agenda, t.began, t.wish, map[string]ring{}
		keys := map[string]bool{}
		for _, c := range group {
			key := keyOf(c)
			if r, named := t.asked[key]; named {
				o.asked[key] = r
				delete(t.asked, key)
			}
			keys[key] = true
			if cluster := d.s.Cluster(network.ID(key)); cluster != nil {
				keys[cluster.NodeGroup().Key()] = true
			}
			for _, rest := range t.memory[key].rests {
				keys[rest] = true
			}
		}
		parts[o] = d.of(nameSet(group), keys, true)
		d = d.of(nameSet(group), keys, false)
		t.part = without(t.part, group)
	}
	parts[t] = d
	return parts
}

// of is the part of a decision that is about some clusters and resources, or the rest of it.
func (d decision) of(clusters map[string]bool, resources map[string]bool, about bool) decision {
	d.about(clusters, about)
	d.s = d.s.Fork()
	maps.DeleteFunc(d.s.Tables, func(key string, _ *network.RouteTable) bool { return resources[key] != about })
	maps.DeleteFunc(d.s.Subnets, func(key string, _ *network.Subnet) bool { return resources[key] != about })
	maps.DeleteFunc(d.s.Unread, func(key string, _ network.Unread) bool { return resources[key] != about })
	return d
}

// about leaves only the changes and findings that are about some clusters, or the others.
func (d *decision) about(clusters map[string]bool, about bool) {
	change := func(c plan.Change) bool { return clusters[c.Cluster] != about }
	d.Changes = slices.DeleteFunc(slices.Clone(d.Changes), change)
	d.wanted = slices.DeleteFunc(slices.Clone(d.wanted), change)
	d.Findings = slices.DeleteFunc(slices.Clone(d.Findings), func(f finding.Finding) bool { return clusters[f.Cluster] != about })
}
