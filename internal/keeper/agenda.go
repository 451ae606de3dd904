package keeper

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/network"
)

// agenda decides which clusters are looked at next. A cluster is in one round at a time, and with it all that share something with it.
// What it holds is guarded by the keeper's lock.
type agenda struct {
	*Keeper
	interval time.Duration
	tell     func(Round)

	poll    time.Time            // when all are looked at
	polling *turn                // looks at them; nil while nobody does
	woken   map[string]time.Time // clusters, and when an event last led to a round of them
	busy    map[string]bool      // clusters that are in a round
	missed  map[string]bool      // clusters to be looked at as soon as they are in none
	asked   []*question          // that are not answered yet

	fresh  []v1alpha1.ClusterRoutes     // to be taken; nil where there are no new ones
	looks  map[*turn]context.CancelFunc // end the looks of rounds that have not decided yet
	turns  sync.WaitGroup
	worked bool  // a round has
	failed error // the first one
}

// next returns whose turn it is, or for how long it is nobody's.
func (a *agenda) next(now time.Time) (*turn, time.Duration) {
	t, at := a.answering(now)
	if t != nil {
		return t, 0
	}
	ill := a.ill()
	switch {
	case a.polling != nil:
	case now.Before(a.poll):
		at = earlier(at, a.poll)
	default:
		well := a.of(func(key string) bool { return !ill[key] })
		part := a.free(well)
		for _, c := range without(well, part) {
			a.missed[keyOf(c)] = true
		}
		if len(part) > 0 {
			t := a.turn(part, Cause{By: ByPoll})
			a.polling = t
			return t, 0
		}
		a.poll = now.Add(a.interval)
		at = earlier(at, a.poll)
	}
	ready := map[string]bool{}
	due := func(key string, when time.Time) {
		switch {
		case a.busy[key]: // when that is over, it is looked for again
		case when.After(now):
			at = earlier(at, when)
		default:
			ready[key] = true
		}
	}
	for key := range a.bell.named() {
		at = earlier(at, a.takeOut(key, now))
		due(key, a.woken[key].Add(breath))
	}
	for key := range a.missed {
		due(key, time.Time{})
	}
	for key, m := range a.memory {
		if !m.again.IsZero() {
			due(key, m.again)
		}
	}
	if part := a.free(a.of(func(key string) bool { return ready[key] && !ill[key] })); len(part) > 0 {
		return a.turn(part, Cause{By: ByPoll}), 0
	}
	for key, m := range a.memory {
		if m.troubled > 0 {
			due(key, m.rest)
		}
	}
	for _, c := range a.of(func(key string) bool { return ready[key] }) { // with those that may wait for the same
		subscription := network.ID(keyOf(c)).Subscription()
		if part := a.free(a.of(func(key string) bool { return ready[key] && network.ID(key).Subscription() == subscription })); len(part) > 0 {
			t := a.turn(part, Cause{By: ByPoll})
			if t.patience > 0 {
				t.patience = apart
			}
			return t, 0
		}
	}
	return nil, at.Sub(now)
}

// takeOut takes a cluster that somebody waits for out of a round that nobody waits for and that is still looking: its calls go last. It
// returns when it will, where it is not time yet: most looks are over sooner.
func (a *agenda) takeOut(cluster string, now time.Time) time.Time {
	never := now.Add(time.Hour)
	if !a.busy[cluster] {
		return never
	}
	for t := range a.looks {
		if t.yield && slices.ContainsFunc(t.part, func(c v1alpha1.ClusterRoutes) bool { return keyOf(c) == cluster }) {
			if at := t.began.Add(breath); at.After(now) {
				return at
			}
			a.leave(t, a.together(a.of(func(key string) bool { return key == cluster })), false)
		}
	}
	return never
}

// turn makes one of the agenda's.
func (a *agenda) turn(part []v1alpha1.ClusterRoutes, cause Cause) *turn {
	t := a.newTurn(part, cause)
	t.agenda = a
	if len(a.configs) > 1 {
		t.patience = shared
	}
	return t
}

// free returns clusters and all that share something with them, but for those of which one is in a round.
func (a *agenda) free(clusters []v1alpha1.ClusterRoutes) []v1alpha1.ClusterRoutes {
	all := a.together(clusters)
	if len(a.busy) == 0 {
		return all
	}
	busy := a.related(a.busy)
	return slices.DeleteFunc(slices.Clone(all), func(c v1alpha1.ClusterRoutes) bool { return busy[keyOf(c)] })
}

// ill returns the clusters that are left out when all are looked at: those that keep others waiting, and what shares something with
// them. Where that is everybody, nobody is.
func (a *agenda) ill() map[string]bool {
	ill := map[string]bool{}
	for _, c := range a.together(a.of(func(key string) bool { return a.memory[key].troubled > 0 })) {
		ill[keyOf(c)] = true
	}
	if len(ill) == len(a.configs) {
		return nil
	}
	return ill
}

// begin has a turn begun.
func (a *agenda) begin(ctx context.Context, t *turn) {
	if t.wish == nil { // a person's round makes what was asked for only: it is no answer to anything else
		if t.asked = a.bell.answer(t.part); len(t.asked) > 0 {
			t.cause = Cause{By: ByEvent, Caller: callers(t.asked)}
		}
	}
	t.yield = t.cause.By == ByPoll
	for _, c := range t.part {
		key := keyOf(c)
		a.busy[key] = true
		if t.wish == nil {
			delete(a.missed, key)
			a.memory[key].again = time.Time{}
			if a.polling != t {
				a.woken[key] = time.Now()
			}
		}
	}
	look, cancel := context.WithCancel(ctx)
	a.looks[t] = cancel
	a.turns.Go(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		defer cancel()
		a.look(ctx, look, t)
	})
}

// look has a turn look, and what it decides carried out, by each group of clusters for itself.
func (a *agenda) look(ctx, look context.Context, t *turn) {
	defer a.bell.signal()
	d, err := t.decide(look)
	delete(a.looks, t)
	switch {
	case err != nil && look.Err() != nil && ctx.Err() == nil: // there are new configs
		a.leave(t, t.part, false)
		a.polled(t)
		return
	case len(t.part) == 0:
		a.polled(t)
		return
	case err != nil:
		round := t.round()
		t.end(&round)
		a.polled(t)
		a.over(ctx, t, round, err)
		return
	}
	parts := t.split(d)
	whole := len(t.part) == len(a.configs)
	if !whole {
		a.polled(t)
	}
	for o, d := range parts {
		if o != t {
			a.turns.Go(func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.act(ctx, o, d)
			})
		}
	}
	a.act(ctx, t, parts[t])
	if whole {
		a.polled(t)
	}
}

// polled notes that all were looked at.
func (a *agenda) polled(t *turn) {
	if a.polling == t {
		a.polling, a.poll = nil, time.Now().Add(a.interval)
		a.settled()
	}
}

func (a *agenda) act(ctx context.Context, t *turn, d decision) {
	round, err := t.act(ctx, d, a.tell)
	a.over(ctx, t, round, err)
}

// over ends a round.
func (a *agenda) over(ctx context.Context, t *turn, round Round, err error) {
	defer a.bell.signal()
	if a.opts.Progress != nil {
		a.opts.Progress()
	}
	if ctx.Err() == nil {
		t.judge(round, err, a.interval)
	}
	for _, c := range t.part {
		delete(a.busy, keyOf(c))
	}
	a.forgetGone()
	switch {
	case err == nil:
		a.worked = true
	case ctx.Err() != nil || len(round.Changes) > 0:
	case !a.worked && t.wish == nil && len(t.part) == len(a.configs):
		a.failed = err
	default:
		a.log.Error("the round failed, the next will try again", "clusters", len(t.part), "error", err.Error())
	}
	if t.wish != nil {
		t.wish.serve(t.part, round, err)
	}
}

// leave takes clusters out of a turn that has not decided yet. They are looked at again as soon as they may be: those that were late, by
// themselves.
func (a *agenda) leave(t *turn, clusters []v1alpha1.ClusterRoutes, late bool) {
	clusters = without(clusters, without(clusters, t.part))
	t.part = without(t.part, clusters)
	for _, c := range clusters {
		key := keyOf(c)
		t.left[key] = true
		delete(a.busy, key)
		if r, named := t.asked[key]; named {
			a.bell.again(key, r)
			delete(t.asked, key)
		}
		if m := a.memory[key]; late && t.late[key] {
			m.troubled, m.rest = max(m.troubled, 1), time.Time{}
		} else {
			a.missed[key] = true
		}
	}
	a.bell.signal()
}

// claim takes clusters into a turn that share something with it, as was seen. Where some of them are in another round, their part of the
// turn waits for that.
func (a *agenda) claim(t *turn, related map[string]bool) {
	more := maps.Clone(related)
	for _, c := range t.part {
		delete(more, keyOf(c))
	}
	elsewhere := maps.Clone(more)
	maps.DeleteFunc(elsewhere, func(key string, _ bool) bool { return !a.busy[key] })
	taken := a.related(elsewhere)
	a.leave(t, a.of(func(key string) bool { return taken[key] }), false)
	for _, c := range a.of(func(key string) bool { return more[key] && !taken[key] }) {
		a.busy[keyOf(c)] = true
		if t.wish == nil {
			delete(a.missed, keyOf(c))
		}
		delete(t.left, keyOf(c))
		t.part = append(t.part, c)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
