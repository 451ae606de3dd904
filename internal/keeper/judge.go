package keeper

import (
	"maps"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// How it works: at its end, and before it writes, a check judges its clusters. The verdict has the
// age of its state. An outage, during which the state is unknown, does not make it younger, and
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
	known    aged // the last state but Unknown
}

// age returns a verdict with the age of its state, at a time.
func (j *judged) age(v verdict.Verdict, now time.Time) verdict.Verdict {
	switch {
	case v.State == j.last.state && !j.last.since.IsZero():
		v.Since = j.last.since
	case v.State == j.known.state && j.last.state == verdict.Unknown:
		v.Since = j.known.since
	default:
		v.Since = now
	}
	return v
}

func (j *judged) note(v verdict.Verdict) {
	j.last, j.sentence = aged{v.State, v.Since}, v.Sentence
	if v.State != verdict.Unknown {
		j.known = j.last
	}
}

// recallJudged is what was stored before a restart.
func recallJudged(l Lasting) judged {
	var j judged
	if l.Verdict != nil {
		j.note(*l.Verdict)
	}
	return j
}

// remembered returns a memory with the route tables that this check identified: a target that it
// has just filled must not look like another candidate.
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
	if s.Snapshot == nil {
		return nil
	}
	if c.k.opts.Silenced != nil {
		found = c.k.opts.Silenced(found)
	}
	c.k.mu.Lock()
	all := c.k.configs
	c.k.mu.Unlock()
	verdicts := verdict.Of(s, c.configs, all, c.taken, found)
	for i := range verdicts {
		m := c.mem.clusters[keyOf(c.configs[i])]
		verdicts[i] = m.judged.age(verdicts[i], time.Now())
	}
	return verdicts
}

// noteVerdicts remembers the verdicts at the check's end, and stores the ones that changed.
func (c *check) noteVerdicts(verdicts []verdict.Verdict) {
	changed := map[string]Lasting{}
	for i, v := range verdicts {
		key := keyOf(c.configs[i])
		m := c.mem.clusters[key]
		if v.State != m.judged.last.state || v.Sentence != m.judged.sentence {
			kept := c.k.lasting()[key]
			kept.Verdict = &v
			changed[key] = kept
		}
		m.judged.note(v)
	}
	c.k.keep(changed)
}
