package plan

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Every step. How it works: the small world of TestEveryState goes on, breadth first, from two
// machines whose routes are in sync. A step is one thing that can happen: a machine joins, leaves,
// or gets another address or pod CIDR; the cloud provider brings its table in line, stops or
// starts; a person sets, bends, renames or deletes a row of either table; time passes, so that rows
// settle; the keeper starts again; or it checks, with complete, partial, refused or old reads, and
// its writes succeed or not. Memory is what the planner makes of it. States that differ only in
// names count once.
//
// Each check must keep the rules of TestEveryState; with old reads, in the world that they show.
// From each state, once nothing else happens and
// the cloud provider works, three checks must lead to:
//
//	right     if the cluster's table is as the cloud provider writes it, each machine has a route in
//	          the target that delivers, or a person's route has its prefix
//	heals     each machine has a route that delivers in both tables, or a finding says otherwise.
//	          The last check reads the interfaces, as the keeper does from time to time
//	stale     a copy that does not deliver, and is not in the cluster's table, is gone or said
//	rest      the next check changes nothing

// smallStory is a state between two steps.
type smallStory struct {
	smallState            // without reads and memory
	stopped    bool       // the cloud provider
	byOther    bool       // the last write of the cluster's table was not the cluster's
	edited     [2]bool    // rows of the cluster's table that a person set
	started    bool       // no check since the keeper started
	past       smallState // machines and rows of the cluster's table at the last check
	looks      bool       // a read of the interfaces is due, and no earlier check has seen nodes
	seen       [2]int8    // rows of the cluster's table at the last check: 1 + the next hop
	settled    [2]bool    // they have been there for longer than steadyAfter
	had        [2][3]bool
	inSync     [2]int8 // 1 + the next hop
}

// smallNames renames machines, pod CIDRs and addresses.
type smallNames struct {
	machines, cidrs [2]int
	addresses       [3]int
}

var allSmallNames = func() (all []smallNames) {
	for _, a := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, m := range [][2]int{{0, 1}, {1, 0}} {
			for _, c := range [][2]int{{0, 1}, {1, 0}} {
				all = append(all, smallNames{m, c, a})
			}
		}
	}
	return all
}()

func (s smallStory) renamed(n smallNames) smallStory {
	out := s
	out.smallState = s.smallState.renamed(n.machines, n.cidrs, n.addresses)
	out.past = s.past.renamed(n.machines, n.cidrs, n.addresses)
	hop := func(h int8) int8 {
		if h == 0 {
			return 0
		}
		return int8(1 + n.addresses[h-1])
	}
	for i, c := range n.cidrs {
		out.seen[c], out.settled[c], out.inSync[c] = hop(s.seen[i]), s.settled[i], hop(s.inSync[i])
		out.edited[c] = s.edited[i]
		for a, was := range s.had[i] {
			out.had[c][n.addresses[a]] = was
		}
	}
	return out
}

// key is the same for all states that differ only in names.
func (s smallStory) key() (first [32]byte) {
	for i, n := range allSmallNames {
		if key := s.renamed(n).pack(); i == 0 || slices.Compare(key[:], first[:]) < 0 {
			first = key
		}
	}
	return first
}

func (s smallStory) pack() (b [32]byte) {
	values := append(b[:0], byte(s.machine[0]), byte(s.machine[1]), byte(s.own[0]), byte(s.own[1]),
		byte(s.target[0]), byte(s.target[1]))
	bit := func(yes bool) byte {
		if yes {
			return 1
		}
		return 0
	}
	values = append(values, bit(s.stopped), bit(s.byOther), bit(s.started),
		byte(s.past.machine[0]), byte(s.past.machine[1]), byte(s.past.own[0]), byte(s.past.own[1]))
	for i := range 2 {
		values = append(values, byte(s.seen[i]), bit(s.settled[i]), byte(s.inSync[i]),
			bit(s.edited[i]))
		for _, was := range s.had[i] {
			values = append(values, bit(was))
		}
	}
	copy(b[:], values)
	return b
}

// smallStep is one thing that can happen.
type smallStep struct {
	name string
	do   func(w *smallWorld, s smallStory) (after smallStory, rules []string)
}

// worldStep is a step that does not call the planner. It changes nothing if do returns false.
func worldStep(name string, do func(s *smallStory) bool) smallStep {
	return smallStep{name, func(_ *smallWorld, s smallStory) (smallStory, []string) {
		if before := s; !do(&s) {
			return before, nil
		}
		return s, nil
	}}
}

// provide is what the cloud provider does: it compares nodes and prefixes, and no next hops.
func (s *smallStory) provide() {
	if s.stopped {
		return
	}
	own := [2]smallRow{}
	for i, m := range s.machine {
		if !m.exists() {
			continue
		}
		own[m.cidr()] = smallRow(1 + i*3 + m.address())
		if was := s.own[m.cidr()]; was.exists() && was.name() == i {
			own[m.cidr()] = was
		}
	}
	for c := range own {
		s.edited[c] = s.edited[c] && own[c] == s.own[c]
	}
	if own != s.own {
		s.own, s.byOther = own, false
	}
}

// wait lets the rows settle that the last check has seen and that are still there.
func (s *smallStory) wait() {
	s.provide()
	for c, r := range s.own {
		s.settled[c] = s.settled[c] || r.exists() && s.seen[c] == int8(1+r.address())
	}
}

// smallNow is when all checks take place; what is settled is older.
var smallNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// facts are what a check knows.
func (s smallStory) facts(w *smallWorld) Facts {
	f := w.facts(s.smallState)
	m := &Remembered{LastTable: tableA, LastProven: true, Had: map[Pair]bool{}, LookDue: s.looks,
		InSync: map[string]map[netip.Prefix]netip.Addr{gateway.Key(): {}},
		hops:   map[netip.Addr]ledBy{}}
	if !s.started {
		m.noted = smallNow
	}
	if !s.looks && !s.started {
		m.Nodes.Hops = map[netip.Addr]string{}
	}
	for c, prefix := range smallCIDR {
		if s.seen[c] > 0 {
			hop := smallAddress[s.seen[c]-1]
			led := m.hops[hop]
			if led.prefixes = append(led.prefixes, prefix); s.settled[c] {
				led.since = smallNow.Add(-steadyAfter)
			} else {
				led.since = smallNow
			}
			m.hops[hop] = led
		}
		if s.inSync[c] > 0 {
			m.InSync[gateway.Key()][prefix] = smallAddress[s.inSync[c]-1]
		}
		for a, was := range s.had[c] {
			if was {
				m.Had[Pair{Prefix: prefix, Hop: smallAddress[a]}] = true
			}
		}
	}
	f.Memory[clusterA.Key()] = m
	f.Writers[tableA.Key()] = inventory.Writer{Line: "last written", Names: []string{"ann"}}
	if !s.byOther {
		f.Writers[tableA.Key()] = inventory.Writer{Line: "last written",
			Names: w.cluster.Principals}
	}
	return f
}

// remember takes over what the planner remembers.
func (s *smallStory) remember(m Remembered) {
	s.seen, s.settled, s.had, s.inSync = [2]int8{}, [2]bool{}, [2][3]bool{}, [2]int8{}
	for c, prefix := range smallCIDR {
		for a, hop := range smallAddress {
			if led := m.hops[hop]; slices.Contains(led.prefixes, prefix) {
				s.seen[c], s.settled[c] = int8(1+a), smallNow.Sub(led.since) >= steadyAfter
			}
			s.had[c][a] = m.Had[Pair{Prefix: prefix, Hop: hop}]
			if m.InSync[gateway.Key()][prefix] == hop {
				s.inSync[c] = int8(1 + a)
			}
		}
	}
}

// check plans, writes if writes succeed, and remembers.
func (s smallStory) check(w *smallWorld, reads int, writes bool) (after smallStory, p Plan,
	rules []string) {
	s.reads = reads
	d, next := w.decide(s.smallState, s.facts(w))
	p = d.Plan
	rules = slices.DeleteFunc(w.wrong(s.smallState, d.Facts, p), func(rule string) bool {
		return slices.ContainsFunc(s.ahead(), func(c int) bool {
			return strings.HasPrefix(rule, "delivers: "+smallCIDR[c].String())
		})
	})
	s.remember(next.Of(clusterA))
	if desired := p.Desired.Table(gateway); writes && desired != nil {
		s.target = [2]smallRow{}
		for _, r := range desired.Routes {
			if c := slices.Index(smallCIDR[:], r.Prefix); c >= 0 {
				name := slices.Index(smallNode[:], inventory.RouteNode(r.Name))
				if name < 0 {
					name = byPerson
				}
				s.target[c] = smallRow(1 + name*3 + slices.Index(smallAddress[:], r.Hop))
			}
		}
	}
	s.reads, s.started = 0, false
	s.past = smallState{machine: s.machine, own: s.own}
	return s, p, rules
}

// ahead returns the pod CIDRs that nodes already have while the rows that the cloud provider wrote
// for them still have another. Nothing shows that a row will change: all that can be read
// contradicts a person who writes the new route into the target before the cloud provider does.
func (s smallStory) ahead() (cidrs []int) {
	for c, r := range s.own {
		if s.byOther || !r.exists() || r.name() == byPerson || s.edited[c] {
			continue
		}
		if m := s.machine[r.name()]; m.exists() && m.cidr() != c {
			cidrs = append(cidrs, m.cidr())
		}
	}
	return cidrs
}

// late is a check whose write begins late, while others write: the target is read now, and the
// cluster's table and the interfaces as they were at the last check.
func (s smallStory) late(w *smallWorld) (after smallStory, rules []string) {
	old := s
	old.machine, old.own = s.past.machine, s.past.own
	after, _, rules = old.check(w, readWhole, true)
	after.machine, after.own = s.machine, s.own
	return after, rules
}

// restarts forgets what no history has.
func (s *smallStory) restarts() {
	s.started = true
	s.seen, s.settled, s.had, s.inSync = [2]int8{}, [2]bool{}, [2][3]bool{}, [2]int8{}
}

// heals plays what must follow when nothing else happens.
func (s smallStory) heals(w *smallWorld) (rules []string) {
	s.stopped = false
	var p Plan
	for range 3 {
		s.wait()
		var broken []string
		s, p, broken = s.check(w, readWhole, true)
		rules = append(rules, broken...)
	}
	s.looks = true
	var broken []string
	if _, p, broken = s.check(w, readWhole, true); len(p.Changes) > 0 {
		rules = append(rules, "rest: "+changes(p))
	}
	rules = append(rules, broken...)
	for c, r := range s.target {
		same := s.own[c].exists() && s.own[c].address() == r.address()
		if r.exists() && r.name() != byPerson && !same &&
			!s.delivers(c, smallAddress[r.address()]) &&
			!says(p, smallMachine(1+r.address()*2+c), r) {
			rules = append(rules, "stale: "+smallRoute(c, r)+" stays, and nothing says so")
		}
	}
	for _, m := range s.machine {
		if !m.exists() {
			continue
		}
		row, copied := s.own[m.cidr()], s.target[m.cidr()]
		if s.provided() && copied.address() != m.address() &&
			(!copied.exists() || copied.name() != byPerson) {
			rules = append(rules, "right: the target lacks "+smallRoute(m.cidr(), row))
		}
		for _, r := range []smallRow{s.own[m.cidr()], s.target[m.cidr()]} {
			if (!r.exists() || r.address() != m.address()) && !says(p, m, r) {
				rules = append(rules, fmt.Sprintf("heals: %s has no route to %s",
					smallCIDR[m.cidr()], smallAddress[m.address()]))
			}
		}
	}
	return rules
}

// provided reports whether the cluster's table is as the cloud provider writes it, and it was the
// last to write it.
func (s smallStory) provided() bool {
	var own [2]smallRow
	for i, m := range s.machine {
		if m.exists() {
			own[m.cidr()] = smallRow(1 + i*3 + m.address())
		}
	}
	return s.own == own && !s.byOther
}

// says reports whether a finding names the pod CIDR of a machine, its address, or where its route
// leads instead.
func says(p Plan, m smallMachine, r smallRow) bool {
	names := []string{smallCIDR[m.cidr()].String(), smallAddress[m.address()].String()}
	if r.exists() {
		names = append(names, smallAddress[r.address()].String())
	}
	return slices.ContainsFunc(p.Findings, func(f finding.Finding) bool {
		text := f.Message + strings.Join(f.Evidence, "\n")
		return slices.ContainsFunc(names, func(name string) bool {
			return strings.Contains(text, name)
		})
	})
}

// smallSteps are all steps.
func smallSteps() (steps []smallStep) {
	add := func(do func(s *smallStory) bool, format string, args ...any) {
		steps = append(steps, worldStep(fmt.Sprintf(format, args...), do))
	}
	for i := range 2 {
		for now := range smallMachine(smallMachines) {
			what := "leaves"
			if now.exists() {
				what = fmt.Sprintf("has %s and %s", smallAddress[now.address()],
					smallCIDR[now.cidr()])
			}
			add(func(s *smallStory) bool {
				o := s.machine[1-i]
				if now.exists() && o.exists() && (o.address() == now.address() ||
					o.cidr() == now.cidr()) {
					return false
				}
				s.machine[i] = now
				return true
			}, "machine %d %s", i, what)
		}
	}
	add(func(s *smallStory) bool { s.provide(); return true }, "the cloud provider writes")
	add(func(s *smallStory) bool { s.byOther = false; return !s.stopped },
		"the cloud provider writes another route, from an older read")
	add(func(s *smallStory) bool {
		s.provide()
		s.stopped = !s.stopped
		return true
	}, "the cloud provider stops, or starts")
	add(func(s *smallStory) bool { s.wait(); return true }, "time passes")
	for c := range 2 {
		for r := range smallRow(smallRows) {
			add(func(s *smallStory) bool {
				s.own[c], s.byOther, s.edited[c] = r, true, true
				return true
			},
				"a person sets in the cluster's table, for %s: %s", smallCIDR[c], smallRoute(c, r))
			add(func(s *smallStory) bool { s.target[c] = r; return true },
				"a person sets in the target, for %s: %s", smallCIDR[c], smallRoute(c, r))
		}
	}
	for reads, what := range []string{readWhole: "all", readPart: "not all interfaces",
		readRefused: "no interface", readNoTable: "not the cluster's table"} {
		for _, writes := range []bool{true, false} {
			if what == "" {
				continue
			}
			steps = append(steps, smallStep{
				fmt.Sprintf("a check reads %s; its writes succeed: %t", what, writes),
				func(w *smallWorld, s smallStory) (smallStory, []string) {
					after, _, rules := s.check(w, reads, writes)
					return after, rules
				}})
		}
	}
	add(func(s *smallStory) bool { s.restarts(); return true }, "the keeper starts again")
	return append(steps, smallStep{"a check with old reads", func(w *smallWorld, s smallStory) (
		smallStory, []string) {
		return s.late(w)
	}})
}

// TestEveryStep plays steps from two machines in sync. ROUTEKEEPER_STATES is the number of states.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	most := 2000
	if n, err := strconv.Atoi(os.Getenv("ROUTEKEEPER_STATES")); err == nil {
		most = n
	}
	type visited struct {
		story  smallStory
		before int // index of the state before; -1 for the first
		step   string
	}
	w, steps := newSmallWorld(t), smallSteps()
	start := inStep(w)
	states := []visited{{start, -1, ""}}
	known := map[[32]byte]bool{start.key(): true}
	tell := func(i int, last, rule string, s smallStory) {
		var story []string
		for ; i >= 0; i = states[i].before {
			story = append(story, states[i].step)
		}
		slices.Reverse(story)
		t.Errorf("%s, in this state:\n%s\nTo replay it, add to TestStories:\n{%q},", rule, s,
			append(story[1:], last))
	}
	broken := map[string]int{}
	deepest := 0
	for i := 0; i < len(states); i++ {
		s := states[i].story
		for _, step := range steps {
			after, rules := step.do(w, s)
			key := after.key()
			fresh := !known[key] && len(states) < most
			if fresh {
				known[key] = true
				states = append(states, visited{after, i, step.name})
				deepest = i
				rules = append(rules, after.heals(w)...)
			}
			for _, rule := range rules {
				kind, _, _ := strings.Cut(rule, ":")
				if broken[kind]++; broken[kind] <= 2 {
					tell(i, step.name, rule, after)
				}
			}
		}
		if len(states) >= most && i >= most/8 {
			break // the rest are states at the edge, whose next states are not played
		}
	}
	depth := 0
	for i := deepest; i >= 0; i = states[i].before {
		depth++
	}
	t.Logf("%d states, %d steps deep; broken: %v", len(states), depth, broken)
}

// inStep is the state in which stories begin: two machines, and both tables have their routes.
func inStep(w *smallWorld) smallStory {
	s := smallStory{smallState: smallState{machine: [2]smallMachine{1, 4}}}
	s.provide()
	s, _, _ = s.check(w, readWhole, true)
	s, _, _ = s.check(w, readWhole, true)
	return s
}
