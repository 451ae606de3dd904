package keeper

import (
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// How it works: a check judges its clusters before it writes and at its end. The age of a verdict
// is the age of its state. An outage makes the state unknown. It does not reset the age, and
// neither does a restart.

// aged is a state with its age.
type aged struct {
	state verdict.State
	since time.Time
}

// judged is what is known of the last verdicts on a cluster.
type judged struct {
	last     aged
	sentence string
	known    verdict.Before // the last state but Unknown
}

// age returns a verdict with the age of its state, at a time.
func (j *judged) age(v verdict.Verdict, now time.Time) verdict.Verdict {
	switch {
	case v.State == j.last.state && !j.last.since.IsZero():
		v.Since = j.last.since
	case v.State == j.known.State && j.last.state == verdict.Unknown:
		v.Since = j.known.Since
	default:
		v.Since = now
	}
	if known := j.known; v.State == verdict.Unknown && known.State != "" {
		v.Before = &known
	}
	return v
}

func (j *judged) note(v verdict.Verdict) {
	j.last, j.sentence = aged{v.State, v.Since}, v.Sentence
	switch {
	case v.State != verdict.Unknown:
		j.known = verdict.Before{State: v.State, Since: v.Since, Sentence: v.Sentence,
			CutOff: v.CutOff}
	case v.Before != nil: // after a restart
		j.known = *v.Before
	}
}

// recallJudged returns what was stored before a restart.
func recallJudged(l Lasting) judged {
	var j judged
	if l.Verdict != nil {
		j.note(*l.Verdict)
	}
	return j
}

// remembered returns a memory with the route tables that this check identified: a target that the
// check has just filled must not look like another candidate.
func (c *check) remembered(before plan.Memory) plan.Memory {
	now := maps.Clone(before)
	for _, config := range c.configs {
		key := keyOf(config)
		if known := now[key]; known != nil {
			m := *known
			last := c.mem.clusters[key].Remembered
			m.LastTable, m.LastProven = last.LastTable, last.LastProven
			now[key] = &m
		}
	}
	return now
}

// judge returns the verdicts on the check's clusters, from what was read and the findings.
func (c *check) judge(s plan.Facts, found []finding.Finding) []verdict.Verdict {
	if s.Snapshot == nil || len(c.configs) == 0 {
		return nil
	}
	if c.k.opts.Silenced != nil {
		found = c.k.opts.Silenced(found)
	}
	c.k.mu.Lock()
	all := c.k.configs
	c.k.mu.Unlock()
	if s.Lost = c.mem.lost; s.Lost == nil {
		s.Lost = plan.Hops{} // none are known yet
	}
	now := basis{s.Clusters, s.Subnets, s.Tables, c.lastTables(), nil, s.Lost, &c.configs[0], nil}
	for i := range c.configs {
		now.nics = append(now.nics, s.Doubted(arm.ID(c.configs[i].Spec.ClusterID)))
	}
	if len(all) > 0 {
		now.all = &all[0]
	}
	if len(s.Unread)+len(s.Kubernetes) > 0 || !now.equal(c.mem.basis) {
		now.clusters, now.subnets, now.tables = maps.Clone(s.Clusters), maps.Clone(s.Subnets),
			maps.Clone(s.Tables)
		c.mem.basis, c.mem.seen = now, verdict.See(s, c.configs, all, c.taken)
	}
	verdicts := make([]verdict.Verdict, len(c.configs))
	for i := range verdicts {
		name := c.configs[i].Metadata.Name
		of := slices.DeleteFunc(slices.Clone(found), func(f finding.Finding) bool {
			return f.Cluster != name
		})
		m := c.mem.clusters[keyOf(c.configs[i])]
		verdicts[i] = m.judged.age(c.mem.seen[i].Judge(of), time.Now())
	}
	return verdicts
}

// basis has the values from which the evidence of a check was gathered. Documents that did not
// change are not decoded again. So equal pointers mean equal documents, and the evidence can be
// used again.
type basis struct {
	clusters map[string]*inventory.Cluster
	subnets  map[string]*inventory.Subnet
	tables   map[string]*inventory.RouteTable
	last     []arm.ID // the clusters' tables, as remembered
	// the interfaces of the clusters' nodes, if they contradict the tables
	nics []*inventory.NICs
	lost plan.Hops
	// the first config of the group, and of all clusters: a reload replaces them
	configs, all *v1alpha1.ClusterRoutes
}

func (b basis) equal(o basis) bool {
	return b.configs == o.configs && b.all == o.all && maps.Equal(b.clusters, o.clusters) &&
		maps.Equal(b.subnets, o.subnets) && maps.Equal(b.tables, o.tables) &&
		slices.Equal(b.last, o.last) && slices.Equal(b.nics, o.nics) && maps.Equal(b.lost, o.lost)
}

// lastTables returns the route tables of the check's clusters, as remembered.
func (c *check) lastTables() (ids []arm.ID) {
	for _, config := range c.configs {
		ids = append(ids, c.mem.clusters[keyOf(config)].LastTable)
	}
	return ids
}

// noteVerdicts remembers the verdicts at the check's end, and stores the ones that changed.
func (c *check) noteVerdicts(verdicts []verdict.Verdict) {
	changed := map[string]Lasting{}
	for i, v := range verdicts {
		key := keyOf(c.configs[i])
		m := c.mem.clusters[key]
		if v.State != m.judged.last.state || v.Sentence != m.judged.sentence {
			kept := c.k.stored.recall()[key]
			kept.Verdict = &v
			changed[key] = kept
		}
		m.judged.note(v)
	}
	c.k.stored.keep(changed)
}
