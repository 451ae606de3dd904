package deploy

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/serve"
)

// scrapeEvery is how often Prometheus scrapes, and evaluates its rules.
const scrapeEvery = time.Minute

// world is a running keeper on the emulator, scraped by Prometheus.
type world struct {
	silenced atomic.Pointer[finding.Code] // which findings a person silenced
	*prometheus
	e       *emulator.Emulator
	op      *emulator.Client
	demo    emulator.Demo
	config  v1alpha1.ClusterRoutes
	opts    keeper.Options
	metrics *serve.Metrics
	down    bool
	fired   map[string]time.Duration // since the trouble began
}

func newWorld(t testing.TB) *world {
	e := emulatortest.New(t, emulator.Options{OperationTime: time.Second})
	d, err := emulator.BuildDemo(e, emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	op, err := e.Client(emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{prometheus: newPrometheus(t), e: e, op: op, demo: d, metrics: serve.NewMetrics(),
		fired: map[string]time.Duration{}}
	w.metrics.LogDropped(func() int64 { return 0 })
	w.metrics.Build("1.2.3")
	w.metrics.Leads(true)
	w.config = v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: "shop"}}
	w.config.Spec.ClusterID = string(d.Cluster)
	w.config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(d.GatewayTable)}}
	w.config.SetDefaults()
	return w
}

// keep runs the keeper until the test ends.
func (w *world) keep() {
	client := emulatortest.ClientTelling(w.t, w.e, emulatortest.Keeper, w.metrics.Call)
	k := keeper.New(client, []v1alpha1.ClusterRoutes{w.config}, w.opts)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- k.Run(ctx, time.Minute, func(r keeper.Result) {
			r.Findings = slices.Clone(r.Findings)
			for i, f := range r.Findings {
				if code := w.silenced.Load(); code != nil && f.Code == *code {
					r.Findings[i].Silenced = &finding.Silence{Reason: "known"}
				}
			}
			w.metrics.Record(r)
		})
	}()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// watch lets time pass, and notes when alerts first fire.
func (w *world) watch(d time.Duration) {
	w.t.Helper()
	for passed := time.Duration(0); passed <= d; passed += scrapeEvery {
		var h http.Handler = w.metrics.Handler()
		if w.down {
			h = http.NotFoundHandler()
		}
		w.scrape(h, time.Now())
		for _, a := range w.evaluate(time.Now()) {
			if _, before := w.fired[a.name]; !before {
				w.fired[a.name] = passed
				w.t.Logf("%s: %s: %s", passed, a.summary, a.description)
			}
		}
		time.Sleep(scrapeEvery)
	}
}

func (w *world) fault(f emulator.Fault) {
	w.t.Helper()
	f.Principal = emulatortest.Keeper.Name
	if _, err := w.e.Inject(f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) edit(id arm.ID, change func(properties map[string]any)) {
	w.t.Helper()
	doc, err := w.op.Get(id, "2025-05-01")
	if err == nil {
		change(doc["properties"].(map[string]any))
		err = w.op.Put(id, "2025-05-01", doc)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) strip() {
	w.edit(w.demo.NodeSubnet, func(p map[string]any) { delete(p, "routeTable") })
}

// tells makes the keeper report something about itself.
func (w *world) tells(code finding.Code) {
	w.opts.Own = func() []finding.Finding {
		return []finding.Finding{finding.New(code, "", "", "as the daemon reports it")}
	}
}

// TestKeeperInTrouble: the metrics of a real keeper in trouble raise exactly the intended alerts,
// in time. Trouble that it repairs itself raises none.
func TestKeeperInTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		before  func(w *world)
		trouble func(w *world)
		lasts   time.Duration
		want    string
		years   int // after 2000, when a bubble begins
	}{
		"all is well":        {nil, func(*world) {}, 2 * time.Hour, "", 0},
		"stripped, repaired": {nil, (*world).strip, time.Hour, "", 0},
		"down": {nil, func(w *world) { w.down = true }, 10 * time.Minute,
			"RoutekeeperDown", 0},
		"stripped, observed": {func(w *world) { w.config.Spec.Guard.Mode = v1alpha1.GuardObserve },
			(*world).strip, time.Hour, "RoutekeeperAssociationLost RoutekeeperClusterBroken", 0},
		"stripped, paused": {func(w *world) {
			w.opts.Paused = func() string { return "until tomorrow" }
		}, (*world).strip, 9 * time.Hour,
			"RoutekeeperAssociationLost RoutekeeperClusterBroken RoutekeeperPaused", 0},
		"not written": {nil, func(w *world) {
			w.fault(emulator.Fault{Method: http.MethodPut, Path: "subnets/nodes", Count: -1,
				Status: http.StatusForbidden, Code: "AuthorizationFailed"})
			w.strip()
		}, time.Hour, "RoutekeeperAssociationLost RoutekeeperClusterBroken RoutekeeperNoSuccess " +
			"RoutekeeperWriteFailing", 0},
		"not read": {nil, func(w *world) {
			w.fault(emulator.Fault{Method: http.MethodGet, Path: "routeTables", Count: -1,
				Status: http.StatusForbidden, Code: "AuthorizationFailed"})
		}, time.Hour, "RoutekeeperFinding RoutekeeperNoSuccess", 0},
		"silent": {nil, func(w *world) {
			w.fault(emulator.Fault{Path: "subscriptions", Count: -1,
				Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})
		}, time.Hour, "RoutekeeperAzureFailing RoutekeeperAzureUnreachable RoutekeeperNoSuccess",
			0},
		"source emptied": {nil, func(w *world) {
			w.edit(w.demo.ClusterTable, func(p map[string]any) { p["routes"] = []any{} })
		}, 2 * time.Hour, "RoutekeeperClusterBroken RoutekeeperDeletesWithheld RoutekeeperFinding",
			0},
		"table filling": {func(w *world) { w.config.Spec.Targets[0].MaxRoutes = 4 },
			func(*world) {}, time.Hour, "RoutekeeperTableNearlyFull", 0},
		"no place for a history": {func(w *world) {
			l := history.Open(filepath.Join(w.t.TempDir(), "not", "there.db"), history.Options{})
			w.opts.Recorder, w.opts.Store = l, l
		}, func(*world) {}, time.Hour, "RoutekeeperHistoryDegraded", 0},
		"no more files": {func(w *world) { w.tells(finding.TooManyOpenFiles) },
			func(*world) {}, time.Hour, "RoutekeeperOutOfFiles", 0},
		"a second keeper": {func(w *world) { w.tells(finding.AnotherKeeper) },
			func(*world) {}, time.Hour, "RoutekeeperAnotherKeeper", 0},
		"fought over": {nil, func(w *world) {
			go func() {
				for range 3 * 60 {
					w.strip()
					time.Sleep(20 * time.Second)
				}
			}()
			// it is repaired less and less often
		}, time.Hour, "RoutekeeperConflict RoutekeeperRepairSlow", 0},
		"kubenet retires": {nil, func(*world) {}, 2 * time.Hour, "RoutekeeperKubenetRetirement",
			28},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Duration(c.years) * 365 * 24 * time.Hour)
				w := newWorld(t)
				if c.before != nil {
					c.before(w)
				}
				w.keep()
				w.watch(10 * time.Minute)
				c.trouble(w)
				w.watch(c.lasts)
				var fired []string
				for a := range w.fired {
					fired = append(fired, a)
				}
				slices.Sort(fired)
				if got := strings.Join(fired, " "); got != c.want {
					t.Errorf("%q fire, want %q", got, c.want)
				}
				wakes := slices.ContainsFunc(w.rules, func(r rulefmt.Rule) bool {
					return r.Labels["severity"] == "critical" && w.fired[r.Alert] > 0
				})
				if cut := []string{"down", "source emptied", "stripped, observed",
					"stripped, paused", "not written", "fought over"}; slices.Contains(cut, name) &&
					!wakes {
					t.Error("pods are cut off, or will be, and no alert pages anyone")
				}
			})
		})
	}
}
