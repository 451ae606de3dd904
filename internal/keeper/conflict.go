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

// Conflicts. How it works: two programs can undo each other's changes as fast as both can write. So
// after a change was undone conflictTimes within conflictSpan, it is made again only after a wait,
// and a finding names the other writer:
//
//	anything that Azure Policy or          15 minutes: they enforce it and never give up
//	Virtual Network Manager undoes
//	another one in place of the right one  30 seconds, then twice as long each time, up to an hour
//	(table, NAT gateway, group, egress     (15 minutes for what a node subnet has): the other writer
//	route), and a route that comes back    may be a keeper that differs and never gives up either
//	anything else on a node subnet         30 seconds: pods cannot reach each other meanwhile
//	anything else                          30 seconds, then 1, 2, 4 and 5 minutes
//
// A change counts as undone only once it had to be made again, because a read can be old. The
// conflict ends when the change has been in place for conflictSpan, and for longer than the last
// wait. If a rival for once only takes away, the wait is as for any other writer. The keeper never
// gives up, because it cannot know who is right. A restart forgets conflicts: the keeper then makes
// three repairs before it waits again.

// place is what a change applies to: a subnet, or a route in a table.
type place struct{ resource, route string }

func placeOf(c plan.Change) place {
	key := c.Key()
	return place{key.Resource, key.Route}
}

// conflict is the history of a change since it was made.
type conflict struct {
	cluster  string // ID.Key()
	change   plan.Change
	nodes    bool // it associates something with a node subnet
	made     time.Time
	undone   []span        // the last times
	wait     time.Duration // 0: no conflict
	governed bool          // Azure itself undoes the change
	seen     time.Time     // when it was first planned again, or zero
	last     time.Time     // when it was last made or planned
}

// span runs from when a change was made until it was seen undone.
type span struct{ from, until time.Time }

const (
	conflictTimes = 3
	conflictSpan  = 10 * time.Minute
	// conflictFirst and conflictMost are the first and the longest wait. governedWait is the wait
	// if Azure itself undoes the change. rivalMost and rivalNodesMost are the longest waits against
	// a rival: for that long, a wrong table stays once the rival has stopped.
	conflictFirst, conflictMost = 30 * time.Second, 5 * time.Minute
	governedWait                = 15 * time.Minute
	rivalMost, rivalNodesMost   = time.Hour, 15 * time.Minute
)

// until returns when the change may be made again, or when the conflict ends.
func (f *conflict) until() time.Time {
	if wait := f.seen.Add(f.wait); !f.seen.IsZero() && wait.After(time.Now()) {
		return wait
	}
	return f.last.Add(max(conflictSpan, f.wait+time.Minute))
}

func (f *conflict) matches(c plan.Change) bool {
	return f.change.Verb == c.Verb && reflect.DeepEqual(f.change.New, c.New)
}

// inPlace reports whether a snapshot shows the change in place.
func (f *conflict) inPlace(s *inventory.Snapshot) bool {
	made, _ := f.change.InPlace(s)
	return made
}

// putsItsOwn reports whether the other writer puts something of its own there, as another keeper
// does, and not only takes away what this one puts. A pod route's next hop does not count, because
// it is proven to be right.
func (f *conflict) putsItsOwn() bool {
	c := f.change
	return c.Verb == plan.Associate && c.Old != nil || c.Verb == plan.Update && c.Egress ||
		c.Verb == plan.Delete
}

// longest returns the longest wait.
func (f *conflict) longest() time.Duration {
	switch {
	case f.putsItsOwn() && f.nodes:
		return rivalNodesMost
	case f.putsItsOwn():
		return rivalMost
	case f.nodes:
		return conflictFirst
	}
	return conflictMost
}

// waitLonger sets the next wait.
func (f *conflict) waitLonger(other *otherWriter) {
	f.governed = other != nil && other.governs
	if f.governed {
		f.wait = governedWait
		return
	}
	f.wait = min(max(2*f.wait, conflictFirst), f.longest())
}

// conflicts has the changes that others undo, by place.
type conflicts map[place]*conflict

// contested notes which changes are planned again, and returns the places of the ones that must
// wait.
func (m conflicts) contested(changes []plan.Change) (waiting map[place]bool) {
	now := time.Now()
	waiting = map[place]bool{}
	for _, change := range changes {
		f := m[placeOf(change)]
		if f == nil || !f.matches(change) {
			continue
		}
		f.change = change // the cluster's name and what is there instead may have changed
		if !f.governed && !f.putsItsOwn() {
			f.wait = min(f.wait, f.longest())
		}
		if f.seen.IsZero() {
			f.seen = now
		}
		f.last = now
		waiting[placeOf(change)] = now.Before(f.seen.Add(f.wait))
	}
	return waiting
}

// noteInPlace notes which changes are in place: they no longer wait.
func (m conflicts) noteInPlace(changes []plan.Change, seen *inventory.Snapshot) {
	again := map[place]bool{}
	for _, change := range changes {
		if f := m[placeOf(change)]; f != nil && f.matches(change) {
			again[placeOf(change)] = true
		}
	}
	now := time.Now()
	for at, f := range m {
		switch {
		case f.wait == 0 && now.Sub(f.last) > conflictSpan: // it has been in place long enough
			delete(m, at)
		case !again[at] && f.inPlace(seen): // in place again: its wait ends
			f.seen = time.Time{}
		}
	}
}

// made notes which changes of a cluster were made, even if they were undone at once: a policy with
// the effect modify can do that.
func (w *worker) made(c *check, cluster string, outcomes []plan.Outcome) {
	now := time.Now()
	for _, o := range outcomes {
		if o.State != plan.Done && !o.Undone || !w.group[cluster] {
			continue
		}
		o.Change.Cluster = w.nameOf(cluster) // its name may have changed
		w.noteRepaired(c, cluster, o.Change)
		f := w.mem.conflicts[placeOf(o.Change)]
		if f == nil || !f.matches(o.Change) {
			w.mem.conflicts[placeOf(o.Change)] = &conflict{cluster: cluster, change: o.Change,
				made: now, last: now,
				nodes: o.Change.Verb == plan.Associate &&
					isNodeSubnet(c.s.Snapshot, c.configs, o.Change.Resource)}
			continue
		}
		if f.seen.IsZero() { // the write itself found it undone
			f.seen = now
		}
		f.undone = slices.DeleteFunc(append(f.undone, span{f.made, f.seen}), func(s span) bool {
			return now.Sub(s.until) > conflictSpan
		})
		switch {
		case f.wait > 0:
			f.waitLonger(w.mem.others[o.Change.Resource.Key()])
		case len(f.undone) >= conflictTimes:
			f.waitLonger(nil)
			w.k.log.Warn("another writer undoes the same change again and again",
				o.Change.Attrs()...)
		}
		f.change, f.made, f.last, f.seen = o.Change, now, now, time.Time{}
	}
}

// conflicts returns a finding for each resource in conflict. It also schedules the next check for
// when a change may be made again, or a conflict ends.
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
			w.mem.checkAgain(until)
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
	maps.DeleteFunc(w.mem.others, func(resource string, _ *otherWriter) bool {
		return contested[resource] == nil
	})
	return findings
}

// otherWriter is who undoes changes to one resource.
type otherWriter struct {
	who     string        // "" while unknown
	governs bool          // it is Azure Policy or Azure Virtual Network Manager
	wait    time.Duration // between two queries
	asked   time.Time
}

// The activity log is queried rarely: it is minutes late, and the other writer rarely changes.
const (
	askFirst, askMost = 2 * time.Minute, 15 * time.Minute
	askFor            = 10 * time.Second
)

// ask queries the activity log for the other writer when a query is due. Entries of this keeper's
// own identity prove nothing. Nothing waits for the answer: it is posted to the worker.
func (w *worker) ask(other *otherWriter, conflicts []*conflict) {
	for _, f := range conflicts {
		if f.change.Old != nil && f.change.Old.RouteTable != "" &&
			inventory.IsManagerTable(f.change.Old.RouteTable) {
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
		ids = append(ids, id.Parent()) // a write of the network writes its subnets
	}
	spans := slices.Clone(conflicts[0].undone) // the log most likely has the earliest write
	w.k.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, askFor)
		defer cancel()
		for _, s := range spans {
			last, known, err := w.k.azure.OthersWrite(ctx, s.from, s.until, ids...)
			if err != nil {
				w.k.log.Info("the activity log does not show who undoes changes", "resource",
					string(id), "error", err.Error())
				return
			}
			if known {
				w.post(cluster, func(w *worker) { w.learnWriter(id, last) })
				return
			}
		}
	})
}

// learnWriter notes who undoes changes to a resource.
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

// finding names the other writer, and the time of the next repair.
func (other *otherWriter) finding(conflicts []*conflict) finding.Finding {
	slices.SortFunc(conflicts, func(a, b *conflict) int {
		return strings.Compare(a.change.Route, b.change.Route)
	})
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
	what := "the last repair is in place"
	if !next.IsZero() {
		what = "the next repair is at " + next.UTC().Format("15:04:05 UTC")
	}
	who := other.who
	if who == "" {
		who = "the other writer is unknown: the activity log shows no other write"
	}
	f := finding.New(finding.Conflict, conflicts[0].change.Cluster, string(id),
		"another writer undoes every repair of %s; %s; %s", id.Short(), what, who)
	return f.With(fewer(routes)...).WithAdvice("let only one of the two write %s: correct the "+
		"other writer (iac check finds the line in its code or plan), or remove it from this "+
		"config", id.Short())
}

// fewer shortens a long list of lines.
func fewer(lines []string) []string {
	const most = 10
	if len(lines) > most {
		return append(slices.Clip(lines[:most]), fmt.Sprintf("and %d more", len(lines)-most))
	}
	return lines
}
