package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"routekeeper.dev/routekeeper/internal/plan"
)

// Request is what a person asks a running keeper for.
type Request struct {
	Cluster string      // the name of one; "" for all
	Verbs   []plan.Verb // the changes that may be made; none: it checks and plans, and changes nothing
	By      string      // who asks; Cause.Caller of the check, whose Cause.By is ByPerson
}

// request is a Request that waits for its answer: the checks of all clusters that it is about, as one.
type request struct {
	Request
	ctx    context.Context // of who asks: a request whose caller has gone is dropped
	answer chan answer     // takes one

	mu    sync.Mutex
	left  map[string]bool // clusters that are to be checked, by ID.Key()
	so    answer          // what came of the others
	ended bool
}

type answer struct {
	round Round
	err   error
}

// errOver is for those who ask a keeper that does not run any more.
var errOver = errors.New("the keeper has stopped")

// Ask has a running keeper check clusters at once and make the changes of the given verbs, even where it
// is on a dry run or paused: a person asked for it. It returns the check. The other changes of that
// check are told as Planned. It waits until ctx ends; a check that has begun then goes on.
func (k *Keeper) Ask(ctx context.Context, r Request) (Round, error) {
	q := &request{Request: r, ctx: ctx, answer: make(chan answer, 1), left: map[string]bool{}}
	if err := k.queue(q); err != nil {
		return Round{}, err
	}
	select {
	case a := <-q.answer:
		return a.round, a.err
	case <-ctx.Done():
		return Round{}, fmt.Errorf("the keeper has not answered: %w", ctx.Err())
	}
}

// queue gives a request to the workers of the clusters that it is about.
func (k *Keeper) queue(q *request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.configs {
		if q.Cluster == "" || q.Cluster == c.Metadata.Name {
			q.left[keyOf(c)] = true
		}
	}
	switch {
	case k.over:
		return errOver
	case len(q.left) == 0:
		return unknownCluster(q.Cluster)
	}
	k.requests = slices.DeleteFunc(append(k.requests, q), func(q *request) bool { return q.isOver() })
	k.trigger(q.left, trigger{requests: []*request{q}})
	return nil
}

func unknownCluster(name string) error {
	if name == "" {
		return errors.New("there is no cluster in the config")
	}
	return fmt.Errorf("there is no cluster named %q in the config", name)
}

func (q *request) isOver() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended || q.ctx.Err() != nil
}

// wants reports whether one of a group's clusters is to be checked still.
func (q *request) wants(group map[string]bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key := range q.left {
		if group[key] {
			return !q.ended && q.ctx.Err() == nil
		}
	}
	return false
}

// serve adds a check to the answer, and gives it once all clusters were checked.
func (q *request) serve(group map[string]bool, round Round, err error) {
	q.mu.Lock()
	if q.so.round.Serial == 0 {
		q.so.round = round
	} else {
		q.so.round = q.so.round.and(round)
	}
	q.so.err = errors.Join(q.so.err, err)
	for key := range group {
		delete(q.left, key)
	}
	all := len(q.left) == 0
	q.mu.Unlock()
	if all {
		q.end(nil)
	}
}

// keep drops clusters that are not configured any more.
func (q *request) keep(configured map[string]bool) {
	q.mu.Lock()
	for key := range q.left {
		if !configured[key] {
			delete(q.left, key)
		}
	}
	all, none := len(q.left) == 0, q.so.round.Serial == 0
	q.mu.Unlock()
	switch {
	case all && none:
		q.end(unknownCluster(q.Cluster))
	case all:
		q.end(nil)
	}
}

// end answers.
func (q *request) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended = true
		q.so.err = errors.Join(q.so.err, err)
		q.answer <- q.so
	}
}
