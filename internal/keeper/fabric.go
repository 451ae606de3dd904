package keeper

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Fabric is what a keeper asks Azure's network, the fabric, beyond ARM. An Azure client does not
// have to implement it.
type Fabric interface {
	Interface(context.Context, arm.ID) (*inventory.Interface, error)
	NextHop(
		ctx context.Context, nic *inventory.Interface, region string, to netip.Addr,
	) (azure.Hop, error)
}

// Noter is a Recorder that stores notes on changes that are done.
type Noter interface {
	Note([]plan.Change, string)
}

// fabric asks, once ARM shows a write, whether Azure's network follows it.
//
// How it works. A running keeper asks after it has repaired an association of a node subnet, or
// written routes to a table: from one machine in the subnet, where does one route to another
// machine lead? It asks in the background, once per write, and repeats the question for a minute
// while the answer differs. It logs the answer and notes it on the change in the history: the
// fabric follows, or "ARM only" with the reason. If the answer still differs after a minute and ARM
// still shows what was written, that is a finding. The keeper repeats the question every few
// minutes, and drops the finding with the first answer that agrees.
type fabric struct {
	limit *rate.Limiter

	mu      sync.Mutex
	asking  map[string]bool       // resources, by ID.Key()
	refused map[string]refusedAsk // by subscription
	differs map[string]differing  // by the resource's ID.Key()
}

// refusedAsk is a query that Azure refuses because a right is missing.
type refusedAsk struct {
	why   string
	until time.Time
}

// differing is a finding of a cluster, whose name can change at a reload.
type differing struct {
	cluster string // ID.Key()
	finding finding.Finding
}

const (
	// askAfter is the time between a write and the query.
	askAfter = 5 * time.Second
	// fabricFor is how long an answer may differ.
	fabricFor = time.Minute
	// askAgainAfter is the time between two queries during fabricFor, recheckAfter the time between
	// queries after it.
	askAgainAfter, recheckAfter = 15 * time.Second, 5 * time.Minute
	// refusedFor is how long the keeper asks nothing in a subscription that refuses.
	refusedFor = time.Hour
	// questionEvery and questionBurst limit the queries of all clusters.
	questionEvery, questionBurst = 5 * time.Second, 12
	// mostMachines is how many interfaces of a subnet are tried to find one of a machine.
	mostMachines = 3
)

func newFabric() *fabric {
	return &fabric{
		limit:  rate.NewLimiter(rate.Every(questionEvery), questionBurst),
		asking: map[string]bool{}, refused: map[string]refusedAsk{},
		differs: map[string]differing{},
	}
}

// askFabric asks whether the fabric follows a write, in the background.
func (w *worker) askFabric(x *write) {
	k := w.k
	asked, can := k.azure.(Fabric)
	q := x.question()
	if q != nil && x.check.patient { // the caller of Reconcile asks: see Followed
		x.check.questions = append(x.check.questions, q)
		return
	}
	if !can || q == nil || !k.fabric.begin(x.ID) {
		return
	}
	k.running.Go(func() {
		defer k.fabric.end(x.ID)
		ctx := x.check.life
		select { // the fabric lags a little, and checks go first
		case <-ctx.Done():
			return
		case <-time.After(askAfter):
		}
		answer, differs := k.follows(ctx, asked, q, fabricFor)
		k.tellFabric(x.ID, q, answer, differs)
		for differs && answer != "" {
			select {
			case <-ctx.Done():
				return
			case <-time.After(recheckAfter):
			}
			answer, differs = k.follows(ctx, asked, q, fabricFor)
			k.standFabric(x.ID, q, answer, differs)
		}
	})
}

// begin claims a resource, so that only one query at a time is about it.
func (f *fabric) begin(resource arm.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking[resource.Key()] {
		return false
	}
	f.asking[resource.Key()] = true
	return true
}

func (f *fabric) end(resource arm.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.asking, resource.Key())
	delete(f.differs, resource.Key())
}

// armOnly is the answer if nothing is known beyond ARM.
func armOnly(format string, args ...any) string {
	return "ARM only: " + fmt.Sprintf(format, args...)
}

// follows asks until the fabric follows or the time is up. The answer is "" if there is nothing to
// ask about.
func (k *Keeper) follows(
	life context.Context, asked Fabric, q *question, long time.Duration,
) (answer string, differs bool) {
	ctx, cancel := context.WithTimeout(life, long)
	defer cancel()
	if why := k.fabric.refusal(q.table.Subscription()); why != "" {
		return armOnly("%s", why), false
	}
	if err := k.fabric.limit.Wait(ctx); err != nil {
		return armOnly("too many writes at once to ask about each"), false
	}
	if err := k.readFabric(ctx, q); err != nil {
		return k.fabricFailed(ctx, q, err, long), false
	}
	nic, route, err := q.choose(ctx, asked)
	switch {
	case err != nil:
		return k.fabricFailed(ctx, q, err, long), false
	case nic == nil:
		return "", false
	}
	hop, err := asked.NextHop(ctx, nic, q.region, route.Prefix.Addr().Next())
	said := hop
	for err == nil && hop.Address != route.Hop && ctx.Err() == nil {
		said = hop
		select {
		case <-time.After(askAgainAfter):
			hop, err = asked.NextHop(ctx, nic, q.region, route.Prefix.Addr().Next())
		case <-ctx.Done():
		}
	}
	what := "effective route of " + nic.Holder()
	if node := nic.Node(); node != "" {
		what = "next hop of " + node
	}
	switch {
	case life.Err() != nil:
		return "", false
	case err == nil && hop.Address == route.Hop:
		return fmt.Sprintf("the fabric follows (%s: %s -> %s)", what, route.Prefix,
			route.Hop), false
	case err != nil && (ctx.Err() == nil || said == (azure.Hop{})):
		return k.fabricFailed(ctx, q, err, long), false
	case !k.standsAsWritten(life, q, route):
		return armOnly("it has changed again since"), false
	}
	return fmt.Sprintf("the %s differs: %s leads to %s, and by %s to %s",
		what, route.Prefix, said, q.table.Short(), route.Hop), true
}

// fabricFailed is the answer if the query failed.
func (k *Keeper) fabricFailed(
	ctx context.Context, q *question, err error, long time.Duration,
) string {
	if ctx.Err() != nil {
		return armOnly("no answer within %s", long)
	}
	var fault *azure.Error
	if !errors.As(err, &fault) {
		return armOnly("%v", err)
	}
	if fault.Refused() {
		k.fabric.mu.Lock()
		defer k.fabric.mu.Unlock()
		until := time.Now().Add(refusedFor)
		k.fabric.refused[q.table.Subscription()] = refusedAsk{fault.Reason(), until}
	}
	return armOnly("%s", fault.Reason())
}

// refusal is why the keeper asks nothing in a subscription, or "".
func (f *fabric) refusal(subscription string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if refused := f.refused[subscription]; time.Now().Before(refused.until) {
		return refused.why
	}
	return ""
}

// tellFabric logs and records an answer.
func (k *Keeper) tellFabric(resource arm.ID, q *question, answer string, differs bool) {
	if answer == "" || k.ctxEnded() {
		return
	}
	k.standFabric(resource, q, answer, differs)
	k.log.Info("asked the fabric", "resource", string(resource), "answer", answer)
	if recorder, can := k.opts.Recorder.(Noter); can {
		recorder.Note(q.changes, answer)
	}
}

// standFabric sets or removes the finding of a resource.
func (k *Keeper) standFabric(resource arm.ID, q *question, answer string, differs bool) {
	k.fabric.mu.Lock()
	defer k.fabric.mu.Unlock()
	if !differs {
		delete(k.fabric.differs, resource.Key())
		return
	}
	k.fabric.differs[resource.Key()] = differing{q.cluster,
		finding.New(finding.FabricDiffers, "", string(resource),
			"%s was written, and a minute later %s", resource.Short(), answer).
			WithAdvice("az network nic show-effective-route-table shows the routes of an " +
				"interface")}
}

// findings returns the findings of a worker's clusters.
func (f *fabric) findings(w *worker) (found []finding.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.differs {
		if w.group[d.cluster] {
			d.finding.Cluster = w.nameOf(d.cluster)
			found = append(found, d.finding)
		}
	}
	return found
}

// ctxEnded reports whether the keeper has to stop.
func (k *Keeper) ctxEnded() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ctx == nil || k.ctx.Err() != nil
}
