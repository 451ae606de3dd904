package serve

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// measured returns the sums and counts of all histograms with values, by name and kind.
func measured(t *testing.T, r *prometheus.Registry) []string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			if h.GetSampleCount() == 0 {
				continue
			}
			kind := ""
			for _, l := range m.GetLabel() {
				kind = l.GetValue() + ": "
			}
			all = append(all, fmt.Sprintf("%s %s%d in %.0f s", f.GetName()[len("routekeeper_"):],
				kind, h.GetSampleCount(), h.GetSampleSum()))
		}
	}
	slices.Sort(all)
	return all
}

// TestWaits: a change is timed from the check, or event, that first found it necessary until it was
// seen made, whatever happened in between, by kind of repair.
func TestWaits(t *testing.T) {
	const subnets = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/"
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	config := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "shop"}}
	config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: subnets + "APPGW"}}
	associate := func(subnet string, state plan.OutcomeState) plan.Outcome {
		return plan.Outcome{State: state, Change: plan.Change{Cluster: "shop", Verb: plan.Associate,
			Resource: arm.ID(subnets + subnet), New: &plan.Value{RouteTable: "/t"}}}
	}
	route := func(verb plan.Verb, name, prefix string, state plan.OutcomeState) plan.Outcome {
		return plan.Outcome{State: state, Change: plan.Change{Cluster: "shop", Verb: verb,
			Resource: "/t", Route: name, New: &plan.Value{AddressPrefix: prefix}}}
	}
	repaired := route(plan.Update, "b", "10.244.1.0/24", plan.Done)
	repaired.Repair = true
	early := associate("nodes", plan.Done)
	early.Ended = at(2)
	unread := []finding.Finding{finding.New(finding.ReadFailed, "shop", "/x", "unread")}
	paused := []finding.Finding{finding.New(finding.Paused, "", "", "paused")}
	type check struct {
		at, asked int // seconds; asked 0: no event
		changes   []plan.Outcome
		findings  []finding.Finding
		of        []string
	}
	for name, c := range map[string]struct {
		checks []check
		want   []string
	}{
		"made at once": {
			[]check{{at: 10, changes: []plan.Outcome{associate("nodes", plan.Done)}}}, []string{
				"repair_seconds node-subnet: 1 in 5 s"}},
		"after an event": {
			[]check{{at: 10, asked: 8, changes: []plan.Outcome{associate("appgw", plan.Done)}}},
			[]string{"repair_seconds guarded-subnet: 1 in 7 s"}},
		"not held up by other writes": {[]check{{at: 0, changes: []plan.Outcome{early}}},
			[]string{"repair_seconds node-subnet: 1 in 2 s"}},
		"it failed before": {[]check{
			{at: 10, changes: []plan.Outcome{associate("nodes", plan.Failed)}},
			{at: 20, changes: []plan.Outcome{associate("nodes", plan.Skipped)}},
			{at: 30, changes: []plan.Outcome{associate("nodes", plan.Done)}},
		}, []string{"repair_seconds node-subnet: 1 in 25 s"}},
		"it was not seen meanwhile, and another cluster was checked": {[]check{
			{at: 10, changes: []plan.Outcome{associate("nodes", plan.Failed)}}, {at: 20,
				findings: unread}, {at: 25, of: []string{"play"}},
			{at: 30, changes: []plan.Outcome{associate("nodes", plan.Done)}},
		}, []string{"repair_seconds node-subnet: 1 in 25 s"}},
		"another caller did it, and it is lost again": {[]check{
			{at: 10, changes: []plan.Outcome{associate("nodes", plan.Failed)}}, {at: 20,
				changes: []plan.Outcome{associate("nodes", plan.Obsolete)}},
			{at: 30, changes: []plan.Outcome{associate("nodes", plan.Failed)}}, {at: 40}, {at: 50,
				changes: []plan.Outcome{associate("nodes", plan.Done)}},
		}, []string{"repair_seconds node-subnet: 1 in 5 s"}},
		"made while something else is not seen, and lost again": {[]check{
			{at: 10, changes: []plan.Outcome{associate("nodes", plan.Done)}, findings: unread}, {
				at: 100, changes: []plan.Outcome{associate("nodes", plan.Done)}, findings: unread},
		}, []string{"repair_seconds node-subnet: 2 in 10 s"}},
		"paused": {[]check{
			{at: 10, changes: []plan.Outcome{associate("nodes", plan.Planned)}, findings: paused}, {
				at: 1000, changes: []plan.Outcome{associate("nodes", plan.Done)}},
		}, []string{"repair_seconds node-subnet: 1 in 5 s"}},
		"routes": {[]check{
			{at: 10, changes: []plan.Outcome{route(plan.Create, "a", "10.244.0.0/24", plan.Failed),
				repaired}},
			{at: 20, changes: []plan.Outcome{route(plan.Create, "a-1", "10.244.0.0/24", plan.Done),
				route(plan.Update, "c", "10.244.2.0/24", plan.Done)}},
		}, []string{"node_routed_seconds 2 in 20 s", "repair_seconds target: 1 in 5 s"}},
	} {
		r := prometheus.NewRegistry()
		w := newWaits(r)
		for _, c := range c.checks {
			result := keeper.Result{Managed: []string{"shop", "play"}, Of: c.of,
				Configs: []v1alpha1.ClusterRoutes{
					config}, Started: at(c.at), Elapsed: 5 * time.Second, Changes: c.changes,
				Findings: c.findings}
			began := result.Started
			if c.asked > 0 {
				began = at(c.asked)
			}
			w.record(result, began)
		}
		if got := measured(t, r); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWaitsForget: the waiting changes of a cluster are forgotten with it.
func TestWaitsForget(t *testing.T) {
	w := newWaits(prometheus.NewRegistry())
	change := plan.Outcome{State: plan.Failed, Change: plan.Change{Cluster: "shop",
		Verb: plan.Associate, Resource: "/s", New: &plan.Value{}}}
	w.record(keeper.Result{Managed: []string{"shop"}, Changes: []plan.Outcome{change}},
		time.Now())
	if len(w.since) != 1 {
		t.Error(w.since)
	}
	w.record(keeper.Result{Managed: []string{"play"}}, time.Now())
	if len(w.since) != 0 {
		t.Error(w.since)
	}
}

// TestWaitsOfKeeper: the reports of a running keeper are timed. A repair counts as made when it is
// seen, however long another write of the same check takes.
func TestWaitsOfKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t, emulator.Options{OperationTime: time.Second})
		m := NewMetrics()
		p.told = m.Record
		p.keep()
		time.Sleep(25 * time.Second)
		if got, want := measured(t, m.registry), []string{
			"node_routed_seconds 3 in 3 s"}; !slices.Equal(got, want) {
			t.Errorf("after the start: %q, want %q", got, want)
		}
		slow := emulator.Fault{Method: http.MethodPut, Path: "routeTables", Slow: 90,
			Principal: emulatortest.Keeper.Name}
		if _, err := p.e.Inject(slow); err != nil {
			t.Fatal(err)
		}
		op, err := p.e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		table, err := op.Get(p.demo.GatewayTable, "2025-05-01")
		if err == nil { // the keeper's routes are deleted, and the subnets lose their tables
			table["properties"].(map[string]any)["routes"] = []any{}
			err = op.Put(p.demo.GatewayTable, "2025-05-01", table)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.strip(p.demo.NodeSubnet, p.demo.GatewaySubnet)
		time.Sleep(5 * time.Minute)
		got := strings.Join(measured(t, m.registry), ", ")
		for _, pattern := range []string{`node-subnet: 1 in [1-5] s`,
			`guarded-subnet: 1 in [1-9] s`, `target: 3 in 2[78]\d s`} {
			if !regexp.MustCompile(pattern).MatchString(got) {
				t.Errorf("%s lacks %s", got, pattern)
			}
		}
	})
}
