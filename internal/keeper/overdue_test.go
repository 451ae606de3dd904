package keeper

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// takenAway is an association that was removed.
type takenAway struct {
	m      *member
	since  time.Time
	could  time.Time // since when nothing prevents its repair
	excuse string    // the last reason that prevented it
}

// pass lets time pass, and checks every few seconds what is broken.
func (d *everything) pass(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end) && !d.t.Failed(); {
		step := time.Minute
		if len(d.lost) > 0 {
			step = time.Second
		} else if len(d.faults) > 0 {
			step = 10 * time.Second
		}
		time.Sleep(min(step, time.Until(end)))
		synctest.Wait()
		d.check()
	}
}

// check compares the state with the expected one.
func (d *everything) check() {
	d.checks++
	now := time.Now()
	d.faults = slices.DeleteFunc(d.faults, func(f *fault) bool {
		over := !now.Before(f.until)
		if over {
			f.remove()
		}
		for _, m := range f.excuses {
			d.excuse(m, f.grace, f.what)
			if strings.HasPrefix(f.what, "stale") {
				m.unseen = m.excused
			}
		}
		for _, m := range d.members {
			if f.late > 0 && !d.known(m) {
				d.excuse(m, f.late, "not known since the start")
			}
		}
		return over
	})
	d.checkLost(now)
	if len(d.lost) == 0 || now.Second()%10 == 0 {
		d.checkTargets(now)
		for table, want := range d.theirs {
			if got := d.read(table).theirs; !reflect.DeepEqual(got, want) {
				d.t.Errorf("at %s the unmanaged routes of %s are\n%v\nwant\n%v", now, table.Short(),
					got, want)
			}
		}
	}
}

// excuse notes that a cluster's associations may stay lost for some time.
func (d *everything) excuse(m *member, grace time.Duration, what string) {
	if until := time.Now().Add(grace); until.After(m.excused) {
		m.excused, m.excuse = until, what
	}
}

// quick is how long a repair may take in addition to an interval: what the design promises, and the
// operation's time.
const quick = 2*time.Second + 4*time.Second

// unsaidFor is how long something may be broken without a finding, in addition to an interval. From
// then on there must be a finding at every moment. It is long enough for a write that is refused at
// first and then succeeds.
const unsaidFor = 3 * time.Minute

func (d *everything) checkLost(now time.Time) {
	for subnet, l := range d.lost {
		if d.read(subnet).table != "" {
			d.latest = max(d.latest, now.Sub(l.could)-d.interval)
			delete(d.lost, subnet)
			continue
		}
		switch why := d.excused(l.m, now); {
		case why != "":
			l.could, l.excuse = now, why
		case now.Sub(l.could) > d.interval+quick:
			d.t.Errorf("at %s %s is not repaired, %s after it could have been; lost since %s; "+
				"before: %s",
				now, subnet.Short(), now.Sub(l.could), l.since, l.excuse)
		}
		if now.Before(l.m.unseen) || !l.m.left.IsZero() {
			l.since = now
		}
		if d.watches(l.m, now) && now.Sub(l.since) > d.interval+unsaidFor &&
			d.findings(l.m) == nil {
			d.t.Errorf("at %s %s is lost since %s, and nothing says so", now, subnet.Short(),
				l.since)
		}
	}
}

// excused says what prevents the repair of a cluster's associations; "" if nothing does.
func (d *everything) excused(m *member, now time.Time) string {
	switch {
	case len(d.lives) == 0:
		return "no keeper"
	case d.pause() != "":
		return "a pause"
	case !m.left.IsZero():
		return "no config"
	case !m.gone.IsZero():
		return "no cluster"
	case now.Before(m.excused):
		return m.excuse
	case len(d.faults) > 0 && !d.known(m):
		return "not known since the start"
	case !d.known(m) && len(d.read(m.table).nodes) == 0:
		return "nothing shows which table is its own" // it has no route to the cluster's nodes
	}
	return ""
}

// known reports whether a running keeper has read all of a cluster.
func (d *everything) known(m *member) bool {
	return slices.ContainsFunc(d.lives, func(l *life) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.knows[m.name]
	})
}

// watches reports whether a keeper has had time to report what is wrong with a cluster.
func (d *everything) watches(m *member, now time.Time) bool {
	return len(d.lives) > 0 && m.left.IsZero() && now.Sub(d.lives[0].started) > d.interval+unsaidFor
}

// findings are the first keeper's findings about a cluster, or about no cluster.
func (d *everything) findings(m *member) []finding.Finding {
	l := d.lives[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	var of []finding.Finding
	for _, f := range l.said {
		if f.Cluster == m.name || f.Cluster == "" && f.Code != finding.AnotherKeeper {
			of = append(of, f)
		}
	}
	return of
}

// wanted are the expected routes of each target, in the form of routes().
func (d *everything) wanted() map[arm.ID][]string {
	want := map[arm.ID]map[string]bool{}
	for _, m := range d.members {
		own := d.read(m.table).nodes
		for _, target := range m.targets {
			if want[target] == nil {
				want[target] = map[string]bool{}
			}
			for prefix, hop := range own {
				want[target][fmt.Sprintf("%s>%s", prefix, hop)] = true
			}
		}
	}
	out := map[arm.ID][]string{}
	for target, routes := range want {
		for _, r := range d.read(target).routes {
			if strings.HasPrefix(r, "172.") {
				routes[r] = true
			}
		}
		out[target] = slices.Sorted(maps.Keys(routes))
	}
	return out
}

// checkTargets checks that a keeper reports a target that lacks routes for long.
func (d *everything) checkTargets(now time.Time) {
	for target, want := range d.wanted() {
		var of []*member
		for _, m := range d.members {
			if slices.ContainsFunc(m.targets, target.Equal) {
				of = append(of, m)
			}
		}
		got := d.read(target).routes
		lacks := slices.ContainsFunc(want, func(r string) bool { return !slices.Contains(got, r) })
		if !lacks {
			delete(d.lacks, target)
			continue
		}
		if d.lacks[target].IsZero() {
			d.lacks[target] = now
		}
		// A cluster that is not configured, or does not exist, needs no report. A keeper that reads
		// old documents cannot know.
		quiet := slices.ContainsFunc(of, func(m *member) bool {
			return !d.watches(m, now) || !m.gone.IsZero()
		}) || slices.ContainsFunc(d.faults, func(f *fault) bool {
			return strings.HasPrefix(f.what, "stale")
		})
		said := slices.ContainsFunc(of, func(m *member) bool {
			return !quiet && d.findings(m) != nil
		})
		if quiet || said {
			d.lacks[target] = now
		}
		if now.Sub(d.lacks[target]) > d.interval+2*unsaidFor {
			d.t.Errorf("at %s %s lacks routes since %s, and nothing says so:\n%v\nwant\n%v", now,
				target.Short(), d.lacks[target], got, want)
		}
	}
}
