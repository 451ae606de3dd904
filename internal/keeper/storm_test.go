package keeper

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestStorm: clusters of several subscriptions that share targets in chains and pairs go through
// half an hour, or a whole one, of hangs, faults, strips, scale-outs, events, requests, pauses and
// reloads, and of a hostile caller who floods the keeper with events and requests
// (hostilecaller_test.go). Clusters that do not depend on broken ones are checked and repaired as
// usual, no resource has two writers, no cluster is in two checks, and everything is in sync at the
// end. The variables: seeds.
func TestStorm(t *testing.T) {
	t.Parallel()
	hours(t, func(t *testing.T, seed uint64) { newStorm(t, seed).play(long(time.Hour)) })
}

// hours plays an hour, or some, each in a bubble with a seed of its own (seeds).
func hours(t *testing.T, play func(*testing.T, uint64)) {
	first, storms := seeds(1)
	for seed := first; seed < first+storms; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, uint64(seed)) })
		})
	}
}

// storm is an hour of trouble.
type storm struct {
	*world
	by       *rand.Rand
	names    []string
	clusters map[string]another
	targets  map[string][]arm.ID // by cluster
	subs     []string
	interval time.Duration
	k        *running
	configs  []v1alpha1.ClusterRoutes
	paused   bool

	faults  []brewing
	ill     map[string]time.Time   // until when a check of a cluster may be late
	hands   map[string][]time.Time // when another writer changed a place
	lost    map[arm.ID]lost        // associations that have to be repaired
	asking  sync.WaitGroup
	hostile hostile

	mu      sync.Mutex
	looked  map[string]time.Time // when the last check of a cluster began
	told    map[int64]bool
	results int
	longest struct{ look, repair time.Duration }
}

// brewing is a current fault.
type brewing struct {
	until time.Time
	fix   func()
	of    []string
}

type lost struct {
	cluster string
	at      time.Time
}

func newStorm(t *testing.T, seed uint64) *storm {
	opts := slow
	opts.Subscriptions = []string{emulator.DefaultSubscription,
		"5ab00000-0000-4000-8000-00000000000b", "5ab00000-0000-4000-8000-00000000000c"}
	s := &storm{world: emptyWorld(t, opts), by: rand.New(rand.NewPCG(seed, 7)),
		subs: opts.Subscriptions, clusters: map[string]another{}, targets: map[string][]arm.ID{},
		ill: map[string]time.Time{}, hands: map[string][]time.Time{}, lost: map[arm.ID]lost{},
		looked: map[string]time.Time{}, told: map[int64]bool{}}
	s.hostile.by, s.hostile.rare = rand.New(rand.NewPCG(seed, 8)), 12
	s.interval = []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}[s.by.IntN(3)]
	for i := range 3 + s.by.IntN(6) {
		name := fmt.Sprintf("c%d", i)
		s.names = append(s.names, name)
		s.clusters[name] = s.addClusterIn(s.subs[s.by.IntN(len(s.subs))], name, fmt.Sprint(50+i))
		s.edit(s.clusters[name].target, func(p object) {
			p["routes"] = []any{route("theirs", fmt.Sprintf("172.16.%d.0/24", i), "10.9.9.9")}
		})
	}
	for i, name := range s.names {
		s.targets[name] = []arm.ID{s.clusters[name].target}
		if i > 0 && s.by.IntN(3) == 0 { // a chain
			s.targets[name] = append(s.targets[name], s.clusters[s.names[i-1]].target)
		}
	}
	s.configs = s.all()
	watch := &watched{Azure: emulatortest.Client(t, s.e, emulatortest.Keeper), t: t,
		writers: map[string]bool{}}
	s.k = s.runTold(confined{watch, s}, Options{Paused: s.pause}, s.interval, s.hear, s.configs...)
	return s
}

// confined prevents writes to resources that no config names.
type confined struct {
	Azure
	s *storm
}

func (c confined) Write(ctx context.Context, id arm.ID, edit azure.Edit,
	calls *azure.Calls) (azure.Written, error) {
	for name, a := range c.s.clusters {
		if id.Equal(a.subnet) || slices.ContainsFunc(c.s.targets[name], id.Equal) {
			return c.Azure.Write(ctx, id, edit, calls)
		}
	}
	c.s.t.Errorf("%s is written, which is none of its business", id)
	return azure.Written{}, context.Canceled
}

func (s *storm) pause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		return "for now"
	}
	return ""
}

// config is that of one cluster.
func (s *storm) config(name string) v1alpha1.ClusterRoutes {
	c := configure(name, s.clusters[name].cluster, s.targets[name]...)
	if s.by.IntN(2) == 0 {
		c.Spec.ClusterID = strings.ToUpper(c.Spec.ClusterID[:20]) + c.Spec.ClusterID[20:]
	}
	return c
}

func (s *storm) all() (configs []v1alpha1.ClusterRoutes) {
	for _, name := range s.names {
		configs = append(configs, s.config(name))
	}
	return configs
}

// hear receives every check.
func (s *storm) hear(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results++
	if s.told[r.Serial] {
		s.t.Errorf("check %d is reported twice", r.Serial)
	}
	s.told[r.Serial] = true
	of := r.Of
	if of == nil {
		of = r.Managed
	}
	for _, name := range of {
		if r.Started.After(s.looked[name]) {
			s.looked[name] = r.Started
		}
	}
	for _, o := range r.Changes {
		if o.Why == forged && o.State == plan.Done {
			s.t.Errorf("a forged change is made: %+v", o.Change)
		}
	}
	for _, f := range r.Findings {
		if f.Code == finding.Conflict {
			s.t.Errorf("a conflict that is none: %+v", f)
		}
	}
}

// group returns the named clusters and all that share something with them, including those in
// subscriptions that are throttled together.
func (s *storm) group(names ...string) []string {
	in := map[string]bool{}
	for queue := names; len(queue) > 0; queue = queue[1:] {
		if in[queue[0]] {
			continue
		}
		in[queue[0]] = true
		for _, other := range s.names {
			if slices.ContainsFunc(s.targets[other], func(id arm.ID) bool {
				return slices.ContainsFunc(s.targets[queue[0]], id.Equal)
			}) {
				queue = append(queue, other)
			}
		}
	}
	return slices.Sorted(maps.Keys(in))
}

// interesting are IDs that concern the clusters.
func (s *storm) interesting() (ids []arm.ID) {
	for _, name := range s.names {
		a := s.clusters[name]
		ids = append(ids, a.cluster, a.subnet, a.subnet.Parent(), a.table, a.target,
			a.cluster.Group())
	}
	return ids
}

func (s *storm) any() string { return s.names[s.by.IntN(len(s.names))] }

// once reports whether another writer may change a place now: rarely enough not to be a conflict.
func (s *storm) once(what string) bool {
	s.hands[what] = slices.DeleteFunc(s.hands[what], func(at time.Time) bool {
		return time.Since(at) > 25*time.Minute
	})
	if len(s.hands[what]) >= 2 {
		return false
	}
	s.hands[what] = append(s.hands[what], time.Now())
	return true
}

func (s *storm) happens() {
	name := s.any()
	a := s.clusters[name]
	switch s.by.IntN(12) {
	case 0, 1, 2:
		s.brew(name)
	case 3, 4, 5:
		if _, already := s.lost[a.subnet]; !already && s.once(string(a.subnet)) {
			s.strip(a.subnet)
			s.lost[a.subnet] = lost{name, time.Now()}
			if s.by.IntN(2) == 0 {
				s.k.Wake(Event{Caller: "another"}, a.subnet)
			}
		}
	case 6:
		if s.once(name + " scale") {
			if err := s.e.Scale(a.cluster, "np", 2+s.by.IntN(4)); err != nil {
				s.t.Error(err)
			}
			s.k.Wake(Event{}, a.cluster)
		}
	case 7:
		for range s.by.IntN(30) {
			s.k.Wake(Event{}, s.clusters[s.any()].target, a.table)
		}
	case 8, 9:
		s.ask(name)
	case 10:
		s.mu.Lock()
		s.paused = !s.paused && s.by.IntN(2) == 0
		s.mu.Unlock()
	case 11:
		s.configs = slices.DeleteFunc(s.all(), func(v1alpha1.ClusterRoutes) bool {
			return s.by.IntN(4) == 0
		})
		s.by.Shuffle(len(s.configs), func(i, j int) {
			s.configs[i], s.configs[j] = s.configs[j], s.configs[i]
		})
		s.k.Reload(s.configs)
		s.calm(s.names...)
	}
}

// calm gives clusters time to be in sync.
func (s *storm) calm(names ...string) {
	for _, name := range names {
		if until := time.Now().Add(30 * time.Second); until.After(s.ill[name]) {
			s.ill[name] = until
		}
	}
}

// brew makes something fail for a while.
func (s *storm) brew(name string) {
	of := []string{name}
	f := emulator.Fault{Count: -1, Path: "[/:]" + name + "(-|$)",
		Method: []string{"", "GET", "PUT"}[s.by.IntN(3)]}
	if s.by.IntN(3) == 0 {
		sub := s.subs[s.by.IntN(len(s.subs))]
		f.Path, of = sub, nil
		for _, name := range s.names {
			if s.clusters[name].cluster.Subscription() == sub {
				of = append(of, name)
			}
		}
	}
	switch s.by.IntN(6) {
	case 0:
		f.Hold = []string{"before", "after"}[s.by.IntN(2)]
	case 1:
		f.Status, f.RetryAfter = 503, s.by.IntN(40)
	case 2:
		f.Status, f.Code, f.RetryAfter = 429, "RetryableError", s.by.IntN(40)
	case 3:
		f.Cut = []string{"before", "after"}[s.by.IntN(2)]
	case 4:
		f.Status, f.Rate, f.Seed = 500, 0.3, s.by.Uint64()
	case 5: // it affects the whole subscription
		f.Status, f.RetryAfter, f.Count = 429, s.by.IntN(40), 1+s.by.IntN(3)
		for _, other := range s.names {
			subscription := s.clusters[other].cluster.Subscription()
			if subscription == s.clusters[name].cluster.Subscription() || f.Path == subscription {
				of = append(of, other)
			}
		}
	}
	until := time.Now().Add(time.Second + time.Duration(s.by.Int64N(int64(100*time.Second))))
	s.faults = append(s.faults, brewing{until, s.inject(f), s.group(of...)})
}

func (s *storm) ask(name string) {
	r := Request{Cluster: name, By: "ann"}
	if s.by.IntN(3) == 0 {
		r.Cluster = ""
	}
	if s.by.IntN(2) == 0 {
		r.Verbs = []plan.Verb{plan.Associate, plan.Create, plan.Update}
	}
	s.asking.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
		defer cancel()
		result, err := s.k.Ask(ctx, r)
		switch {
		case ctx.Err() != nil:
			s.t.Errorf("no answer about %q", r.Cluster)
		case err != nil && strings.Contains(err.Error(), "there is no cluster"):
		case err != nil:
			s.t.Errorf("about %q: %v", r.Cluster, err)
		case result.Woke.By != ByPerson || result.Woke.Event != nil,
			result.Woke.Caller != "ann" && !strings.HasSuffix(result.Woke.Caller, " more"),
			r.Cluster != "" && result.Of != nil && !slices.Contains(result.Of, r.Cluster):
			s.t.Errorf("about %q: %+v of %v", r.Cluster, result.Woke, result.Of)
		}
	})
}

// check compares the state with the expected one.
func (s *storm) check() {
	now := time.Now()
	s.faults = slices.DeleteFunc(s.faults, func(f brewing) bool {
		for _, name := range f.of {
			s.ill[name] = now.Add(4 * time.Minute)
		}
		if now.After(f.until) {
			f.fix()
		}
		return now.After(f.until)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := nameSet(s.configs)
	for _, name := range s.names {
		if !kept[name] || now.Before(s.ill[name]) {
			continue
		}
		late := now.Sub(s.looked[name]) - s.interval
		s.longest.look = max(s.longest.look, late)
		if late > 35*time.Second {
			s.t.Errorf("%s: at %s the last check of %s, which is well, began at %s", s.t.Name(),
				now,
				name, s.looked[name])
		}
	}
	for subnet, l := range s.lost {
		well := kept[l.cluster] && !s.paused
		for _, name := range s.group(l.cluster) {
			well = well && now.After(s.ill[name])
		}
		switch {
		case s.tableOf(subnet) != "":
			delete(s.lost, subnet)
		case !well:
			s.lost[subnet] = lost{l.cluster, now}
		default:
			s.longest.repair = max(s.longest.repair, now.Sub(l.at))
			if now.Sub(l.at) > s.interval+35*time.Second {
				s.t.Errorf("%s: at %s %s is not repaired, %s after it could have been", s.t.Name(),
					now, subnet.Short(), now.Sub(l.at))
			}
		}
	}
}

func (s *storm) play(long time.Duration) {
	s.k.parts(2 * time.Minute)
	since := s.mark()
	for begin := time.Now(); time.Since(begin) < long && !s.t.Failed(); {
		s.hostile.storm(s.k.Keeper, s.interesting)
		if s.happens(); s.by.IntN(3) > 0 {
			for range 1 + s.by.IntN(8) {
				s.k.parts(5 * time.Second)
				s.check()
			}
		}
	}
	minutes := int(long / time.Minute)
	if n := len(since()); n > 400*minutes || s.results > 200*minutes {
		s.t.Errorf("%d calls and %d checks in %s", n, s.results, long)
	}
	for _, f := range s.faults {
		f.fix()
	}
	s.mu.Lock()
	s.paused = false
	s.mu.Unlock()
	s.k.Reload(s.all())
	s.k.parts(12 * time.Minute)
	s.asking.Wait()
	s.hostile.acts.Wait()
	for _, name := range s.names {
		a := s.clusters[name]
		if s.tableOf(a.subnet) != a.table ||
			s.tableOf(a.subnet.Parent().Child("subnets", "other")) != "" {
			s.t.Errorf("%s has the table %q", name, s.tableOf(a.subnet))
		}
		want := []string{fmt.Sprintf("172.16.%s.0/24>10.9.9.9", name[1:])}
		for _, other := range s.names {
			if slices.ContainsFunc(s.targets[other], a.target.Equal) {
				want = append(want, s.routes(s.clusters[other].table)...)
			}
		}
		s.expectRoutes(a.target, want...)
	}
	s.k.stop()
	if s.t.Failed() {
		s.t.Logf("ROUTEKEEPER_SEED=%s go test ./internal/keeper -run TestStorm plays it again",
			strings.TrimPrefix(s.t.Name(), "TestStorm/"))
	}
	s.t.Logf("%d clusters, %d checks, %d hostile events and %d requests, the latest check %s, the "+
		"latest repair %s", len(s.names), s.results, s.hostile.events.Load(),
		s.hostile.requests.Load(), s.longest.look, s.longest.repair)
}
