package keeper

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Result is the result of one check.
type Result struct {
	// Serial distinguishes the checks of one keeper. Checks of different groups may overlap.
	Serial  int64
	Started time.Time
	Elapsed time.Duration
	// Configs are those of all managed clusters. They are shared, so do not change them.
	Configs []v1alpha1.ClusterRoutes
	// Managed lists the names of these clusters. Of lists the names of the clusters that were
	// checked; nil means all.
	Managed []string
	Of      []string
	Woke    Cause
	// Asked is when the first event that triggered the check arrived, or zero.
	Asked   time.Time
	Changes []plan.Outcome
	// OnlyObserved are changes that are not made because the config says Observe.
	OnlyObserved []plan.Outcome
	// Findings are all current findings, including those of clusters that were not checked.
	Findings []finding.Finding
	// Verdicts has the verdicts on the clusters that were checked.
	Verdicts []verdict.Verdict
	// Observed is how the resources that were changed or reported read before. It is set only with
	// a Recorder.
	Observed []Observation
	// Seen is what was read and remembered. Written resources are in it as they read afterwards. It
	// is large, so do not retain it.
	Seen plan.Facts
	// Tables says how full the tables are that were read.
	Tables []Fill
	// Reads, Writes and Polls count ARM calls.
	Reads, Writes, Polls int
	// Complete is set if everything was read: then an empty plan means that there is nothing to do.
	Complete bool
}

// Fill is how many routes a table holds, and its limit; 0 if the table is not a target.
type Fill struct {
	Table         arm.ID
	Routes, Limit int
}

// fill says how full the tables are that were read.
func (c *check) fill(s *inventory.Snapshot) []Fill {
	limits := map[string]int{}
	for _, config := range c.configs {
		for _, t := range config.Spec.Targets {
			limits[arm.ID(t.RouteTableID).Key()] = t.MaxRoutes
		}
	}
	var out []Fill
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		out = append(out, Fill{s.Tables[key].ID, len(s.Tables[key].Routes()), limits[key]})
	}
	return out
}

// CheckedNames returns the names of the clusters that were checked and are still managed.
func (r Result) CheckedNames() []string {
	if r.Of == nil {
		return r.Managed
	}
	return r.Of
}

// Checked returns the configs of the clusters that were checked and are still managed.
func (r Result) Checked() []v1alpha1.ClusterRoutes {
	if r.Of == nil {
		return r.Configs
	}
	checked := make([]v1alpha1.ClusterRoutes, 0, len(r.Of))
	for i := range r.Configs {
		if slices.Contains(r.Of, r.Configs[i].Metadata.Name) {
			checked = append(checked, r.Configs[i])
		}
	}
	return checked
}

// result returns the part of the result that is known from the beginning.
func (c *check) result() Result {
	r := Result{Serial: c.serial, Started: c.began, Elapsed: time.Since(c.began), Woke: c.cause,
		Asked: c.asked}
	r.Reads, r.Writes, r.Polls = c.calls.Counts()
	return r
}

// name records which of the managed clusters were checked. The configs can be newer than the check.
// So name leaves out a cluster whose name has changed, because the name may be another cluster's
// now.
func (c *check) name(result *Result) {
	c.k.mu.Lock()
	result.Configs, result.Managed = c.k.configs, c.k.names
	c.k.mu.Unlock()
	other := func(name string) bool {
		return keyNamed(c.configs, name) != keyNamed(result.Configs, name)
	}
	result.Of = slices.DeleteFunc(names(c.configs), other)
	result.Verdicts = slices.DeleteFunc(result.Verdicts, func(v verdict.Verdict) bool {
		return other(v.Cluster)
	})
	if len(result.Of) == len(result.Managed) && len(c.configs) > 0 {
		result.Of = nil
	}
}

// storeFindings stores the current findings of a worker's group, and returns those of all groups.
func (k *Keeper) storeFindings(w *worker, c *check, found []finding.Finding) []finding.Finding {
	k.mu.Lock()
	defer k.mu.Unlock()
	// without the clusters that another worker has now
	group := slices.DeleteFunc(slices.Clone(w.configs), func(c v1alpha1.ClusterRoutes) bool {
		return k.workers != nil && k.workers[keyOf(c)] != w
	})
	if len(w.configs) == 0 {
		return found
	}
	all := k.findings.set(group, found)
	for _, config := range group {
		name := config.Metadata.Name
		silent := slices.ContainsFunc(found, func(f finding.Finding) bool {
			return f.Code == finding.AzureUnreachable && f.Cluster == name
		})
		if silent || c.called.Load() {
			k.outages.note(name, c.began, !silent)
		}
	}
	return k.outages.fold(all)
}

// broken reports whether the last checks of a cluster reported an error of a resource, or that
// Azure did not answer for the cluster or for something that it needs. The finding can name another
// resource: a throttled read, for example, ends the reads of all.
func (k *Keeper) broken(cluster string, resource arm.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.findings.byCluster[cluster], func(f finding.Finding) bool {
		return f.Severity == finding.Error && resource.Equal(arm.ID(f.Resource)) ||
			f.Code == finding.AzureUnreachable || f.Code == finding.ReadFailed
	})
}

// ofNames returns the findings of the named clusters, and findings that belong to no cluster.
func ofNames(names map[string]bool, found []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f finding.Finding) bool {
		return f.Cluster != "" && !names[f.Cluster]
	})
}

// currentFindings has the current findings of all clusters, each from its last check.
type currentFindings struct {
	// by ID.Key(); findings that belong to no cluster are with the first of the group
	byCluster map[string][]finding.Finding
	all       []finding.Finding // sorted; replaced, not changed
}

// set replaces the findings of a group.
func (s *currentFindings) set(group []v1alpha1.ClusterRoutes,
	found []finding.Finding) []finding.Finding {
	if len(group) == 0 {
		return s.all
	}
	byName := map[string][]finding.Finding{}
	for _, f := range found {
		byName[f.Cluster] = append(byName[f.Cluster], f)
	}
	byName[group[0].Metadata.Name] = append(byName[group[0].Metadata.Name], byName[""]...)
	changed := false
	for _, c := range group {
		key := keyOf(c)
		now := byName[c.Metadata.Name]
		changed = changed || !reflect.DeepEqual(s.byCluster[key], now)
		s.byCluster[key] = now
	}
	if changed {
		s.join()
	}
	return s.all
}

// keep forgets clusters that are no longer managed.
func (s *currentFindings) keep(configs []v1alpha1.ClusterRoutes) {
	kept := keySet(configs)
	if s.byCluster == nil {
		s.byCluster = map[string][]finding.Finding{}
	}
	maps.DeleteFunc(s.byCluster, func(key string, _ []finding.Finding) bool { return !kept[key] })
	s.join()
}

// join concatenates the findings of all clusters. A finding that belongs to no cluster appears
// once, even if several groups report it.
func (s *currentFindings) join() {
	s.all = nil
	told := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(s.byCluster)) {
		for _, f := range s.byCluster[key] {
			if f.Cluster == "" {
				what := fmt.Sprint(f.Code, f.Resource, f.Message)
				if told[what] {
					continue
				}
				told[what] = true
			}
			s.all = append(s.all, f)
		}
	}
	s.all = finding.Sort(s.all)
}

// planned returns the changes of a plan that are not among the chosen ones.
func planned(all, chosen []plan.Change) []plan.Outcome {
	made := make(map[plan.ChangeKey]bool, len(chosen))
	for _, c := range chosen {
		made[c.Key()] = true
	}
	var left []plan.Outcome
	for _, c := range all {
		if !made[c.Key()] {
			left = append(left, plan.Outcome{Change: c, State: plan.Planned})
		}
	}
	return left
}

// combine combines this check with a later one of other clusters.
func (r Result) combine(o Result) Result {
	both := o                   // the later one has the current findings and configs
	if o.Seen.Snapshot == nil { // it failed
		both = r
	}
	both.Serial, both.Started, both.Elapsed = r.Serial, r.Started, max(r.Elapsed,
		o.Started.Add(o.Elapsed).Sub(r.Started))
	if both.Asked.IsZero() || !r.Asked.IsZero() && r.Asked.Before(both.Asked) {
		both.Asked = r.Asked
	}
	both.Of = nil
	for _, name := range both.Managed {
		if slices.Contains(r.Of, name) || slices.Contains(o.Of, name) {
			both.Of = append(both.Of, name)
		}
	}
	if len(both.Of) == len(both.Managed) || r.Of == nil || o.Of == nil {
		both.Of = nil
	}
	both.Changes = slices.Concat(r.Changes, o.Changes)
	both.Verdicts = slices.Concat(r.Verdicts, o.Verdicts)
	both.OnlyObserved = slices.Concat(r.OnlyObserved, o.OnlyObserved)
	both.Observed = slices.Concat(r.Observed, o.Observed)
	both.Tables = slices.Concat(r.Tables, o.Tables)
	both.Reads, both.Writes, both.Polls = r.Reads+o.Reads, r.Writes+o.Writes, r.Polls+o.Polls
	both.Complete = r.Complete && o.Complete
	if r.Seen.Snapshot != nil && o.Seen.Snapshot != nil {
		both.Seen = o.Seen.Fork()
		maps.Copy(both.Seen.Tables, r.Seen.Tables)
		maps.Copy(both.Seen.Subnets, r.Seen.Subnets)
		maps.Copy(both.Seen.Unread, r.Seen.Unread)
	}
	return both
}
