package keeper

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Conflicts. Two programs that undo each other's changes do so as fast as both can. So a change that was
// undone conflictTimes within conflictSpan is made again after waits only, and a finding names the other
// writer:
//
//	a route table on a node subnet         30 seconds: pods do not reach each other meanwhile
//	anything that Azure Policy, or         15 minutes: it is made to be obeyed, and never gives up
//	Virtual Network Manager, undoes
//	anything else                          30 seconds, 1, 2, 4 and 5 minutes
//
// That a change was undone counts once it had to be made again: what a read shows can be old. The
// conflict is over when the change has stood for conflictSpan. The keeper never gives up, because it
// cannot know who is right. A restart forgets conflicts, which costs three repairs.

// place is what one change is about: a subnet, or a route of a table.
type place struct{ resource, route string }

func placeOf(c plan.Change) place { return place{c.Resource.Key(), strings.ToLower(c.Route)} }

// conflict is what is known of a change since it was made.
type conflict struct {
	cluster string // ID.Key()
	change  plan.Change
	nodes   bool // it puts the route table back on a node subnet
	made    time.Time
	undone  []span        // the last times
	wait    time.Duration // 0: there is no conflict
	seen    time.Time     // when it was first planned again; zero while it is not
	last    time.Time     // when it was made or planned last
}

// span is from when a change was made to when it was seen undone.
type span struct{ from, until time.Time }

const (
	conflictTimes = 3
	conflictSpan  = 10 * time.Minute
	// conflictFirst and conflictMost are how long a change waits, governedWait how long where Azure
	// itself undoes it.
	conflictFirst, conflictMost = 30 * time.Second, 5 * time.Minute
	governedWait                = 15 * time.Minute
)

// until is when the change is made again, or the conflict over.
func (f *conflict) until() time.Time {
	if wait := f.seen.Add(f.wait); !f.seen.IsZero() && wait.After(time.Now()) {
		return wait
	}
	return f.last.Add(max(conflictSpan, f.wait+time.Minute))
}

func (f *conflict) is(c plan.Change) bool {
	return f.change.Verb == c.Verb && reflect.DeepEqual(f.change.New, c.New)
}

// stands reports whether the change was seen to stand.
func (f *conflict) stands(s *inventory.Snapshot) bool {
	if subnet := s.Subnet(f.change.Resource); subnet != nil {
		return f.change.SeenInSubnet(subnet)
	}
	table := s.Table(f.change.Resource)
	return table != nil && f.change.SeenInTable(table)
}

// waitLonger is how long the change waits from now on.
func (f *conflict) waitLonger(other *otherWriter) {
	switch {
	case other != nil && other.governs:
		f.wait = governedWait
	case f.wait == 0 || f.nodes:
		f.wait = conflictFirst
	default:
		f.wait = min(2*f.wait, conflictMost)
	}
}

// contested notes which changes are planned again, and returns the places of those that have to wait.
func (c *check) contested(changes []plan.Change) (waiting map[place]bool) {
	now := time.Now()
	waiting = map[place]bool{}
	for _, change := range changes {
		f := c.mem.conflicts[placeOf(change)]
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
		if f := c.mem.conflicts[placeOf(change)]; f != nil && f.is(change) {
			again[placeOf(change)] = true
		}
	}
	now := time.Now()
	for at, f := range c.mem.conflicts {
		switch {
		case f.wait == 0 && now.Sub(f.last) > conflictSpan: // it has stood for long
			delete(c.mem.conflicts, at)
		case !again[at] && f.stands(c.s.Snapshot): // where that was not seen, it waits no longer for it
			f.seen = time.Time{}
		}
	}
}

// made notes which changes of a cluster were made.
func (w *worker) made(c *check, cluster string, outcomes []plan.Outcome) {
	now := time.Now()
	for _, o := range outcomes {
		if o.State != plan.Done || !w.group[cluster] {
			continue
		}
		o.Change.Cluster = w.nameOf(cluster) // it can have another name now
		f := w.mem.conflicts[placeOf(o.Change)]
		if f == nil || !f.is(o.Change) {
			w.mem.conflicts[placeOf(o.Change)] = &conflict{cluster: cluster, change: o.Change, made: now, last: now,
				nodes: o.Change.Verb == plan.Associate && c.isNodeSubnet(o.Change.Resource)}
			continue
		}
		if f.seen.IsZero() { // seen only when it was written
			f.seen = now
		}
		f.undone = slices.DeleteFunc(append(f.undone, span{f.made, f.seen}), func(s span) bool { return now.Sub(s.until) > conflictSpan })
		switch {
		case f.wait > 0:
			f.waitLonger(w.mem.others[o.Change.Resource.Key()])
		case len(f.undone) >= conflictTimes:
			f.waitLonger(nil)
			w.k.log.Warn("another writer undoes the same change again and again", o.Change.Attrs()...)
		}
		f.change, f.made, f.last, f.seen = o.Change, now, now, time.Time{}
	}
}

// conflicts returns a finding for each resource of the group with a conflict, and has the group checked
// when there is something to do about it, or the conflict is over.
func (w *worker) conflicts() []finding.Finding {
	now := time.Now()
	contested := map[string][]*conflict{}
	for at, f := range w.mem.conflicts {
		switch until := f.until(); {
		case f.wait == 0:
		case !until.After(now):
			delete(w.mem.conflicts, at)
		default:
			contested[at.resource] = append(contested[at.resource], f)
			if w.mem.again.IsZero() || until.Before(w.mem.again) {
				w.mem.again = until
			}
		}
	}
	var findings []finding.Finding
	for resource, conflicts := range contested {
		other := w.mem.others[resource]
		if other == nil {
			other = &otherWriter{}
			w.mem.others[resource] = other
		}
		w.ask(other, conflicts)
		findings = append(findings, other.finding(conflicts))
	}
	maps.DeleteFunc(w.mem.others, func(resource string, _ *otherWriter) bool { return contested[resource] == nil })
	return findings
}

// otherWriter is who undoes what is made of one resource.
type otherWriter struct {
	who     string        // "" while that is not known
	governs bool          // it is Azure Policy, or Azure Virtual Network Manager
	wait    time.Duration // between two questions
	asked   time.Time
}

// The activity log is asked rarely: it is minutes late, and who it was does not change every minute.
const (
	askFirst, askMost = 2 * time.Minute, 15 * time.Minute
	askFor            = 10 * time.Second
)

// ask asks the activity log who it was, where it is time to. What it shows of this keeper's own identity
// says nothing. Nothing waits for the answer: it is posted.
func (w *worker) ask(other *otherWriter, conflicts []*conflict) {
	for _, f := range conflicts {
		if f.change.Old != nil && f.change.Old.RouteTable != "" && inventory.IsManagerTable(f.change.Old.RouteTable) {
			other.who, other.governs = "Azure Virtual Network Manager put its own table there", true
			f.wait = governedWait
		}
	}
	if time.Since(other.asked) < other.wait {
		return
	}
	other.asked = time.Now()
	other.wait = min(max(2*other.wait, askFirst), askMost)
	id, cluster := conflicts[0].change.Resource, conflicts[0].cluster
	ids := []arm.ID{id}
	if id.Is(arm.TypeSubnet) {
		ids = append(ids, id.Parent()) // written with the whole network
	}
	spans := slices.Clone(conflicts[0].undone) // the earliest is the likeliest to be in the log already
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
				w.post(cluster, func(w *worker) { w.learnWriter(id, last) })
				return
			}
		}
	})
}

// learnWriter notes who undoes changes of a resource.
func (w *worker) learnWriter(id arm.ID, last azure.LastWrite) {
	other := w.mem.others[id.Key()]
	if other == nil {
		return
	}
	other.who, other.wait = last.String(), askMost
	if other.governs = last.ByPolicy(); !other.governs {
		return
	}
	for at, f := range w.mem.conflicts {
		if at.resource == id.Key() && f.wait > 0 {
			f.wait = governedWait
		}
	}
}

// finding says who undoes what, and when the next try is.
func (other *otherWriter) finding(conflicts []*conflict) finding.Finding {
	slices.SortFunc(conflicts, func(a, b *conflict) int { return strings.Compare(a.change.Route, b.change.Route) })
	id := conflicts[0].change.Resource
	var next time.Time
	var routes []string
	for _, f := range conflicts {
		if f.change.Route != "" {
			routes = append(routes, "route "+f.change.Route)
		}
		if !f.seen.IsZero() && f.seen.Add(f.wait).After(next) {
			next = f.seen.Add(f.wait)
		}
	}
	what := "it stands at the moment"
	if !next.IsZero() {
		what = "it is repaired again at " + next.UTC().Format("15:04:05 UTC")
	}
	who := other.who
	if who == "" {
		who = "the other writer is unknown, the activity log shows no other write"
	}
	f := finding.New(finding.Conflict, conflicts[0].change.Cluster, string(id), "another writer undoes every repair of %s; %s; %s", id.Short(), what, who)
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
