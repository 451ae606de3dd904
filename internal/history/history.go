// Package history remembers what was done: every check that changed or refused something. It has
// the trigger of a check, what it read, each change before and after, and the outcome. It is an
// SQLite file, which other programs can read as well.
//
// It must not decide or delay anything. A record that cannot be written waits in memory, and a
// finding says so.
package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// How it works. Before the keeper sends a document, it records the intended changes. Later it
// records their outcomes, and the check when it ends. Each is one synced transaction: after a
// SIGKILL or a power loss, every row is whole and none is missing. The next check settles a change
// that a killed program left as intended: its state becomes found if the change is in place in
// Azure, and interrupted if it is not, or must be planned again. So a change is in the history
// exactly once. A change in place does not show who made it, so the history never says that the
// keeper did.
//
// Because the activity log lags, the keeper later asks it who made a repair necessary. It searches
// for a write by another identity between the last good check and the repair. For a route, a record
// of a write of the route itself counts at once. A record of a write of the whole table counts only
// after half an hour, so that a record for the route has had time to appear.
//
// Records that cannot be written stay in memory, in order, and each check tries again. A damaged
// file is moved aside. A file that is not a history, or that has another schema, is not touched. A
// check without news writes nothing.

// Extension is the file extension of histories.
const Extension = ".history.db"

// Options configure a history.
type Options struct {
	// Age is how long checks are kept, and Size how many bytes they may take: the oldest are
	// removed first. 0: no limit.
	Age  time.Duration
	Size int64
	// Log receives what happens to the file. Nil: nothing.
	Log *slog.Logger
	// Shortage receives the reason why the file cannot be written. It reports whether too many
	// files are open, because SQLite does not say so. Nil means that this is not known.
	Shortage func(error) bool
}

// Log is a history that is being written. It implements keeper.Recorder.
type Log struct {
	mu   sync.Mutex
	j    journal
	opts Options

	// running checks that have changed something, of different clusters
	checks  map[identity]*check
	open    map[string]*change         // changes that were intended but not settled, by key
	known   map[string]finding.Finding // as of the last check
	unmade  map[string]unmade          // changes that were planned last but not made, by key
	checked map[string]time.Time       // when the last complete check of each cluster began
	met     map[string]bool            // the clusters that this program has checked
	pruned  time.Time
}

// identity identifies a check.
type identity struct {
	serial  int64
	started int64 // nanoseconds since 1970
}

func identify(r keeper.Result) identity { return identity{r.Serial, r.Started.UnixNano()} }

// States of a change in addition to those of plan.Outcome.
const (
	// Intended: the change was about to be sent, and its outcome is unknown. Its program is still
	// running, or was killed.
	Intended plan.OutcomeState = "intended"
	// Interrupted: its program was killed, or gave up, before it saw the outcome, and the next
	// check did not find the change made.
	Interrupted plan.OutcomeState = "interrupted"
	// Found: its program was killed, or gave up, before it saw the outcome, and the next check
	// found the change in place. The program may have made it, or another writer.
	Found plan.OutcomeState = "found"
)

// Open opens a history, once per program. It never fails: a file that cannot be used is a finding
// of the next check.
func Open(path string, opts Options) *Log {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Shortage == nil {
		opts.Shortage = func(error) bool { return false }
	}
	l := &Log{j: journal{path: path, log: opts.Log, shortage: opts.Shortage}, opts: opts,
		checks: map[identity]*check{},
		open:   map[string]*change{},
		unmade: map[string]unmade{}, checked: map[string]time.Time{},
		met: map[string]bool{}}
	l.j.flush()
	if l.j.trouble == nil {
		l.known, l.j.trouble = readStanding(l.j.db)
	}
	if l.j.trouble == nil {
		l.unmade, l.j.trouble = readObserved(l.j.db)
	}
	return l
}

// With adds the history, if there is one, to a keeper's options.
func (l *Log) With(o keeper.Options) keeper.Options {
	if l != nil { // a nil Log in an interface would not be nil
		o.Recorder, o.Store = l, l
	}
	return o
}

// Close writes what waits in memory, and closes the file. The error says that records are lost. A
// second Close, and that of a nil Log, does nothing.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.j.closed {
		return nil
	}
	l.j.flush()
	l.j.closed = true
	if err := cmp.Or(l.j.close(), l.j.trouble); err != nil {
		return fmt.Errorf("the history %s cannot be written: %s", l.j.path, reason(err))
	}
	return nil
}

// Intend records changes that are about to be sent.
func (l *Log) Intend(r keeper.Result, changes []plan.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.begin(r)
	for _, c := range changes {
		if l.open[keyOf(c)] == nil {
			// The change was planned on a fresh read of the resource, so an open one was not made.
			l.j.run("UPDATE changes SET state = ?, note = ?, settled = ? WHERE state = "+
				"'intended' AND key = ?", string(Interrupted), notThere, time.Now().UnixMilli(),
				keyOf(c))
			l.open[keyOf(c)] = of.change(plan.Outcome{Change: c, State: Intended}, l.correctAt(c))
		}
		l.j.add(l.open[keyOf(c)].writeStep())
	}
	l.write()
}

// Settle records the outcomes of changes.
func (l *Log) Settle(outcomes []plan.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range outcomes {
		if c := l.open[keyOf(o.Change)]; c != nil {
			c.outcome, c.settled = o, time.Now()
			delete(l.open, keyOf(o.Change))
			l.j.add(c.writeStep())
		}
	}
	l.write()
}

// write flushes, except to a file that failed before: that is retried only once per check, because
// it takes time.
func (l *Log) write() {
	if l.j.trouble == nil {
		l.j.flush()
	}
}

// Record records a check that changed, refused or newly found something. What the check read also
// settles changes that earlier programs left open.
func (l *Log) Record(r keeper.Result, s *inventory.Snapshot) []finding.Finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	under := l.checks[identify(r)]
	found := l.settleOthers(r, s)
	left := map[string]unmade{}
	for key, c := range l.unmade {
		if r.Of != nil && !slices.Contains(r.Of, c.Cluster) { // it was not checked this time
			left[key] = c
		}
	}
	var news []plan.Outcome // changes that were not intended
	for _, o := range slices.Concat(r.Changes, r.OnlyObserved) {
		was := l.unmade[keyOf(o.Change)]
		switch {
		case under != nil && under.changes[keyOf(o.Change)] != nil, found[keyOf(o.Change)]:
		case o.State == plan.Done || o.State == plan.Obsolete:
			news = append(news, o)
		case was.Cluster != o.Cluster || was.State != o.State:
			news = append(news, o)
		}
		if o.State != plan.Done && o.State != plan.Obsolete {
			left[keyOf(o.Change)] = unmade{o, l.correctAt(o.Change)}
		}
	}
	news = append(news, l.unneeded(r, s, left)...)
	var changed finding.Changed
	kept := r.Of == nil || len(r.Of) > 0
	if kept {
		now := slices.Concat(r.Findings, l.notCovered(r))
		changed = finding.News(l.known, now)
		l.known = finding.ByKey(now)
	} else if len(r.Changes) > 0 { // a check of no managed cluster: keep their state
		changed = finding.Changed{Appeared: finding.News(l.known, r.Findings).Appeared}
	}
	if under != nil || len(news) > 0 || !changed.None() {
		of := l.begin(r)
		for _, o := range news {
			l.j.add(of.change(o, l.correctAt(o.Change)).writeStep())
		}
		of.tell(&l.j, New, changed.Appeared)
		of.tell(&l.j, Worse, changed.Worse)
		of.tell(&l.j, Milder, changed.Milder)
		of.tell(&l.j, Reworded, changed.Reworded)
		of.tell(&l.j, Resolved, changed.Gone)
		of.tell(&l.j, Unrepaired, changed.Unrepaired)
		of.tell(&l.j, Hidden, changed.Hidden)
		if kept {
			l.j.add(&standing{l.known})
		}
		of.ended = &r
		l.j.add(of.writeStep())
		delete(l.checks, identify(r))
		// the next check settles what is left
		maps.DeleteFunc(l.open, func(_ string, c *change) bool { return c.of == of })
	}
	if changed.Quotes { // the state is as it reads now
		l.j.add(&standing{l.known})
	}
	l.unmade = left
	for _, cluster := range r.CheckedNames() {
		if delete(l.checked, cluster); r.Complete {
			l.checked[cluster] = r.Started
		}
	}
	l.j.flush()
	l.prune()
	return l.j.findings()
}

// notCovered returns the known findings that a check does not cover: a program that has just
// started has not checked all clusters yet.
func (l *Log) notCovered(r keeper.Result) (stand []finding.Finding) {
	for _, cluster := range r.CheckedNames() {
		l.met[cluster] = true
	}
	waiting := map[string]bool{}
	for _, cluster := range r.Managed {
		if !l.met[cluster] {
			waiting[cluster], waiting[""] = true, true
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	there := finding.ByKey(r.Findings)
	for key, f := range l.known {
		if _, is := there[key]; !is && waiting[f.Cluster] {
			stand = append(stand, f)
		}
	}
	return stand
}

// begin returns a running check.
func (l *Log) begin(r keeper.Result) *check {
	of := l.checks[identify(r)]
	if of == nil {
		of = &check{number: new(int64), started: r.Started, woke: r.Woke,
			changes: map[string]*change{}}
		l.checks[identify(r)] = of
		l.j.add(of.writeStep())
	}
	return of
}

// keyOf identifies a change: the same change has the same key when it is made again.
func keyOf(c plan.Change) string {
	return strings.Join([]string{c.Resource.Key(), string(c.Verb), strings.ToLower(c.Route),
		strings.ToLower(c.New.String())}, " ")
}

// unmade is a change that was planned but not made.
type unmade struct {
	plan.Outcome
	correctAt time.Time
}

// correctAt returns when the resource of a change was last seen correct, or zero if unknown.
func (l *Log) correctAt(c plan.Change) time.Time {
	if waiting, known := l.unmade[keyOf(c)]; known {
		return waiting.correctAt
	}
	return l.checked[c.Cluster]
}

// document encodes a value for the file.
func document(v any) string {
	raw, _ := json.Marshal(v) // plain structs always marshal
	return string(raw)
}
