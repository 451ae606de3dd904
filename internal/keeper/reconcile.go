package keeper

import (
	"context"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// check is one reconciliation of a group: its cause, what it read, and the outcomes. It ends when
// the last of its writes has ended.
type check struct {
	observation
	group   map[string]bool // its clusters, by ID.Key()
	cause   Cause
	asked   time.Time // when the first event that triggered it arrived
	tick    time.Time // the tick that is due, or zero
	request *request  // a person's request; nil for a tick or an event
	serial  int64
	tell    func(Result)

	after    plan.Facts // what later writes read; empty if there were none
	sources  func(target arm.ID) []arm.ID
	changes  []plan.Change             // the whole plan
	observed []plan.Change             // what would be planned as well without Observe
	outcomes map[string][]plan.Outcome // of writes, by the resource's ID.Key()
	order    []arm.ID                  // the written resources
	open     int                       // number of writes under way
	// of these, planned on a read from before this keeper's last write
	outdated map[string]bool
	decided  bool // no more changes are added
	whole    bool // everything was read and planned
	ended    bool
	first    error // the error that ended it early
}

// sharedFor is the greatest age of an answer that polls share.
const sharedFor = 5 * time.Second

// newCheck returns a check that begins now.
func (w *worker) newCheck(cause Cause, asked time.Time) *check {
	k := w.k
	k.mu.Lock()
	defer k.mu.Unlock()
	k.serial++
	life := k.ctx
	if life == nil {
		life = w.ctx
	}
	c := &check{observation: observation{k: k, w: w, configs: w.configs, mem: &w.mem,
		taken: k.taken, patient: k.ctx == nil, began: time.Now(), calls: &azure.Calls{},
		life: life}, group: w.group, cause: cause, asked: asked, serial: k.serial,
		tell: func(Result) {}, outcomes: map[string][]plan.Outcome{},
		outdated: map[string]bool{}, sources: func(arm.ID) []arm.ID { return nil }}
	c.subnetsRead = c.repair
	return c
}

// reconcile brings a group in line with its configs.
//
//	read clusters and subnets ─► repair associations ─► read tables ─► plan ─► write ─► record
//
// The first two steps wait only for the subnets, because a lost association breaks traffic now, and
// its repair needs only the table's ID. Writes run in the background and notify the worker when
// they end.
func (w *worker) reconcile(ctx context.Context, c *check) error {
	c.fresh = c.began // the last of several events may have just arrived
	if c.poll {
		c.fresh = c.began.Add(-min(w.k.interval/2, sharedFor))
		if c.tick.After(c.fresh) { // an older answer would let two intervals pass between reads
			c.fresh = c.tick
		}
	}
	if !c.asked.IsZero() {
		for _, r := range w.mem.refused {
			r.heard()
		}
	}
	if w.mem.wrote.After(c.fresh) {
		c.fresh = w.mem.wrote
	}
	err := c.reconcile(ctx)
	if err == nil || len(c.order) > 0 {
		c.decided, c.first = true, err
		c.end(w)
	}
	if ctx.Err() == nil {
		w.k.progress(w)
	}
	return err
}

func (c *check) reconcile(ctx context.Context) error {
	c.until = c.began.Add(readFor)
	if err := c.observeSubnets(ctx); err != nil {
		return err
	}
	c.until = time.Now().Add(min(max(c.k.interval-readFor, readFor), readMost))
	if err := c.observeTables(ctx); err != nil {
		return err
	}
	p, next, err := c.decide(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // replaced: the new worker decides
		return ctx.Err()
	}
	c.sources = p.Planner.Sources
	c.remember(next)
	c.storeLasting(c.s.Snapshot)
	c.changes, c.observed = p.Changes, p.OnlyObserved
	chosen := c.choose(p.Changes)
	c.mem.conflicts.noteInPlace(p.Changes, c.s.Snapshot)
	c.forgetReleased(p.Planner)
	c.mem.planned = p.Findings
	if pause := c.k.opts.pause(); pause != "" {
		c.mem.planned = append(c.mem.planned, finding.New(finding.Paused, "", "",
			"nothing is changed %s: the keeper is paused", pause).
			WithAdvice("this ends the pause").WithFix("routekeeper pause end%s", finding.Config()))
	}
	c.mem.planned = slices.Concat(c.mem.planned, c.k.notRepaired(p.Changes),
		leftLost(c, p.Changes, chosen))
	c.reportWithheld(p.Changes)
	c.forgetFailures()
	c.mem.unfinished = c.unfinished(p.Changes)
	c.write(ctx, p.Plan, chosen, c.s, p.Planner)
	if err := c.readAround(ctx); err != nil {
		return err
	}
	c.whole, c.mem.last, c.mem.changing = true, c.s.Snapshot, len(p.Changes) > 0
	c.mem.rest = c.restsUntil()
	return nil
}

// repair starts repairing lost associations, if the subnets alone show them.
func (c *check) repair(ctx context.Context) {
	p := plan.Among(c.s, c.configs, c.taken).Repairs()
	if len(p.Changes) == 0 {
		return
	}
	s := c.s.Fork() // the copy must not change while the check reads on
	planner := plan.Among(s, c.configs, c.taken)
	c.write(ctx, p, c.choose(p.Changes), s, planner)
}

// notRepaired reports the associations that stay lost because the keeper or their cluster is
// paused.
func (k *Keeper) notRepaired(changes []plan.Change) (found []finding.Finding) {
	all := k.opts.pause() != ""
	for _, change := range changes {
		if change.Verb != plan.Associate {
			continue
		}
		who, fix := "the keeper", finding.Command("routekeeper pause end%s", finding.Config())
		if !all {
			if k.opts.clusterPause(change.Cluster) == "" {
				continue
			}
			who = change.Cluster
			fix = finding.Command("routekeeper pause end %s%s", change.Cluster, finding.Config())
		}
		code := finding.AssociationLost
		if change.Old != nil {
			code = finding.AssociationOther
		}
		f := finding.New(code, change.Cluster, string(change.Resource),
			"%s: %s; it is not repaired while %s is paused", change.Resource.Short(), change.Why,
			who).About(change.Key().Route)
		if p := k.Pauses()[change.Cluster]; !all && time.Now().Before(PauseEnd(p)) {
			f = f.WithAdvice("remove spec.pause from the config of %s to end the pause",
				change.Cluster)
		} else {
			f = f.WithAdvice("this ends the pause").WithFix("%s", fix)
		}
		found = append(found, f)
	}
	return found
}

// decide makes the decision, and reads what it still needs. Next is what the next check must know.
func (c *check) decide(ctx context.Context) (d plan.Decision, next plan.Memory, err error) {
	decide := func() plan.Plan {
		d, next = plan.Decide(plan.Observation{Snapshot: c.s.Snapshot, Configs: c.configs,
			Taken: c.taken, Now: time.Now()}, c.s.Memory)
		c.s = d.Facts
		return d.Plan
	}
	if again := c.doubted(decide()); len(again) > 0 {
		c.forget(again)
		if err := c.observeSubnets(ctx); err != nil {
			return d, nil, err
		}
		if err := c.observeTables(ctx); err != nil {
			return d, nil, err
		}
		decide()
	}
	_, err = c.confirm(ctx, c.s.Snapshot, d.Plan, decide)
	return d, next, err
}

// leftLost reports again the lost associations that this check does not repair, because it only
// answers a request. The keeper's next check repairs them.
func leftLost(c *check, changes []plan.Change,
	chosen func(plan.Change) bool) (found []finding.Finding) {
	if c.request == nil || c.k.opts.pause() != "" { // notRepaired reports them
		return nil
	}
	for _, change := range changes {
		if change.Verb != plan.Associate || chosen(change) || c.started(change.Resource) ||
			!c.k.broken(keyNamed(c.configs, change.Cluster), change.Resource) {
			continue
		}
		found = append(found, finding.New(finding.AssociationLost, change.Cluster,
			string(change.Resource), "%s; the next check repairs it",
			plan.Harm([]plan.Change{change})).About(change.Key().Route).
			WithFix("routekeeper sync --cluster %s%s", change.Cluster, finding.Config()))
	}
	return found
}

// choose returns a function that says whether a change is made now.
func (c *check) choose(changes []plan.Change) func(plan.Change) bool {
	stops := stopped(c, choice, changes)
	return func(change plan.Change) bool { by, _ := stops(change); return by == "" }
}

// write starts the writes of a plan's chosen changes, except to resources that are being written.
func (c *check) write(ctx context.Context, p plan.Plan, chosen func(plan.Change) bool, s plan.Facts,
	planner *plan.Planner) {
	stops, passed := stopped(c, permission, p.Changes), chosen
	chosen = func(change plan.Change) bool {
		if !passed(change) {
			return false
		}
		by, _ := stops(change)
		return by == ""
	}
	free := func(change plan.Change) bool {
		return chosen(change) && c.outcomes[change.Resource.Key()] == nil &&
			!c.started(change.Resource)
	}
	wanted := slices.DeleteFunc(slices.Clone(p.Changes), func(change plan.Change) bool {
		return !free(change)
	})
	if len(wanted) == 0 {
		return
	}
	again := c.replanned(s, planner)
	if len(wanted) < len(p.Changes) || c.k.opts.Only != nil {
		wanted, again = p.Only(free, s.Table).Changes, again.Only(chosen)
	}
	c.start(ctx, s, wanted, again)
}

// forgetFailures drops the findings of failed writes that are no longer planned. If a resource or
// its source could not be read, nothing is planned either, so then the findings stay.
func (c *check) forgetFailures() {
	planned := map[string]bool{}
	for _, change := range c.changes {
		planned[change.Resource.Key()] = true
	}
	unread := func(id arm.ID) bool {
		u, failed := c.s.Unread[id.Key()]
		return failed && !u.Absent
	}
	for resource := range c.mem.failing {
		id := arm.ID(resource)
		blind := unread(id) || slices.ContainsFunc(c.sources(id), unread)
		if !planned[resource] && !blind && !c.k.writes.busy(resource) {
			delete(c.mem.failing, resource)
		}
	}
}

// unfinishedAfter is how long a write must take before it is reported as under way: most end
// sooner.
const unfinishedAfter = 15 * time.Second

// unfinished reports changes whose write began in an earlier check and has not ended. Otherwise
// nothing would mention them until the write ends. If the last check reported the resource or the
// cluster, unfinished reports the write at once: a broken resource stays reported until it is
// repaired.
func (c *check) unfinished(changes []plan.Change) []finding.Finding {
	var found []finding.Finding
	told := map[string]bool{}
	for _, change := range changes {
		key := change.Resource.Key()
		since := c.k.writes.since(key)
		if since.IsZero() || told[key] || slices.ContainsFunc(c.order, change.Resource.Equal) {
			continue
		}
		young := c.began.Sub(since) < unfinishedAfter
		if young && !c.k.broken(keyNamed(c.configs, change.Cluster), change.Resource) {
			continue
		}
		told[key] = true
		code, what, subject := finding.WriteFailed, "is out of sync", ""
		if change.Verb == plan.Associate {
			property, _ := change.New.Associated()
			code, what = finding.AssociationLost, "has lost its "+property.Name()
			subject = change.Key().Route
		}
		found = append(found, finding.New(code, change.Cluster, string(change.Resource),
			"%s %s; its repair began at %s, and Azure has not finished it",
			change.Resource.Short(), what, since.UTC().Format("15:04:05 UTC")).
			About(subject).
			WithFix("az monitor activity-log list --resource-id %s --offset 1h -o table",
				change.Resource))
	}
	return found
}

// finished reports whether the check has decided and all its writes have ended.
func (c *check) finished() bool { return c.decided && c.open == 0 }

// end records and reports a finished check, once.
func (c *check) end(w *worker) {
	if !c.finished() || c.ended {
		return
	}
	c.ended = true
	r := c.result()
	r.Complete = c.whole && len(c.s.Unread) == 0
	r.Tables = c.fill(c.s.Snapshot)
	if r.Seen = c.s; c.after.Snapshot != nil {
		r.Seen = c.after
	}
	r.Changes = c.allOutcomes()
	for _, change := range c.observed {
		r.OnlyObserved = append(r.OnlyObserved, plan.Outcome{Change: change, State: plan.Observed})
	}
	r.Seen.Memory = c.remembered(r.Seen.Memory)
	found := w.findings()
	r.Verdicts = c.judge(r.Seen, found)
	c.noteVerdicts(r.Verdicts)
	r.Findings = c.k.storeFindings(w, c, found)
	if own := c.k.ownFindings(c, w, &r); len(own) > 0 {
		r.Findings = finding.Sort(slices.Concat(r.Findings, own))
	}
	if c.troubled() {
		w.mem.retry(c.k.interval)
	} else {
		w.mem.trouble = 0
	}
	c.k.told.Lock()
	defer c.k.told.Unlock()
	c.name(&r)
	c.record(&r)
	if c.k.opts.Silenced != nil {
		r.Findings = c.k.opts.Silenced(r.Findings)
	}
	c.tell(r)
}

// troubled reports whether a read or write failed for a transient reason.
func (c *check) troubled() bool {
	for _, u := range c.s.Unread {
		if u.Transient() {
			return true
		}
	}
	for _, found := range c.mem.failing {
		if slices.ContainsFunc(found, func(f finding.Finding) bool {
			return f.Code == finding.WriteFailed
		}) {
			return true
		}
	}
	return false
}

// allOutcomes returns the outcomes of the changes that were written, and of the ones that are only
// planned.
func (c *check) allOutcomes() []plan.Outcome {
	var all []plan.Outcome
	written := map[string]bool{}
	for _, id := range c.order {
		if key := id.Key(); !written[key] {
			written[key] = true
			all = append(all, c.outcomes[key]...)
		}
	}
	made := make([]plan.Change, len(all))
	for i, o := range all {
		made[i] = o.Change
	}
	left := planned(c.changes, made)
	left = slices.DeleteFunc(left, func(o plan.Outcome) bool {
		return !written[o.Resource.Key()] && c.k.writes.busy(o.Resource.Key())
	})
	return append(all, left...)
}
