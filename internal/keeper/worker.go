package keeper

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// worker checks one group of clusters. It owns the memory of the group: while it runs, only its
// goroutine touches this memory. Others use pending, and post functions for it to run.
type worker struct {
	k       *Keeper
	configs []v1alpha1.ClusterRoutes
	group   map[string]bool // the clusters, by ID.Key()
	mem     groupMemory

	ctx    context.Context
	cancel context.CancelFunc
	after  []*worker // previous workers of its clusters: it begins when they have ended
	done   chan struct{}
	wake   chan struct{} // has an element while something is pending

	// guarded by the keeper's lock
	pending trigger
	ended   bool      // it accepts nothing more
	checked time.Time // when its last check ended; at first its creation
	reading func()    // cancels the poll that has been reading since the time below; nil: none
	since   time.Time
}

const (
	// eventSpacing is the shortest time between two checks of a group that events trigger.
	eventSpacing = time.Second
	// readFor is how long a check first waits for answers: for what repairs of associations need
	// and, at short intervals, for all other reads.
	readFor = 2 * time.Second
	// readMost is the longest wait for all other reads.
	readMost = 10 * time.Second
)

// newWorkerLocked returns the worker of a group.
func (k *Keeper) newWorkerLocked(group []v1alpha1.ClusterRoutes) *worker {
	w := &worker{k: k, configs: group, group: keySet(group), mem: newGroupMemory(),
		done: make(chan struct{}), wake: make(chan struct{}, 1), checked: time.Now()}
	ctx := k.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// wholeGroup returns the worker of all clusters, for checks while Run does not run.
func (k *Keeper) wholeGroup() *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.idle
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run checks the group at once, at every tick and when triggered, until it is replaced.
func (w *worker) run() {
	defer w.end()
	for _, before := range w.after {
		<-before.done
	}
	w.inherit()
	poll, spaced := time.Now(), time.Time{}
	answered := false // the last check was for a request
	for w.ctx.Err() == nil {
		w.work()
		now := time.Now()
		due := !now.Before(poll)
		if due && now.Before(w.mem.rest) {
			poll, due = w.k.tick(now), false
			w.k.progress(w)
		}
		// After a request, checks that are due go first, so that many requests do not delay
		// repairs.
		if !answered || !due && !w.mem.due(now) && (now.Before(spaced) || !w.eventPending()) {
			if same := w.nextRequests(); len(same) > 0 {
				w.answer(same)
				answered = true
				continue
			}
		}
		answered = false
		t := w.takeEvents(!now.Before(spaced))
		if due || t.triggers() || w.mem.due(now) {
			if t.triggers() {
				spaced = now.Add(eventSpacing)
			}
			tick := time.Time{}
			if due {
				tick = poll
			}
			if whole := w.check(t, tick); whole && due {
				poll = w.k.tick(now)
			}
			continue
		}
		w.wait(now, poll, spaced)
	}
}

// tick returns the time of the first check after now: the same for all groups, so that they read
// together. After a check that took longer than the interval, the next one begins at once.
func (k *Keeper) tick(now time.Time) time.Time {
	return k.began.Add((now.Sub(k.began)/k.interval + 1) * k.interval)
}

// wait waits until there is something to do.
func (w *worker) wait(now, poll, spaced time.Time) {
	next := poll
	if again := w.mem.again; !again.IsZero() && again.Before(next) {
		next = again
	}
	if w.eventPending() && spaced.Before(next) {
		next = spaced
	}
	timer := time.NewTimer(next.Sub(now))
	defer timer.Stop()
	select {
	case <-w.ctx.Done():
	case <-w.wake:
	case <-timer.C:
	}
}

func (w *worker) eventPending() bool {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	return w.pending.triggers()
}

// takeEvents takes what events have triggered, if they are due, from what is pending.
func (w *worker) takeEvents(due bool) trigger {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	if !due {
		return trigger{}
	}
	t := w.pending.events()
	w.pending.at, w.pending.callers, w.pending.again = time.Time{}, nil, false
	return t
}

// work runs the posted functions.
func (w *worker) work() {
	w.k.mu.Lock()
	todo := w.pending.posted
	w.pending.posted = nil
	w.k.mu.Unlock()
	for _, p := range todo {
		p.do(w)
	}
}

// post makes the current worker of a cluster run a function. This is this worker or its successor.
func (w *worker) post(cluster string, do func(*worker)) {
	k := w.k
	k.mu.Lock()
	to := w
	if w.ended {
		to = k.workers[cluster]
	}
	if to != nil && !to.ended {
		to.pending.add(trigger{posted: []posted{{cluster, do}}})
		to.signal()
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	<-w.done
	k.endedMu.Lock()
	defer k.endedMu.Unlock()
	do(w)
}

// end hands what is pending to the new workers of the clusters.
func (w *worker) end() {
	k := w.k
	k.mu.Lock()
	w.ended = true
	pending := w.pending
	w.pending = trigger{}
	var left []posted
	for _, p := range pending.posted {
		if to := k.workers[p.cluster]; to != nil && to != w {
			to.pending.add(trigger{posted: []posted{p}})
			to.signal()
		} else {
			left = append(left, p)
		}
	}
	pending.posted = nil
	if k.ctx != nil && k.ctx.Err() == nil && (pending.triggers() || len(pending.requests) > 0) {
		heirs := maps.Clone(w.group)
		maps.DeleteFunc(heirs, func(key string, _ bool) bool { return k.workers[key] == w })
		k.triggerLocked(heirs, pending)
	}
	k.mu.Unlock()
	k.endedMu.Lock()
	for _, p := range left {
		p.do(w)
	}
	k.endedMu.Unlock()
	close(w.done)
}

// inherit takes over the memory of its clusters from the previous workers.
func (w *worker) inherit() {
	w.k.endedMu.Lock()
	defer w.k.endedMu.Unlock()
	// The newest memory overwrites older ones: a cluster that left the config may be back.
	slices.SortStableFunc(w.after, func(a, b *worker) int {
		return a.mem.checked().Compare(b.mem.checked())
	})
	for _, before := range w.after {
		w.mem.take(&before.mem, w)
	}
	w.after = nil
	w.mem.complete(w, w.k.stored.recall())
}

// check reconciles the group because of a tick or a trigger, and reports whether it did. An event
// or a request ends a poll early. A change of the group ends any check, and the new worker of the
// clusters takes over. tick is zero if none is due.
func (w *worker) check(t trigger, tick time.Time) (done bool) {
	c := w.newCheck(t.cause(), t.at)
	c.tick = tick
	c.poll = !t.triggers()
	c.tell = w.k.tell
	w.mem.again = time.Time{}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	if c.poll {
		w.noteReading(cancel)
		defer w.noteReading(nil)
	}
	err := w.reconcile(ctx, c)
	switch {
	case w.ctx.Err() != nil && !c.whole:
		w.k.mu.Lock()
		w.pending.add(t)
		w.k.mu.Unlock()
		return true
	case ctx.Err() != nil && !c.whole:
		return false
	case err != nil:
		w.k.failedCheck(w, err)
		w.mem.retry(w.k.interval)
	default:
		w.k.workedOnce()
	}
	return true
}

// noteReading notes how to cancel the poll that begins to read: an event or a request ends it if it
// reads longer than most polls do, because a poll's calls queue behind all others. nil means that
// no poll reads any more.
func (w *worker) noteReading(cancel func()) {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	w.reading, w.since = cancel, time.Now()
	if cancel != nil && (w.pending.triggers() || len(w.pending.requests) > 0) {
		w.breakOffLocked()
	}
}

// breakOffLocked ends, soon, a poll that is reading.
func (w *worker) breakOffLocked() {
	if w.reading != nil {
		time.AfterFunc(time.Until(w.since.Add(eventSpacing)), w.reading)
	}
}

// progress notes that a check of a worker has ended.
func (k *Keeper) progress(w *worker) {
	k.mu.Lock()
	w.checked = time.Now()
	oldest := w.checked
	for _, o := range k.workers {
		if o.checked.Before(oldest) {
			oldest = o.checked
		}
	}
	k.mu.Unlock()
	if k.opts.Progress != nil {
		k.opts.Progress(oldest)
	}
}

// nextRequests returns the next request about clusters of the group, with all others that ask for
// the same thing: one check answers them.
func (w *worker) nextRequests() (same []*request) {
	w.k.mu.Lock()
	requests := w.pending.requests
	w.pending.requests = nil
	w.k.mu.Unlock()
	requests = slices.DeleteFunc(requests, func(q *request) bool { return !q.wants(w.group) })
	if len(requests) == 0 {
		return nil
	}
	var others []*request
	for _, q := range requests {
		if q.sameAs(requests[0]) {
			same = append(same, q)
		} else {
			others = append(others, q)
		}
	}
	w.k.mu.Lock()
	w.pending.requests = append(others, w.pending.requests...)
	w.k.mu.Unlock()
	return same
}

// answer checks the group for requests that ask for the same thing.
func (w *worker) answer(same []*request) {
	c := w.newCheck(Cause{By: ByPerson, Caller: callersOf(same)}, time.Time{})
	c.request = same[0]
	serve := func(r Result, err error) {
		for _, q := range same {
			q.serve(c.group, r, err)
		}
	}
	c.tell = func(r Result) {
		w.k.tell(r)
		if c.whole {
			serve(r, nil)
		}
	}
	err := w.reconcile(w.ctx, c)
	switch {
	case w.ctx.Err() != nil && !c.whole:
		w.k.mu.Lock()
		w.pending.add(trigger{requests: same})
		w.k.mu.Unlock()
	case err != nil:
		serve(c.result(), err)
	}
}

// callersOf returns the names of the senders of requests.
func callersOf(same []*request) string {
	t := trigger{at: time.Now()}
	for _, q := range same {
		t.add(trigger{callers: []string{q.By}})
	}
	return t.cause().Caller
}

// errReplaced ends a check whose group has changed.
var errReplaced = errors.New("the group has changed")

// workedOnce notes that a check has succeeded: from now on no failure ends Run.
func (k *Keeper) workedOnce() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.worked = true
}

// failedCheck handles a check that could not read anything.
func (k *Keeper) failedCheck(w *worker, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log.Error("the check failed, the next one will try again", "clusters", len(w.configs),
		"error", err.Error())
	if k.worked {
		return
	}
	k.failures[w] = true
	for _, o := range k.workers {
		if !k.failures[o] {
			return
		}
	}
	select {
	case k.failed <- err:
	default:
	}
}

// runs reports whether Run is in progress. Run survives an Azure that does not answer, even at its
// first check. A single check has nothing to report then, so it fails.
func (k *Keeper) runs() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ctx != nil
}

// findings returns the current findings of the group: of the last plan, of writes and of conflicts.
func (w *worker) findings() []finding.Finding {
	all := slices.Clone(w.mem.planned)
	for _, f := range w.mem.unfinished {
		if w.k.writes.busy(arm.ID(f.Resource).Key()) {
			all = append(all, f)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.mem.failing)) {
		all = append(all, w.mem.failing[id]...)
	}
	return finding.Sort(slices.Concat(all, w.conflicts(), w.refusedDeletes()))
}

// nameOf returns the name of a cluster in its config.
func (w *worker) nameOf(cluster string) string {
	for _, c := range w.configs {
		if keyOf(c) == cluster {
			return c.Metadata.Name
		}
	}
	return ""
}

// idOf returns the ID of a config's cluster.
func idOf(c v1alpha1.ClusterRoutes) arm.ID { return arm.ID(c.Spec.ClusterID) }

// includes reports whether a request includes a change.
func (q *request) includes(c plan.Change) bool {
	return slices.Contains(q.Verbs, c.Verb) && (q.Only == nil ||
		slices.ContainsFunc(q.Only, func(o plan.Change) bool { return sameChange(c, o) }))
}

// confirmed reports whether a person asked for certain changes, after seeing them.
func (q *request) confirmed() bool { return q != nil && q.Only != nil }

// sameChange reports whether two changes do the same, no matter why.
func sameChange(a, b plan.Change) bool {
	return a.Verb == b.Verb && a.Resource.Equal(b.Resource) && a.Cluster == b.Cluster &&
		a.Route == b.Route && reflect.DeepEqual(a.Old, b.Old) && reflect.DeepEqual(a.New, b.New)
}
