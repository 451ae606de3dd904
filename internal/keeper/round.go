package keeper

import (
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Round is what one round led to.
type Round struct {
	// Serial tells the rounds of one keeper apart: those of clusters that share nothing may overlap.
	Serial  int64
	Started time.Time
	Elapsed time.Duration
	// Configs are all that are kept.
	Configs []v1alpha1.ClusterRoutes
	// Kept are the names of all clusters that are configured, Of those of the clusters that were looked at, nil where it was all.
	Kept []string
	Of   []string
	Woke Cause
	// Asked is when the first event came that woke it; zero where none did.
	Asked   time.Time
	Changes []plan.Outcome
	// Findings are all that stand, of clusters not looked at as well.
	Findings []finding.Finding
	// Observed is how what was changed, or found, read before; with a Recorder only.
	Observed []Observation
	// Seen is what was read, with what was written since as it read then. It is large, and not to be kept.
	Seen *network.Snapshot
	// Tables say how full the tables were that were looked at.
	Tables []Fill
	// Reads, Writes and Polls are ARM calls.
	Reads, Writes, Polls int
	// Complete is set when everything that was asked for was seen: nothing to do then means that nothing has to be done.
	Complete bool
}

// Fill is how many routes a table holds, and how many it may; Limit is 0 where it is nobody's target.
type Fill struct {
	Table         network.ID
	Routes, Limit int
}

// fill says how full the tables are that were read.
func (t *turn) fill(s *network.Snapshot) []Fill {
	limits := map[string]int{}
	for _, c := range t.part {
		for _, t := range c.Spec.Targets {
			limits[network.ID(t.RouteTableID).Key()] = t.MaxRoutes
		}
	}
	var out []Fill
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		out = append(out, Fill{s.Tables[key].ID, len(s.Tables[key].Routes), limits[key]})
	}
	return out
}

// name says which clusters a round looks at, of those that are kept: there can be new configs since it began.
func (t *turn) name(round *Round) {
	round.Configs, round.Kept = t.configs, names(t.configs)
	kept := nameSet(t.configs)
	round.Of = slices.DeleteFunc(names(t.part), func(name string) bool { return !kept[name] })
	if len(round.Of) == len(round.Kept) {
		round.Of = nil
	}
}

// note completes what a round tells by what stands of the clusters that it did not look at.
func (t *turn) note(round *Round) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name(round)
	looked, rests := map[string]bool{}, map[string]bool{"": true}
	for _, c := range t.part {
		looked[c.Metadata.Name] = true
		for _, key := range t.memory[network.ID(c.Spec.ClusterID).Key()].rests {
			rests[key] = true
		}
	}
	for _, f := range t.standing {
		if !looked[f.Cluster] && (f.Cluster != "" || !rests[network.ID(f.Resource).Key()]) {
			round.Findings = append(round.Findings, f)
		}
	}
	round.Findings = finding.Sort(ofKept(round.Findings, t.configs))
	t.standing = slices.Clone(round.Findings)
	t.outages.keep(nameSet(t.configs))
	for name := range looked {
		t.outages.note(name, round.Started, !slices.ContainsFunc(t.standing, func(f finding.Finding) bool {
			return f.Code == finding.AzureUnreachable && f.Cluster == name
		}))
	}
	round.Findings = t.outages.fold(round.Findings)
}

// planned are the changes of a plan that are not among the chosen ones.
func planned(all, chosen []plan.Change) []plan.Outcome {
	type key struct {
		resource, route string
		verb            plan.Verb
	}
	of := func(c plan.Change) key { return key{c.Resource.Key(), c.Route, c.Verb} }
	made := make(map[key]bool, len(chosen))
	for _, c := range chosen {
		made[of(c)] = true
	}
	var left []plan.Outcome
	for _, c := range all {
		if !made[of(c)] {
			left = append(left, plan.Outcome{Change: c, State: plan.Planned})
		}
	}
	return left
}

// and is this round and a later one of other clusters, told as one.
func (r Round) and(o Round) Round {
	both := o          // what stands, and by which configs, is what the later says
	if o.Seen == nil { // it failed
		both = r
	}
	both.Serial, both.Started, both.Elapsed = r.Serial, r.Started, max(r.Elapsed, o.Started.Add(o.Elapsed).Sub(r.Started))
	if both.Asked.IsZero() || !r.Asked.IsZero() && r.Asked.Before(both.Asked) {
		both.Asked = r.Asked
	}
	both.Of = nil
	for _, name := range both.Kept {
		if slices.Contains(r.Of, name) || slices.Contains(o.Of, name) {
			both.Of = append(both.Of, name)
		}
	}
	if len(both.Of) == len(both.Kept) || r.Of == nil || o.Of == nil {
		both.Of = nil
	}
	both.Changes = slices.Concat(r.Changes, o.Changes)
	both.Observed = slices.Concat(r.Observed, o.Observed)
	both.Tables = slices.Concat(r.Tables, o.Tables)
	both.Reads, both.Writes, both.Polls = r.Reads+o.Reads, r.Writes+o.Writes, r.Polls+o.Polls
	both.Complete = r.Complete && o.Complete
	if r.Seen != nil && o.Seen != nil {
		both.Seen = o.Seen.Fork()
		maps.Copy(both.Seen.Tables, r.Seen.Tables)
		maps.Copy(both.Seen.Subnets, r.Seen.Subnets)
		maps.Copy(both.Seen.Unread, r.Seen.Unread)
	}
	return both
}
