package history

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

const (
	group  = "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net-rg/providers/Microsoft.Network"
	nodes  = arm.ID(group + "/virtualNetworks/shop-vnet/subnets/nodes")
	table  = arm.ID(group + "/routeTables/shop-rt")
	target = arm.ID(group + "/routeTables/appgw-rt")
)

func associate() plan.Change {
	return plan.Change{Verb: plan.Associate, Resource: nodes, Cluster: "shop",
		New: &plan.Value{RouteTable: table}, Why: "node subnet has lost its route table"}
}

func create(n int) plan.Change {
	return plan.Change{Verb: plan.Create, Resource: target, Cluster: "shop",
		Route: fmt.Sprintf("node%d", n), Why: "new in the cluster's table",
		New: &plan.Value{AddressPrefix: fmt.Sprintf("10.244.%d.0/24", n),
			NextHopType: "VirtualAppliance", NextHopIPAddress: fmt.Sprintf("10.42.1.%d", n)}}
}

func done(changes ...plan.Change) []plan.Outcome {
	var outcomes []plan.Outcome
	for _, c := range changes {
		outcomes = append(outcomes, plan.Outcome{Change: c, State: plan.Done})
	}
	return outcomes
}

// seenWith is a snapshot in which the node subnet has a table, or none.
func seenWith(id arm.ID) *inventory.Snapshot {
	s := inventory.NewSnapshot()
	s.Subnets[nodes.Key()] = &inventory.Subnet{Document: arm.Document{ID: nodes}, RouteTable: id}
	return s
}

// past is a history being written.
type past struct {
	*Log
	t    testing.TB
	path string
	now  time.Time
}

func open1(t testing.TB, path string) *past {
	l := Open(path, Options{})
	t.Cleanup(func() { l.Close() })
	return &past{l, t, path, time.Now()}
}

func newPast(t testing.TB) *past { return open1(t, filepath.Join(t.TempDir(), "routes"+Extension)) }

// start begins a check.
func (p *past) start() keeper.Result {
	p.now = p.now.Add(time.Millisecond)
	if real := time.Now(); real.After(p.now) {
		p.now = real
	}
	time.Sleep(2 * time.Millisecond) // its intents have a later time
	return keeper.Result{Started: p.now, Woke: keeper.Cause{By: keeper.ByPoll},
		Managed: []string{"shop"}}
}

// change makes a check that changes something, from its intent to its end.
func (p *past) change(changes ...plan.Change) []finding.Finding {
	r := p.start()
	p.Intend(r, changes)
	r.Changes = done(changes...)
	p.Settle(r.Changes)
	return p.Record(r, seenWith(""))
}

// checks reads the file as another program would.
func (p *past) checks() []Entry { return read(p.t, p.path, Query{}) }

func read(t testing.TB, path string, q Query) []Entry {
	t.Helper()
	r, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []Entry
	if err := r.Each(q, func(e Entry) error { all = append(all, e); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// tell formats the checks, one per line, the oldest first.
func tell(checks []Entry) string {
	var b strings.Builder
	for _, e := range checks {
		var what []string
		for _, c := range e.Changes {
			what = append(what, string(c.State)+" "+string(c.Verb)+" "+c.Route)
		}
		for _, f := range e.Findings {
			what = append(what, f.News+" "+string(f.Code))
		}
		if e.ElapsedMs == nil {
			what = append(what, "no end")
		}
		fmt.Fprintln(&b, strings.TrimSpace(strings.Join(what, "; ")))
	}
	return strings.TrimSpace(b.String())
}

func expect(t testing.TB, checks []Entry, want ...string) {
	t.Helper()
	if got := tell(checks); got != strings.Join(want, "\n") {
		t.Errorf("the history says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestStepByStep: an intended change is in the file before it is settled, and a check without news
// is not recorded.
func TestStepByStep(t *testing.T) {
	p := newPast(t)
	r := p.start()
	p.Intend(r, []plan.Change{associate()})
	expect(t, p.checks(), "intended associate ; no end")
	p.Intend(r, []plan.Change{associate()}) // its write started over
	p.Settle(done(associate()))
	expect(t, p.checks(), "done associate ; no end")
	r.Changes = append(done(associate()),
		plan.Outcome{Change: create(1), State: plan.Failed, Error: "no"})
	lost := finding.New(finding.WriteFailed, "shop", string(target), "not changed")
	r.Findings, r.Elapsed, r.Reads = []finding.Finding{lost}, time.Second, 7
	r.Observed = []keeper.Observation{{Resource: nodes, Read: "no route table"}}
	p.Record(r, seenWith(""))
	expect(t, p.checks(), "done associate ; failed create node1; new write-failed")

	for range 3 { // the same again is not news
		r = p.start()
		r.Changes, r.Findings = []plan.Outcome{
			{Change: create(1), State: plan.Failed, Error: "no"}}, []finding.Finding{lost}
		p.Record(r, seenWith(table))
	}
	p.Record(p.start(), seenWith(table))
	expect(t, p.checks(), "done associate ; failed create node1; new write-failed",
		"resolved write-failed")

	// of another cluster only: a change that is still not made is not news afterwards
	other := p.start()
	other.Of = []string{"other"}
	p.Record(other, inventory.NewSnapshot())
	r = p.start()
	r.Changes = []plan.Outcome{{Change: create(1), State: plan.Failed, Error: "no"}}
	p.Record(r, seenWith(table))
	p.Record(other, inventory.NewSnapshot())
	p.Record(r, seenWith(table))
	if checks := p.checks(); len(checks) != 3 {
		t.Errorf("the history says\n%s\nwant one check more", tell(checks))
	}

	e := p.checks()[0]
	if *e.ElapsedMs != 1000 || e.Reads != 7 || e.Woke.By != "poll" ||
		e.Observed[0].Read != "no route table" || e.Changes[0].New.RouteTable != table ||
		e.Changes[1].Error != "no" {
		t.Errorf("%+v", e)
	}
	for q, want := range map[Query]int{{Kind: KindRefusal}: 2, {Kind: KindFinding}: 2,
		{Cluster: "shop"}: 3, {Cluster: "other"}: 0, {Cluster: "other", Kind: KindChange}: 0,
		{Since: p.now}: 1, {Limit: 1}: 1, {ID: 1}: 1, {Kind: KindInterrupted}: 0} {
		if got := len(read(t, p.path, q)); got != want {
			t.Errorf("%+v: %d checks, want %d", q, got, want)
		}
	}
}

// TestLeftOpen: a program was killed between an intent and its outcome. The first check of the next
// program settles it.
func TestLeftOpen(t *testing.T) {
	for name, c := range map[string]struct {
		next func(p *past)
		want []string
	}{
		"made": {func(p *past) { p.Record(p.start(), seenWith(table)) },
			[]string{"found associate ; no end"}},
		"not made": {func(p *past) { p.change(associate()) },
			[]string{"interrupted associate ; no end", "done associate"}},
		"not wanted now": {func(p *past) { p.Record(p.start(), seenWith("")) },
			[]string{"interrupted associate ; no end"}},
		"not checked": {func(p *past) { p.Record(p.start(), inventory.NewSnapshot()) },
			[]string{"intended associate ; no end"}},
		"made on its way": {func(p *past) { p.found(associate()) },
			[]string{"found associate ; no end"}},
		"killed once more": {func(p *past) { p.Intend(p.start(), []plan.Change{associate()}) },
			[]string{"interrupted associate ; no end", "intended associate ; no end"}},
	} {
		t.Run(name, func(t *testing.T) {
			first := newPast(t)
			first.Intend(first.start(), []plan.Change{associate()})
			time.Sleep(2 * time.Millisecond)
			second := open1(t, first.path)
			c.next(second)
			expect(t, second.checks(), c.want...)
		})
	}
}

// found is a check that was about to make a change and found it made.
func (p *past) found(c plan.Change) {
	r := p.start()
	r.Changes = []plan.Outcome{{Change: c, State: plan.Obsolete}}
	p.Record(r, seenWith(""))
}

// TestGivenUp: a write had a change that its check did not report, because it ended badly. The next
// check settles it.
func TestGivenUp(t *testing.T) {
	p := newPast(t)
	r := p.start()
	p.Intend(r, []plan.Change{associate(), create(1)})
	r.Changes = []plan.Outcome{{Change: create(1), State: plan.Failed}}
	p.Settle(r.Changes)
	p.Record(r, seenWith(""))
	expect(t, p.checks(), "intended associate ; failed create node1")
	p.Record(p.start(), seenWith(table))
	expect(t, p.checks(), "found associate ; failed create node1")
}

// TestOverlap: checks of different clusters run at once. Each change is in its own check, once. The
// end of one check settles nothing of another, even if it has seen the other's resources.
func TestOverlap(t *testing.T) {
	p := newPast(t)
	other := plan.Change{Verb: plan.Delete, Resource: table, Cluster: "play", Route: "n",
		Old: &plan.Value{AddressPrefix: "10.150.0.0/24"}}
	first := p.start()
	first.Serial, first.Of, first.Managed, first.Complete = 1, []string{"shop"}, []string{"shop",
		"play"}, true
	second := first
	// reported separately from the same check, so it began at the same time
	second.Serial, second.Of = 2, []string{"play"}
	p.Intend(first, []plan.Change{associate()})
	p.Intend(second, []plan.Change{other})
	third := p.start()
	third.Serial, third.Of, third.Managed = 3, []string{"third"}, []string{"shop", "play", "third"}
	p.Record(third, seenWith("")) // it has no changes, and saw the subnet without its table
	second.Changes = done(other)
	p.Settle(second.Changes)
	p.Record(second, seenWith(""))
	if all := p.checks(); len(all) != 2 || all[0].Changes[0].State != Intended ||
		all[0].ElapsedMs != nil || all[1].Changes[0].State != plan.Done || all[1].ElapsedMs == nil {
		t.Errorf("while the first is under way: %+v", all)
	}
	first.Changes = done(associate())
	p.Settle(first.Changes)
	p.Record(first, seenWith(""))
	all := p.checks()
	if len(all) != 2 || len(all[0].Changes) != 1 || len(all[1].Changes) != 1 ||
		all[0].Changes[0].State != plan.Done || all[0].Changes[0].Note != "" ||
		all[0].ElapsedMs == nil {
		t.Errorf("afterwards: %+v", all)
	}
}

// TestTwoAtOnce: a person's sync writes into the file of a running keeper. Nothing is lost, and
// neither takes the other for dead.
func TestTwoAtOnce(t *testing.T) {
	a := newPast(t)
	b := open1(t, a.path)
	finished := make(chan []finding.Finding)
	for i, p := range []*past{a, b} {
		go func() {
			var found []finding.Finding
			for n := range 50 {
				found = append(found, p.change(create(1000*i+n))...)
			}
			finished <- found
		}()
	}
	for _, f := range append(<-finished, <-finished...) {
		// SQLite lets writers wait in no order: on a slow machine one can wait too long for its
		// turn, and writes it later.
		if !strings.Contains(f.Message, "another program holds it locked") {
			t.Errorf("finding %+v", f)
		}
	}
	for _, p := range []*past{a, b} {
		well(t, p.Record(p.start(), seenWith("")))
	}
	made := map[string]int{}
	for _, e := range a.checks() {
		for _, c := range e.Changes {
			if c.State == plan.Done && c.Note == "" {
				made[c.Route]++
			}
		}
	}
	if len(made) != 100 {
		t.Errorf("%d changes are done in the history, want 100", len(made))
	}
	for route, n := range made {
		if n != 1 {
			t.Errorf("%s is there %d times", route, n)
		}
	}
}

func TestRetention(t *testing.T) {
	p := newPast(t)
	p.opts = Options{Age: time.Hour}
	old := p.start()
	old.Started = old.Started.Add(-2 * time.Hour)
	old.Changes = done(create(1))
	p.pruned = time.Now()
	p.Record(old, seenWith(""))
	p.change(create(2))
	expect(t, p.checks(), "done create node1", "done create node2")
	if err := p.removeOld(time.Now()); err != nil {
		t.Fatal(err)
	}
	expect(t, p.checks(), "done create node2")

	p.opts = Options{Size: 400 << 10}
	many := make([]plan.Change, 100)
	for i := range 60 {
		for j := range many {
			many[j] = create(1000*i + j)
		}
		p.change(many...)
	}
	if err := p.removeOld(time.Now()); err != nil {
		t.Fatal(err)
	}
	checks := p.checks()
	if last := checks[len(checks)-1].Changes; len(checks) < 3 || len(checks) > 30 ||
		last[len(last)-1].Route != "node59099" {
		t.Errorf("%d checks are left, the last with %+v", len(checks), last[len(last)-1])
	}
	p.Close()
	if info, err := os.Stat(p.path); err != nil || info.Size() > 500<<10 {
		t.Errorf("%v, %d bytes on the disk", err, info.Size())
	}
}

func BenchmarkChanges(b *testing.B) {
	p := newPast(b)
	changes := make([]plan.Change, 100)
	rows := 0
	for b.Loop() {
		for i := range changes {
			changes[i] = create(rows + i)
		}
		p.change(changes...)
		rows += len(changes)
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/check")
}

// TestRefusedRepair: a lost association is not resolved because its repair was refused, and a
// finding with other words is news.
func TestRefusedRepair(t *testing.T) {
	p := newPast(t)
	for _, f := range []finding.Finding{
		finding.New(finding.AssociationLost, "shop", string(nodes), "lost"),
		finding.New(finding.WriteRefused, "shop", string(nodes), "403"),
		finding.New(finding.WriteRefused, "shop", string(nodes), "403 of another caller"),
	} {
		r := p.start()
		r.Findings = []finding.Finding{f}
		p.Record(r, seenWith(""))
	}
	want := []string{"association-lost new", "write-refused new", "association-lost not repaired",
		"write-refused changed"}
	var got []string
	for _, e := range p.checks() {
		for _, f := range e.Findings {
			got = append(got, string(f.Code)+" "+f.News)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
