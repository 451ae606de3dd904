package verdict_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/bundle"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/notify"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// fleet is the fleet scenario with all that shows its state.
type fleet struct {
	*testing.T
	azure   *emulator.Emulator
	do      *emulator.Client
	configs []v1alpha1.ClusterRoutes
	keeps   *keeper.Keeper
	board   *page.Board
	metrics *serve.Metrics
	past    *history.Log
	file    string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, azure: emulatortest.New(t, emulator.Options{}), board: page.NewBoard(),
		metrics: serve.NewMetrics(), file: filepath.Join(t.TempDir(), "routes"+history.Extension)}
	if _, err := emulator.BuildFleet(f.azure, emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.do, err = f.azure.Client(emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	names := []string{"big-50", "huge-390"}
	for i := range 28 {
		names = append(names, fmt.Sprintf("shop-%02d", i+1))
	}
	for _, name := range names {
		c := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: name}}
		c.Spec.ClusterID = string(f.id(name, arm.TypeCluster, ""))
		c.Spec.RouteTableID = string(f.id(name, arm.TypeRouteTable, "-rt"))
		c.Spec.Guard.Mode = v1alpha1.GuardObserve
		c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{
			SubnetID:     string(f.subnet(name, "appgw")),
			RouteTableID: string(f.id(name, arm.TypeRouteTable, "-appgw-rt"))}}
		c.Spec.Targets = []v1alpha1.Target{{
			RouteTableID: string(f.id(name, arm.TypeRouteTable, "-appgw-rt")),
			Policy:       v1alpha1.PolicyObserve}}
		f.configs = append(f.configs, c)
	}
	f.past = history.Open(f.file, history.Options{})
	f.keeps = keeper.New(emulatortest.Client(t, f.azure, emulatortest.Keeper), f.configs,
		keeper.Options{Store: f.past, Recorder: f.past})
	t.Cleanup(func() {
		if err := f.past.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fleet) id(name, kind, suffix string) arm.ID {
	return arm.ResourceID(emulator.DefaultSubscription, name+"-rg", kind, name+suffix)
}

func (f *fleet) subnet(name, subnet string) arm.ID {
	return f.id(name, arm.TypeVNet, "-vnet").Child("subnets", subnet)
}

// check lets the keeper check everything, and shows it everywhere.
func (f *fleet) check() keeper.Result {
	f.Helper()
	r, err := f.keeps.Reconcile(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.board.Record(r)
	f.metrics.Record(r)
	return r
}

// survey is everything that a diagnosis reads.
func (f *fleet) survey() *inventory.Snapshot {
	f.Helper()
	client := emulatortest.Client(f.T, f.azure, emulatortest.Operator)
	s, err := client.Survey(f.Context(), arm.ID("/subscriptions/"+emulator.DefaultSubscription))
	if err != nil {
		f.Fatal(err)
	}
	if err := client.Examine(f.Context(), s); err != nil {
		f.Fatal(err)
	}
	return s
}

// doctor is what doctor says of a bundle of what it read.
func (f *fleet) doctor(s *inventory.Snapshot) []verdict.Verdict {
	f.Helper()
	b := bundle.Bundle{Snapshot: s, Configs: f.configs}
	for _, c := range f.configs {
		b.Clusters = append(b.Clusters, arm.ID(c.Spec.ClusterID))
	}
	var file bytes.Buffer
	err := bundle.Write(&file, b)
	if err == nil {
		b, err = bundle.Read(&file)
	}
	if err != nil {
		f.Fatal(err)
	}
	found := diagnose.Check(diagnose.Case{Snapshot: b.Snapshot, Configs: b.Configs,
		Clusters: b.Clusters})
	return verdict.Of(plan.Facts{Snapshot: b.Snapshot}, b.Configs, b.Configs,
		plan.TakenBy(b.Configs), found)
}

// messages are the clusters that people hear of as broken or bypassed, if they knew of none.
func (f *fleet) messages(r keeper.Result) map[string]verdict.State {
	f.Helper()
	said := map[string]verdict.State{}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var m notify.Message
		if err := json.NewDecoder(q.Body).Decode(&m); err != nil {
			f.Error(err)
		}
		for _, e := range m.Events {
			if e.State != "" {
				said[e.Cluster] = e.State
			}
		}
	}))
	defer hook.Close()
	n := notify.New(notify.Options{Secret: func(v1alpha1.Place) (string, error) {
		return hook.URL, nil
	}})
	n.Configure(v1alpha1.NotifySpec{Places: []v1alpha1.Place{{Name: "team",
		Type: v1alpha1.PlaceWebhook}}})
	n.Check(r.Started, r.Managed, r.Verdicts, r.Findings, r.Changes)
	ctx, end := context.WithCancel(f.Context())
	n.Run(brief{ctx, end}) // what waits is sent at its end
	return said
}

// brief is a context that ends once its end is waited for.
type brief struct {
	context.Context
	end func()
}

func (b brief) Done() <-chan struct{} {
	b.end()
	return b.Context.Done()
}

// surfaces returns the state of each cluster as the page, the history and the metrics say it.
func (f *fleet) surfaces() (all map[string]map[string]verdict.State) {
	f.Helper()
	all = map[string]map[string]verdict.State{"page": {}, "history": {}, "metrics": {}}
	a := httptest.NewRecorder()
	page.New(f.board, nil, page.Options{Log: slog.New(slog.DiscardHandler)}).ServeHTTP(a,
		httptest.NewRequest(http.MethodGet, "/index.json", nil))
	var o page.Overview
	if err := json.Unmarshal(a.Body.Bytes(), &o); err != nil {
		f.Fatal(err)
	}
	for _, c := range o.Clusters {
		all["page"][c.Name] = c.Verdict.State
		if c.State != c.Verdict.State.Color() {
			f.Errorf("the page shows %s as %s, and its verdict is %s", c.Name, c.State,
				c.Verdict.State)
		}
	}
	r, err := history.Read(f.file)
	if err != nil {
		f.Fatal(err)
	}
	defer r.Close()
	now, err := r.Now()
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range f.configs {
		all["history"][c.Metadata.Name] = now.Verdicts[arm.ID(c.Spec.ClusterID).Key()].State
	}
	a = httptest.NewRecorder()
	f.metrics.Handler().ServeHTTP(a, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(a.Body.String()) {
		const name = "routekeeper_cluster_state_since_timestamp_seconds{"
		if rest, is := strings.CutPrefix(line, name); is {
			parts := strings.Split(rest, `"`)
			all["metrics"][parts[1]] += verdict.State(parts[3])
		}
	}
	return all
}

// damage is a way to break a cluster.
type damage struct {
	name string
	do   func(f *fleet, cluster string, at int)
}

var damages = []damage{
	{"the node subnet loses its table", func(f *fleet, cluster string, _ int) {
		f.setTable(f.subnet(cluster, "nodes"), "")
	}},
	{"the gateway's subnet loses its table", func(f *fleet, cluster string, _ int) {
		f.setTable(f.subnet(cluster, "appgw"), "")
	}},
	{"the node subnet has the gateway's table", func(f *fleet, cluster string, _ int) {
		f.setTable(f.subnet(cluster, "nodes"), f.id(cluster, arm.TypeRouteTable, "-appgw-rt"))
	}},
	{"the gateway's table lacks a route", bend("-appgw-rt", "")},
	{"the gateway's table has another node's hop", bend("-appgw-rt", "node")},
	{"the gateway's table has an unused hop", bend("-appgw-rt", "unused")},
	{"the gateway's table drops a route", bend("-appgw-rt", "None")},
	{"the gateway's table leads a route to the internet", bend("-appgw-rt", "Internet")},
	{"the cluster's table lacks a route", bend("-rt", "")},
	{"the cluster's table has another node's hop", bend("-rt", "node")},
	{"the cluster's table drops a route", bend("-rt", "None")},
	{"the gateway's table hides a half", shadow("-appgw-rt")},
	{"the cluster's table hides a half", shadow("-rt")},
	{"the gateway's table is empty", func(f *fleet, cluster string, _ int) {
		f.routes(f.id(cluster, arm.TypeRouteTable, "-appgw-rt"), func([]any) []any {
			return []any{}
		})
	}},
}

// bend changes the next hop of a route: to another node's address, an unused one or a type; "":
// removes the route.
func bend(table, to string) func(*fleet, string, int) {
	return func(f *fleet, cluster string, at int) {
		f.routes(f.id(cluster, arm.TypeRouteTable, table), func(routes []any) []any {
			if len(routes) == 0 {
				return routes
			}
			at %= len(routes)
			p := func(i int) map[string]any {
				return routes[i].(map[string]any)["properties"].(map[string]any)
			}
			switch hop := p(at)["nextHopIpAddress"]; {
			case hop == nil || p((at + 1) % len(routes))["nextHopIpAddress"] == nil: // bent before
			case to == "":
				return slices.Delete(routes, at, at+1)
			case to == "node":
				p(at)["nextHopIpAddress"] = p((at + 1) % len(routes))["nextHopIpAddress"]
			case to == "unused":
				text := fmt.Sprint(hop)
				p(at)["nextHopIpAddress"] = text[:strings.LastIndexByte(text, '.')+1] + "99"
			default:
				p(at)["nextHopType"] = to
				delete(p(at), "nextHopIpAddress")
			}
			return routes
		})
	}
}

// shadow adds a route that drops the second half of a node's pods.
func shadow(table string) func(*fleet, string, int) {
	return func(f *fleet, cluster string, at int) {
		f.routes(f.id(cluster, arm.TypeRouteTable, table), func(routes []any) []any {
			if len(routes) == 0 {
				return routes
			}
			p := routes[at%len(routes)].(map[string]any)["properties"].(map[string]any)
			half := strings.TrimSuffix(fmt.Sprint(p["addressPrefix"]), ".0/24") + ".128/25"
			return append(routes, map[string]any{"name": "half", "properties": map[string]any{
				"addressPrefix": half, "nextHopType": "None"}})
		})
	}
}

// routes changes the routes of a table.
func (f *fleet) routes(table arm.ID, change func([]any) []any) {
	f.Helper()
	doc, err := f.do.Get(table, "2024-05-01")
	if err != nil {
		f.Fatal(err)
	}
	var routes []any
	for _, r := range doc["properties"].(map[string]any)["routes"].([]any) {
		p := r.(map[string]any)["properties"].(map[string]any)
		sent := map[string]any{"addressPrefix": p["addressPrefix"], "nextHopType": p["nextHopType"]}
		if p["nextHopIpAddress"] != nil {
			sent["nextHopIpAddress"] = p["nextHopIpAddress"]
		}
		routes = append(routes, map[string]any{"name": r.(map[string]any)["name"],
			"properties": sent})
	}
	if err := f.do.Put(table, "2024-05-01", map[string]any{"location": "westeurope",
		"properties": map[string]any{"routes": change(routes)}}); err != nil {
		f.Fatal(err)
	}
}

// setTable sets the table of a subnet; "" removes it.
func (f *fleet) setTable(subnet, table arm.ID) {
	f.Helper()
	doc, err := f.do.Get(subnet, "2024-05-01")
	if err != nil {
		f.Fatal(err)
	}
	p := map[string]any{"addressPrefix": doc["properties"].(map[string]any)["addressPrefix"]}
	if table != "" {
		p["routeTable"] = map[string]any{"id": string(table)}
	}
	if err := f.do.Put(subnet, "2024-05-01", map[string]any{"properties": p}); err != nil {
		f.Fatal(err)
	}
}

// TestAgree breaks clusters of the fleet in every known way, and others at random. A cluster is
// broken if and only if a trace of all its pairs drops packets, and every surface says the same.
func TestAgree(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.agree("as it was built")
	rnd := rand.New(rand.NewPCG(26, 1))
	clusters := []string{}
	for i := range 28 {
		// the subnet of shop-22 has another name, and shop-28 cannot be read
		if name := fmt.Sprintf("shop-%02d", i+1); i+1 != 28 && f.has(f.subnet(name, "nodes")) {
			clusters = append(clusters, name)
		}
	}
	for _, c := range f.configs { // the clusters' cloud providers repair nothing meanwhile
		f.azure.PauseRoutes(arm.ID(c.Spec.ClusterID), true)
	}
	for i, d := range damages {
		d.do(f, clusters[(i*5+1)%len(clusters)], i)
		f.agree(d.name + ", on " + clusters[(i*5+1)%len(clusters)])
		f.agreeAll(d.name)
	}
	for range 50 - len(damages) {
		d, on := damages[rnd.IntN(len(damages))], clusters[rnd.IntN(len(clusters))]
		d.do(f, on, rnd.IntN(3))
		f.agree(d.name + ", on " + on)
	}
}

func (f *fleet) has(subnet arm.ID) bool {
	_, err := f.do.Get(subnet, "2024-05-01")
	return err == nil
}

// agree checks that all surfaces agree with the trace, and does so within some checks: a node whose
// route has just gone may be leaving, so the keeper checks it twice.
func (f *fleet) agree(after string) {
	f.Helper()
	truth := trace.New(f.survey(), trace.Options{})
	var wrong []string
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		if wrong = f.disagree(truth); len(wrong) == 0 {
			return
		}
	}
	f.Fatalf("%s:\n%s", after, strings.Join(wrong, "\n"))
}

// agreeAll checks that doctor, which reads everything, agrees with the trace as well, and that
// messages name the broken clusters.
func (f *fleet) agreeAll(after string) {
	f.Helper()
	s := f.survey()
	for _, text := range f.against(trace.New(s, trace.Options{}), f.doctor(s)) {
		f.Errorf("%s: by doctor, %s", after, text)
	}
	r := f.check()
	said := f.messages(r)
	for _, v := range r.Verdicts {
		if state := said[v.Cluster]; v.State.Harmed() != (state != "") || v.State.Harmed() &&
			state != v.State {
			f.Errorf("%s: %s is %s, and the message says %q", after, v.Cluster, v.State, state)
		}
	}
}

func (f *fleet) disagree(truth *trace.Tracer) (wrong []string) {
	f.Helper()
	r := f.check()
	if len(r.Verdicts) != len(f.configs) {
		f.Fatalf("%d verdicts", len(r.Verdicts))
	}
	for surface, states := range f.surfaces() {
		for _, v := range r.Verdicts {
			if states[v.Cluster] != v.State {
				f.Errorf("%s is %s, and %s says %q", v.Cluster, v.State, surface, states[v.Cluster])
			}
		}
	}
	return f.against(truth, r.Verdicts)
}

// against compares verdicts, in the order of the configs, with a trace of all pairs.
func (f *fleet) against(truth *trace.Tracer, verdicts []verdict.Verdict) (wrong []string) {
	for i, v := range verdicts {
		m := truth.Sampled(arm.ID(f.configs[i].Spec.ClusterID),
			f.subnet(f.configs[i].Metadata.Name, "appgw"))
		dropped, broken := m.Dropped > 0, v.State == verdict.Broken
		if dropped == broken || m.Pairs == 0 || v.State == verdict.Unknown ||
			v.Seen().Picture.Stopped { // a stopped cluster sends nothing
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s is %s (%s), and of %d pairs %d are dropped: %+v",
			v.Cluster, v.State, v.Sentence, m.Pairs, m.Dropped, m.Broken))
	}
	return wrong
}
