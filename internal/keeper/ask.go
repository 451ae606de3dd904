package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	q := &question{r, ctx, make(chan answer, 1)}
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

// question returns the next that somebody still waits for, or nil.
func (b *bell) question() *question {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.asked) > 0 {
		q := b.asked[0]
		b.asked = b.asked[1:]
		if q.ctx.Err() == nil {
			return q
		}
	}
	return nil
}

// close has no more questions asked, and answers those that wait.
func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for _, q := range b.asked {
		q.answer <- answer{err: errOver}
	}
	b.asked = nil
}

// answer makes the round that is asked for.
func (a *agenda) answer(ctx context.Context, q *question) (Round, error) {
	clusters := a.k.configs
	if q.Cluster != "" {
		clusters = a.k.together(a.k.named(q.Cluster))
	}
	if len(clusters) == 0 { // it was there when it was asked for
		return Round{}, unknown(q.Cluster)
	}
	return a.take(ctx, turn{clusters: clusters, asked: &q.Request})
}

// planned are the changes of a plan that are not among the chosen ones.
func planned(all, chosen []plan.Change) []plan.Outcome {
	type key struct {
		resource, route string
		verb            plan.Verb
	}
	of := func(c plan.Change) key { return key{c.Resource.Key(), c.Route, c.Verb} }
	made := make(map[key]bool, len(chosen))
	for _, c := range chosen {
		made[of(c)] = true
	}
	var left []plan.Outcome
	for _, c := range all {
		if !made[of(c)] {
			left = append(left, plan.Outcome{Change: c, State: plan.Planned})
		}
	}
	return left
}
