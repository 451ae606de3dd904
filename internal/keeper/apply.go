package keeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Writes. Each resource is written by a goroutine of its own, in the order of what breaks most while it
// waits: node subnets, guarded subnets, tables that lack routes, tables that hold too many. What came of
// it is posted to the worker. A resource that is being written is left alone by all checks meanwhile; a
// person's request waits for it.

// write is one resource that is written.
type write struct {
	check    *check
	id       arm.ID
	cluster  string // one that asks for it, by ID.Key()
	planned  []plan.Change
	edit     editor
	outcomes []plan.Outcome
	findings []finding.Finding
	refusal  *refusal
	now      arm.Document // how it was last read
}

// writes are those of a keeper.
type writes struct {
	mu     sync.Mutex
	under  map[string]underWay      // resources being written, by ID.Key()
	missed map[string]bool          // and those that a check would have written
	lanes  map[string]chan struct{} // of virtual networks: Azure takes one write of a network at a time
	slots  chan struct{}            // holds one for each table that is being written
}

// underWay is a write that is under way: since when, and what is closed when it ends.
type underWay struct {
	since time.Time
	ended chan struct{}
}

const (
	// tablesAtOnce is how many tables are written at once. One that takes longer than slotFor does not
	// count any more: it waits, and costs nothing.
	tablesAtOnce, slotFor = 64, 10 * time.Second
	// laneFor is how long one subnet waits for the write of another in its network.
	laneFor = 10 * time.Second
)

func newWrites() *writes {
	return &writes{under: map[string]underWay{}, missed: map[string]bool{}, lanes: map[string]chan struct{}{}, slots: make(chan struct{}, tablesAtOnce)}
}

func (w *writes) busy(resource string) bool { return !w.since(resource).IsZero() }

// since is when the write of a resource began, zero where none is under way.
func (w *writes) since(resource string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.under[resource].since
}

// begin claims a resource. Where it is claimed already, it returns what is closed when that is over.
func (w *writes) begin(resource string) (busy chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.under[resource]; now.ended != nil {
		w.missed[resource] = true
		return now.ended
	}
	w.under[resource] = underWay{time.Now(), make(chan struct{})}
	return nil
}

// end lets go of a resource, and reports whether a check would have written it meanwhile.
func (w *writes) end(resource string) (missed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.under[resource].ended)
	missed = w.missed[resource]
	delete(w.under, resource)
	delete(w.missed, resource)
	return missed
}

// queue waits for what a write has to wait for, and returns what ends it.
func (w *writes) queue(id arm.ID) (done func()) {
	if !id.Is(arm.TypeSubnet) {
		w.slots <- struct{}{}
		release := sync.OnceFunc(func() { <-w.slots })
		timer := time.AfterFunc(slotFor, release)
		return func() { timer.Stop(); release() }
	}
	w.mu.Lock()
	key := id.Parent().Key()
	lane := w.lanes[key]
	if lane == nil {
		lane = make(chan struct{}, 1)
		w.lanes[key] = lane
	}
	w.mu.Unlock()
	timer := time.NewTimer(laneFor)
	defer timer.Stop()
	select {
	case lane <- struct{}{}:
		return func() { <-lane }
	case <-timer.C:
		return func() {}
	}
}

// harm orders changes by what breaks most while they wait.
func (c *check) harm(change plan.Change) int {
	switch {
	case change.Verb == plan.Associate && c.isNodeSubnet(change.Resource):
		return 0
	case change.Verb == plan.Associate:
		return 1
	case change.Verb == plan.Delete:
		return 3
	}
	return 2
}

func (c *check) isNodeSubnet(id arm.ID) bool {
	return slices.ContainsFunc(c.configs, func(config v1alpha1.ClusterRoutes) bool {
		cluster := c.s.Cluster(idOf(config))
		return cluster != nil && slices.ContainsFunc(c.s.NodeSubnetIDs(cluster), id.Equal)
	})
}

// started reports whether the check has begun to write a resource, or another one writes it now. A
// request waits for that one.
func (c *check) started(id arm.ID) bool {
	if slices.ContainsFunc(c.order, id.Equal) {
		return true
	}
	if c.request != nil || !c.k.writes.busy(id.Key()) {
		return false
	}
	c.k.writes.begin(id.Key()) // it is busy: this asks for a check when it is not any more
	return true
}

// start writes resources.
func (c *check) start(ctx context.Context, s plan.Facts, changes []plan.Change, again replan) {
	if changes = c.withinLimit(s.Snapshot, changes); len(changes) == 0 {
		return
	}
	if c.k.opts.Planned != nil {
		about := c.round()
		about.Changes = planned(changes, nil)
		c.name(&about)
		about.Findings, about.Seen = c.mem.planned, c.mem.complement(s)
		c.k.told.Lock()
		c.k.opts.Planned(about)
		c.k.told.Unlock()
	}
	var all []*write
	harm := map[*write]int{}
	for _, change := range changes {
		i := slices.IndexFunc(all, func(x *write) bool { return x.id.Equal(change.Resource) })
		if i < 0 {
			i = len(all)
			x := &write{check: c, id: change.Resource, cluster: c.keyNamed(change.Cluster), edit: editor{check: c, snapshot: s.Snapshot, replan: again, seen: s.Taken}}
			all, harm[x] = append(all, x), 9
			c.order = append(c.order, x.id)
		}
		all[i].planned = append(all[i].planned, change)
		harm[all[i]] = min(harm[all[i]], c.harm(change))
	}
	slices.SortStableFunc(all, func(a, b *write) int { return cmp.Compare(harm[a], harm[b]) })
	intend := c.round()
	c.name(&intend)
	for _, x := range all {
		before := c.mem.refused[x.id.Key()]
		if done, found, stands := before.stand(x.planned, etagOf(s.Snapshot, x.id)); stands {
			c.outcomes[x.id.Key()] = done
			c.keepFailure(x.id, found)
			continue
		}
		x.refusal = before
		x.edit.intend = func(changes []plan.Change) { c.k.opts.Recorder.Intend(intend, changes) }
		c.open++
		ctx := ctx
		if !c.patient {
			ctx = c.life
		}
		c.k.running.Go(func() { x.run(ctx) })
	}
}

// keyNamed is the ID.Key() of the cluster that a config names.
func (c *check) keyNamed(name string) string {
	for _, config := range c.configs {
		if config.Metadata.Name == name {
			return keyOf(config)
		}
	}
	return ""
}

// run writes one resource, and posts what came of it.
func (x *write) run(ctx context.Context) {
	k := x.check.k
	for busy := k.writes.begin(x.id.Key()); busy != nil; busy = k.writes.begin(x.id.Key()) {
		<-busy
	}
	done := k.writes.queue(x.id)
	x.apply(ctx)
	done()
	k.opts.Recorder.Settle(x.outcomes)
	missed := k.writes.end(x.id.Key())
	x.check.w.post(x.cluster, func(w *worker) { w.wrote(x) })
	if missed {
		k.mu.Lock()
		defer k.mu.Unlock()
		again := map[string]bool{}
		for _, cluster := range k.concerned(x.id) {
			again[cluster] = true
		}
		k.trigger(again, trigger{again: true})
	}
}

// wrote takes over what came of a write.
func (w *worker) wrote(x *write) {
	c := x.check
	w.mem.wrote = time.Now()
	w.mem.refused[x.id.Key()] = x.refusal
	if x.refusal == nil {
		delete(w.mem.refused, x.id.Key())
	}
	w.made(c, x.cluster, x.outcomes)
	w.mem.failing[x.id.Key()] = ofNames(nameSet(w.configs), x.findings) // it can have another name now
	if len(w.mem.failing[x.id.Key()]) == 0 {
		delete(w.mem.failing, x.id.Key())
	}
	c.outcomes[x.id.Key()] = x.outcomes
	w.askFabric(x)
	if x.now.Raw != nil {
		if c.after.Snapshot == nil {
			c.after = c.s.Fork()
		}
		x.addTo(c.after.Snapshot)
	}
	c.open--
	c.end(w)
}

// addTo puts the resource into a snapshot as it was read last. What is wrong with it was said then.
func (x *write) addTo(s *inventory.Snapshot) {
	if !x.id.Is(arm.TypeRouteTable) {
		_ = s.Add(x.now.Raw)
	} else if table, err := x.edit.decode(x.now); err == nil {
		s.Tables[table.ID.Key()] = table
	}
}

// keepFailure notes what the last write of a resource ran into.
func (c *check) keepFailure(id arm.ID, found []finding.Finding) {
	c.mem.failing[id.Key()] = found
}

// apply changes the resource. The plan is made again on the resource as it is when it is written, so that nothing that
// happened since is undone; and a change is done when it is seen.
func (x *write) apply(ctx context.Context) {
	c := x.check
	k := c.k
	if c.request == nil && k.pause() != "" { // since it was decided: others were written first
		for _, change := range x.planned {
			x.outcomes = append(x.outcomes, plan.Outcome{Change: change, State: plan.Planned})
		}
		return
	}
	k.log.Debug("writing", "resource", x.id.Short())
	written, err := k.azure.Write(ctx, x.id, func(doc arm.Document) ([]byte, error) { return x.edit.edit(ctx, doc) }, c.calls)
	x.now = written.After
	if err != nil {
		x.failed(ctx, written, err)
		x.refusal = x.refusal.next(err, x.outcomes, x.findings, written.After)
		return
	}
	x.refusal = nil
	seen, sent := x.edit.sight(written), x.edit.sent(written)
	for _, change := range x.edit.made {
		state := plan.Obsolete // it was sent and refused, and is not wanted any more
		if seen(change) && sent[keyOfChange(change)] {
			state = plan.Done
			k.log.Info("changed", ChangeAttrs(change)...)
		}
		x.outcomes = append(x.outcomes, plan.Outcome{Change: change, State: state, Ended: ended(state)})
	}
	made := keysOf(x.edit.made)
	for _, change := range x.planned {
		if !made[keyOfChange(change)] {
			x.outcomes = append(x.outcomes, plan.Outcome{Change: change, State: plan.Obsolete})
		}
	}
	x.findings = append(x.edit.findings, dropped(x.id, written, x.planned)...)
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
func (e *editor) sight(written azure.Written) func(plan.Change) bool {
	doc := written.After
	if written.Sent != nil && doc.ID.Is(arm.TypeSubnet) {
		if subnet, err := inventory.DecodeSubnet(doc.Raw); err == nil && !subnet.Failed {
			return func(c plan.Change) bool { return c.SeenInSubnet(subnet) }
		}
	} else if written.Sent != nil {
		if table, err := e.decode(doc); err == nil && !table.Failed {
			return plan.SeenIn(table)
		}
	}
	return func(plan.Change) bool { return false }
}

// changeKey tells the changes of one resource apart.
type changeKey struct {
	verb  plan.Verb
	route string
}

func keyOfChange(c plan.Change) changeKey { return changeKey{c.Verb, c.Route} }

func keysOf(changes []plan.Change) map[changeKey]bool {
	keys := make(map[changeKey]bool, len(changes))
	for _, c := range changes {
		keys[keyOfChange(c)] = true
	}
	return keys
}

// failed tells of changes that were not made.
func (x *write) failed(ctx context.Context, written azure.Written, err error) {
	state, text := plan.Failed, err.Error()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		state, text = plan.Skipped, ""
	}
	x.outcomes = make([]plan.Outcome, len(x.planned))
	seen, sent, missed := x.edit.sight(written), x.edit.sent(written), 0
	for i, change := range x.planned {
		x.outcomes[i] = plan.Outcome{Change: change, State: state, Error: text}
		switch {
		case !seen(change):
			missed++
		case sent[keyOfChange(change)]: // it was made all the same
			x.outcomes[i] = plan.Outcome{Change: change, State: plan.Done, Ended: ended(plan.Done)}
		default: // by somebody else
			x.outcomes[i] = plan.Outcome{Change: change, State: plan.Obsolete}
		}
	}
	if state == plan.Skipped || missed == 0 {
		return
	}
	code, fix := finding.WriteFailed, finding.CommandLine{}
	var fault *azure.Error
	switch {
	case errors.Is(err, azure.ErrUndone):
		code, fix = finding.WriteUndone, finding.Command("az monitor activity-log list --resource-id %s", x.planned[0].Resource)
	case errors.As(err, &fault) && fault.Refused():
		code, fix = finding.WriteRefused, finding.Command("az role assignment list --all, az lock list and az policy assignment list show what says no at the scope named above")
	}
	f := finding.New(code, x.planned[0].Cluster, string(x.planned[0].Resource), "%s was not changed: %v", x.planned[0].Resource.Short(), err)
	x.findings = []finding.Finding{f.WithFix("%s", fix)}
}

// dropped compares what was read back with what was sent.
func dropped(id arm.ID, written azure.Written, planned []plan.Change) []finding.Finding {
	if written.Sent == nil {
		return nil
	}
	lost, err := arm.Lost(written.Sent, written.After.Raw)
	if err != nil || len(lost) == 0 {
		return nil // what was read back was understood before
	}
	return []finding.Finding{finding.New(finding.WriteDropped, planned[0].Cluster, string(id),
		"%s was written, but read back differently in %d fields", id.Short(), len(lost)).With(lost...)}
}
