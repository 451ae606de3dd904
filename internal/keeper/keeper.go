// Package keeper is the loop: observe, decide, act, record. It connects azure, which reads and
// writes, with plan, which decides. It remembers what a check must know about earlier ones.
//
// It must not decide what a route should be, or know how anything is displayed.
//
// How it works. Clusters that share a subnet or table form one group, because the plan for one
// depends on the others (group.go). Each group has a worker (worker.go): one goroutine that owns
// the memory of the group. The worker reconciles the group (reconcile.go) at every tick, and when
// an event, a person or the end of a write triggers it (trigger.go, request.go). Workers do not
// know each other. azure combines what they read at the same moment. Each resource is written in
// its own goroutine (apply.go), which posts the outcome to the worker. So anything that hangs
// delays only itself.
package keeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Azure is what a keeper needs from Azure.
type Azure interface {
	Read(context.Context, *inventory.Snapshot, inventory.Wanted, azure.ReadOptions) error
	Write(context.Context, arm.ID, azure.Edit, *azure.Calls) (azure.Written, error)
	OthersWrite(ctx context.Context, from, until time.Time, ids ...arm.ID) (azure.LastWrite, bool,
		error)
	RefusedDelete(ctx context.Context, from time.Time, id arm.ID) (azure.RefusedDelete, bool, error)
}

// Options configure a keeper.
type Options struct {
	// DryRun plans and never writes, even if a person asks for a change.
	DryRun bool
	// Only limits the changes to the ones that a person has seen and confirmed. Changes that became
	// necessary later stay planned. Nil: no limit.
	Only func(plan.Change) bool
	// Paused returns until when changes are paused, or "". It is called before changes are made.
	// Nil: never paused.
	Paused func() string
	// ClusterPaused returns until when changes for a cluster are paused, and why, or "". This
	// includes spec.pause, which the keeper only passes on. A request for certain changes overrides
	// it. It must not block. Nil: never paused.
	ClusterPaused func(cluster string) string
	// Withhold returns why a change must not be made now, or "". It is called before a write and
	// again on each fresh GET of a table. It must not block. Nil: nothing is withheld.
	Withhold func(Intent) string
	// ClusterInterval is how long a cluster's document is reused. 0: 5 minutes.
	ClusterInterval time.Duration
	// ChangesPerMinute limits the changes to routes, over all clusters. 0: no limit.
	ChangesPerMinute int
	// Log receives what happens. Nil: nothing.
	Log *slog.Logger
	// Progress is called at the end of every check, even if the check failed and is not reported.
	// oldest is when the group that has waited longest ended its last check. It must not block.
	// Nil: not called.
	Progress func(oldest time.Time)
	// Planned is called before a check changes something, with its changes as planned. Nil: not
	// called.
	Planned func(Result)
	// Recorder stores what was done. Nil: nothing is recorded.
	Recorder Recorder
	// Store stores what must survive a restart. Nil: it is forgotten.
	Store Store
	// Silenced returns a copy in which the findings that a person silenced are marked. It must not
	// block. Nil: none is.
	Silenced func([]finding.Finding) []finding.Finding
	// Own returns findings about the program itself, which are part of every check. Nil: none.
	Own func() []finding.Finding
	// Nodes reads the nodes of clusters with source Nodes. Nil: they are unknown.
	Nodes Nodes
}

// Keeper keeps the pod routes of the configured clusters in sync.
type Keeper struct {
	azure    Azure
	opts     Options
	log      *slog.Logger
	writes   *writes
	limit    *limiter // nil: no limit
	stored   *stored
	followed *followed
	absent   *absentees
	told     sync.Mutex // held while a check is recorded and reported
	endedMu  sync.Mutex // held while something is posted to a worker that has ended

	// mu guards the fields below. It is held briefly, and never during a wait. Call a method whose
	// name ends in Locked only while holding it.
	mu       sync.Mutex
	configs  []v1alpha1.ClusterRoutes  // replaced, not changed
	names    []string                  // of the configs
	pausing  map[string]v1alpha1.Pause // spec.pause, by name; replaced, not changed
	taken    plan.Taken
	owners   map[string]arm.ID // tables that clusters were last seen with; replaced, not changed
	usage    usage
	seen     map[string][]string // resources that a cluster's last check has seen
	workers  map[string]*worker  // by cluster; nil if Run does not run
	leaving  map[string]*worker  // by cluster that the config may soon have again
	held     bool                // the newest config is refused, so none of these leaves
	idle     *worker             // checks all clusters if Run does not run
	unknown  events
	requests []*request
	findings currentFindings
	outages  outages
	twin     twin
	serial   int64

	// used by Run
	ctx      context.Context // nil if it does not run
	over     bool            // Run has ended
	tell     func(Result)
	began    time.Time
	interval time.Duration
	running  sync.WaitGroup   // workers and writes
	worked   bool             // a check has succeeded
	failed   chan error       // the first check of all groups
	failures map[*worker]bool // workers whose first check has failed
}

// New returns a keeper.
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
	k := &Keeper{azure: a, opts: opts, log: opts.Log, writes: newWrites(),
		limit: newLimiter(opts.ChangesPerMinute), outages: outages{
			silent: map[string]silence{}}, unknown: events{},
		seen: map[string][]string{}, stored: newStored(opts.Store),
		followed: &followed{nodes: opts.Nodes, counted: map[string]bool{}},
		absent:   &absentees{keys: map[string]bool{}}, failed: make(chan error, 1)}
	k.followed.configs = configs
	k.configureLocked(configs)
	k.makeIdleLocked()
	return k
}

// makeIdleLocked creates the worker that checks all clusters while Run does not run. The lock is
// held, or the keeper is not in use yet.
func (k *Keeper) makeIdleLocked() {
	before := k.idle
	k.idle = k.newWorkerLocked(k.configs)
	if before != nil {
		k.idle.mem.take(&before.mem, k.idle)
	}
	k.idle.mem.complete(k.idle, k.stored.recall())
	close(k.idle.done)
}

// Reconcile checks all clusters once, as one group, and makes the changes that follow. The error is
// the context's, or says that nothing can be read at all. All other problems are findings. It must
// not be called while Run runs.
func (k *Keeper) Reconcile(ctx context.Context) (Result, error) {
	w := k.wholeGroup()
	var result Result
	c := w.newCheck(Cause{By: ByPerson}, time.Time{})
	c.tell = func(r Result) { result = r }
	err := w.reconcile(ctx, c)
	if c.decided {
		w.finish(c)
		return result, ctx.Err()
	}
	return c.result(), err
}

// Run checks each group of clusters until the context ends. All groups are checked together at
// every interval, and each one when something triggers a check. It passes each check to tell, one
// at a time.
//
// If the context ends it, the error is nil. If the first checks of all groups fail, Run returns
// that error, because the setup is wrong. It logs later failures and tries again.
func (k *Keeper) Run(ctx context.Context, interval time.Duration, tell func(Result)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.mu.Lock()
	k.ctx, k.tell, k.interval, k.began = ctx, tell, interval, time.Now()
	k.over, k.worked, k.failures = false, false, map[*worker]bool{}
	k.leaving = map[string]*worker{}
	k.regroupLocked()
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
