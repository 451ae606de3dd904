package keeper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/apply"
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
	apply.Resource
	check    *check
	cluster  string // one that asks for it, by ID.Key()
	outcomes []plan.Outcome
	findings []finding.Finding
	refusal  *refusal
	now      arm.Document // how it was last read

	wait, left func() // its place in line
}

// writes are those of a keeper.
type writes struct {
	mu     sync.Mutex
	under  map[string]underWay      // resources being written, by ID.Key()
	missed map[string]bool          // and those that a check would have written
	lines  map[string]chan struct{} // by the virtual network: is closed when the last write in line has ended
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
	// lineFor is how long one subnet waits for the write of another in its network.
	lineFor = 10 * time.Second
)

func newWrites() *writes {
	return &writes{
		under: map[string]underWay{}, missed: map[string]bool{}, lines: map[string]chan struct{}{},
		slots: make(chan struct{}, tablesAtOnce),
	}
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

// line gives a subnet its place behind the writes of others in its network, in the order of the calls:
// Azure takes one at a time. Wait waits until it is its turn, or for too long, and left leaves the line.
func (w *writes) line(id arm.ID) (wait, left func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	network, mine := id.Parent().Key(), make(chan struct{})
	before := w.lines[network]
	w.lines[network] = mine
	wait = func() {
		if before == nil {
			return
		}
		timer := time.NewTimer(lineFor)
		defer timer.Stop()
		select {
		case <-before:
		case <-timer.C:
		}
	}
	return wait, func() {
		close(mine)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.lines[network] == mine {
			delete(w.lines, network)
		}
	}
}

// slot is line for tables, which do not wait for each other, but where very many are written.
func (w *writes) slot() (wait, left func()) {
	release := sync.OnceFunc(func() { <-w.slots })
	var timer *time.Timer
	return func() {
			w.slots <- struct{}{}
			timer = time.AfterFunc(slotFor, release)
		}, func() {
			timer.Stop()
			release()
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
func (c *check) start(ctx context.Context, s plan.Facts, changes []plan.Change, again apply.Replan) {
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
		i := slices.IndexFunc(all, func(x *write) bool { return x.ID.Equal(change.Resource) })
		if i < 0 {
			i = len(all)
			x := &write{
				Resource: c.resource(s.Snapshot, change.Resource, again), check: c, cluster: c.keyNamed(change.Cluster),
			}
			all, harm[x] = append(all, x), 9
			c.order = append(c.order, x.ID)
		}
		all[i].Planned = append(all[i].Planned, change)
		harm[all[i]] = min(harm[all[i]], c.harm(change))
	}
	slices.SortStableFunc(all, func(a, b *write) int { return cmp.Compare(harm[a], harm[b]) })
	intend := c.round()
	c.name(&intend)
	for _, x := range all {
		before := c.mem.refused[x.ID.Key()]
		if done, found, stands := before.stand(x.Planned, etagOf(s.Snapshot, x.ID)); stands {
			c.outcomes[x.ID.Key()] = done
			c.keepFailure(x.ID, found)
			continue
		}
		x.refusal = before
		x.Intend = func(changes []plan.Change) { c.k.opts.Recorder.Intend(intend, changes) }
		c.open++
		if x.ID.Is(arm.TypeSubnet) { // here, and not in its goroutine: the order is that of harm
			x.wait, x.left = c.k.writes.line(x.ID)
		} else {
			x.wait, x.left = c.k.writes.slot()
		}
		ctx := ctx
		if !c.patient {
			ctx = c.life
		}
		c.k.running.Go(func() { x.run(ctx) })
	}
}

// resource is one to write by a plan. What the plan rests on tells what of it may be done at the last
// moment.
func (c *check) resource(seen *inventory.Snapshot, id arm.ID, again apply.Replan) apply.Resource {
	return apply.Resource{ID: id, Replan: again, Seen: seen.Taken, Log: c.k.log,
		Refuse: func(ctx context.Context, change plan.Change, subnet *inventory.Subnet) *finding.Finding {
			return c.notGuarded(ctx, seen, change, subnet)
		},
		Allow: func(ctx context.Context, p plan.Plan, table *inventory.RouteTable) plan.Plan {
			return c.stillMeant(c.provenGone(ctx, seen, p, table), table)
		},
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
	for busy := k.writes.begin(x.ID.Key()); busy != nil; busy = k.writes.begin(x.ID.Key()) {
		<-busy
	}
	x.wait()
	x.apply(ctx)
	x.left()
	k.opts.Recorder.Settle(x.outcomes)
	missed := k.writes.end(x.ID.Key())
	x.check.w.post(x.cluster, func(w *worker) { w.wrote(x) })
	if missed {
		k.mu.Lock()
		defer k.mu.Unlock()
		again := map[string]bool{}
		for _, cluster := range k.concerned(x.ID) {
			again[cluster] = true
		}
		k.trigger(again, trigger{again: true})
	}
}

// wrote takes over what came of a write.
func (w *worker) wrote(x *write) {
	c := x.check
	w.mem.wrote = time.Now()
	w.mem.refused[x.ID.Key()] = x.refusal
	if x.refusal == nil {
		delete(w.mem.refused, x.ID.Key())
	}
	w.made(c, x.cluster, x.outcomes)
	w.mem.failing[x.ID.Key()] = ofNames(nameSet(w.configs), x.findings) // it can have another name now
	if len(w.mem.failing[x.ID.Key()]) == 0 {
		delete(w.mem.failing, x.ID.Key())
	}
	c.outcomes[x.ID.Key()] = x.outcomes
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
	if !x.ID.Is(arm.TypeRouteTable) {
		_ = s.Add(x.now.Raw)
	} else if table, err := x.Decode(x.now); err == nil {
		s.Tables[table.ID.Key()] = table
	}
}

// keepFailure notes what the last write of a resource ran into.
func (c *check) keepFailure(id arm.ID, found []finding.Finding) {
	c.mem.failing[id.Key()] = found
}

// apply changes the resource.
func (x *write) apply(ctx context.Context) {
	c := x.check
	if c.request == nil && c.k.pause() != "" { // since it was decided: others were written first
		for _, change := range x.Planned {
			x.outcomes = append(x.outcomes, plan.Outcome{Change: change, State: plan.Planned})
		}
		return
	}
	result := x.Write(ctx, c.k.azure, c.calls)
	x.outcomes, x.findings, x.now = result.Outcomes, result.Findings, result.After
	x.refusal = x.refusal.next(result.Err, result.Outcomes, result.Findings, result.After)
}

// replanned plans by what the clusters' own tables say.
func (c *check) replanned(s plan.Facts, planner *plan.Planner) apply.Replan {
	late := func(ctx context.Context, target arm.ID) (apply.Replan, error) {
		s := s.Fork()
		s.VNets = map[string]*inventory.VNet{} // what was in them is old: it proves nothing now
		sources := planner.Sources(target)
		for _, id := range sources {
			delete(s.Tables, id.Key())
		}
		if err := c.k.azure.Read(ctx, s.Snapshot, inventory.Wanted{Tables: sources}, azure.ReadOptions{Wait: sourceFor, Calls: c.calls, Life: c.life}); err != nil {
			return apply.Replan{}, err
		}
		for _, id := range sources { // without it nothing would seem to be wanted
			if u, failed := s.Unread[id.Key()]; failed {
				return apply.Replan{}, fmt.Errorf("the cluster's own table %s could not be read again: %s", id.Short(), u.Reason())
			}
		}
		return c.replanned(s, plan.Among(s, c.configs, c.taken)), nil
	}
	return apply.Replan{Table: planner.Again, Subnet: planner.AgainSubnet, Late: late}
}

// sourceFor is how long a late write waits for what it stands on.
const sourceFor = 30 * time.Second
