package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// checkNetwork checks that everything is correct: associations, the routes of the nodes in all
// targets, and unmanaged routes.
func (d *day) checkNetwork() {
	for _, subnet := range d.guarded {
		if has := emulatortest.TableOf(d.t, d.e, subnet); !has.Equal(d.tables[subnet.Key()]) {
			d.t.Errorf("%s has the table %q, want %s", subnet.Short(), has.Short(),
				d.tables[subnet.Key()].Short())
		}
	}
	pods := func(id arm.ID) map[string]string {
		_, body := d.op.Do(http.MethodGet, id, networkAPI, nil)
		table, err := inventory.DecodeRouteTable(body)
		if err != nil {
			d.t.Fatal(err)
		}
		all := map[string]string{}
		for _, r := range table.Routes() {
			if strings.Contains(r.Name, "____") {
				all[r.Destination()] = r.NextHop()
			}
		}
		return all
	}
	want := map[string]map[string]string{}
	for _, c := range d.configs {
		cluster, err := d.op.Get(arm.ID(c.Spec.ClusterID), "2025-10-01")
		if err != nil {
			d.t.Fatal(err)
		}
		pool := cluster["properties"].(object)["agentPoolProfiles"].([]any)[0].(object)
		source := pods(d.tables[arm.ID(pool["vnetSubnetID"].(string)).Key()])
		if fmt.Sprint(len(source)) != fmt.Sprint(pool["count"]) {
			d.t.Errorf("the table of %s holds %d pod routes, it has %v nodes", c.Metadata.Name,
				len(source), pool["count"])
		}
		for _, target := range c.Spec.Targets {
			key := arm.ID(target.RouteTableID).Key()
			if want[key] == nil {
				want[key] = map[string]string{}
			}
			maps.Copy(want[key], source)
		}
	}
	for _, target := range d.targets() {
		if got := pods(target); !maps.Equal(got, want[target.Key()]) {
			d.t.Errorf("%s holds\n  %v\nwant\n  %v", target.Short(), got, want[target.Key()])
		}
		others := d.routes(target)
		maps.DeleteFunc(others, func(name, _ string) bool { return strings.Contains(name, "____") })
		if !maps.Equal(others, d.foreign[target.Key()]) {
			d.t.Errorf("the routes of others in %s are\n  %v\nwant\n  %v", target.Short(), others,
				d.foreign[target.Key()])
		}
	}
}

// write is one change by a PUT of the keeper. If it is only tried, the PUT had no effect, but the
// keeper cannot know that: it got no answer, or a server error.
type write struct {
	at     time.Time
	tried  bool
	change string
}

// written lists the changes of the keeper's PUTs, relative to the document with the same ETag that
// it had read.
func (d *day) written() []write {
	slices.SortStableFunc(d.calls, func(a, b emulator.Request) int {
		return a.Time.Compare(b.Time)
	})
	read := map[string][]byte{}
	var all []write
	for _, r := range d.calls {
		id := arm.ID(r.Path)
		switch {
		case r.Method == http.MethodGet && r.Status == http.StatusOK:
			read[id.Key()+" "+etagOf(r.Answer)] = r.Answer
		case r.Method == http.MethodPut && (r.Status < 300 || r.Status >= 500 || r.Note != ""):
			before := read[id.Key()+" "+r.IfMatch]
			if before == nil {
				d.t.Fatalf("%s was written without being read", id)
			}
			for _, change := range differences(d.t, id, before, r.Body) {
				all = append(all, write{r.Time, r.Status == 0 || r.Status >= 300, change})
			}
			for _, s := range d.quiet {
				// A write that was under way continues, for two minutes at most.
				if r.Time.After(s.from.Add(3*time.Minute)) && r.Time.Before(s.to) {
					d.t.Errorf("%s was written at %s, in the pause since %s", id, r.Time, s.from)
				}
			}
		}
	}
	return all
}

// checkHistory compares the history with the emulator's log: every write is in it once, and every
// change that counts as done was written.
func (d *day) checkHistory() {
	reader, err := history.Read(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer reader.Close()
	type row struct {
		history.Change
		check  int64
		writes int
	}
	rows := map[string][]*row{}
	states := map[plan.OutcomeState]int{}
	if err := reader.Each(history.Query{}, func(e history.Entry) error {
		for _, c := range e.Changes {
			states[c.State]++
			r := &row{Change: c, check: e.ID}
			if c.State == history.Intended || c.Settled == nil {
				d.t.Errorf("check %d: left open: %+v", e.ID, c)
				continue
			}
			rows[keyOf(c.Change)] = append(rows[keyOf(c.Change)], r)
		}
		return nil
	}); err != nil {
		d.t.Fatal(err)
	}
	writes := d.written()
	for _, w := range writes {
		at := w.at.Truncate(time.Millisecond)
		covers := func(r *row) bool { return !at.Before(r.Intended) && !at.After(*r.Settled) }
		var of []string
		for _, r := range rows[w.change] {
			// One write can end in the millisecond in which the next begins.
			ended := at.Equal(*r.Settled) &&
				slices.ContainsFunc(rows[w.change], func(next *row) bool {
					return next.check > r.check && covers(next)
				})
			if covers(r) && !ended {
				r.writes++
				of = append(of, fmt.Sprintf("check %d: %s, intended %s, settled %s %s", r.check,
					r.State, r.Intended, r.Settled, r.Note))
			}
		}
		if len(of) != 1 && !w.tried {
			var others []string
			for _, r := range rows[w.change] {
				others = append(others, fmt.Sprintf("check %d: %s, %s to %s %s", r.check, r.State,
					r.Intended, r.Settled, r.Note))
			}
			d.t.Errorf("%s, written at %s, is %d times in the history:\n  %s\nthe same at other "+
				"times:\n  %s", w.change, w.at, len(of), strings.Join(of,
				"\n  "), strings.Join(others, "\n  "))
		}
	}
	for _, of := range rows {
		for _, r := range of {
			// A tried change can be found done by a check that reads the state before the last
			// write. So can, after a kill, a change that was not even tried, which has a note.
			if r.State == plan.Done && r.writes == 0 && r.Note == "" {
				d.t.Errorf("check %d: %s is said to be done, and was not written: %s to %s %s",
					r.check, keyOf(r.Change.Change), r.Intended, r.Settled, r.Note)
			}
		}
	}
	d.t.Logf("%d events, %d changes written, in the history %v", d.n, len(writes), states)
	if len(writes) < 50 || states[plan.Done] < 50 {
		d.t.Errorf("this day was too quiet")
	}
}

// keyOf identifies a change without its old value.
func keyOf(c plan.Change) string {
	return strings.ToLower(fmt.Sprintf("%s %s %s %s", c.Verb, c.Resource, c.Route, c.New))
}

func etagOf(raw []byte) string {
	var head struct {
		ETag string `json:"etag"`
	}
	_ = json.Unmarshal(raw, &head) // a document without one has none
	return head.ETag
}

// differences lists the differences of two documents as changes.
func differences(t *testing.T, id arm.ID, before, after []byte) []string {
	t.Helper()
	if id.Is(arm.TypeSubnet) {
		old, err := inventory.DecodeSubnet(before)
		now, err2 := inventory.DecodeSubnet(after)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if old.RouteTable.Equal(now.RouteTable) {
			return nil
		}
		return []string{keyOf(plan.Change{Verb: plan.Associate, Resource: id,
			New: &plan.Value{RouteTable: now.RouteTable}})}
	}
	old, err := inventory.DecodeRouteTable(before)
	now, err2 := inventory.DecodeRouteTable(after)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	var all []string
	note := func(verb plan.Verb, r inventory.Route, value *plan.Value) {
		all = append(all, keyOf(plan.Change{Verb: verb, Resource: id, Route: r.Name, New: value}))
	}
	value := func(r inventory.Route) *plan.Value {
		v := &plan.Value{AddressPrefix: r.Destination(), NextHopType: r.HopType}
		if r.Hop.IsValid() {
			v.NextHopIPAddress = r.Hop.String()
		}
		return v
	}
	was := map[string]inventory.Route{}
	for _, r := range old.Routes() {
		was[strings.ToLower(r.Name)] = r
	}
	for _, r := range now.Routes() {
		name := strings.ToLower(r.Name)
		switch before, there := was[name]; {
		case !there:
			note(plan.Create, r, value(r))
		case before.Prefix != r.Prefix || !before.SameHop(r):
			note(plan.Update, r, value(r))
		}
		delete(was, name)
	}
	for _, r := range was {
		note(plan.Delete, r, nil)
	}
	return all
}
