package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every step. How it works: the small world of TestEveryState goes on, breadth first, from two
// machines whose routes are in sync. A step is one thing that can happen (smallsteps_test.go).
// Memory is what the planner makes of it. States that differ only in names count once. Then walks
// of eight steps go deeper than every state can.
//
// Each check must keep the rules of TestEveryState; with old reads, in the world that they show.
// From each state, once nothing else happens and the cloud provider works, three checks must lead
// to:
//
//	right     if the cluster's table is as the cloud provider writes it, each machine has a route in
//	          the target that delivers, or a person's route has its prefix
//	heals     each machine has a route that delivers in both tables, or a finding says otherwise.
//	          The last check reads the interfaces, as the keeper does from time to time. A node
//	          subnet without a table has its own again if that is known. A copy that the keeper took
//	          for the cluster's table is not, once the node subnet has that table
//	gone      if the cluster's table is as the cloud provider writes it: a route that a runbook named
//	          and the keeper took over is gone once it does not deliver
//	stale     a copy that does not deliver, and is not in the cluster's table, is gone or said
//	rest      the next check changes nothing
//
// ROUTEKEEPER_STATES is the number of states of a world: 7,000, or 9,000 with ROUTEKEEPER_FULL.
// ROUTEKEEPER_WALKS is the number of walks: another number takes other ways. With
// ROUTEKEEPER_FIRST the test ends at the first rule that is broken.

// smallVariants are the worlds that are explored, with their shares of the states.
func smallVariants() map[string]*smallWorld {
	return map[string]*smallWorld{
		"small":    {machines: 2, cidrs: 2, targets: 1, keepers: 1},
		"three":    {machines: 3, cidrs: 3, targets: 1, keepers: 1},
		"targets":  {machines: 2, cidrs: 2, targets: 2, keepers: 1},
		"families": {machines: 2, cidrs: 2, targets: 1, keepers: 1, dual: true},
		"keepers":  {machines: 2, cidrs: 2, targets: 1, keepers: 2},
		"room":     {machines: 3, cidrs: 3, targets: 1, keepers: 1, room: 3},
		"runbook":  {machines: 2, cidrs: 2, targets: 1, keepers: 1, runbook: true},
		"outside":  {machines: 2, cidrs: 2, targets: 1, keepers: 1, outside: true},
		"unnamed":  {machines: 2, cidrs: 2, targets: 1, keepers: 1, unnamed: true},
		"mistaken": {machines: 2, cidrs: 2, targets: 1, keepers: 1, unnamed: true, mistaken: true},
	}
}

// inStep is the state in which stories begin: two machines, and all tables have their routes.
func (w *smallWorld) inStep() smallStory {
	s := smallStory{smallState: w.start}
	for k := range w.keepers {
		s.keeper[k].started = true
	}
	s.provide(w)
	w.start.own = s.own
	for c, r := range s.own {
		if w.runbook && r.exists() {
			s.target[0][c] = aRow(byPerson, r.address())
		}
	}
	if w.mistaken {
		s.on, s.forgot = hasCopy, true
	}
	for range 2 {
		for k := range w.keepers {
			s, _, _ = s.check(w, k, readWhole, true)
		}
	}
	return s
}

// explorer plays the steps of one world.
type explorer struct {
	t      *testing.T
	w      *smallWorld
	name   string
	steps  []smallStep
	states []visited
	known  map[smallStory]bool
	broken map[string]int
}

type visited struct {
	story  smallStory
	before int // index of the state before; -1 for the first
	step   int
}

// story are the steps that lead to a state.
func (e *explorer) story(i int) (steps []int) {
	for ; e.states[i].before >= 0; i = e.states[i].before {
		steps = append(steps, e.states[i].step)
	}
	slices.Reverse(steps)
	return steps
}

// play plays steps from the start, and returns the rules that the last of them and what follows
// break.
func (e *explorer) play(steps []int) (s smallStory, rules []string) {
	s = e.states[0].story
	for _, i := range steps {
		s, rules = e.steps[i].do(s)
	}
	return s, append(rules, s.heals(e.w)...)
}

// tell reports a broken rule with the shortest story that it finds.
func (e *explorer) tell(steps []int, rule string) {
	kind, _, _ := strings.Cut(rule, ":")
	if e.broken[kind]++; e.broken[kind] > 2 {
		return
	}
	for i := 0; i < len(steps); i++ {
		shorter := slices.Delete(slices.Clone(steps), i, i+1)
		if _, rules := e.play(shorter); slices.ContainsFunc(rules, func(r string) bool {
			return strings.HasPrefix(r, kind)
		}) {
			steps, i = shorter, -1
		}
	}
	s, rules := e.play(steps)
	var story strings.Builder
	for _, i := range steps {
		fmt.Fprintf(&story, "\t%q,\n", e.steps[i].name)
	}
	broke(e.name+" "+rule, fmt.Sprintf("in %d steps:\n%s", len(steps), &story))
	e.t.Errorf("%s: %s\nthe rule: %s\nin %d steps:\n%sin this state, where %q:\n%s", e.name, rule,
		smallRules[kind], len(steps), &story, rules, s)
}

// explore visits states breadth first, and returns how deep it came.
func (e *explorer) explore(most int) (deep int) {
	start := e.w.inStep()
	e.states, e.known = []visited{{start, -1, 0}}, map[smallStory]bool{start.key(e.w): true}
	raw := map[smallStory]bool{start: true}
	for i := 0; i < len(e.states); i++ {
		s := e.states[i].story
		for n, step := range e.steps {
			after, rules := step.do(s)
			for _, rule := range rules {
				e.tell(append(e.story(i), n), rule)
			}
			if len(e.states) >= most || raw[after] {
				continue
			}
			raw[after] = true
			key := after.key(e.w)
			if e.known[key] {
				continue
			}
			e.known[key] = true
			e.states = append(e.states, visited{after, i, n})
			deep = len(e.story(i)) + 1
			for _, rule := range after.heals(e.w) {
				e.tell(append(e.story(i), n), rule)
			}
		}
		if len(e.states) >= most {
			break // the next states are not played from the rest
		}
	}
	return deep
}

// walk plays steps at random.
func (e *explorer) walk(walks int) {
	random := rand.New(rand.NewPCG(1, uint64(walks)))
	var checks []int
	for i, step := range e.steps {
		if strings.Contains(step.name, "check") || strings.Contains(step.name, "time passes") {
			checks = append(checks, i)
		}
	}
	for range walks {
		s := e.states[0].story
		var steps []int
		for range 8 {
			i := random.IntN(len(e.steps))
			if random.IntN(5) < 2 {
				i = checks[random.IntN(len(checks))]
			}
			after, rules := e.steps[i].do(s)
			if after == s && len(rules) == 0 {
				continue
			}
			s, steps = after, append(steps, i)
			for _, rule := range rules {
				e.tell(steps, rule)
			}
		}
		for _, rule := range s.heals(e.w) {
			e.tell(steps, rule)
		}
	}
}

func TestEveryStep(t *testing.T) {
	most := 7000
	if os.Getenv("ROUTEKEEPER_FULL") != "" {
		most = 9000
	}
	if n, err := strconv.Atoi(os.Getenv("ROUTEKEEPER_STATES")); err == nil {
		most = n
	}
	for name, w := range smallVariants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := most
			if w.made(t); w.mistaken { // what matters is soon visited
				most /= 4
			}
			e := &explorer{t: t, w: w, name: name, steps: w.allSteps(), broken: map[string]int{}}
			deep := e.explore(most)
			walks := most / 20
			if n, err := strconv.Atoi(os.Getenv("ROUTEKEEPER_WALKS")); err == nil {
				walks = n
			}
			e.walk(walks)
			t.Logf("%d states, %d steps deep, %d steps, %d plans; broken: %v", len(e.states), deep,
				len(e.steps), len(w.answers), e.broken)
		})
	}
}

// TestNames renames machines, addresses and pod CIDRs: the planner does not care.
func TestNames(t *testing.T) {
	for _, name := range []string{"three", "families", "keepers"} {
		w := smallVariants()[name].made(t)
		e := &explorer{t: t, w: w, name: name, steps: w.allSteps(), broken: map[string]int{}}
		e.explore(300)
		for i, v := range e.states {
			s := v.story
			pick := func(n, by int) [smallMost]int8 { return orders(n)[i/by%len(orders(n))] }
			n := smallNames{pick(w.machines, 1), pick(w.cidrs, 6), pick(smallMost, 2)}
			for _, reads := range []int8{readWhole, readRefused, readNoTable} {
				after, _, rules := s.check(w, 0, reads, true)
				other, _, broken := s.renamed(n).check(w, 0, reads, true)
				if after.renamed(n) != other || len(rules) != len(broken) {
					t.Fatalf("%s: %v changes\n%s\nto\n%s\nand not to\n%s", name, n, s, other, after)
				}
			}
		}
	}
}

// broke ends the test program at the first broken rule, where only that matters.
func broke(rule, story string) {
	if os.Getenv("ROUTEKEEPER_FIRST") != "" {
		_, _ = os.Stdout.WriteString("BROKEN " + rule + "\n" + story + "\n")
		os.Exit(1)
	}
}
