package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Request is what a person asks a running keeper for.
type Request struct {
	Cluster string      // the name of one; "" for all
	Verbs   []plan.Verb // the changes that may be made; none: it looks and plans, and changes nothing
	By      string      // who asks; Cause.Caller of the round, whose Cause.By is ByPerson
}

// question is a request that waits for its answer.
type question struct {
	Request
	ctx    context.Context // of who asks: a question that nobody waits for any more is dropped
	answer chan answer     // takes one

	left  map[string]bool // clusters that are to be looked at, by ID.Key()
	so    answer          // what came of the others
	ended bool
}

type answer struct {
	round Round
	err   error
}

// errOver is for those who ask a keeper that does not run any more.
var errOver = errors.New("the keeper has stopped")

// Ask has a running keeper look at clusters at once and make the changes of the given verbs, even where it is on a dry run or paused:
// somebody asked for it by name. What it returns is the round. The other changes of that round are told as Planned. It waits for its turn
// until ctx ends; a round that has begun then goes on.
func (k *Keeper) Ask(ctx context.Context, r Request) (Round, error) {
	q := &question{Request: r, ctx: ctx, answer: make(chan answer, 1)}
	if err := k.bell.ask(q); err != nil {
		return Round{}, err
	}
	select {
	case a := <-q.answer:
		return a.round, a.err
	case <-ctx.Done():
		return Round{}, fmt.Errorf("the keeper has not answered: %w", ctx.Err())
	}
}

// ask queues a question.
func (b *bell) ask(q *question) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return errOver
	case q.Cluster != "" && !slices.Contains(b.names, q.Cluster):
		return unknown(q.Cluster)
	}
	b.asked = append(b.asked, q)
	b.signal()
	return nil
}

func unknown(cluster string) error { return fmt.Errorf("no cluster of the name %q is kept", cluster) }

// questions returns those that were asked since.
func (b *bell) questions() []*question {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asked
	b.asked = nil
	return asked
}

// close has no more questions asked, and answers those that wait.
func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for _, q := range b.asked {
		q.end(errOver)
	}
	b.asked = nil
}

// answering returns a turn of clusters that somebody has asked for, as soon as they are in no other.
func (a *agenda) answering(now time.Time) (t *turn, at time.Time) {
	at = now.Add(time.Hour)
	for _, q := range a.bell.questions() {
		q.left = map[string]bool{}
		for _, c := range a.configs {
			if q.Cluster == "" || q.Cluster == c.Metadata.Name {
				q.left[keyOf(c)] = true
			}
		}
		a.asked = append(a.asked, q)
	}
	for _, q := range a.asked {
		maps.DeleteFunc(q.left, func(key string, _ bool) bool { return a.memory[key] == nil }) // it was there when it was asked for
		switch {
		case len(q.left) > 0:
		case q.so.round.Serial == 0:
			q.end(unknown(q.Cluster))
		default: // the others were looked at
			q.end(nil)
		}
	}
	a.asked = slices.DeleteFunc(a.asked, func(q *question) bool { return q.ended || q.ctx.Err() != nil })
	for _, q := range a.asked {
		for key := range q.left {
			at = earlier(at, a.takeOut(key, now))
		}
		if part := a.free(a.of(func(key string) bool { return q.left[key] })); len(part) > 0 {
			t = a.turn(part, Cause{By: ByPerson, Caller: q.By})
			t.wish = q
			return t, at
		}
	}
	return nil, at
}

// serve adds a round to the answer, and gives it once all is looked at that was asked for.
func (q *question) serve(part []v1alpha1.ClusterRoutes, round Round, err error) {
	if q.so.round.Serial == 0 {
		q.so.round = round
	} else {
		q.so.round = q.so.round.and(round)
	}
	q.so.err = errors.Join(q.so.err, err)
	for _, c := range part {
		delete(q.left, keyOf(c))
	}
	if len(q.left) == 0 {
		q.end(nil)
	}
}

// end answers.
func (q *question) end(err error) {
	if !q.ended {
		q.ended = true
		q.so.err = errors.Join(q.so.err, err)
		q.answer <- q.so
	}
}
