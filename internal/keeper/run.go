package keeper

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
)

const (
	// breath is the time between two rounds of a cluster that events lead to.
	breath = time.Second
	// patience is how long looking at clusters may take that have kept the others waiting before, restMost how long they are left
	// alone at most.
	patience = 10 * time.Second
	restMost = time.Minute
)

// Run makes rounds until the context ends, and hands each to tell: one of all clusters after every interval, and between them those
// of the clusters that Wake names, at once, and within a second at most two. A cluster of which Azure gives no answer in time is
// looked at by itself, after ever longer waits, while there are others that it would delay.
//
// The error is nil when the context ended it. A first round that fails ends it too: what is wrong then is the set-up. Later ones
// are logged and tried again.
func (k *Keeper) Run(ctx context.Context, interval time.Duration, tell func(Round)) error {
	a := agenda{k: k, interval: interval, woken: map[string]time.Time{}}
	defer k.bell.close()
	for worked := false; ; {
		if configs := k.bell.reloaded(); configs != nil {
			k.configure(configs)
			a.poll = time.Time{}
		}
		if q := k.bell.question(); q != nil {
			round, err := a.answer(ctx, q)
			worked = worked || err == nil
			if err == nil || len(round.Changes) > 0 {
				tell(round)
			}
			q.answer <- answer{round, err}
			continue
		}
		turn, wait := a.next(time.Now())
		if len(turn.clusters) > 0 && ctx.Err() == nil {
			round, err := a.take(ctx, turn)
			switch {
			case err == nil:
				worked = true
				tell(round)
			case len(round.Changes) > 0: // interrupted on its way
				tell(round)
			case ctx.Err() == nil && !worked:
				return err
			case ctx.Err() == nil:
				k.log.Error("the round failed, the next will try again", "clusters", len(turn.clusters), "error", err.Error())
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.bell.rang:
		case <-time.After(wait):
		}
	}
}

// agenda decides which clusters are looked at next.
type agenda struct {
	k        *Keeper
	interval time.Duration
	poll     time.Time            // when all are looked at
	woken    map[string]time.Time // clusters, and when an event last led to a round of them
}

// turn is a round to be made.
type turn struct {
	clusters []v1alpha1.ClusterRoutes
	poll     bool
	patience time.Duration
	asked    *Request // what a person wants; nil where nobody asked
}

// next returns whose turn it is, or for how long it is nobody's.
func (a *agenda) next(now time.Time) (turn, time.Duration) {
	ill := a.ill()
	if !now.Before(a.poll) {
		return turn{clusters: a.k.of(func(key string) bool { return !ill[key] }), poll: true}, 0
	}
	at := a.poll
	ready := map[string]bool{}
	due := func(key string, when time.Time) {
		if when.After(now) {
			at = earlier(at, when)
		} else {
			ready[key] = true
		}
	}
	for key := range a.k.bell.named() {
		due(key, a.woken[key].Add(breath))
	}
	if well := a.k.together(a.k.of(func(key string) bool { return ready[key] && !ill[key] })); len(well) > 0 {
		return turn{clusters: well}, 0
	}
	for key := range ill {
		due(key, a.k.memory[key].rest)
	}
	if clusters := a.k.together(a.k.of(func(key string) bool { return ready[key] })); len(clusters) > 0 {
		return turn{clusters: clusters, patience: patience}, 0
	}
	return turn{}, at.Sub(now)
}

// ill returns the clusters that are left out when all are looked at: those that keep others waiting, and what shares something with
// them. Where that is everybody, nobody is.
func (a *agenda) ill() map[string]bool {
	ill := map[string]bool{}
	for _, c := range a.k.together(a.k.of(func(key string) bool { return a.k.memory[key].troubled > 0 })) {
		ill[network.ID(c.Spec.ClusterID).Key()] = true
	}
	if len(ill) == len(a.k.configs) {
		return nil
	}
	return ill
}

// take makes a round.
func (a *agenda) take(ctx context.Context, t turn) (Round, error) {
	asked := a.k.bell.answer(t.clusters)
	a.k.woke, a.k.asked = Cause{By: ByPoll}, t.asked
	switch {
	case t.asked != nil:
		a.k.woke = Cause{By: ByPerson, Caller: t.asked.By}
	case !asked.IsZero():
		a.k.woke = Cause{By: ByEvent}
	}
	for _, c := range t.clusters {
		if !t.poll {
			a.woken[network.ID(c.Spec.ClusterID).Key()] = time.Now()
		}
	}
	round, err := a.k.round(ctx, t.clusters, t.patience)
	round.Asked = asked
	if ctx.Err() == nil {
		a.k.judge(round, err, a.interval)
	}
	if t.poll {
		a.poll = time.Now().Add(a.interval)
	}
	return round, err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// judge notes which clusters of a round kept it waiting: calls for them were answered with trouble that calls are tried again for.
func (k *Keeper) judge(round Round, err error, interval time.Duration) {
	for _, c := range k.part {
		m := k.memory[network.ID(c.Spec.ClusterID).Key()]
		waited := err != nil || m.slow || slices.ContainsFunc(round.Findings, func(f finding.Finding) bool {
			return f.Code == finding.WriteFailed && f.Cluster == c.Metadata.Name
		})
		if !waited {
			m.troubled, m.rest = 0, time.Time{}
			continue
		}
		wait := min(interval<<min(m.troubled, 8), max(restMost, interval))
		m.troubled++
		m.rest = time.Now().Add(wait - wait/5 + rand.N(wait*2/5+1))
	}
}

// slowed reports whether one of the resources that a cluster rests on could not be read, after calls that were tried again.
func slowed(s *network.Snapshot, cluster network.ID, rests []string) bool {
	return slices.ContainsFunc(append(slices.Clone(rests), cluster.Key()), func(key string) bool {
		status := s.Unread[key].Status
		return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
	})
}

// name says which clusters a round looks at.
func (k *Keeper) name(round *Round) {
	round.Configs, round.Kept = k.configs, names(k.configs)
	if len(k.part) < len(k.configs) {
		round.Of = names(k.part)
	}
}

// note completes what a round tells by what stands of the clusters that it did not look at.
func (k *Keeper) note(round *Round) {
	looked, rests := map[string]bool{}, map[string]bool{"": true}
	for _, c := range k.part {
		looked[c.Metadata.Name] = true
		for _, key := range k.memory[network.ID(c.Spec.ClusterID).Key()].rests {
			rests[key] = true
		}
	}
	for _, f := range k.standing {
		if !looked[f.Cluster] && (f.Cluster != "" || !rests[network.ID(f.Resource).Key()]) {
			round.Findings = append(round.Findings, f)
		}
	}
	round.Findings = finding.Sort(round.Findings)
	k.standing = slices.Clone(round.Findings)
}
