package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"routekeeper.dev/routekeeper/internal/plan"
)

// Request is what a person asks of a running keeper.
type Request struct {
	Cluster string      // a cluster's name; "" for all
	Verbs   []plan.Verb // the changes to make; none: check and plan, change nothing
	// Only lists which of the changes with Verbs to make; nil means all. A person confirmed these
	// and no others.
	Only []plan.Change
	By   string // the person's name; becomes Cause.Caller of the check
}

// request is a Request in progress. It combines the checks of all its clusters into one answer.
type request struct {
	Request
	ctx    context.Context // the caller's: the request is dropped when the caller has gone
	answer chan answer     // has room for one

	mu       sync.Mutex
	left     map[string]bool // clusters still to check, by ID.Key()
	combined answer          // the answer so far
	ended    bool
}

type answer struct {
	result Result
	err    error
}

// errOver answers requests to a keeper that has stopped.
var errOver = errors.New("the keeper has stopped")

// Ask makes a running keeper check clusters at once, and make the changes with the given verbs. It
// does so even while paused, because a person asked for it. On a dry run it makes none. It returns
// the check, with the other changes as Planned. It waits until ctx ends; a check that has begun
// then continues.
func (k *Keeper) Ask(ctx context.Context, r Request) (Result, error) {
	q := &request{Request: r, ctx: ctx, answer: make(chan answer, 1), left: map[string]bool{}}
	if err := k.queue(q); err != nil {
		return Result{}, err
	}
	select {
	case a := <-q.answer:
		return a.result, a.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("the keeper has not answered: %w", ctx.Err())
	}
}

// queue passes a request to the workers of its clusters.
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
	k.requests = slices.DeleteFunc(append(k.requests, q), func(q *request) bool {
		return q.isOver()
	})
	k.triggerLocked(q.left, trigger{requests: []*request{q}})
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

// sameAs reports whether another request asks for the same kinds of changes, whatever those turn
// out to be. A request for certain changes is never combined with others.
func (q *request) sameAs(o *request) bool {
	return q == o || q.Only == nil && o.Only == nil && slices.Equal(q.Verbs, o.Verbs)
}

// wants reports whether a cluster of a group remains to be checked.
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

// serve adds a check to the answer, and sends the answer once all clusters were checked.
func (q *request) serve(group map[string]bool, result Result, err error) {
	q.mu.Lock()
	if q.combined.result.Serial == 0 {
		q.combined.result = result
	} else {
		q.combined.result = q.combined.result.combine(result)
	}
	q.combined.err = errors.Join(q.combined.err, err)
	for key := range group {
		delete(q.left, key)
	}
	all := len(q.left) == 0
	q.mu.Unlock()
	if all {
		q.end(nil)
	}
}

// keep drops clusters that are no longer configured.
func (q *request) keep(configured map[string]bool) {
	q.mu.Lock()
	for key := range q.left {
		if !configured[key] {
			delete(q.left, key)
		}
	}
	all, none := len(q.left) == 0, q.combined.result.Serial == 0
	q.mu.Unlock()
	switch {
	case all && none:
		q.end(unknownCluster(q.Cluster))
	case all:
		q.end(nil)
	}
}

// end sends the answer.
func (q *request) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended = true
		q.combined.err = errors.Join(q.combined.err, err)
		q.answer <- q.combined
	}
}
