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

// Writes. How it works: each resource is written in its own goroutine, in order of harm: node
// subnets, guarded subnets, tables that lack routes, tables with too many. The goroutine posts the
// outcome to the worker. Checks leave a resource alone while it is being written. A person's
// request waits for the write.

// write is the write of one resource.
type write struct {
	apply.Resource
	check    *check
	cluster  string // a cluster that needs it, by ID.Key()
	outcomes []plan.Outcome
	findings []finding.Finding
	refusal  *refusal
	now      arm.Document // as last read

	wait, accepted, left func() // its place in the queue; tables have no accepted
}

// writes are the writes of a keeper that are under way.
type writes struct {
	mu     sync.Mutex
	under  map[string]underWay  // resources being written, by ID.Key()
	missed map[string]bool      // resources in under that a check wanted to write meanwhile
	lines  map[string][]*ticket // by virtual network
	slots  chan struct{}        // one entry for each table that is being written
}

// underWay is a write that is under way. Its channel is closed when the write ends.
type underWay struct {
	since time.Time
	ended chan struct{}
}

const (
	// tablesAtOnce is how many tables are written at the same time. A write that takes longer than
	// slotFor no longer counts, because it only waits for Azure.
	tablesAtOnce, slotFor = 64, 10 * time.Second
	// lineFor is how long one subnet waits for the write of another in its network. A node subnet
	// waits only nodesFor for the answer to the other PUT, which may hang.
	lineFor, nodesFor = 10 * time.Second, time.Second
)

func newWrites() *writes {
	return &writes{
		under: map[string]underWay{}, missed: map[string]bool{}, lines: map[string][]*ticket{},
		slots: make(chan struct{}, tablesAtOnce),
	}
}

func (w *writes) busy(resource string) bool { return !w.since(resource).IsZero() }

// since returns when the write of a resource began, or zero.
func (w *writes) since(resource string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.under[resource].since
}

// begin claims a resource. If another write has the resource, begin returns a channel that is
// closed when that write ends.
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

// missedBy reports whether a resource is being written. If so, a check follows when the write ends.
func (w *writes) missedBy(resource string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.under[resource].ended == nil {
		return false
	}
	w.missed[resource] = true
	return true
}

// end releases a resource, and reports whether a check wanted to write it meanwhile.
func (w *writes) end(resource string) (missed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.under[resource].ended)
	missed = w.missed[resource]
	delete(w.under, resource)
	delete(w.missed, resource)
	return missed
}

// ticket is a subnet's place in the line of its network.
type ticket struct {
	accepted bool // Azure has accepted its PUT
}

// line queues a subnet behind the writes of others in its network, in the order of the calls,
// because Azure accepts one write at a time. wait blocks until the subnet's turn, or until lineFor
// has passed. An urgent subnet waits only nodesFor for each write ahead of it, unless Azure has
// accepted one of them. accepted notes that Azure has accepted this write; left leaves the queue.
func (w *writes) line(id arm.ID, urgent bool) (wait, accepted, left func()) {
	network, mine := id.Parent().Key(), &ticket{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines[network] = append(w.lines[network], mine)
	turn := func(waited time.Duration) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		ahead := w.lines[network][:slices.Index(w.lines[network], mine)]
		moves := slices.ContainsFunc(ahead, func(t *ticket) bool { return t.accepted })
		soon := time.Duration(len(ahead)) * nodesFor
		return len(ahead) == 0 || waited >= lineFor || urgent && !moves && waited >= soon
	}
	wait = func() {
		for began := time.Now(); !turn(time.Since(began)); {
			time.Sleep(50 * time.Millisecond)
		}
	}
	accepted = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		mine.accepted = true
	}
	return wait, accepted, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(w.lines[network]), func(t *ticket) bool {
			return t == mine
		})
		if w.lines[network] = rest; len(rest) == 0 {
			delete(w.lines, network)
		}
	}
}

// slot works like line for tables. Tables wait for each other only when very many are written.
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

// harm orders changes by how much breaks while they wait.
func (c *check) harm(change plan.Change) int {
	switch {
	case change.Verb == plan.Associate && isNodeSubnet(c.s.Snapshot, c.configs, change.Resource):
		return 0
	case change.Verb == plan.Associate:
		return 1
	case change.Verb == plan.Delete:
		return 3
	}
	return 2
}

func isNodeSubnet(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes, id arm.ID) bool {
	return slices.ContainsFunc(configs, func(config v1alpha1.ClusterRoutes) bool {
		cluster := s.Cluster(idOf(config))
		return cluster != nil && slices.ContainsFunc(s.NodeSubnetIDs(cluster), id.Equal)
	})
}

// started reports whether this check has begun to write a resource, or another check is writing it.
// A person's request waits for the other check.
func (c *check) started(id arm.ID) bool {
	if slices.ContainsFunc(c.order, id.Equal) {
		return true
	}
	return c.request == nil && c.k.writes.missedBy(id.Key())
}

// start starts the writes of a plan's changes.
func (c *check) start(ctx context.Context, s plan.Facts, changes []plan.Change,
	again apply.Replan) {
	if changes = c.withinLimit(s.Snapshot, changes); len(changes) == 0 {
		return
	}
	if c.k.opts.Planned != nil {
		about := c.result()
		about.Changes = planned(changes, nil)
		c.name(&about)
		about.Findings, about.Seen = c.mem.planned, c.mem.complement(s)
		about.Verdicts = c.judge(about.Seen, about.Findings)
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
				Resource: c.resource(s.Snapshot, change.Resource,
					again), check: c, cluster: keyNamed(c.configs, change.Cluster),
			}
			all, harm[x] = append(all, x), 9
			c.order = append(c.order, x.ID)
		}
		all[i].Planned = append(all[i].Planned, change)
		harm[all[i]] = min(harm[all[i]], c.harm(change))
	}
	slices.SortStableFunc(all, func(a, b *write) int { return cmp.Compare(harm[a], harm[b]) })
	intend := c.result()
	c.name(&intend)
	for _, x := range all {
		before := c.mem.refused[x.ID.Key()]
		if done, found, refused := before.repeat(x.Planned, etagOf(s.Snapshot, x.ID)); refused {
			c.outcomes[x.ID.Key()] = done
			c.mem.failing[x.ID.Key()] = found
			continue
		}
		x.refusal = before
		x.Intend = func(changes []plan.Change) { c.k.opts.Recorder.Intend(intend, changes) }
		c.open++
		if x.ID.Is(arm.TypeSubnet) { // not in its goroutine: the queue must keep the order of harm
			x.wait, x.accepted, x.left = c.k.writes.line(x.ID, harm[x] == 0)
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

// indexNamed returns the index of the config with a name, or -1.
func indexNamed(configs []v1alpha1.ClusterRoutes, name string) int {
	return slices.IndexFunc(configs, func(c v1alpha1.ClusterRoutes) bool {
		return c.Metadata.Name == name
	})
}

// keyNamed returns the ID.Key() of the cluster that a config names.
func keyNamed(configs []v1alpha1.ClusterRoutes, name string) string {
	if i := indexNamed(configs, name); i >= 0 {
		return keyOf(configs[i])
	}
	return ""
}

// run writes one resource and posts the outcome.
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
		for _, cluster := range k.usage.concerned(x.ID) {
			again[cluster] = true
		}
		k.triggerLocked(again, trigger{again: true})
	}
}

// wrote records the outcome of a write in the worker's memory.
func (w *worker) wrote(x *write) {
	c := x.check
	w.mem.wrote = time.Now()
	w.mem.refused[x.ID.Key()] = x.refusal
	if x.refusal == nil {
		delete(w.mem.refused, x.ID.Key())
	}
	w.made(c, x.cluster, x.outcomes)
	w.outdatedBy(x.findings)
	w.mem.failing[x.ID.Key()] = ofNames(nameSet(w.configs), x.findings) // its name may have changed
	if len(w.mem.failing[x.ID.Key()]) == 0 {
		delete(w.mem.failing, x.ID.Key())
	}
	c.outcomes[x.ID.Key()] = x.outcomes
	if key := x.ID.Key(); x.now.ETag != "" {
		c.outdated[key] = w.mem.left[key] == x.now.ETag // nothing has changed since
		w.mem.left[key] = x.now.ETag
	}
	if x.now.Raw != nil {
		if c.after.Snapshot == nil {
			c.after = c.s.Fork()
		}
		x.addTo(c.after.Snapshot)
	}
	c.open--
	c.end(w)
}

// outdatedBy makes the next check, soon, read the documents of clusters that a write found gone or
// changed: another config may require the same properties of the subnet.
func (w *worker) outdatedBy(found []finding.Finding) {
	for _, f := range found {
		m := w.mem.clusters[keyNamed(w.configs, f.Cluster)]
		if m != nil && (f.Code == finding.ClusterMissing || f.Code == finding.ClusterNotKubenet) &&
			time.Since(m.read) > sharedFor {
			m.read = time.Time{}
			w.mem.checkAgain(time.Now().Add(eventSpacing))
		}
	}
}

// addTo adds the resource to a snapshot as it was last read. Earlier reads have reported its
// errors.
func (x *write) addTo(s *inventory.Snapshot) {
	if !x.ID.Is(arm.TypeRouteTable) {
		_ = s.Add(x.now.Raw)
	} else if table, err := x.Decode(x.now); err == nil {
		s.Tables[table.ID.Key()] = table
	}
}

// apply changes the resource.
func (x *write) apply(ctx context.Context) {
	c := x.check
	if x.paused() {
		for _, change := range x.Planned {
			x.outcomes = append(x.outcomes, plan.Outcome{Change: change, State: plan.Planned})
		}
		return
	}
	if x.accepted != nil {
		ctx = azure.OnAccepted(ctx, x.accepted)
	}
	result := x.Write(ctx, c.k.azure, c.calls)
	x.outcomes, x.findings, x.now = result.Outcomes, result.Findings, result.After
	x.refusal = x.refusal.next(result.Err, result.Outcomes, result.Findings, result.After)
}

// replanned plans again for one resource, by the route tables of the clusters. A late write reads
// these again, and the appliance of egress routes. A route that needs another proof waits for the
// next check, which reads it.
func (c *check) replanned(s plan.Facts, planner *plan.Planner) apply.Replan {
	late := func(ctx context.Context, target arm.ID) (apply.Replan, error) {
		s := s.Aged(c.configs)
		sources := planner.Sources(target)
		want := inventory.Wanted{Tables: sources}
		for _, config := range c.configs {
			if e := config.Spec.Egress; target.Equal(arm.ID(e.RouteTableID)) {
				want.AddAppliance(arm.ID(e.FirewallID))
			}
		}
		if err := c.k.azure.Read(ctx, s.Snapshot, want,
			azure.ReadOptions{Wait: sourceFor, Calls: c.calls, Life: c.life}); err != nil {
			return apply.Replan{}, err
		}
		for _, id := range sources { // without a source, a target would seem to need no routes
			if u, failed := s.Unread[id.Key()]; failed {
				return apply.Replan{}, fmt.Errorf("the cluster's route table %s could not be "+
					"read again: %s", id.Short(), u.Reason())
			}
		}
		return c.replanned(s, plan.Among(s, c.configs, c.taken)), nil
	}
	return apply.Replan{Table: planner.Again, Subnet: planner.AgainSubnet, Late: late}
}

// sourceFor is how long a late write waits for its sources.
const sourceFor = 30 * time.Second
