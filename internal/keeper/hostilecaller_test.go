package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/plan"
)

// hostile is a caller with every right, and bad intentions. It sends floods of events, true and
// forged ones, and requests checks and forged changes by the dozen. It has a random stream of its
// own, so that a seed means the same day with and without it.
type hostile struct {
	by   *rand.Rand
	rare int // one call of storm in so many begins a flood
	acts sync.WaitGroup

	events, requests atomic.Int64
}

// storm sometimes begins a flood of half a minute at most. ids concern the keeper's clusters.
func (h *hostile) storm(k *Keeper, ids func() []arm.ID) {
	if h.by.IntN(h.rare) > 0 || k == nil {
		return
	}
	by := rand.New(rand.NewPCG(h.by.Uint64(), 0))
	flood := []func(*Keeper, *rand.Rand, []arm.ID){h.wake, h.wake, h.ask, h.forge}[by.IntN(4)]
	targets := ids()
	h.acts.Go(func() { flood(k, by, targets) })
}

// interesting are IDs that concern the clusters.
func (d *everything) interesting() (ids []arm.ID) {
	for _, m := range d.members {
		ids = append(ids, m.cluster, m.vnet, m.table, m.gateway, m.cluster.Group())
		ids = append(append(ids, m.nodes...), m.targets...)
		ids = append(ids, m.targets[0].Child("routes", "theirs-first"), d.nodeGroup(m),
			d.nodeGroup(m)+"/providers/Microsoft.Network/networkInterfaces/any",
			m.cluster.Group()+"/providers/Microsoft.Authorization/locks/any")
	}
	return ids
}

// wake sends a hundred events a second: about what is kept, in any order and however old, and about
// resources that no cluster uses.
func (h *hostile) wake(k *Keeper, by *rand.Rand, ids []arm.ID) {
	n := 200 + by.IntN(2800)
	h.events.Add(int64(n))
	for i := range n {
		id := ids[by.IntN(len(ids))]
		switch by.IntN(4) {
		case 0:
			id = arm.ResourceID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), "theirs",
				arm.TypeRouteTable, fmt.Sprint("rt", i))
		case 1:
			id = id.Child("theirs", fmt.Sprint(i))
		}
		k.Wake(Event{Caller: fmt.Sprintf("caller-%d\x1b[31m%s", i,
			strings.Repeat("x", by.IntN(200)))}, id)
		time.Sleep(10 * time.Millisecond)
	}
}

// ask requests a hundred checks at once, again and again, and does not always wait for the answer.
func (h *hostile) ask(k *Keeper, by *rand.Rand, _ []arm.ID) {
	h.requests.Add(300)
	for range 3 {
		var asked sync.WaitGroup
		for i := range 100 {
			patience := time.Duration(by.IntN(20_000)) * time.Millisecond
			name := []string{"", "", "c0", "c1", "missing"}[by.IntN(5)]
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_, _ = k.Ask(ctx, Request{Cluster: name, By: fmt.Sprint("caller-", i)})
			})
		}
		asked.Wait()
	}
}

// forged is the reason of changes that no check planned.
const forged = "forged"

// forge confirms changes that no preview ever showed. None of them may be made.
func (h *hostile) forge(k *Keeper, by *rand.Rand, ids []arm.ID) {
	h.requests.Add(20)
	for i := range 20 {
		c := plan.Change{Cluster: "c0", Resource: ids[by.IntN(len(ids))], Why: forged}
		switch by.IntN(3) {
		case 0:
			c.Verb, c.New = plan.Associate, &plan.Value{RouteTable: ids[by.IntN(len(ids))]}
		case 1:
			c.Verb, c.Route = plan.Delete, "theirs-first"
		default:
			c.Verb, c.Route, c.New = plan.Create, fmt.Sprint("forged-", i), &plan.Value{}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, _ = k.Ask(ctx, Request{By: "forger", Only: []plan.Change{c},
			Verbs: []plan.Verb{plan.Associate, plan.Create, plan.Update, plan.Delete}})
		cancel()
		time.Sleep(time.Second)
	}
}
