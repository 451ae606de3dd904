package keeper

import (
	"context"
	"errors"
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
	in := keySet(others)
	return slices.DeleteFunc(slices.Clone(clusters), func(c v1alpha1.ClusterRoutes) bool { return in[keyOf(c)] })
}

func keyOf(c v1alpha1.ClusterRoutes) string { return network.ID(c.Spec.ClusterID).Key() }

func keySet(clusters []v1alpha1.ClusterRoutes) map[string]bool {
	set := make(map[string]bool, len(clusters))
	for _, c := range clusters {
		set[keyOf(c)] = true
	}
	return set
}

// split parts a round that is about to write: each group of clusters that share something goes on by itself, so that none waits for the
// writes of another. Those with nothing to write are the first part, and the turn itself.
func (t *turn) split(d decision) map[*turn]decision {
	changed := map[string]bool{}
	for _, c := range d.wanted {
		changed[c.Cluster] = true
	}
	left := map[string]int{} // where they are in the round
	for i, c := range t.part {
		left[keyOf(c)] = i
	}
	var groups [][]v1alpha1.ClusterRoutes
	for _, c := range t.part {
		key := keyOf(c)
		if _, in := left[key]; !in || !changed[c.Metadata.Name] {
			continue
		}
		var places []int
		for key := range t.related(map[string]bool{key: true}) {
			if i, in := left[key]; in { // others may be in other rounds, as was seen meanwhile
				places = append(places, i)
				delete(left, key)
			}
		}
		slices.Sort(places)
		group := make([]v1alpha1.ClusterRoutes, len(places))
		for i, at := range places {
			group[i] = t.part[at]
		}
		groups = append(groups, group)
	}
	rest := make([]v1alpha1.ClusterRoutes, 0, len(left))
	for _, c := range t.part {
		if _, in := left[keyOf(c)]; in {
			rest = append(rest, c)
		}
	}
	if len(rest) == 0 && len(groups) > 0 {
		rest, groups = groups[0], groups[1:]
	}
	t.part = rest
	turns := []*turn{t}
	var ofCluster, ofResource = map[string]int{}, map[string]int{} // the turn, by name and by ID.Key()
	for _, group := range groups {
		o := t.newTurn(group, t.cause)
		o.agenda, o.began, o.wish, o.asked = t.agenda, t.began, t.wish, map[string]ring{}
		for _, c := range group {
			key := keyOf(c)
			if r, named := t.asked[key]; named {
				o.asked[key] = r
				delete(t.asked, key)
			}
			ofCluster[c.Metadata.Name], ofResource[key] = len(turns), len(turns)
			if cluster := d.s.Cluster(network.ID(key)); cluster != nil {
				ofResource[cluster.NodeGroup().Key()] = len(turns)
			}
			for _, rest := range t.memory[key].rests {
				ofResource[rest] = len(turns)
			}
		}
		turns = append(turns, o)
	}
	parts := map[*turn]decision{}
	for i, part := range d.parts(len(turns), ofCluster, ofResource) {
		parts[turns[i]] = part
	}
	return parts
}

// parts parts a decision by the clusters and resources that it is about. What is about none of them is in the first part, but for
// findings about everything.
func (d decision) parts(n int, ofCluster, ofResource map[string]int) []decision {
	if n == 1 {
		return []decision{d}
	}
	parts := make([]decision, n)
	for i := range parts {
		s := *d.s
		s.Tables, s.Subnets, s.Unread = map[string]*network.RouteTable{}, map[string]*network.Subnet{}, map[string]network.Unread{}
		parts[i] = d
		parts[i].s, parts[i].Changes, parts[i].wanted, parts[i].Findings = &s, nil, nil, nil
	}
	for _, c := range d.Changes {
		p := &parts[ofCluster[c.Cluster]]
		p.Changes = append(p.Changes, c)
	}
	for _, c := range d.wanted {
		p := &parts[ofCluster[c.Cluster]]
		p.wanted = append(p.wanted, c)
	}
	for _, f := range d.Findings {
		switch {
		case f.Cluster != "":
			p := &parts[ofCluster[f.Cluster]]
			p.Findings = append(p.Findings, f)
		case f.Resource != "":
			p := &parts[ofResource[network.ID(f.Resource).Key()]]
			p.Findings = append(p.Findings, f)
		default: // it stands for all, and every round says so
			for i := range parts {
				parts[i].Findings = append(parts[i].Findings, f)
			}
		}
	}
	for key, table := range d.s.Tables {
		parts[ofResource[key]].s.Tables[key] = table
	}
	for key, subnet := range d.s.Subnets {
		parts[ofResource[key]].s.Subnets[key] = subnet
	}
	for key, u := range d.s.Unread {
		parts[ofResource[key]].s.Unread[key] = u
	}
	return parts
}

// about leaves only the changes and findings that are about some clusters.
func (d *decision) about(clusters map[string]bool) {
	d.Changes = slices.DeleteFunc(slices.Clone(d.Changes), func(c plan.Change) bool { return !clusters[c.Cluster] })
	d.Findings = slices.DeleteFunc(slices.Clone(d.Findings), func(f finding.Finding) bool { return !clusters[f.Cluster] })
}
