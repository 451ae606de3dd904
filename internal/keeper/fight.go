package keeper

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// place is what one change is about: a subnet, or a route of a table.
type place struct{ resource, route string }

func placeOf(c plan.Change) place { return place{c.Resource.Key(), strings.ToLower(c.Route)} }

// fight is what is known of a change since it was made. It is one once somebody has undone it fightTimes within fightSpan: it is then made
// again after ever longer waits only, and over when it was not undone for fightSpan. That it was undone counts once it had to be made
// again: what a read shows can be old. A restart forgets it.
type fight struct {
	cluster string // ID.Key()
	change  plan.Change
	made    time.Time
	undone  []span        // the last times
	wait    time.Duration // 0: nobody fights
	seen    time.Time     // when it was first planned again; zero while it is not
	last    time.Time     // when it was made or planned last
}

// span is from when a change was made to when it was seen undone.
type span struct{ from, until time.Time }

const (
	fightTimes = 3
	fightSpan  = 10 * time.Minute
	// fightFirst and fightMost are how long a change waits that is fought over.
	fightFirst, fightMost = 30 * time.Second, 5 * time.Minute
)

// until is when the change is made again, or the fight over.
func (f *fight) until() time.Time {
	if wait := f.seen.Add(f.wait); !f.seen.IsZero() && wait.After(time.Now()) {
		return wait
	}
	return f.last.Add(fightSpan)
}

func (f *fight) is(c plan.Change) bool {
	return f.change.Verb == c.Verb && reflect.DeepEqual(f.change.New, c.New)
}

// stands reports whether the change was seen to stand.
func (f *fight) stands(s *network.Snapshot) bool {
	if subnet := s.Subnet(f.change.Resource); subnet != nil {
		return f.change.SeenInSubnet(subnet)
	}
	table := s.Table(f.change.Resource)
	return table != nil && f.change.SeenInTable(table)
}

// contested notes which changes are planned again, and returns the places of those that have to wait.
func (c *check) contested(changes []plan.Change) (waiting map[place]bool) {
	now := time.Now()
	waiting = map[place]bool{}
	for _, change := range changes {
		f := c.mem.fights[placeOf(change)]
		if f == nil || !f.is(change) {
			continue
		}
		f.change = change // the cluster can have another name now
		if f.seen.IsZero() {
			f.seen = now
		}
		f.last = now
		waiting[placeOf(change)] = now.Before(f.seen.Add(f.wait))
	}
	return waiting
}

// standing notes which changes were seen to stand: they wait no longer.
func (c *check) standing(changes []plan.Change) {
	again := map[place]bool{}
	for _, change := range changes {
		if f := c.mem.fights[placeOf(change)]; f != nil && f.is(change) {
			again[placeOf(change)] = true
		}
	}
	for at, f := range c.mem.fights {
		if !again[at] && f.stands(c.s) { // where that was not seen, it waits no longer for it
			f.seen = time.Time{}
		}
	}
}

// made notes which changes were made.
func (w *worker) made(cluster string, outcomes []plan.Outcome) {
	now := time.Now()
	for _, o := range outcomes {
		if o.State != plan.Done || !w.group[cluster] {
			continue
		}
		o.Change.Cluster = w.nameOf(cluster) // it can have another name now
		f := w.mem.fights[placeOf(o.Change)]
		if f == nil || !f.is(o.Change) {
			w.mem.fights[placeOf(o.Change)] = &fight{cluster: cluster, change: o.Change, made: now, last: now}
			continue
		}
		if f.seen.IsZero() { // seen only when it was written
			f.seen = now
		}
		f.undone = slices.DeleteFunc(append(f.undone, span{f.made, f.seen}), func(s span) bool { return now.Sub(s.until) > fightSpan })
		switch {
		case f.wait > 0:
			f.wait = min(2*f.wait, fightMost)
		case len(f.undone) >= fightTimes:
			f.wait = fightFirst
			w.k.log.Warn("somebody undoes the same change again and again", ChangeAttrs(o.Change)...)
		}
		f.change, f.made, f.last, f.seen = o.Change, now, now, time.Time{}
	}
}

// settled forgets changes that have stood for long.
func (c *check) settled() {
	now := time.Now()
	maps.DeleteFunc(c.mem.fights, func(_ place, f *fight) bool { return f.wait == 0 && now.Sub(f.last) > fightSpan })
}

// conflicts returns a finding for each resource of the group that another writer undoes, and has the
// group checked when there is something to do about it, or the conflict is over.
func (w *worker) conflicts() []finding.Finding {
	now := time.Now()
	foughtOver := map[string][]*fight{}
	for at, f := range w.mem.fights {
		switch until := f.until(); {
		case f.wait == 0:
		case !until.After(now):
			delete(w.mem.fights, at)
		default:
			foughtOver[at.resource] = append(foughtOver[at.resource], f)
			if w.mem.again.IsZero() || until.Before(w.mem.again) {
				w.mem.again = until
			}
		}
	}
	var findings []finding.Finding
	for resource, fights := range foughtOver {
		who := w.mem.foes[resource]
		if who == nil {
			who = &foe{}
			w.mem.foes[resource] = who
		}
		w.ask(who, fights)
		findings = append(findings, who.finding(fights))
	}
	maps.DeleteFunc(w.mem.foes, func(resource string, _ *foe) bool { return foughtOver[resource] == nil })
	return findings
}

// foe is who undoes what is made of one resource.
type foe struct {
	who   string        // "" while that is not known
	wait  time.Duration // between two questions
	asked time.Time
}

// The activity log is asked rarely: it is minutes late, and who it was does not change every minute.
const foeFirst, foeMost = 2 * time.Minute, 15 * time.Minute

// ask asks the activity log who it was, where it is time to. What it shows of this keeper's own identity
// says nothing. Nothing waits for the answer: it is posted.
func (w *worker) ask(foe *foe, fights []*fight) {
	if time.Since(foe.asked) < foe.wait {
		return
	}
	foe.asked = time.Now()
	foe.wait = min(max(2*foe.wait, foeFirst), foeMost)
	id := fights[0].change.Resource
	ids := []network.ID{id}
	if id.Is(network.TypeSubnet) {
		ids = append(ids, id.Parent()) // written with the whole network
	}
	cluster := fights[0].cluster
	spans := slices.Clone(fights[0].undone) // the earliest is the likeliest to be in the log already
	w.k.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, askFor)
		defer cancel()
		for _, s := range spans {
			last, known, err := w.k.azure.OthersWrite(ctx, s.from, s.until, ids...)
			if err != nil {
				w.k.log.Info("the activity log does not say who undoes changes", "resource", string(id), "error", err.Error())
				return
			}
			if known {
				w.post(cluster, func(w *worker) {
					if foe := w.mem.foes[id.Key()]; foe != nil {
						foe.who, foe.wait = last.String(), foeMost
					}
				})
				return
			}
		}
	})
}

// askFor is how long the activity log is waited for.
const askFor = 10 * time.Second

// finding says who fights over what, and when the next try is.
func (foe *foe) finding(fights []*fight) finding.Finding {
	slices.SortFunc(fights, func(a, b *fight) int { return strings.Compare(a.change.Route, b.change.Route) })
	id := fights[0].change.Resource
	var next time.Time
	var routes []string
	for _, f := range fights {
		if f.change.Route != "" {
			routes = append(routes, "route "+f.change.Route)
		}
		if !f.seen.IsZero() && f.seen.Add(f.wait).After(next) {
			next = f.seen.Add(f.wait)
		}
	}
	what := "it stands at the moment"
	if !next.IsZero() {
		what = "it is put right again at " + next.UTC().Format("15:04:05 UTC")
	}
	who := foe.who
	if who == "" {
		who = "who that is is unknown, the activity log shows no write of anybody else"
	}
	f := finding.New(finding.Fight, fights[0].change.Cluster, string(id), "somebody undoes again and again what is put right of %s; %s; %s", id.Short(), what, who)
	return f.With(fewer(routes)...).WithFix("have one of the two leave it alone: correct what else writes %s, or take it out of this config", id.Short())
}

// fewer are the first of many lines.
func fewer(lines []string) []string {
	const most = 10
	if len(lines) > most {
		return append(slices.Clip(lines[:most]), fmt.Sprintf("and %d more", len(lines)-most))
	}
	return lines
}
