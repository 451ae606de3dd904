package azure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// reader reads documents for many callers at once. No caller waits for another.
//
// How it works. What polls want from one subscription within collectFor goes into one batch, which
// is read in the cheapest way (list.go). Requests from events and people are collected only as long
// as one caller, or several that one event woke, need to say what they want. A poll adds what other
// polls wanted a moment ago, because they will want it again, so one list serves all of them. Each
// document has its own call in the batch. A caller waits for its calls until its own deadline, and
// takes what has arrived by then. The other calls continue, and the next poll uses their answers.
//
//	                    no call under way     one is under way, or     one hangs
//	                                          waits for its turn
//	poll                an answer since       wait for it              subnets: a new call
//	                    NotBefore, or a                                others: wait briefly
//	                    new call
//	event, own write,   an answer since       a new call, unless       a new call, while few
//	person              NotBefore, or a       that was sent since      are under way
//	                    new call              NotBefore
//
// After answerWithin a call without an answer is given up, so that the next one uses a working
// connection. The next poll repeats a read that failed. Reads that fail again and again, except
// those of subnets, become less and less frequent.
type reader struct {
	c       *documents
	mu      sync.Mutex
	docs    map[string]*doc // by ID.Key()
	batches map[batchKey]*batch
	swept   time.Time
}

const (
	// collectFor is how long the requests of polls are collected. It is short compared to a call,
	// but longer than workers that tick together need to say what they want.
	collectFor = 20 * time.Millisecond
	// hurryFor is how long other requests are collected.
	hurryFor = time.Millisecond
	// answerWithin is how long a call may take. turnWithin is how long it may wait while Azure
	// throttles.
	answerWithin, turnWithin = 10 * time.Second, 2 * time.Second
	// queuedFor is how long a caller waits for a call that is queued because few tokens remain,
	// unless the caller sets a time.
	queuedFor = 30 * time.Second
	// knownLate is how long a poll waits for a call that has already exceeded another caller's
	// deadline.
	knownLate = 250 * time.Millisecond
	// afterList is how long a caller waits for the GETs of subnets, once their list hangs.
	afterList = time.Second
	// expectedFor is how long the reader expects that polls want a document again.
	expectedFor = time.Minute
	// keptFor is how long an answer is kept: the greatest age that a poll accepts, even if it
	// rarely asks.
	keptFor = 5 * time.Minute
	// mostOpen is how many calls for one document can be under way at once.
	mostOpen = 12
	// retryFirst and retryMost are the shortest and longest wait before a poll repeats a failed
	// read.
	retryFirst, retryMost = 5 * time.Second, time.Minute
)

// doc is the state of one document.
type doc struct {
	id       arm.ID
	kind     string  // of inventory.Kind
	answered *call   // the newest answered call
	open     []*call // under way, the oldest first
	polled   time.Time
	failures int       // in a row
	retry    time.Time // when polls ask again
}

// call reads one document.
type call struct {
	doc    *doc
	poll   bool
	asked  time.Time     // when the batch began
	sent   chan struct{} // closed when it goes out
	sentAt time.Time     // when that was
	late   bool          // it has exceeded a caller's deadline
	slow   time.Duration // how long it takes, if it is known to be slow
	done   chan struct{}

	// set before done is closed
	found any
	miss  *inventory.Unread
	err   error // the login failed
}

type batchKey struct {
	kind         string
	subscription string
	poll         bool
}

type batch struct {
	key       batchKey
	calls     map[string]*call // by ID.Key()
	life      context.Context  // of the caller that began it, like counted
	counted   *Calls
	notBefore time.Time
}

func newReader(c *documents) *reader {
	return &reader{c: c, docs: map[string]*doc{}, batches: map[batchKey]*batch{}}
}

// read works like Client.Read for shared reads.
func (r *reader) read(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted,
	o ReadOptions) error {
	if o.Life == nil {
		o.Life = context.Background()
	}
	if o.NotBefore.IsZero() {
		o.NotBefore = time.Now()
	}
	began := time.Now()
	var calls []*call
	ids, _ := w.Documents()
	for _, id := range ids {
		calls = append(calls, r.callFor(id, o))
	}
	var around error
	var wait sync.WaitGroup
	if len(w.VNets)+len(w.AKSSubnets)+len(w.Managed)+len(w.Written)+len(w.NICs)+len(w.Writers) > 0 {
		wait.Go(func() { around = r.around(ctx, s, w, o) })
	}
	out := intoSnapshot(s)
	late := make([]bool, len(calls))
	for i, c := range calls {
		var err error
		if late[i], err = r.await(ctx, c, began, o); err != nil {
			wait.Wait()
			return err
		}
	}
	wait.Wait() // it fills the snapshot, too
	for i, c := range calls {
		if late[i] {
			s.Unread[c.doc.id.Key()] = inventory.Unread{ID: c.doc.id, Late: true,
				Message: fmt.Sprintf("no answer within %s", o.Wait)}
			continue
		}
		out(c.doc.id, c.found, c.miss)
		if s.Taken.IsZero() || c.asked.Before(s.Taken) {
			s.Taken = c.asked
		}
	}
	return around
}

// around reads what is rarely needed, without sharing.
func (r *reader) around(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted,
	o ReadOptions) error {
	end := time.Now().Add(o.Wait)
	ctx = withCall(ctx, func(m *manner) {
		m.yield, m.calls, m.until, m.turn = o.Poll, o.Calls, end, o.Wait
	})
	return r.c.readAround(policy.WithRetryOptions(ctx, once), s, w)
}

// await waits for a call until a deadline, which counts from when the caller began to read. If the
// call went out near or after the deadline, await waits for knownLate from then. late is set if no
// answer came in time.
func (r *reader) await(ctx context.Context, c *call, began time.Time,
	o ReadOptions) (late bool, err error) {
	queued := queuedFor
	if o.Queue > 0 {
		queued = time.Until(began.Add(o.Queue))
	}
	select {
	case <-c.done: // first: an answer that has arrived is used
		return false, c.err
	default:
	}
	select {
	case <-c.done:
		return false, c.err
	case <-c.sent:
	case <-time.After(queued):
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	r.mu.Lock()
	deadline := began.Add(max(o.Wait, c.slow))
	if c.late {
		deadline = began.Add(min(o.Wait, knownLate))
	}
	if end := c.sentAt.Add(knownLate); deadline.Before(end) {
		deadline = end
	}
	r.mu.Unlock()
	select {
	case <-c.done:
		return false, c.err
	default:
	}
	select {
	case <-c.done:
		return false, c.err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(time.Until(deadline)):
		r.mu.Lock()
		c.late = true
		r.mu.Unlock()
		return true, nil
	}
}

// callFor returns a call for a document: an answered one, one under way, or a new one.
func (r *reader) callFor(id arm.ID, o ReadOptions) *call {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sweep(now)
	d, _ := arm.Lookup(r.docs, id)
	if d == nil {
		d = &doc{id: id, kind: inventory.Kind(id)}
		r.docs[id.Key()] = d
	}
	if o.Poll {
		d.polled = now
	}
	if a := d.answered; a != nil &&
		(!a.asked.Before(o.NotBefore) || o.Poll && len(d.open) == 0 && now.Before(d.retry)) {
		return a
	}
	for i := len(d.open) - 1; i >= 0; i-- {
		if c := d.open[i]; o.shares(c) {
			return c
		}
	}
	if n := len(d.open); n >= mostOpen {
		return d.open[n-1]
	}
	return r.add(d, o)
}

// shares reports whether a call under way can be used.
func (o ReadOptions) shares(c *call) bool {
	if o.Poll {
		return !c.late || !c.doc.id.Is(arm.TypeSubnet)
	}
	if c.asked.IsZero() { // still being collected
		return !c.poll
	}
	return !c.asked.Before(o.NotBefore) && (!c.poll || c.isSent())
}

func (c *call) isSent() bool {
	select {
	case <-c.sent:
		return true
	default:
		return false
	}
}

// sending notes that a call goes out: for the document that it reads, for all documents below it,
// and for those in the scope of a list.
func (r *reader) sending(b *batch, read arm.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	scope := read.Key()
	if len(read.Segments())%2 != 0 { // a list: its address ends with a type, not with a name
		scope, _, _ = strings.Cut(scope, "/providers/")
	}
	for key, c := range b.calls {
		if (key == scope || strings.HasPrefix(key, scope+"/")) && !c.isSent() {
			c.sentAt = time.Now()
			close(c.sent)
		}
	}
}

// add adds a call for a document to the current batch.
func (r *reader) add(d *doc, o ReadOptions) *call {
	bk := batchKey{d.kind, d.id.Subscription(), o.Poll}
	b := r.batches[bk]
	if b == nil {
		b = &batch{key: bk, calls: map[string]*call{}, life: o.Life, counted: o.Calls,
			notBefore: o.NotBefore}
		r.batches[bk] = b
		wait := hurryFor
		if o.Poll {
			wait = collectFor
		}
		time.AfterFunc(wait, func() { r.send(b) })
	}
	return b.add(d)
}

func (b *batch) add(d *doc) *call {
	c := &call{doc: d, poll: b.key.poll, sent: make(chan struct{}),
		done: make(chan struct{})}
	b.calls[d.id.Key()] = c
	d.open = append(d.open, c)
	return c
}

// send reads a batch.
func (r *reader) send(b *batch) {
	r.mu.Lock()
	delete(r.batches, b.key)
	now := time.Now()
	if b.key.poll {
		r.expect(b, now)
	}
	ids := make([]arm.ID, 0, len(b.calls))
	slow := r.c.patienceOf(arm.SubscriptionID(b.key.subscription)) + afterList
	for _, c := range b.calls {
		if c.asked = now; c.doc.id.Is(arm.TypeSubnet) {
			c.slow = slow
		}
		ids = append(ids, c.doc.id)
	}
	r.mu.Unlock()
	ctx := withCall(b.life, func(m *manner) {
		m.yield, m.calls, m.answer, m.turn = b.key.poll, b.counted, answerWithin, turnWithin
		m.sending = func(id arm.ID) { r.sending(b, id) }
	})
	err := r.c.readKind(policy.WithRetryOptions(ctx, once), b.key.kind, inventory.SortIDs(ids),
		func(id arm.ID, found any, miss *inventory.Unread) {
			r.answer(b, id, found, miss, nil)
		})
	for _, id := range ids { // without an error, all have an answer
		r.answer(b, id, nil, otherResource(id), err)
	}
}

// expect adds to a batch what other polls will want soon.
func (r *reader) expect(b *batch, now time.Time) {
	for _, d := range r.docs {
		if d.kind != b.key.kind || now.Sub(d.polled) > expectedFor || len(d.open) > 0 ||
			now.Before(d.retry) || d.id.Subscription() != b.key.subscription {
			continue
		}
		if a := d.answered; a != nil && (!a.asked.Before(b.notBefore) || a.err != nil ||
			a.miss != nil && a.miss.Absent) { // no list shows what is absent
			continue
		}
		b.add(d)
	}
}

// answer ends a call, once.
func (r *reader) answer(b *batch, id arm.ID, found any, miss *inventory.Unread, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := b.calls[id.Key()]
	if c == nil {
		return
	}
	delete(b.calls, id.Key())
	c.found, c.miss, c.err = found, miss, err
	d := c.doc
	d.open = slices.DeleteFunc(d.open, func(o *call) bool { return o == c })
	if d.answered == nil || !c.asked.Before(d.answered.asked) {
		d.answered = c
	}
	d.failures, d.retry = d.failures+1, time.Time{}
	switch {
	case err != nil:
	case miss == nil || !miss.Transient():
		d.failures = 0
	case !c.doc.id.Is(arm.TypeSubnet):
		d.retry = time.Now().Add(min(retryFirst<<min(d.failures-1, 6), retryMost))
	}
	close(c.done)
}

// sweep forgets documents that are no longer wanted.
func (r *reader) sweep(now time.Time) {
	if now.Sub(r.swept) < expectedFor {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.docs, func(_ string, d *doc) bool {
		return len(d.open) == 0 && now.Sub(d.polled) > expectedFor &&
			(d.answered == nil || now.Sub(d.answered.asked) > keptFor)
	})
}
