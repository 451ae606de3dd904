package verdict_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/bundle"
	"routekeeper.dev/routekeeper/internal/cli"
	"routekeeper.dev/routekeeper/internal/controller"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/notify"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/survey"
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
	file    string // of the history
	log     bytes.Buffer
	news    func(keeper.Result) bool
	logged  map[string]verdict.State // by the log; "" is good
	leads   string                   // the cluster whose egress an appliance takes; "": none
}

// newFleet builds the fleet, and keeps only the clusters that are named: those with hundreds of
// nodes take most of the time of each step.
func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	f := &fleet{T: t, board: page.NewBoard(),
		azure:   emulatortest.New(t, emulator.Options{Buckets: emulatortest.NoLimits}),
		metrics: serve.NewMetrics(), file: filepath.Join(t.TempDir(), "routes"+history.Extension),
		logged: map[string]verdict.State{}}
	f.news = daemon.News(slog.New(slog.NewJSONHandler(&f.log, nil)))
	if _, err := emulator.BuildFleet(f.azure, emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.do, err = f.azure.Client(emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(large, shops) {
		if !slices.Contains(names, name) {
			f.remove(name)
		}
	}
	for _, name := range names {
		c := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
			Metadata: v1alpha1.Metadata{Name: name}}
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
	f.writeConfig()
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

// large and shops are the clusters of the fleet: the large ones have more nodes than the others
// together.
var (
	large = []string{"big-50", "huge-390"}
	shops = func() (names []string) {
		for i := range 28 {
			names = append(names, fmt.Sprintf("shop-%02d", i+1))
		}
		return names
	}()
)

// remove deletes a cluster with all that is its own.
func (f *fleet) remove(name string) {
	f.Helper()
	group := arm.ID("/subscriptions/" + emulator.DefaultSubscription + "/resourceGroups/" +
		name + "-rg")
	if status, body := f.do.Do(http.MethodDelete, group, "2021-04-01", nil); status >= 300 {
		f.Fatalf("delete %s: %d %s", group, status, body)
	}
	for began := time.Now(); f.has(group); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			f.Fatalf("%s is not gone", group)
		}
	}
}

// writeConfig writes the configs as commands read them.
func (f *fleet) writeConfig() {
	f.Helper()
	var config bytes.Buffer
	for _, c := range f.configs {
		text, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		fmt.Fprintf(&config, "---\n%s\n", text)
	}
	if err := os.WriteFile(f.config(), config.Bytes(), 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) config() string {
	return strings.TrimSuffix(f.file, history.Extension) + ".yaml"
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
	f.log.Reset()
	f.news(r)
	for line := range strings.Lines(f.log.String()) {
		var said struct {
			Message        string `json:"msg"`
			Cluster, State string
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			f.Fatal(err)
		}
		if said.State != "" {
			f.logged[said.Cluster] = verdict.State(said.State)
		}
	}
	return r
}

// survey is everything that a diagnosis reads.
func (f *fleet) survey() *inventory.Snapshot {
	f.Helper()
	client := emulatortest.Client(f.T, f.azure, emulatortest.Operator)
	s, err := client.Survey(f.Context(), arm.SubscriptionID(emulator.DefaultSubscription))
	if err != nil {
		f.Fatal(err)
	}
	if err := survey.Configured(f.Context(), client, s, f.configs); err != nil {
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
	hook, closeHook := f.serve(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
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
	defer closeHook()
	n := notify.New(notify.Options{Secret: func(v1alpha1.Place) (string, error) {
		return hook, nil
	}})
	n.Configure(v1alpha1.NotifySpec{Places: []v1alpha1.Place{{Name: "team",
		Type: v1alpha1.PlaceWebhook}}})
	n.Check(r.Started, r.Managed, r.Verdicts, r.Findings, r.Changes)
	ctx, end := context.WithCancel(f.Context())
	n.Run(brief{ctx, end}) // what waits is sent at its end
	return said
}

// serve serves a handler until close is called. A server of httptest would also close connections
// in the bubbles of other tests.
func (f *fleet) serve(h http.Handler) (url string, close func()) {
	f.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			f.Errorf("serving: %v", err)
		}
	}()
	return "http://" + l.Addr().String(), func() {
		if err := server.Close(); err != nil {
			f.Error(err)
		}
	}
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

// surfaces returns the state of each cluster as every surface that shows states says it.
func (f *fleet) surfaces(r keeper.Result) (all map[string]map[string]verdict.State) {
	f.Helper()
	all = map[string]map[string]verdict.State{"page": {}, "history": {}, "metrics": {}, "log": {},
		"status": {}, "status --url": {}, "conditions": {}}
	pages, closePages := f.serve(page.New(f.board, nil, page.Options{
		Log: slog.New(slog.DiscardHandler)}))
	defer closePages()
	var o page.Overview
	f.fetch(pages+"/index.json", &o)
	for _, c := range o.Clusters {
		all["page"][c.Name] = c.Verdict.State
		if c.State != c.Verdict.State.Color() {
			f.Errorf("the page shows %s as %s, and its verdict is %s", c.Name, c.State,
				c.Verdict.State)
		}
	}
	for surface, flags := range map[string][]string{"status": {"-f", f.config()},
		"status --url": {"--url", pages}} {
		for _, c := range f.status(flags...).Clusters {
			all[surface][c.Name] = c.Verdict.State
			if c.State != c.Verdict.State.Color() || !strings.HasPrefix(c.Sentence,
				c.Verdict.Sentence) { // and what the config would repair
				f.Errorf("%s shows %s as %s, %q: %+v", surface, c.Name, c.State, c.Sentence,
					c.Verdict)
			}
		}
	}
	p, err := history.Read(f.file)
	if err != nil {
		f.Fatal(err)
	}
	defer p.Close()
	now, err := p.Now()
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range r.Verdicts {
		all["log"][v.Cluster] = f.logged[v.Cluster]
		if _, said := f.logged[v.Cluster]; !said && v.State.Color() == verdict.Good {
			all["log"][v.Cluster] = v.State // the first state is no news if all is well
		}
	}
	for i, c := range f.configs {
		all["history"][c.Metadata.Name] = now.Verdicts[arm.ID(c.Spec.ClusterID).Key()].State
		conditions := controller.Conditions(r, &f.configs[i])
		all["conditions"][c.Metadata.Name] = stateOf(conditions[0])
		f.fits(c.Metadata.Name, conditions)
	}
	a := httptest.NewRecorder()
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

// fits checks that the conditions of a cluster do not contradict each other: one that is in sync,
// or only observed, has lost nothing and lacks nothing, and all of that is known.
func (f *fleet) fits(cluster string, conditions []v1alpha1.Condition) {
	f.Helper()
	ready, guarded, synced := conditions[0], conditions[1], conditions[2]
	state := stateOf(ready)
	harmed := ready.Status == "False"
	well := state == verdict.InSync || state == verdict.Observed
	if harmed != state.Harmed() ||
		(ready.Status == "Unknown") != (state == verdict.Unknown) || well &&
		(synced.Status != "True" || guarded.Status != "True" && guarded.Reason != "Observe") {
		f.Errorf("conditions of %s contradict each other: %+v", cluster, conditions)
	}
}

// stateOf is the state that the condition Ready shows.
func stateOf(ready v1alpha1.Condition) verdict.State {
	i := slices.IndexFunc(verdict.States, func(s verdict.State) bool {
		return strings.EqualFold(strings.ReplaceAll(string(s), "-", ""), ready.Reason)
	})
	if i < 0 {
		return verdict.State(ready.Reason)
	}
	return verdict.States[i]
}

// fetch reads a document of a page.
func (f *fleet) fetch(url string, into any) {
	f.Helper()
	answer, err := http.Get(url)
	if err != nil {
		f.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		f.Fatal(err)
	}
}

// status is what the command says.
func (f *fleet) status(flags ...string) (s report.Status) {
	f.Helper()
	var out bytes.Buffer
	code := cli.Run(f.Context(), &out, append([]string{"status", "-o", "json"}, flags...)...)
	if err := json.Unmarshal(out.Bytes(), &s); err != nil || code != 2 {
		f.Fatalf("status %v: %d, %v: %.300s", flags, code, err, out.String())
	}
	return s
}

// TestAgreeLarge: all agree about the whole fleet. Damages are not done to its large clusters.
func TestAgreeLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		testAgreeLarge(newFleet(t, slices.Concat(large, shops)...))
	})
}

func testAgreeLarge(f *fleet) {
	f.Helper()
	f.agree("as it was built")
	f.agreeAll("as it was built", true)
}

// TestAgree breaks clusters of the fleet in every known way. A cluster is broken if and only if a
// trace of all its pairs drops packets, and every surface says the same.
func TestAgree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { testAgree(newFleet(t, shops...)) })
}

func testAgree(f *fleet) {
	f.Helper()
	clusters := f.harmable()
	for i, d := range slices.Concat(damages, departures) {
		d.do(f, clusters[(i*5+1)%len(clusters)], i)
		f.agree(d.name + ", on " + clusters[(i*5+1)%len(clusters)])
		f.agreeAll(d.name, true)
	}
}

// TestAgreeAtRandom does the same with damages at random, each on top of the others: 20 of them, or
// 50 with ROUTEKEEPER_FULL. ROUTEKEEPER_SEED plays others.
func TestAgreeAtRandom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { testAgreeAtRandom(newFleet(t, shops...)) })
}

func testAgreeAtRandom(f *fleet) {
	f.Helper()
	clusters := f.harmable()
	seed, err := strconv.ParseUint(os.Getenv("ROUTEKEEPER_SEED"), 10, 64)
	if err != nil {
		seed = 26
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	random := 20
	switch {
	case testing.Short():
		random = 10
	case os.Getenv("ROUTEKEEPER_FULL") != "":
		random = 50
	}
	for i := range random {
		d, on := damages[rnd.IntN(len(damages))], clusters[rnd.IntN(len(clusters))]
		d.do(f, on, rnd.IntN(3))
		f.agree(d.name + ", on " + on)
		if i%5 == 4 {
			f.agreeAll(d.name+", on "+on, false)
		}
	}
}

// harmable returns the names of the clusters that damages can be done to. Their cloud providers
// repair nothing from now on.
func (f *fleet) harmable() (clusters []string) {
	for _, name := range shops {
		// the subnet of shop-22 has another name, and shop-28 cannot be read
		if name != "shop-28" && f.has(f.subnet(name, "nodes")) {
			clusters = append(clusters, name)
		}
	}
	for _, c := range f.configs {
		f.azure.PauseRoutes(arm.ID(c.Spec.ClusterID), true)
	}
	return clusters
}

func (f *fleet) has(id arm.ID) bool {
	_, err := f.do.Get(id, "2024-05-01")
	return err == nil
}

func TestMain(m *testing.M) {
	emulatortest.Overlap(8)
	// What is the whole program's must be in no test's bubble: package signal's own goroutine, and
	// idle connections.
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	os.Exit(m.Run())
}
