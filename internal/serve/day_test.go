package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestDay plays 24 hours of a keeper with its listener and its history: strips, nodes that come and
// go and change their addresses, unmanaged routes, alerts that come late, twice or never, faults of
// every kind, pauses, restarts and kills. At the end everything must be in sync, all unmanaged
// routes unchanged, and every write in the history exactly once. ROUTEKEEPER_SEED repeats a day,
// or is "random": without it the day is the same each time. ROUTEKEEPER_DAYS is the number of days.
// Without both it plays eight hours, and with -short, for the race detector, four.
func TestDay(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	first, days := number("ROUTEKEEPER_SEED", 1), number("ROUTEKEEPER_DAYS", 1)
	switch os.Getenv("ROUTEKEEPER_SEED") {
	case "":
	case "random":
		first = int(rand.Uint32())
	default:
		days = 1
	}
	long := 24 * time.Hour
	switch {
	case testing.Short():
		long = 4 * time.Hour
	case os.Getenv("ROUTEKEEPER_DAYS")+os.Getenv("ROUTEKEEPER_SEED") == "":
		long = 8 * time.Hour
	}
	for seed := first; seed < first+days; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDay(t, uint64(seed))
				d.start()
				for begin := time.Now(); time.Since(begin) < long && !t.Failed(); {
					time.Sleep(time.Second + time.Duration(d.by.Int64N(int64(12*time.Minute))))
					d.happens()
					d.hostile.storm()
					d.collect()
				}
				d.hostile.acts.Wait()
				t.Logf("%d hostile calls", d.hostile.calls.Load())
				d.calm()
				d.checkNetwork()
				d.checkHistory()
				if t.Failed() {
					t.Logf("ROUTEKEEPER_SEED=%d go test ./internal/serve -run TestDay plays it "+
						"again", seed)
				}
			})
		})
	}
}

// day is the Azure of one day, and the program that manages it.
type day struct {
	t       *testing.T
	e       *emulator.Emulator
	op      *emulator.Client
	by      *rand.Rand
	configs []v1alpha1.ClusterRoutes
	guarded []arm.ID          // guarded subnets
	tables  map[string]arm.ID // the expected table of each, by ID.Key()
	// unmanaged routes, by the table's ID.Key() and by name
	foreign map[string]map[string]string
	path    string                   // of the history
	door    func() http.RoundTripper // to the listener
	hostile hostile
	n       int

	since int
	calls []emulator.Request // the keeper's writes of subnets and tables
	quiet []span             // when it was paused

	mu     sync.Mutex
	lots   *rand.Rand // of alerts
	now    *life
	paused bool
}

type span struct{ from, to time.Time }

// life is one run of the program, until it is stopped or killed. A killed run has no further
// effect.
type life struct {
	*keeper.Keeper
	past *history.Log
	stop context.CancelFunc
	done chan error
	*originals

	mu    sync.Mutex
	dead  bool
	death string // when the next write kills it: before or after its effect
	died  chan struct{}
}

func newDay(t *testing.T, seed uint64) *day {
	d := &day{t: t, by: rand.New(rand.NewPCG(seed, 0)), lots: rand.New(rand.NewPCG(seed, 1)),
		path: filepath.Join(t.TempDir(), "routes"+history.Extension), tables: map[string]arm.ID{},
		foreign: map[string]map[string]string{}}
	d.hostile = hostile{d: d, by: rand.New(rand.NewPCG(seed, 2))}
	d.door = sync.OnceValue(func() http.RoundTripper {
		log := slog.New(slog.DiscardHandler)
		s := &Server{gate: gateOf(t, Auth{SecretFile: secretFile(t, daySecret)}),
			refusals: newRefusals(log), waker: d,
			opts: Options{Metrics: NewMetrics(), Log: log}, pages: page.New(page.NewBoard(), nil,
				page.Options{Keeper: d, Actions: true, Caller: nameOf, MayAct: mayAct, Log: log})}
		return emulatortest.Transport(t, s.handler())
	})
	subscriptions := emulatortest.Subscriptions(2)
	d.e = emulatortest.New(t, emulator.Options{
		Subscriptions: subscriptions, OperationTime: 4 * time.Second, RouteBatch: 30 * time.Second,
		RouteCache: 2 * time.Minute, AlertDelay: 4 * time.Minute,
		Webhooks: alerts{d},
	})
	var err error
	if d.op, err = d.e.Client(emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	shop, err := emulator.BuildDemo(d.e, emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	d.keep("shop", emulatortest.Member{Cluster: shop.Cluster, Nodes: shop.NodeSubnet,
		Gateway: shop.GatewaySubnet, Target: shop.GatewayTable})
	for i, m := range emulatortest.BuildFleet(t, d.e, subscriptions, 4, 3) {
		if i == 0 {
			d.keep(m.Cluster.Name(), m, shop.GatewayTable) // two clusters, one target
		} else {
			d.keep(m.Cluster.Name(), m)
		}
	}
	time.Sleep(5 * time.Minute) // all routes are written
	for _, subnet := range d.guarded {
		if d.tables[subnet.Key()] = emulatortest.TableOf(t, d.e,
			subnet); d.tables[subnet.Key()] == "" {
			t.Fatalf("%s has no table", subnet)
		}
	}
	for _, target := range d.targets() {
		d.foreign[target.Key()] = map[string]string{}
		for name, raw := range d.routes(target) {
			d.foreign[target.Key()][name] = raw
		}
	}
	d.alertsOn(subscriptions)
	return d
}

func (d *day) keep(name string, m emulatortest.Member, more ...arm.ID) {
	c := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: name}}
	c.Spec.ClusterID = string(m.Cluster)
	d.guarded = append(d.guarded, m.Nodes)
	if m.Target != "" {
		c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
			{SubnetID: string(m.Gateway), RouteTableID: string(m.Target)}}
		d.guarded = append(d.guarded, m.Gateway)
		more = append(more, m.Target)
	}
	for _, target := range more {
		c.Spec.Targets = append(c.Spec.Targets, v1alpha1.Target{RouteTableID: string(target)})
	}
	c.SetDefaults()
	d.configs = append(d.configs, c)
}

// targets are all target tables.
func (d *day) targets() []arm.ID {
	var ids []arm.ID
	for _, c := range d.configs {
		for _, target := range c.Spec.Targets {
			ids = append(ids, arm.ID(target.RouteTableID))
		}
	}
	return inventory.SortIDs(ids)
}

// Wake passes events to the running keeper, if there is one.
func (d *day) Wake(e keeper.Event, resources ...arm.ID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil {
		return 0
	}
	return d.now.Wake(e, resources...)
}

// Ask passes a person's request to the running keeper. No caller of the day may make one.
func (d *day) Ask(context.Context, keeper.Request) (keeper.Result, error) {
	d.t.Error("a request of a caller who may not make it reached the keeper")
	return keeper.Result{}, errDead
}

// alertsOn creates alerts on all relevant writes.
func (d *day) alertsOn(subscriptions []string) {
	for _, sub := range subscriptions {
		group := arm.GroupID(sub, "alerts")
		d.put(group, "2024-03-01", map[string]any{"location": "westeurope"})
		actions := group + "/providers/Microsoft.Insights/actionGroups/keeper"
		d.put(actions, "2024-10-01-preview",
			map[string]any{"location": "Global", "properties": map[string]any{
				"groupShortName": "keeper", "webhookReceivers": []any{
					map[string]any{"name": "keeper",
						"serviceUri":           "http://keeper/events/" + daySecret,
						"useCommonAlertSchema": sub == subscriptions[0]}},
			}})
		for i, operation := range []string{"Microsoft.Network/routeTables/write",
			"Microsoft.Network/virtualNetworks/subnets/write",
			"Microsoft.Network/virtualNetworks/write"} {
			d.put(group+arm.ID(
				fmt.Sprintf("/providers/Microsoft.Insights/activityLogAlerts/alert%d", i)),
				"2023-01-01-preview", map[string]any{"location": "Global",
					"properties": map[string]any{
						"scopes": []any{"/subscriptions/" + sub},
						"condition": map[string]any{"allOf": []any{
							map[string]any{"field": "category", "equals": "Administrative"},
							map[string]any{
								"field": "operationName", "equals": operation},
							map[string]any{"field": "status", "equals": "Succeeded"},
						}},
						"actions": map[string]any{
							"actionGroups": []any{
								map[string]any{"actionGroupId": string(actions)}}},
					}})
		}
	}
}

// alerts carries alerts to the listener. Some get lost, some arrive twice.
type alerts struct{ d *day }

func (a alerts) RoundTrip(r *http.Request) (*http.Response, error) {
	a.d.mu.Lock()
	lot := a.d.lots.IntN(4)
	a.d.mu.Unlock()
	switch lot {
	case 0:
		return nil, errors.New("lost")
	case 1:
		if again, err := r.GetBody(); err == nil {
			twice := r.Clone(r.Context())
			twice.Body = again
			if answer, err := a.d.door().RoundTrip(twice); err == nil {
				answer.Body.Close()
			}
		}
	}
	a.d.hostile.overhear(r)
	return a.d.door().RoundTrip(r)
}

// start starts the program.
func (d *day) start() {
	l := &life{past: history.Open(d.path, history.Options{}), done: make(chan error, 1),
		died: make(chan struct{}), originals: &originals{t: d.t, of: map[any][sha256.Size]byte{}}}
	client := emulatortest.ClientOver(d.t, mortal{l, emulatortest.Transport(d.t, d.e)}, d.e,
		emulatortest.Keeper)
	l.Keeper = keeper.New(client, d.configs,
		keeper.Options{Recorder: l, Store: l, Paused: func() string {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.paused {
				return "for a while"
			}
			return ""
		}})
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	d.mu.Lock()
	d.now = l
	d.mu.Unlock()
	go func() {
		// If the first check reads nothing, the program ends and is started again.
		for {
			err := l.Run(ctx, 5*time.Minute, func(keeper.Result) {})
			if err == nil || ctx.Err() != nil {
				l.done <- nil
				return
			}
			time.Sleep(time.Minute)
		}
	}()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Minute):
				l.past.Ask(ctx, client, time.Now())
			}
		}
	}()
}

// end stops the program, or finds it killed, and closes its history.
func (d *day) end() {
	d.mu.Lock()
	l := d.now
	d.now = nil
	d.mu.Unlock()
	l.stop()
	if err := <-l.done; err != nil {
		d.t.Error(err)
	}
	if err := l.past.Close(); err != nil {
		d.t.Errorf("the history: %v", err)
	}
}

// mortal is a connection to Azure that ends with its program.
type mortal struct {
	l     *life
	under http.RoundTripper
}

var errDead = errors.New("this program is dead")

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	writes := r.Method == http.MethodPut
	if writes && m.l.dies("before") || m.l.isDead() {
		return nil, errDead
	}
	answer, err := m.under.RoundTrip(r)
	if writes && m.l.dies("after") {
		if err == nil {
			answer.Body.Close()
		}
		return nil, errDead
	}
	return answer, err
}

// dies kills the program if it is time.
func (l *life) dies(when string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead || l.death != when {
		return false
	}
	l.dead = true
	l.stop()
	close(l.died)
	return true
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// A killed program records nothing.

func (l *life) Intend(r keeper.Result, changes []plan.Change) {
	if !l.isDead() {
		l.past.Intend(r, changes)
	}
}

func (l *life) Settle(outcomes []plan.Outcome) {
	if !l.isDead() {
		l.past.Settle(outcomes)
	}
}

func (l *life) Record(r keeper.Result, s *inventory.Snapshot) []finding.Finding {
	if l.isDead() {
		return nil
	}
	l.checkUnchanged(s)
	return l.past.Record(r, s)
}

func (l *life) Recall() map[string]keeper.Lasting { return l.past.Recall() }

func (l *life) Keep(clusters map[string]keeper.Lasting) {
	if !l.isDead() {
		l.past.Keep(clusters)
	}
}
