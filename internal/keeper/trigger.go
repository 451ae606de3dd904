package keeper

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Events. How it works: an event does nothing but trigger a check. serve extracts resource IDs from
// the posted event, and the keeper knows which clusters use which resources (group.go). The check
// covers the whole group, so the plan for each target includes all its clusters. The keeper
// combines events of a group: the first triggers a check at once, the others a common one a second
// later. They also end a poll that is still reading then, because a poll's calls queue behind all
// others. An ID that no cluster is known to use yet is kept for two minutes. An event about a role,
// lock or policy concerns everything in its scope, and ends the back-off of writes that these
// refused.
//
// An event about the keeper's own write triggers nothing. Azure's answer to a write has the
// correlation ID that its events have, and the keeper reads every write back anyway. The identity
// alone is not enough, because other programs may use it.

// trigger is what a worker must do before its next tick.
type trigger struct {
	// at is when the first event arrived, or zero. callers lists who changed something, each once.
	at      time.Time
	callers []string
	first   *Event // nil if no event arrived
	// again is set when a write has ended for which changes had to wait.
	again    bool
	requests []*request
	posted   []posted
}

// posted is a function that the worker of a cluster must run.
type posted struct {
	cluster string // ID.Key()
	do      func(*worker)
}

// mostCallers is the greatest number of callers that are stored.
const mostCallers = 20

func (t *trigger) add(o trigger) {
	if t.at.IsZero() || !o.at.IsZero() && o.at.Before(t.at) {
		t.at, t.first = o.at, o.first
	}
	for _, caller := range o.callers {
		if len(t.callers) < mostCallers && !slices.Contains(t.callers, caller) {
			t.callers = append(t.callers, caller)
		}
	}
	t.again = t.again || o.again
	for _, q := range o.requests {
		if !slices.Contains(t.requests, q) {
			t.requests = append(t.requests, q)
		}
	}
	t.posted = append(t.posted, o.posted...)
}

// events returns the part of a trigger that events and ended writes caused.
func (t *trigger) events() trigger {
	return trigger{at: t.at, callers: t.callers, first: t.first, again: t.again}
}

func (t *trigger) triggers() bool { return !t.at.IsZero() || t.again }

// cause returns what triggered a check.
func (t *trigger) cause() Cause {
	if t.at.IsZero() {
		return Cause{By: ByPoll}
	}
	c := Cause{By: ByEvent, Event: t.first}
	switch n := len(t.callers); {
	case n == 0:
	case n == 1:
		c.Caller = t.callers[0]
	case n == mostCallers:
		c.Caller = fmt.Sprintf("%s and at least %d more", t.callers[0], n-1)
	default:
		c.Caller = fmt.Sprintf("%s and %d more", t.callers[0], n-1)
	}
	return c
}

// mostUnknown is how many resources are stored that events named and no cluster is known to use.
// unknownFor is for how long. A check of a new cluster ends sooner, and shows what the cluster
// uses.
const mostUnknown, unknownFor = 200, 2 * time.Minute

// Wake triggers a check of the clusters that use one of the resources. A cluster uses itself, its
// node subnets and their networks, its route table, targets, guarded subnets and their tables, and
// everything inside one of these or in the node resource group. The rest of the event is only
// displayed. Wake returns the number of clusters. Other resources cost nothing. It may be called at
// any time.
func (k *Keeper) Wake(e Event, resources ...arm.ID) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := trigger{at: time.Now(), first: &e}
	e.Received = t.at
	e.Resources = resources
	if e.Caller != "" {
		t.callers = []string{e.Caller}
	}
	woken := map[string]bool{}
	for _, id := range resources {
		concerned := k.usage.concerned(id)
		for _, cluster := range concerned {
			woken[cluster] = true
		}
		if len(concerned) > 0 {
			continue
		}
		if len(k.unknown) >= mostUnknown {
			k.unknown.forget()
		}
		if len(k.unknown) < mostUnknown {
			k.unknown[id] = t
		}
	}
	k.triggerLocked(woken, t)
	return len(woken)
}

// triggerLocked passes a trigger to the workers of the clusters.
func (k *Keeper) triggerLocked(clusters map[string]bool, t trigger) {
	told := map[*worker]bool{}
	for cluster := range clusters {
		if w := k.workers[cluster]; w != nil && !told[w] {
			told[w] = true
			w.pending.add(t)
			w.signal()
			w.breakOffLocked()
		}
	}
}

// wakeUnknownLocked triggers the clusters that turn out to use resources that earlier events named.
func (k *Keeper) wakeUnknownLocked() {
	if len(k.unknown) == 0 {
		return
	}
	k.unknown.forget()
	for id, t := range k.unknown {
		woken := map[string]bool{}
		for _, cluster := range k.usage.concerned(id) {
			woken[cluster] = true
		}
		if len(woken) > 0 {
			k.triggerLocked(woken, t)
			delete(k.unknown, id)
		}
	}
}

// events has the events about resources that no cluster was known to use.
type events map[arm.ID]trigger

// forget forgets old ones.
func (e events) forget() {
	maps.DeleteFunc(e, func(_ arm.ID, t trigger) bool {
		return time.Since(t.at) > unknownFor
	})
}
