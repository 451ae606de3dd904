package plan

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// smallStory is a state between two steps.
type smallStory struct {
	smallState         // without reads and memory
	stopped    bool    // the cloud provider
	byOther    bool    // the last write of the cluster's table was not the cluster's
	forgot     bool    // the activity log does not show that the cluster wrote its table
	edited     [5]bool // rows of the cluster's table that a person named
	// adopted are routes of the targets with a person's name that were as the cluster's table had
	// them, when the first keeper read both. From then on they are the cluster's.
	adopted [smallTargets]smallTable
	keeper  [2]smallMemory
}

// smallMemory is what a keeper remembers.
type smallMemory struct {
	started bool // no check since the keeper started
	looks   bool // a read of the interfaces is due, and no earlier check has seen nodes
	crossed bool // a row led to another machine than it names
	table   int8 // which table the cluster's was, and how sure that is
	// whether a node lacks a route in the copy that the keeper takes for the cluster's table
	lacks int8
	// the interfaces that the last check read, a moment ago: none, all or a part
	interfaces int8
	seen       [5]int8 // rows of the cluster's table at the last check: 1 + the next hop
	settled    [5]bool // they have been there for longer than steadyAfter
	had        [5][smallMost]bool
	inSync     [smallTargets][5]int8 // 1 + the next hop
	// machines and rows of the cluster's table at the last check
	machines [smallMost]smallMachine
	offs     [smallMost]bool
	rows     smallTable
}

// What a keeper knows of the cluster's table.
const (
	tableUnknown = iota
	tableProven
	tableLikely
	tableRecalled // from before the restart, while the node subnet has another
	copyLikely    // the same of the copy, which the keeper takes for the cluster's table
	copyRecalled
)

// How long a node has lacked a route.
const (
	lacksNone = iota
	lacksYoung
	lacksOld
	lacksReported
)

// smallQuestion is what a check knows, and smallAnswer what comes of it.
type smallQuestion struct {
	smallState
	smallMemory
	byOther, forgot bool
}

// smallAgain is what a late write knows: what its check did, and what is there now.
type smallAgain struct {
	smallQuestion
	now smallState
}

type smallAnswer struct {
	after    smallState
	memory   smallMemory
	said     smallMentions
	lost     finding.Code // what the findings say of the cluster or its table
	rules    []string
	planned  string // the changes
	onlyPlan bool
}

// provide is what the cloud provider does: it compares nodes and prefixes, and no next hops.
func (s *smallStory) provide(w *smallWorld) {
	if s.stopped || s.deleted != 0 {
		return
	}
	own := s.provided(w)
	for c, r := range own {
		if was := s.own[c]; r.exists() && was.node() && was.name() == r.name() {
			own[c] = was
		}
		// a person's row that is as the cloud provider writes it is its own from now on
		s.edited[c] = s.edited[c] && own[c] == s.own[c] && own[c] != r
	}
	if own != s.own {
		s.own, s.byOther, s.forgot = own, false, false
	}
}

// provided is the cluster's table as the cloud provider writes it.
func (s smallState) provided(w *smallWorld) (own smallTable) {
	for i, m := range s.machine {
		if m.exists() {
			own[m.cidr()] = aRow(i, m.address())
			if w.dual {
				own[smallMost+m.cidr()] = aRow(i, m.address())
			}
		}
	}
	return own
}

// wait lets the rows settle that the last check has seen and that are still there.
func (s *smallStory) wait(w *smallWorld) {
	s.provide(w)
	for k := range w.keepers {
		m := &s.keeper[k]
		m.interfaces = 0
		if m.lacks == lacksYoung {
			m.lacks = lacksOld
		}
		rows := s.own
		if m.mistaken() {
			rows = w.start.own
		}
		for c, r := range rows {
			m.settled[c] = m.settled[c] || r.exists() && m.seen[c] == int8(1+r.address())
		}
	}
}

// facts are what a check knows.
func (q smallQuestion) facts(w *smallWorld) Facts {
	f := w.facts(q.smallState)
	m := &Remembered{Had: map[Pair]bool{}, NICsDue: q.looks,
		InSync: map[string]map[netip.Prefix]netip.Addr{}, hops: map[netip.Addr]ledBy{}}
	if q.table != tableUnknown {
		m.LastTable, m.LastProven, m.Recalled = tableA, q.table == tableProven,
			q.table == tableRecalled
	}
	if q.mistaken() {
		m.LastTable, m.Recalled = copyOfA, q.table == copyRecalled
	}
	if !q.started {
		m.noted = smallNow
	}
	if m.Nodes.Crossed = q.crossed; !q.looks && !q.started {
		m.Nodes.Hops = map[netip.Addr]string{}
	}
	for i := range q.machine {
		since := map[int8]time.Time{lacksYoung: smallNow, lacksOld: smallNow.Add(-joining),
			lacksReported: smallNow.Add(-joining)}[q.lacks]
		if !since.IsZero() {
			m.Nodes.note(smallHolder(i), Lack{Since: since, Reported: q.lacks == lacksReported})
		}
	}
	for k := range w.targets {
		m.InSync[smallTargetIDs[k].Key()] = map[netip.Prefix]netip.Addr{}
	}
	for c, prefix := range smallCIDR {
		if q.seen[c] > 0 {
			hop := hopOf(c, int(q.seen[c]-1))
			led := m.hops[hop]
			if led.prefixes = append(led.prefixes, prefix); q.settled[c] {
				led.since = smallNow.Add(-steadyAfter)
			} else {
				led.since = smallNow
			}
			m.hops[hop] = led
		}
		for k := range w.targets {
			if was := q.inSync[k][c]; was > 0 {
				m.InSync[smallTargetIDs[k].Key()][prefix] = hopOf(c, int(was-1))
			}
		}
		for a, was := range q.had[c] {
			if was {
				m.Had[Pair{Prefix: prefix, Hop: hopOf(c, a)}] = true
			}
		}
	}
	f.Memory[clusterA.Key()] = m
	f.Writers[tableA.Key()] = inventory.Writer{Line: "last written", Names: []string{"ann"}}
	if !q.byOther {
		f.Writers[tableA.Key()] = inventory.Writer{Line: "last written",
			Names: w.counts[0].Principals}
	}
	if q.behind {
		table, log := *f.Tables[tableA.Key()], f.Writers[tableA.Key()]
		table.ETag, m.etag, m.noted = "old", "old", smallNow.Add(-apart)
		log.At = smallNow
		f.Tables[tableA.Key()], f.Writers[tableA.Key()] = &table, log
	}
	if known := f.Learn(clusterA); q.forgot {
		known.Written = nil
	}
	f.Learn(clusterA).ManagedRead = true
	return f
}

// young are the interfaces that the last check read.
func (q smallQuestion) young(w *smallWorld) *inventory.NICs {
	before := smallState{machine: q.machines, off: q.offs}
	without := -1
	switch q.interfaces {
	case 0:
		return nil
	case 2:
		without = before.first1()
	}
	n := w.interfaces(before, false, without)
	n.Read = smallNow.Add(-apart)
	return n
}

// next is what the planner remembers.
func (q smallQuestion) next(w *smallWorld, d Decision, m Remembered) (n smallMemory) {
	n.machines, n.offs, n.rows, n.crossed = q.machine, q.off, q.own, m.Nodes.Crossed
	for c, prefix := range smallCIDR {
		for a := range smallMost {
			hop := hopOf(c, a)
			if led := m.hops[hop]; slices.Contains(led.prefixes, prefix) {
				n.seen[c], n.settled[c] = int8(1+a), smallNow.Sub(led.since) >= steadyAfter
			}
			n.had[c][a] = m.Had[Pair{Prefix: prefix, Hop: hop}]
			for k := range w.targets {
				if m.InSync[smallTargetIDs[k].Key()][prefix] == hop {
					n.inSync[k][c] = int8(1 + a)
				}
			}
		}
	}
	switch { // only in one world may a keeper take the copy for the cluster's table
	case w.mistaken && m.LastTable == copyOfA && m.Recalled:
		n.table = copyRecalled
	case w.mistaken && m.LastTable == copyOfA:
		n.table = copyLikely
	case m.LastTable != tableA:
	case m.LastProven:
		n.table = tableProven
	case m.Recalled:
		n.table = tableRecalled
	default:
		n.table = tableLikely
	}
	for _, lack := range m.Nodes.Lacks {
		switch {
		case !n.mistaken():
		case lack.Reported:
			n.lacks = lacksReported
		case lack.Since.Before(smallNow):
			n.lacks = max(n.lacks, lacksOld)
		default:
			n.lacks = max(n.lacks, lacksYoung)
		}
	}
	read := d.Facts.Known(clusterA).NICs
	switch same := q.machines == n.machines && q.offs == n.offs; {
	case read != nil && read.Failed == "" && q.reads == readPart:
		n.interfaces = 2
	case read != nil && read.Failed == "":
		n.interfaces = 1
	case same && read == nil:
		n.interfaces = q.interfaces
	}
	return n
}

// ask plans. It judges the plan unless only the plan matters.
func (w *smallWorld) ask(q smallQuestion, onlyPlan bool) *smallAnswer {
	known := w.answers[q]
	if known != nil && (onlyPlan || !known.onlyPlan) {
		return known
	}
	d, next := w.decide(q.smallState, q.facts(w), q.young(w))
	a := &smallAnswer{after: q.smallState.leadsTo(w, d.Plan), onlyPlan: onlyPlan,
		memory: q.next(w, d, next.Of(clusterA)), said: mentions(d.Plan)}
	for _, f := range d.Findings {
		if f.Code == finding.ClusterMissing || f.Code == finding.TableMissing ||
			f.Code == finding.TableUnknown {
			a.lost = f.Code
		}
	}
	a.after.reads = 0
	if len(d.Changes) > 0 {
		a.planned = changes(d.Plan)
	}
	if !onlyPlan {
		a.rules = append(judged{w, q.smallState, d.Facts, d.Plan}.wrong(), q.remembers(a)...)
		if a.planned != "" && !recalled(d.Facts) {
			again := q
			again.smallState, again.smallMemory, again.reads = a.after, a.memory, q.reads
			if then := w.ask(again, true); then.planned != "" {
				a.rules = append(a.rules, "stable: "+a.planned+"\nthen "+then.planned)
			}
		}
	}
	w.answers[q] = a
	return a
}

// check plans, writes if writes succeed, and remembers. By is the keeper.
func (s smallStory) check(w *smallWorld, by int, reads int8, writes bool) (after smallStory,
	a *smallAnswer, rules []string) {
	q := smallQuestion{s.smallState, s.keeper[by], s.byOther, s.forgot}
	q.reads = reads
	q.smallMemory = q.history(s)
	a = w.ask(q, false)
	rules = s.excused(a.rules)
	if by == 0 && reads != readNoTarget {
		s.adopt(reads <= readRefused && s.on == hasOwn && s.deleted == 0 &&
			!a.memory.mistaken() && a.lost != finding.TableUnknown)
	}
	if s.keeper[by] = a.memory; writes {
		s.smallState = a.after
	}
	s.reads = 0
	return s, a, rules
}

// excused removes the rules that no check can keep.
func (s smallStory) excused(rules []string) []string {
	if len(rules) == 0 {
		return nil
	}
	ahead := s.ahead()
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool {
		return slices.ContainsFunc(ahead, func(c int) bool {
			return strings.HasPrefix(rule, "delivers: "+smallCIDRText[c])
		})
	})
}

// adopt notes which routes are the cluster's from now on, if a check reads what shows it. A route
// that is not there any more is not: who writes it again is a person.
func (s *smallStory) adopt(shown bool) {
	for k, rows := range s.target {
		for c, r := range rows {
			switch row := s.own[c]; {
			case shown && r.person() && row.node() && row.address() == r.address():
				s.adopted[k][c] = r
			case r != s.adopted[k][c]:
				s.adopted[k][c] = 0
			}
		}
	}
}

// ahead returns the pod CIDRs that nodes already have while the rows that the cloud provider wrote
// for them still have another. Nothing shows that a row will change: all that can be read
// contradicts a person who writes the new route into the target before the cloud provider does.
func (s smallStory) ahead() (prefixes []int) {
	for c, r := range s.own {
		if s.byOther || !r.node() || s.edited[c] {
			continue
		}
		if m := s.machine[r.name()]; m.exists() && m.cidr() != c%smallMost {
			prefixes = append(prefixes, m.cidr()+c-c%smallMost)
		}
	}
	return prefixes
}

// late is a check whose write begins late, while others write: the target is read now, and the
// cluster's table, or the interfaces as well, as they were at the last check.
func (s smallStory) late(w *smallWorld, machines bool) (after smallStory, rules []string) {
	old := s
	if old.own = s.keeper[0].rows; machines {
		old.machine, old.off = s.keeper[0].machines, s.keeper[0].offs
	}
	old.behind = old.own != s.own && !s.byOther && s.deleted == 0
	after, _, rules = old.check(w, 0, readWhole, true)
	after.machine, after.off, after.own, after.behind = s.machine, s.off, s.own, false
	return after, rules
}

// again is a check whose write waits: the check saw the machines and the cluster's table as the
// last check did. Before the write, that table and the targets are read again, and nothing else.
func (s smallStory) again(w *smallWorld) (after smallStory, rules []string) {
	q := smallQuestion{s.smallState, s.keeper[0], s.byOther, s.forgot}
	q.machine, q.off, q.own = s.keeper[0].machines, s.keeper[0].offs, s.keeper[0].rows
	if q.smallMemory = q.history(s); q.smallState == s.smallState || s.deleted != 0 {
		return s, nil
	}
	key := smallAgain{q, s.smallState}
	a := w.again[key]
	if a == nil {
		d, next := w.decide(q.smallState, q.facts(w), q.young(w))
		a = &smallAnswer{after: s.smallState, memory: q.next(w, d, next.Of(clusterA))}
		f := d.Facts.Aged(w.base.configs)
		f.Tables[tableA.Key()] = w.table(tableA, s.own)
		planner := Among(f, w.base.configs, TakenBy(w.base.configs))
		for k, id := range smallTargetIDs[:w.targets] {
			if !slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Resource == id }) {
				continue
			}
			j := judged{w, s.smallState, f, planner.Again(w.table(id, s.target[k]))}
			a.after.target[k] = s.leadsTo(w, j.p).target[k]
			for _, rule := range j.wrongTarget(k) {
				// Findings were made before, and what has to be read first is not read.
				if !strings.HasPrefix(rule, "said") && !strings.HasPrefix(rule, "soon") {
					a.rules = append(a.rules, rule)
				}
			}
		}
		w.again[key] = a
	}
	rules = s.excused(a.rules)
	s.smallState, s.keeper[0] = a.after, a.memory
	return s, rules
}
