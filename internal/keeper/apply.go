package keeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// parallel is how many resources one round writes at once, and writesAtOnce all of them together. Subnets of one virtual network are written one after the other:
// Azure takes one write of a network at a time.
const parallel, writesAtOnce = 4, 64

// apply carries out a plan, resource by resource. The error is the context's.
func (t *turn) apply(ctx context.Context, round Round, d decision) ([]plan.Outcome, []finding.Finding, error) {
	type job struct {
		id      network.ID
		changes []plan.Change
	}
	var lanes [][]job
	laneOf := map[string]int{}
	for _, c := range d.wanted {
		lane := c.Resource
		if lane.Is(network.TypeSubnet) {
			lane = lane.Parent()
		}
		i, known := laneOf[lane.Key()]
		if !known {
			i = len(lanes)
			laneOf[lane.Key()] = i
			lanes = append(lanes, nil)
		}
		if n := len(lanes[i]); n == 0 || !lanes[i][n-1].id.Equal(c.Resource) {
			lanes[i] = append(lanes[i], job{id: c.Resource})
		}
		last := &lanes[i][len(lanes[i])-1]
		last.changes = append(last.changes, c)
	}
	var g errgroup.Group
	g.SetLimit(parallel)
	var mu sync.Mutex
	outcomes := map[string][]plan.Outcome{}
	var findings []finding.Finding
	t.unlocked(func() {
		for _, lane := range lanes {
			g.Go(func() error {
				defer t.inLane(lane[0].id)()
				for _, j := range lane {
					t.mu.Lock()
					r := t.refused[j.id.Key()]
					t.mu.Unlock()
					done, found, stands := r.stand(j.changes)
					if !stands {
						intend := func(changes []plan.Change) { t.opts.Recorder.Intend(round, changes) }
						var now network.Document
						done, found, r, now = t.applyOne(ctx, editor{replan: d.again, seen: d.looked, intend: intend}, j.id, j.changes, r)
						t.opts.Recorder.Settle(done)
						if now.Raw != nil {
							mu.Lock()
							_ = round.Seen.Add(now.Raw) // it was read: what is wrong with it was said
							mu.Unlock()
						}
					}
					t.mu.Lock()
					t.refused[j.id.Key()] = r
					t.mu.Unlock()
					mu.Lock()
					outcomes[j.id.Key()] = done
					findings = append(findings, found...)
					mu.Unlock()
				}
				return nil
			})
		}
		_ = g.Wait() // what goes wrong is a finding
	})
	var all []plan.Outcome
	seen := map[string]bool{}
	for _, c := range d.wanted { // in the plan's order
		if key := c.Resource.Key(); !seen[key] {
			seen[key] = true
			all = append(all, outcomes[key]...)
		}
	}
	return all, findings, ctx.Err()
}

// inLane waits until no other round writes the same virtual network, but not for longer than Azure would make it wait: clusters that share
// nothing else may share one. It returns what ends that.
func (t *turn) inLane(id network.ID) func() {
	if !id.Is(network.TypeSubnet) {
		return func() {}
	}
	t.mu.Lock()
	key := id.Parent().Key()
	lane := t.lanes[key]
	if lane == nil {
		lane = make(chan struct{}, 1)
		t.lanes[key] = lane
	}
	t.mu.Unlock()
	select {
	case lane <- struct{}{}:
		return func() { <-lane }
	case <-time.After(apart):
		return func() {}
	}
}

// applyOne changes one resource. The plan is made again on the resource as it is when it is written, so that nothing
// that happened since is undone; and a change is done when it is seen. The document is how it was last read, if it was.
func (t *turn) applyOne(ctx context.Context, e editor, id network.ID, planned []plan.Change, before *refusal) ([]plan.Outcome, []finding.Finding, *refusal, network.Document) {
	t.writing <- struct{}{}
	defer func() { <-t.writing }()
	if t.wish == nil && t.pause() != "" { // since it was decided: others were written first
		var outcomes []plan.Outcome
		for _, c := range planned {
			outcomes = append(outcomes, plan.Outcome{Change: c, State: plan.Planned})
		}
		return outcomes, nil, before, network.Document{}
	}
	t.log.Debug("writing", "resource", id.Short())
	written, err := t.azure.Write(ctx, id, func(doc network.Document) ([]byte, error) { return e.edit(ctx, doc) })
	if err != nil {
		outcomes, findings := failed(ctx, &e, planned, written, err)
		return outcomes, findings, before.next(err, outcomes, findings), written.After
	}
	outcomes := make([]plan.Outcome, 0, len(planned))
	seen := sight(written)
	for _, c := range e.made {
		state := plan.Obsolete // it was sent and refused, and is not wanted any more
		if seen(c) && e.sent(c, written) {
			state = plan.Done
			t.log.Info("changed", ChangeAttrs(c)...)
		}
		outcomes = append(outcomes, plan.Outcome{Change: c, State: state, Ended: ended(state)})
	}
	for _, c := range planned {
		if !contains(e.made, c) {
			outcomes = append(outcomes, plan.Outcome{Change: c, State: plan.Obsolete})
		}
	}
	return outcomes, dropped(id, written, planned), nil, written.After
}

// ended is when an outcome was seen: now, where it is done.
func ended(state plan.OutcomeState) time.Time {
	if state == plan.Done {
		return time.Now()
	}
	return time.Time{}
}

// ChangeAttrs are a change for a log.
func ChangeAttrs(c plan.Change) []any {
	attrs := []any{"verb", string(c.Verb), "resource", string(c.Resource), "cluster", c.Cluster}
	if c.Route != "" {
		attrs = append(attrs, "route", c.Route)
	}
	return append(attrs, "old", c.Old.String(), "new", c.New.String(), "why", c.Why)
}

// sight returns what tells whether a change is true of a resource as it was read after a write, and in effect. Of what was never sent
// nothing is.
func sight(written azure.Written) func(plan.Change) bool {
	doc := written.After
	if written.Sent != nil && doc.ID.Is(network.TypeSubnet) {
		if subnet, err := network.DecodeSubnet(doc.Raw); err == nil && !subnet.Failed {
			return func(c plan.Change) bool { return c.SeenInSubnet(subnet) }
		}
	} else if written.Sent != nil {
		if table, err := network.DecodeRouteTable(doc.Raw); err == nil && !table.Failed {
			return func(c plan.Change) bool { return c.SeenInTable(table) }
		}
	}
	return func(plan.Change) bool { return false }
}

func contains(changes []plan.Change, c plan.Change) bool {
	for _, have := range changes {
		if have.Resource.Equal(c.Resource) && have.Verb == c.Verb && have.Route == c.Route {
			return true
		}
	}
	return false
}

// failed tells of changes that were not made.
func failed(ctx context.Context, e *editor, planned []plan.Change, written azure.Written, err error) ([]plan.Outcome, []finding.Finding) {
	state, text := plan.Failed, err.Error()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		state, text = plan.Skipped, ""
	}
	outcomes := make([]plan.Outcome, len(planned))
	seen, missed := sight(written), 0
	for i, c := range planned {
		outcomes[i] = plan.Outcome{Change: c, State: state, Error: text}
		switch {
		case !seen(c):
			missed++
		case e.sent(c, written): // it was made all the same
			outcomes[i] = plan.Outcome{Change: c, State: plan.Done, Ended: ended(plan.Done)}
		default: // by somebody else
			outcomes[i] = plan.Outcome{Change: c, State: plan.Obsolete}
		}
	}
	if state == plan.Skipped || missed == 0 {
		return outcomes, nil
	}
	code, fix := finding.WriteFailed, ""
	var fault *azure.Error
	switch {
	case errors.Is(err, azure.ErrUndone):
		code, fix = finding.WriteUndone, "az monitor activity-log list --resource-id "+string(planned[0].Resource)
	case errors.As(err, &fault) && fault.Refused():
		code, fix = finding.WriteRefused, "az role assignment list --all, az lock list and az policy assignment list show what says no at the scope named above"
	}
	f := finding.New(code, planned[0].Cluster, string(planned[0].Resource), "%s was not changed: %v", planned[0].Resource.Short(), err)
	f.Fix = fix
	return outcomes, []finding.Finding{f}
}

// dropped compares what was read back with what was sent.
func dropped(id network.ID, written azure.Written, planned []plan.Change) []finding.Finding {
	if written.Sent == nil {
		return nil
	}
	lost, err := network.Lost(written.Sent, written.After.Raw)
	if err != nil || len(lost) == 0 {
		return nil // what was read back was understood before
	}
	return []finding.Finding{finding.New(finding.WriteDropped, planned[0].Cluster, string(id),
		"%s was written, but read back differently in %d fields", id.Short(), len(lost)).With(lost...)}
}
