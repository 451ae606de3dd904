package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestNodesStorm: for an hour the nodes of an overlay cluster come and go, alone and in bursts,
// while Azure and the Kubernetes API fail in every way, and the keeper restarts. No write takes
// away the route of a node that is there, no route to a node that has long gone is added, another
// owner's route stays, and a node without a route is reported. In the end the target has the routes
// of the nodes. In some hours Azure answers at once, so that much happens at the same moment.
// The variables: seeds.
func TestNodesStorm(t *testing.T) {
	t.Parallel()
	hours(t, func(t *testing.T, seed uint64) { newNodesStorm(t, seed).play(long(time.Hour)) })
}

// nodesStorm is an hour of changing nodes.
type nodesStorm struct {
	*world
	by     *rand.Rand
	api    *playedNodes
	k      atomic.Pointer[Keeper]
	stop   func()
	target arm.ID
	others arm.ID // the guarded subnet
	config v1alpha1.ClusterRoutes
	next   int              // the number of the next node
	free   []int            // pod CIDRs of nodes that are gone
	faults []brewing        // current ones
	lostAt time.Time        // since when the Kubernetes API has been lost, or zero
	story  []string         // what happened
	strips []time.Time      // of the guarded subnet
	left   []inventory.Node // whose machines are still there

	mu   sync.Mutex
	born map[string]time.Time // by "pod CIDR>address"
	gone map[string]time.Time // the node is no longer in Kubernetes
	idle map[string]bool      // the addresses of machines that were deleted
	has  map[string]time.Time // the routes in the target, and since when
	puts int
	last Result
}

const theirRoute = "10.99.0.0/16>10.98.0.4"

func newNodesStorm(t *testing.T, seed uint64) *nodesStorm {
	s := &nodesStorm{by: rand.New(rand.NewPCG(seed, 9)), api: &playedNodes{},
		born: map[string]time.Time{}, gone: map[string]time.Time{}, idle: map[string]bool{},
		has: map[string]time.Time{}}
	opts := slow
	if seed%2 == 0 {
		opts = emulator.Options{}
	}
	opts.Wrote = s.wrote
	w, _, target, config := overlayWorld(t, opts)
	s.mu.Lock() // AKS writes meanwhile
	s.world, s.target, s.config = w, target, config
	s.mu.Unlock()
	s.others = arm.ID(s.config.Spec.Guard.Subnets[0].SubnetID)
	time.Sleep(5 * time.Minute) // AKS takes that long
	for range 3 + s.by.IntN(20) {
		s.join()
	}
	s.start()
	s.pass(2 * time.Minute)
	return s
}

// start starts a keeper. One that ends by itself, because its first reads fail, starts again.
func (s *nodesStorm) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	client := emulatortest.Client(s.t, s.e, emulatortest.Keeper)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k := New(client, []v1alpha1.ClusterRoutes{s.config}, Options{Nodes: s.api})
			s.k.Store(k)
			if k.Run(ctx, 30*time.Second, s.hear) != nil {
				time.Sleep(5 * time.Second)
			}
		}
	}()
	s.stop = func() { cancel(); <-done }
}

// wrote judges each write of the target, by what is in it afterwards.
func (s *nodesStorm) wrote(id arm.ID, state emulator.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !id.Equal(s.target) {
		return
	}
	table, err := inventory.DecodeRouteTable(state.Get(id, networkAPI))
	if err != nil {
		return // it is being created
	}
	now, has, prefixes := time.Now(), map[string]time.Time{}, map[string]bool{}
	s.puts++
	for _, r := range table.Routes() {
		pair := r.Destination() + ">" + r.NextHop()
		prefixes[r.Destination()] = true
		if has[pair] = now; !s.has[pair].IsZero() {
			has[pair] = s.has[pair]
		}
	}
	for pair := range s.has {
		_, kept := has[pair]
		cidr, address, _ := strings.Cut(pair, ">")
		switch {
		case kept:
		case pair == theirRoute || s.gone[pair].IsZero():
			s.t.Errorf("at %s the route %s is taken away, of a node that is there", now, pair)
		case !prefixes[cidr] && !s.idle[address]:
			s.t.Errorf("at %s the route %s is taken away, of a machine that is there", now, pair)
		}
	}
	for pair := range has {
		_, had := s.has[pair]
		left := s.gone[pair]
		if !had && !left.IsZero() && now.Sub(left) > underway && s.lostAt.IsZero() {
			s.t.Errorf("at %s the route %s is added, of a node that is gone since %s", now, pair,
				left)
		}
	}
	s.has = has
}

// hear checks that each node that has had no route for long is reported.
func (s *nodesStorm) hear(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = r
	const patience = 3 * time.Minute
	for pair, since := range s.born {
		if _, routed := s.has[pair]; routed || r.Started.Sub(since) < patience ||
			!s.gone[pair].IsZero() {
			continue
		}
		if !slices.ContainsFunc(r.Findings, func(f finding.Finding) bool {
			return f.Severity >= finding.Warning
		}) {
			s.t.Errorf("at %s the node with %s has no route since %s, and nothing says so: %v",
				time.Now(), pair, since, codes(r))
		}
	}
}

// join adds a node. Some get the pod CIDR of a node that is gone.
func (s *nodesStorm) join() {
	node, cidr := made(s.next), s.next
	if len(s.free) > 0 && s.by.IntN(2) == 0 {
		cidr, s.free = s.free[0], s.free[1:]
	}
	s.next++
	node.PodCIDRs = []netip.Prefix{cidrOf(cidr)}
	s.put(s.machine(node), object{"properties": object{"ipConfigurations": []any{object{
		"name": "ipconfig1", "properties": object{"privateIPAllocationMethod": "Static",
			"privateIPAddress": node.Addresses[0].String(), "subnet": object{
				"id": string(s.others.Parent().Child("subnets", "nodes"))}}}}}})
	s.put(s.vm(node), object{"properties": object{"networkProfile": object{
		"networkInterfaces": []any{object{"id": string(s.machine(node))}}}}})
	s.mu.Lock()
	s.born[pairOf(node)] = time.Now()
	s.mu.Unlock()
	s.api.play(func(all []inventory.Node) []inventory.Node { return append(all, node) })
}

// machine is the network interface of a node.
func (s *nodesStorm) machine(n inventory.Node) arm.ID {
	return arm.ResourceID(emulator.DefaultSubscription, "MC_over-rg_over_westeurope",
		arm.TypeInterface, n.Name)
}

// vm is the virtual machine of a node.
func (s *nodesStorm) vm(n inventory.Node) arm.ID {
	return arm.ResourceID(emulator.DefaultSubscription, "MC_over-rg_over_westeurope", arm.TypeVM,
		n.Name)
}

// leave removes a node, and its machine at once, soon, or at the end of the hour.
func (s *nodesStorm) leave() {
	var left *inventory.Node
	s.api.play(func(all []inventory.Node) []inventory.Node {
		if len(all) < 2 {
			return all
		}
		i := s.by.IntN(len(all))
		left = &all[i]
		s.mu.Lock()
		s.gone[pairOf(all[i])] = time.Now()
		s.mu.Unlock()
		for n := range s.next {
			if cidrOf(n) == all[i].PodCIDRs[0] {
				s.free = append(s.free, n)
			}
		}
		return append(slices.Clone(all[:i]), all[i+1:]...)
	})
	if left != nil {
		s.left = append(s.left, *left)
	}
	if s.by.IntN(3) > 0 {
		s.sweep(s.by.IntN(len(s.left) + 1))
	}
}

// sweep deletes machines of nodes that are gone.
func (s *nodesStorm) sweep(n int) {
	if n == 0 {
		return
	}
	time.Sleep(10 * time.Second) // the machines of the youngest are ready
	for _, node := range s.left[:n] {
		s.mu.Lock()
		s.idle[node.Addresses[0].String()] = true
		s.mu.Unlock()
		s.remove(s.vm(node))
	}
	time.Sleep(10 * time.Second)
	for _, node := range s.left[:n] {
		s.remove(s.machine(node))
	}
	s.left = s.left[n:]
}

func (s *nodesStorm) remove(id arm.ID) {
	if status, body := s.op.Do(http.MethodDelete, id, api(id), nil); status > 299 {
		s.t.Errorf("%d %s", status, body)
	}
}

func pairOf(n inventory.Node) string {
	return fmt.Sprintf("%s>%s", n.PodCIDRs[0], n.Addresses[0])
}

func (s *nodesStorm) note(format string, values ...any) {
	s.story = append(s.story, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, values...))
}

func (s *nodesStorm) happens() {
	switch what := s.by.IntN(12); what {
	case 0, 1:
		n := 1 + s.by.IntN(40)
		s.note("%d nodes join", n)
		for range n {
			s.join()
			time.Sleep(time.Duration(s.by.IntN(3)) * 20 * time.Millisecond)
		}
	case 2, 3:
		n := 1 + s.by.IntN(40)
		s.note("%d nodes leave", n)
		for range n {
			s.leave()
			time.Sleep(time.Duration(s.by.IntN(3)) * 20 * time.Millisecond)
		}
	case 4:
		s.note("a node joins, and one leaves")
		s.join()
		s.leave()
	case 5:
		s.note("nodes flap")
		s.api.play(func(all []inventory.Node) []inventory.Node {
			for i := range all {
				all[i].Ready = s.by.IntN(4) > 0
			}
			return all
		})
	case 6:
		s.note("the Kubernetes API is lost, or back")
		s.lose(s.lostAt.IsZero())
	case 7, 8:
		s.brew()
	case 9:
		s.note("the keeper restarts")
		s.stop()
		s.start()
	case 10:
		if len(s.strips) < 2 || time.Since(s.strips[len(s.strips)-2]) > 25*time.Minute {
			s.note("the guarded subnet is stripped")
			s.strip(s.others)
			s.strips = append(s.strips, time.Now())
		}
	case 11:
		s.k.Load().Wake(Event{Caller: "another"}, s.target, idOf(s.config))
	}
}

// lose loses the Kubernetes API, or brings it back.
func (s *nodesStorm) lose(lost bool) {
	s.mu.Lock()
	s.lostAt = time.Time{}
	if lost {
		s.lostAt = time.Now()
	}
	s.mu.Unlock()
	s.api.lose(s.lostAt)
	s.api.play(func(all []inventory.Node) []inventory.Node { return all })
}

// brew makes calls fail for a while.
func (s *nodesStorm) brew() {
	f := emulator.Fault{Count: -1, Rate: 0.2 + 0.8*s.by.Float64(), Seed: s.by.Uint64(),
		Path: []string{"", "over-target", "over-vnet", "managedClusters",
			"etworkInterfaces"}[s.by.IntN(5)],
		Method: []string{"", "GET", "PUT"}[s.by.IntN(3)]}
	switch s.by.IntN(6) {
	case 0:
		f.Hold = []string{"before", "after"}[s.by.IntN(2)]
	case 1:
		f.Cut = []string{"before", "after"}[s.by.IntN(2)]
	case 2:
		f.Status, f.RetryAfter = 503, s.by.IntN(40)
	case 3:
		f.Status, f.RetryAfter = 429, s.by.IntN(40)
	case 4:
		// not of machines: an old list lacks the new ones, and no program can tell
		f.Stale, f.Method, f.Path = true, "", "over-target|over-vnet"
	case 5:
		f.Fail, f.Method, f.Code, f.Message = true, "PUT", "InternalServerError", "try again"
	}
	until := time.Now().Add(time.Second + time.Duration(s.by.Int64N(int64(2*time.Minute))))
	s.note("fault %+v until %s", f, until.Format("04:05"))
	s.faults = append(s.faults, brewing{until: until, fix: s.inject(f)})
}

func (s *nodesStorm) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Second, time.Until(end)))
		s.faults = slices.DeleteFunc(s.faults, func(b brewing) bool {
			if time.Now().Before(b.until) {
				return false
			}
			b.fix()
			return true
		})
	}
}

func (s *nodesStorm) play(length time.Duration) {
	for begin := time.Now(); time.Since(begin) < length && !s.t.Failed(); {
		s.happens()
		s.pass(time.Duration(s.by.Int64N(int64(90 * time.Second))))
	}
	for _, b := range s.faults {
		b.fix()
	}
	s.lose(false)
	s.sweep(len(s.left))
	s.pass(20 * time.Minute)
	var want []string
	for _, n := range s.api.nodes {
		want = append(want, pairOf(n))
	}
	s.expectRoutes(s.target, append(want, theirRoute)...)
	if s.tableOf(s.others) == "" {
		s.t.Error("the guarded subnet has no table")
	}
	since := s.mark()
	s.pass(10 * time.Minute)
	s.expectNoWrites("at rest", since())
	s.stop()
	if s.t.Failed() {
		s.t.Logf("findings %+v", s.last.Findings)
		s.t.Log("\n" + strings.Join(s.story, "\n"))
	}
	s.t.Logf("%d nodes joined, the target was written %d times", s.next, s.puts)
}
