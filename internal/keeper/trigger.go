package keeper

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// trigger is what a worker has to do before its next tick.
type trigger struct {
	// at is when the first event came, zero where none did. Callers are who changed something, each once.
	at      time.Time
	callers []string
	// again is set where a write has ended that changes had to wait for.
	again    bool
	requests []*request
	posted   []posted
}

// posted is something to be done by the worker that has a cluster.
type posted struct {
	cluster string // ID.Key()
	do      func(*worker)
}

// mostCallers is how many callers are told apart.
const mostCallers = 20

func (t *trigger) add(o trigger) {
	if t.at.IsZero() || !o.at.IsZero() && o.at.Before(t.at) {
		t.at = o.at
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

// events is the part of a trigger that events made.
func (t *trigger) events() trigger {
	return trigger{at: t.at, callers: t.callers, again: t.again}
}

func (t *trigger) triggers() bool { return !t.at.IsZero() || t.again }

// cause says what makes a check.
func (t *trigger) cause() Cause {
	switch n := len(t.callers); {
	case t.at.IsZero():
		return Cause{By: ByPoll}
	case n == 0:
		return Cause{By: ByEvent}
	case n == 1:
		return Cause{By: ByEvent, Caller: t.callers[0]}
	case n == mostCallers:
		return Cause{By: ByEvent, Caller: fmt.Sprintf("%s and at least %d more", t.callers[0], n-1)}
	default:
		return Cause{By: ByEvent, Caller: fmt.Sprintf("%s and %d more", t.callers[0], n-1)}
	}
}

// mostUnknown resources are kept at most that events named and that concern nobody, as far as is known,
// and for unknownFor: what a cluster uses is known once it was checked, and a check is over by then.
const mostUnknown, unknownFor = 200, 2 * time.Minute

// Wake has the clusters checked soon that use one of the resources: the cluster itself, its node subnets
// and their networks, its own table, targets, guarded subnets and their tables, and whatever stands in
// one of these or in the node resource group. Caller is who has changed them, "" where that is not
// known; it is shown, and nothing else is done with it. It returns how many clusters that are. What
// concerns none of them costs nothing. It may be called at any time.
func (k *Keeper) Wake(caller string, resources ...arm.ID) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := trigger{at: time.Now()}
	if caller != "" {
		t.callers = []string{caller}
	}
	woken := map[string]bool{}
	for _, id := range resources {
		concerned := k.concerned(id)
		for _, cluster := range concerned {
			woken[cluster] = true
		}
		if len(concerned) > 0 {
			continue
		}
		if len(k.unknown) >= mostUnknown {
			k.forgetUnknown()
		}
		if len(k.unknown) < mostUnknown {
			k.unknown[id] = t
		}
	}
	k.trigger(woken, t)
	return len(woken)
}

// trigger gives a trigger to the workers of clusters.
func (k *Keeper) trigger(clusters map[string]bool, t trigger) {
	told := map[*worker]bool{}
	for cluster := range clusters {
		if w := k.workers[cluster]; w != nil && !told[w] {
			told[w] = true
			w.pending.add(t)
			w.signal()
			w.breakOff()
		}
	}
}

// concerned returns the clusters that a resource concerns.
func (k *Keeper) concerned(id arm.ID) []string {
	found := slices.Concat(k.around[id.Key()], k.around[id.Group().Key()])
	if scope, _, about := strings.Cut(id.Key(), "/providers/microsoft.authorization/"); about {
		return k.within(scope)
	}
	for ; id != "" && !id.Is(arm.TypeResourceGroup); id = id.Parent() {
		found = append(found, k.users[id.Key()]...)
	}
	return found
}

// within returns the clusters that use something in a scope: a role, a lock or a policy of that scope
// counts for all of it.
func (k *Keeper) within(scope string) []string {
	var found []string
	for resource, clusters := range k.users {
		if resource == scope || strings.HasPrefix(resource, scope+"/") {
			found = append(found, clusters...)
		}
	}
	return found
}

// wakeUnknown triggers the clusters that turn out to use what events have named.
func (k *Keeper) wakeUnknown() {
	if len(k.unknown) == 0 {
		return
	}
	k.forgetUnknown()
	for id, t := range k.unknown {
		woken := map[string]bool{}
		for _, cluster := range k.concerned(id) {
			woken[cluster] = true
		}
		if len(woken) > 0 {
			k.trigger(woken, t)
			delete(k.unknown, id)
		}
	}
}

func (k *Keeper) forgetUnknown() {
	maps.DeleteFunc(k.unknown, func(_ arm.ID, t trigger) bool { return time.Since(t.at) > unknownFor })
}
