package history

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// log is an activity log that lags.
type log struct {
	*azure.Client
	late  time.Duration
	fails error
	asked int
}

func (l *log) OthersWrite(ctx context.Context, from, until time.Time,
	ids ...arm.ID) (azure.LastWrite, bool, error) {
	l.asked++
	if l.fails != nil {
		return azure.LastWrite{}, false, l.fails
	}
	w, known, err := l.Client.OthersWrite(ctx, from, until, ids...)
	return w, known && time.Since(w.At) >= l.late, err
}

// TestWhoItWas: the history names who stripped a subnet once the log shows it, however late. It
// names no writer if the only writes are the keeper's own, are older than the last good check, or
// cannot be read.
func TestWhoItWas(t *testing.T) {
	type stage struct {
		*past
		log   *log
		strip func(as emulator.Principal)
		lost  func() plan.Change
	}
	for name, c := range map[string]struct {
		play func(s *stage)
		want string
		asks int
	}{
		"operator": {func(s *stage) { s.strip(emulatortest.Operator) },
			emulatortest.Operator.ObjectID, 1},
		"late log": {func(s *stage) {
			s.log.late = 12 * time.Minute
			s.strip(emulatortest.Operator)
		}, emulatortest.Operator.ObjectID, 4},
		"own": {func(s *stage) { s.strip(emulatortest.Keeper) }, "", 5},
		"before a good one": {func(s *stage) {
			s.strip(emulatortest.Operator)
			time.Sleep(5 * time.Minute)
			s.good()
		}, "", 5},
		"unreadable": {func(s *stage) {
			s.strip(emulatortest.Operator)
			s.log.fails = errors.New("no right to read it")
		}, "", 5},
		"refused at first": {func(s *stage) {
			s.strip(emulatortest.Operator)
			for range 3 {
				s.missed(s.lost())
				time.Sleep(2 * time.Minute)
			}
		}, emulatortest.Operator.ObjectID, 1},
		"no look before": {func(s *stage) { s.strip(emulatortest.Operator); clear(s.checked) },
			emulatortest.Operator.ObjectID, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "routes"+Extension)
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{})
				d, err := emulator.BuildDemo(e, emulatortest.Operator)
				if err != nil {
					t.Fatal(err)
				}
				s := &stage{past: open1(t, path),
					log: &log{Client: emulatortest.Client(t, e, emulatortest.Keeper)}}
				s.lost = func() plan.Change {
					c := associate()
					c.Resource = d.NodeSubnet
					return c
				}
				s.strip = func(as emulator.Principal) {
					client, err := e.Client(as)
					if err != nil {
						t.Fatal(err)
					}
					doc, err := client.Get(d.NodeSubnet, "2025-05-01")
					if err != nil {
						t.Fatal(err)
					}
					delete(doc["properties"].(map[string]any), "routeTable")
					if err := client.Put(d.NodeSubnet, "2025-05-01", doc); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				s.good()
				time.Sleep(10 * time.Second)
				c.play(s)
				time.Sleep(10 * time.Second)
				s.change(s.lost())
				for range 40 {
					time.Sleep(time.Minute)
					s.Ask(t.Context(), s.log, time.Now())
				}
				checks := s.checks()
				who := checks[len(checks)-1].Changes[0].ChangedBy
				switch {
				case who == nil:
					t.Error("nothing was found out, nor that nothing can be")
				case who.Caller != c.want ||
					c.want == "" && !strings.HasPrefix(who.Line, "unknown"):
					t.Errorf("%+v, want %q", who, c.want)
				}
				r, err := Read(path)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				authors, err := r.Authors()
				if err != nil || (authors["shop"].Name != "") != (c.want != "") {
					t.Errorf("authors %v, %v", authors, err)
				}
				if s.log.asked != c.asks {
					t.Errorf("the log was asked %d times, want %d", s.log.asked, c.asks)
				}
				s.Close()
			})
		})
	}
}

// TestFoundInPlace: a program was killed after it intended to delete a route, and the next check
// found it deleted. The history never says that the keeper deleted it.
func TestFoundInPlace(t *testing.T) {
	p := newPast(t)
	p.Intend(p.start(), []plan.Change{{Verb: plan.Delete, Resource: target, Cluster: "shop",
		Route: "gone", Old: &plan.Value{AddressPrefix: "10.60.0.0/16"}}, associate()})
	p.Close()                        // it was killed
	time.Sleep(2 * time.Millisecond) // the file has milliseconds
	next := open1(t, p.path)
	s := inventory.NewSnapshot()
	s.Tables[target.Key()] = &inventory.RouteTable{Document: arm.Document{ID: target}}
	_, table := associate().New.Associated()
	s.Subnets[nodes.Key()] = &inventory.Subnet{Document: arm.Document{ID: nodes}, RouteTable: table}
	next.Record(next.start(), s)
	got := next.checks()[0].Changes[0]
	if got.State != Found || got.Note != inPlace || got.ChangedBy != nil {
		t.Errorf("%s (%s), changed by %+v", got.State, got.Note, got.ChangedBy)
	}
	// The log is asked who stripped the subnet, but not who made the change.
	if due := next.due(time.Now().Add(time.Hour)); len(due) != 1 || due[0].resource != nodes {
		t.Errorf("%+v are asked, want the association alone", due)
	}
}

// good is a check that found everything correct.
func (p *past) good() {
	r := keeper.Result{Started: time.Now(), Managed: []string{"shop"}, Complete: true}
	p.Record(r, inventory.NewSnapshot())
}

// missed is a check that read everything, and whose changes were refused.
func (p *past) missed(changes ...plan.Change) {
	r := p.start()
	r.Complete = true
	p.Intend(r, changes)
	for _, c := range changes {
		r.Changes = append(r.Changes, plan.Outcome{Change: c, State: plan.Failed})
	}
	p.Settle(r.Changes)
	p.Record(r, inventory.NewSnapshot())
}

// TestNewNodesAreNoRepairs: a route to a new node is not a repair, and the log is not asked about
// it.
func TestNewNodesAreNoRepairs(t *testing.T) {
	p := newPast(t)
	p.change(create(1))
	if due := p.due(time.Now().Add(time.Hour)); len(due) > 0 {
		t.Errorf("%+v is asked", due)
	}
	p.change(associate(),
		plan.Change{Verb: plan.Delete, Resource: target, Route: "x", Old: &plan.Value{}})
	if due := p.due(time.Now().Add(time.Hour)); len(due) != 1 || due[0].resource != nodes {
		t.Errorf("%+v are asked, want the association alone", due)
	}
}
