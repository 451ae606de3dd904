package keeper

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/azure"
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
	change plan.Change
	made   time.Time
	undone []span        // the last times
	wait   time.Duration // 0: nobody fights
	seen   time.Time     // when it was first planned again; zero while it is not
	last   time.Time     // when it was made or planned last
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
func (t *turn) contested(d *decision) (held map[place]bool) {
	now := time.Now()
	held = map[place]bool{}
	again := map[place]bool{}
	for _, c := range d.Changes {
		f := t.fights[placeOf(c)]
		if f == nil || !f.is(c) {
			continue
		}
		again[placeOf(c)], f.change = true, c // the cluster can have another name now
		if f.seen.IsZero() {
			f.seen = now
		}
		f.last = now
		held[placeOf(c)] = now.Before(f.seen.Add(f.wait))
	}
	clusters := nameSet(t.part)
	for at, f := range t.fights {
		if clusters[f.change.Cluster] && !again[at] && f.stands(d.s) { // where that was not seen, it waits no longer for it
			f.seen = time.Time{}
		}
	}
	return held
}

// made notes which changes were made.
func (k *Keeper) made(outcomes []plan.Outcome) {
	now := time.Now()
	for _, o := range outcomes {
		if o.State != plan.Done {
			continue
		}
		f := k.fights[placeOf(o.Change)]
		if f == nil || !f.is(o.Change) {
			k.fights[placeOf(o.Change)] = &fight{change: o.Change, made: now, last: now}
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
			k.log.Warn("somebody undoes the same change again and again", ChangeAttrs(o.Change)...)
		}
		f.change, f.made, f.last, f.seen = o.Change, now, now, time.Time{}
	}
}

// settled forgets changes that have stood for long.
func (k *Keeper) settled() {
	now := time.Now()
	maps.DeleteFunc(k.fights, func(_ place, f *fight) bool { return f.wait == 0 && now.Sub(f.last) > fightSpan })
}

// fighting returns a finding for each resource of the clusters that is fought over, and has the clusters looked at again when there is
// something to do about it, or the fight is over.
func (t *turn) fighting(ctx context.Context) []finding.Finding {
	now := time.Now()
	clusters := nameSet(t.part)
	foughtOver := map[string][]*fight{}
	for at, f := range t.fights {
		switch until := f.until(); {
		case f.wait == 0:
		case !until.After(now):
			delete(t.fights, at)
		case !clusters[f.change.Cluster]:
		default:
			foughtOver[at.resource] = append(foughtOver[at.resource], f)
			for _, c := range t.part {
				if m := t.memory[keyOf(c)]; c.Metadata.Name == f.change.Cluster && (m.again.IsZero() || until.Before(m.again)) {
					m.again = until
				}
			}
		}
	}
	var findings []finding.Finding
	for resource, fights := range foughtOver {
		who := t.foes[resource]
		if who == nil {
			who = &foe{}
			t.foes[resource] = who
		}
		t.ask(ctx, who, fights)
		findings = append(findings, who.finding(fights))
	}
	maps.DeleteFunc(t.foes, func(resource string, _ *foe) bool {
		for at, f := range t.fights {
			if at.resource == resource && f.wait > 0 {
				return false
			}
		}
		return true
	})
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

// ask asks the activity log who it was, where it is time to. What it shows of this keeper's own identity says nothing.
func (t *turn) ask(ctx context.Context, foe *foe, fights []*fight) {
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
	ctx = azure.Yielding(azure.Within(ctx, apart, apart))
	for _, s := range fights[0].undone { // the earliest is the likeliest to be in the log already
		var last azure.LastWrite
		var known bool
		var err error
		t.unlocked(func() { last, known, err = t.azure.OthersWrite(ctx, s.from, s.until, ids...) })
		switch {
		case err != nil:
			t.log.Info("it cannot be asked who undoes changes", "resource", string(id), "error", err.Error())
			return
		case known:
			foe.who, foe.wait = last.String(), foeMost
			return
		}
	}
}

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
