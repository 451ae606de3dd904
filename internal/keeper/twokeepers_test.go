package keeper

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestTwoKeepersInAStorm: for an hour in which everything fails that can, two keepers have the same
// configs, the same identity and the same store, and events wake both at the same moment. The
// oracle judges each write of both. In the end everything is in sync, and at rest neither writes.
// The variables: seeds.
func TestTwoKeepersInAStorm(t *testing.T) {
	t.Parallel()
	seed, _ := seeds(1)
	t.Run(strconv.Itoa(seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newEverything(t, uint64(seed))
			both := func() {
				for len(d.lives) < 2 {
					d.start()
				}
			}
			for begin := time.Now(); time.Since(begin) < long(time.Hour) && !t.Failed(); {
				both()
				d.happens()
				d.hostile.storm(d.keeper(), d.interesting)
				for _, l := range d.lives {
					l.wake(d)
				}
				d.pass(time.Second + time.Duration(d.by.Int64N(int64(4*time.Minute))))
			}
			both()
			d.calm()
			since := d.mark()
			d.pass(30 * time.Minute)
			writes := slices.DeleteFunc(since(), func(r emulator.Request) bool {
				return r.Method == http.MethodGet || r.Principal != emulator.DefaultPrincipal.Name
			})
			if len(writes) > 0 {
				t.Errorf("%d writes at rest: %v", len(writes), calls(writes))
			}
			for len(d.lives) > 0 {
				d.end(d.lives[0])
			}
			d.hostile.acts.Wait()
			if t.Failed() {
				for _, line := range d.story {
					t.Log(line)
				}
			}
			t.Logf("%d clusters, every %s, %d things happened", len(d.members), d.interval, d.n)
		})
	})
}

// TestTwinIsNoticed: two keepers that events wake at the same moment find some changes already
// made. One of them says so. A keeper by itself never does.
func TestTwinIsNoticed(t *testing.T) {
	for _, keepers := range []int{1, 2} {
		t.Run(strconv.Itoa(keepers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				var all []*running
				for range keepers {
					all = append(all, w.run(time.Minute, w.demoConfig()))
				}
				all[0].since(2 * time.Minute)
				said := false
				for range 8 {
					w.strip(w.demo.GatewaySubnet)
					for _, k := range all {
						k.Wake(Event{Caller: "an event"}, w.demo.GatewaySubnet)
					}
					time.Sleep(7 * time.Minute)
					synctest.Wait()
					if w.tableOf(w.demo.GatewaySubnet) == "" {
						t.Error("the association is not repaired")
					}
				}
				for _, k := range all {
					for _, r := range k.since(0) {
						said = said ||
							slices.ContainsFunc(r.Findings, func(f finding.Finding) bool {
								return f.Code == finding.AnotherKeeper
							})
					}
				}
				if said != (keepers == 2) {
					t.Errorf("of %d keepers, another one was noticed: %v", keepers, said)
				}
			})
		})
	}
}

// wake tells one keeper that everything may have changed.
func (l *life) wake(d *everything) {
	l.mu.Lock()
	k := l.k
	l.mu.Unlock()
	k.Wake(Event{Caller: "an event"}, d.interesting()...)
}
