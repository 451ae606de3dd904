// Package keeper is the loop: observe, decide, act, record. It joins azure, which reads and writes, with
// plan, which decides, and remembers what one check has to know of those before it.
//
// It must not decide what a route should be, nor know how anything is shown.
//
// How it works. Clusters that use a common subnet or table are one group, because what is planned for
// one depends on the others (group.go). Each group has a worker (worker.go): one goroutine that owns
// what is remembered of the group, and reconciles it (reconcile.go) at every tick, and when an event,
// a person or the end of a write triggers it (trigger.go, request.go). Workers know nothing of each
// other; what they read at the same moment is read together by azure. Each resource is written by a
// goroutine of its own (apply.go), which hands what came of it to the worker. So whatever hangs holds
// up itself, and nothing else.
package keeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Azure is what a keeper needs of Azure.
type Azure interface {
	Read(context.Context, *inventory.Snapshot, inventory.Wanted, azure.ReadOptions) error
	Write(context.Context, arm.ID, azure.Edit, *azure.Calls) (azure.Written, error)
	OthersWrite(ctx context.Context, from, until time.Time, ids ...arm.ID) (azure.LastWrite, bool, error)
}

// Options say how a keeper works.
type Options struct {
	// DryRun plans and writes nothing.
	DryRun bool
	// Paused says, before changes are made, until when none are to be made; "" when they are. Nil: they
	// always are.
	Paused func() string
	// ClusterInterval is how long a cluster's own document is believed. 0: 5 minutes.
	ClusterInterval time.Duration
	// ChangesPerMinute is how many changes of routes are made, over all clusters. 0: any number.
	ChangesPerMinute int
	// Log receives what happens. Nil: nothing.
	Log *slog.Logger
	// Progress is called at the end of every check, also of one that ends in an error and is not told:
	// with the end of the last check of the group that waits longest for its next one. It must not
	// wait. Nil: not called.
	Progress func(oldest time.Time)
	// Planned is told of a check that is about to change something, with its changes as planned. Nil:
	// not called.
	Planned func(Round)
	// Recorder keeps what was done. Nil: nothing is recorded.
	Recorder Recorder
	// Shelf keeps what a restart must not forget. Nil: it is forgotten.
	Shelf Shelf
}

// Keeper keeps the pod routes of the configured clusters in sync.
type Keeper struct {
	azure    Azure
	opts     Options
	log      *slog.Logger
	writes   *writes
	limit    *limiter // nil for none
	fabric   *fabric
	told     sync.Mutex // is held while a check is recorded and told
	leftover sync.Mutex // is held while something is posted to a worker that has ended

	// mu is held for moments, and never while anything is waited for. It guards what follows.
	mu       sync.Mutex
	configs  []v1alpha1.ClusterRoutes // replaced, not changed
	names    []string                 // of the configs
	named    map[string]bool          // the same
	taken    plan.Taken
	owners   map[string]arm.ID   // tables that clusters were last seen with; replaced, not changed
	kept     map[string]Lasting  // what is on the shelf; replaced, not changed
	uses     map[string][]string // resources by the cluster that uses them, since the last reload
	seen     map[string][]string // and resources seen at its last check
	users    index               // clusters by the resources they use
	around   index               // and by what these stand in: virtual networks, node resource groups
	workers  map[string]*worker  // by cluster; nil where it does not run
	idle     *worker             // checks all clusters where it does not run
	unknown  map[arm.ID]trigger
	requests []*request
	findings standing
	outages  outages
	serial   int64

	// of Run
	ctx      context.Context // nil where it does not run
	over     bool            // it does not run any more
	tell     func(Round)
	began    time.Time
	interval time.Duration
	running  sync.WaitGroup   // workers and writes
	worked   bool             // a check has
	failed   chan error       // the first check of all groups
	failures map[*worker]bool // whose first check has failed
}

// New makes a keeper.
func New(a Azure, configs []v1alpha1.ClusterRoutes, opts Options) *Keeper {
	if opts.ClusterInterval == 0 {
		opts.ClusterInterval = 5 * time.Minute
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Recorder == nil {
		opts.Recorder = noRecorder{}
	}
	k := &Keeper{azure: a, opts: opts, log: opts.Log, writes: newWrites(), limit: newLimiter(opts.ChangesPerMinute), fabric: newFabric(), outages: outages{silent: map[string]silence{}}, unknown: map[arm.ID]trigger{}, seen: map[string][]string{},
		failed: make(chan error, 1)}
	if opts.Shelf != nil {
		k.kept = opts.Shelf.Recall()
	}
	k.configure(configs)
	k.makeIdle()
	return k
}

// makeIdle makes the worker of all clusters for checks of a keeper that does not run. The lock is held,
// or the keeper is not in use yet.
func (k *Keeper) makeIdle() {
	before := k.idle
	k.idle = k.newWorker(k.configs)
	if before != nil {
		k.idle.mem.take(&before.mem, k.idle)
	}
	k.idle.mem.complete(k.idle, k.kept)
	close(k.idle.done)
}

// Round checks all clusters once, as one group, and makes the changes that follow. The error is the
// context's, or says that nothing at all can be seen: everything else is a finding. It must not be
// called while Run runs.
func (k *Keeper) Round(ctx context.Context) (Round, error) {
	w := k.wholeGroup()
	var round Round
	c := w.newCheck(Cause{By: ByPerson}, time.Time{})
	c.tell = func(r Round) { round = r }
	err := w.reconcile(ctx, c)
	if c.decided {
		w.finish(c)
		return round, ctx.Err()
	}
	return c.round(), err
}

// Run checks each group of clusters until the context ends, and hands each check to tell, one at a time:
// at every interval, all groups at the same moment, and between when something triggers it.
//
// The error is nil when the context ended it. Where the first checks of all groups fail, Run ends with
// that: the set-up is wrong. Later ones are logged and tried again.
func (k *Keeper) Run(ctx context.Context, interval time.Duration, tell func(Round)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.mu.Lock()
	k.ctx, k.tell, k.interval, k.began = ctx, tell, interval, time.Now()
	k.over, k.worked, k.failures = false, false, map[*worker]bool{}
	k.regroup()
	k.mu.Unlock()
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-k.failed:
		cancel()
	}
	k.running.Wait()
	k.mu.Lock()
	k.over, k.ctx, k.workers = true, nil, nil
	requests := k.requests
	k.requests = nil
	k.mu.Unlock()
	for _, q := range requests {
		q.end(errOver)
	}
	return failed
}

// pause says until when no changes are to be made, "" when they are.
func (k *Keeper) pause() string {
	if k.opts.Paused == nil {
		return ""
	}
	return k.opts.Paused()
}
