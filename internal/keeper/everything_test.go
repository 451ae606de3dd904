package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestEverything plays days of one to five clusters in which everything fails that can: throttling,
// refusals, errors, lost and late answers, stale reads, cut connections, slow and failing
// operations, keepers that are killed and start again hours later, two keepers at once, other
// writers, lost routes, pools that replace each other, clusters that are deleted and created again,
// pauses, config changes, and a hostile caller who floods the keeper with events and requests
// (hostilecaller_test.go). An oracle that knows nothing about the keeper judges each write before
// Azure gets it (oracle_test.go), and checks what is broken, and for how long (overdue_test.go).
//
// The variables: seeds.
func TestEverything(t *testing.T) {
	t.Parallel()
	first, days := seeds(1)
	lasts := 8 * time.Hour
	if whole() {
		lasts *= 3
	}
	for seed := first; seed < first+days; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				newEverything(t, uint64(seed)).play(long(lasts))
			})
			if t.Failed() {
				t.Logf("ROUTEKEEPER_SEED=%d go test ./internal/keeper -run TestEverything plays "+
					"it again",
					seed)
			}
		})
	}
}

// everything is one such day.
type everything struct {
	*world
	by       *rand.Rand
	interval time.Duration
	members  []*member
	theirs   map[arm.ID]map[string]string // the correct unmanaged routes, by table
	readings map[arm.ID]*decoded
	checks   int
	faults   []*fault
	store    *paper
	lives    []*life // running keepers: none, one or two
	hostile  hostile
	n        int // of the next resource
	story    []string

	// addresses that nodes had before they got another one: netip.Addr to time.Time
	leftAt sync.Map
	lost   map[arm.ID]*takenAway  // associations that were removed
	hands  map[arm.ID][]time.Time // when associations were removed
	lacks  map[arm.ID]time.Time   // since when a target lacks routes of nodes
	latest time.Duration          // the longest repair, beyond an interval

	mu     sync.Mutex
	paused time.Time // since when; zero if it is not paused
}

// member is a cluster of the day.
type member struct {
	name    string
	kind    int
	cluster arm.ID
	vnet    arm.ID
	table   arm.ID
	gateway arm.ID   // a guarded subnet
	nodes   []arm.ID // its node subnets
	spare   arm.ID   // another subnet for nodes; "" if AKS created the network
	targets []arm.ID
	pool    string
	body    object // to create it again

	gone    time.Time // when it was deleted; zero if it exists
	moved   time.Time // when its nodes last moved to another subnet
	left    time.Time // when it was removed from the config; zero if it is configured
	unseen  time.Time // until when reads are stale, so its associations cannot be seen
	excused time.Time // until when its associations may stay lost
	excuse  string

	published atomic.Pointer[published]
}

// published is what an oracle may know about a member. Oracles run concurrently with the day.
type published struct {
	subnets    map[arm.ID]arm.ID
	table      arm.ID
	gone, left time.Time
}

// publish updates what the oracles know about a member.
func (m *member) publish() {
	m.published.Store(&published{m.subnets(), m.table, m.gone, m.left})
}

const (
	brought = iota
	dualStack
	madeByAKS
	kinds
)

// fault is a failure that lasts for some time.
type fault struct {
	until  time.Time
	remove func()
	// excuses are clusters whose associations may stay lost while it lasts, and for grace after.
	excuses []*member
	grace   time.Duration
	// late is how long afterwards calls can still be delayed or hang. The document of a cluster
	// that no keeper knows comes later by that time.
	late time.Duration
	what string
}

// life is a keeper from its start to its end.
type life struct {
	d       *everything
	ctx     context.Context
	kill    context.CancelFunc
	done    chan struct{}
	started time.Time

	mu       sync.Mutex
	k        *Keeper
	said     []finding.Finding // current findings
	ended    []finding.Finding // why the keeper before this one ended by itself
	unheard  map[string]bool   // clusters that this one has not reported yet
	knows    map[string]bool   // clusters that it has read completely
	lastTold time.Time
}

func newEverything(t *testing.T, seed uint64) *everything {
	opts := slow
	opts.Subscriptions = []string{emulator.DefaultSubscription,
		"5ab00000-0000-4000-8000-00000000000b"}
	d := &everything{world: emptyWorld(t, opts), by: rand.New(rand.NewPCG(seed, 11)),
		theirs: map[arm.ID]map[string]string{}, readings: map[arm.ID]*decoded{},
		store: newPaper(),
		lost:  map[arm.ID]*takenAway{}, lacks: map[arm.ID]time.Time{},
		hands: map[arm.ID][]time.Time{}}
	d.hostile.by, d.hostile.rare = rand.New(rand.NewPCG(seed, 12)), 4
	d.interval = []time.Duration{10, 30, 60, 60, 120, 120, 300}[d.by.IntN(7)] * time.Second
	for i := range 1 + d.by.IntN(5) {
		m := d.build(i, opts.Subscriptions[d.by.IntN(2)])
		if i > 0 && d.by.IntN(3) == 0 {
			m.targets = append(m.targets, d.members[i-1].targets[0])
		}
		m.publish()
		d.members = append(d.members, m)
	}
	return d
}

// build creates a cluster, and a gateway's subnet next to its own.
func (d *everything) build(i int, sub string) *member {
	name, net := fmt.Sprintf("c%d", i), strconv.Itoa(50+i)
	id := func(kind, name string) arm.ID { return arm.ResourceID(sub, name[:2]+"-rg", kind, name) }
	m := &member{name: name, kind: d.by.IntN(kinds), cluster: id(arm.TypeCluster, name), pool: "np"}
	m.vnet, m.table = id(arm.TypeVNet, name+"-vnet"), id(arm.TypeRouteTable, name+"-rt")
	m.targets = []arm.ID{id(arm.TypeRouteTable, name+"-target")}
	m.gateway = m.vnet.Child("subnets", "gateway")
	d.put(m.cluster.Group(), object{})
	space, pods := []any{"10." + net + ".0.0/16"}, object{"networkPlugin": "kubenet",
		"podCidr": "10.1" + net + ".0.0/16"}
	subnet := func(name string, n int, table arm.ID) object {
		prefixes := []any{fmt.Sprintf("10.%s.%d.0/24", net, n)}
		if m.kind == dualStack {
			prefixes = append(prefixes, fmt.Sprintf("fd00:%s:0:%d::/64", net, n))
		}
		return object{"name": name, "properties": object{"addressPrefixes": prefixes,
			"routeTable": object{"id": string(table)}, "unknown": object{"to": "us", "n": i}}}
	}
	pool := object{"name": m.pool, "count": 2, "mode": "System"}
	if m.kind == dualStack {
		space = append(space, "fd00:"+net+"::/48")
		pods = object{"networkPlugin": "kubenet", "ipFamilies": []any{"IPv4", "IPv6"},
			"podCidrs": []any{"10.1" + net + ".0.0/16", fmt.Sprintf("fd12:3456:789%d::/64", i)}}
	}
	own := object{"name": "theirs-first", "properties": object{"addressPrefix": "172.31." + net +
		".0/24",
		"nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.9.9.9", "unknown": object{
			"n": i}}}
	d.put(m.targets[0], object{"tags": object{"team": "network"}, "properties": object{
		"routes": []any{own}, "unknown": "stays"}})
	subnets := []any{subnet("gateway", 2, m.targets[0])}
	if m.kind != madeByAKS {
		d.putTable(m.table, "egress 0.0.0.0/0 10.9.9.9")
		subnets = append(subnets, subnet("nodes", 1, m.table), subnet("spare", 3, m.table))
		m.nodes = []arm.ID{m.vnet.Child("subnets", "nodes")}
		m.spare = m.vnet.Child("subnets", "spare")
		m.publish()
		pool["vnetSubnetID"] = string(m.nodes[0])
	}
	d.put(m.vnet, object{"properties": object{
		"addressSpace": object{"addressPrefixes": space}, "subnets": subnets}})
	m.body = object{"properties": object{"networkProfile": pods, "agentPoolProfiles": []any{pool}}}
	d.put(m.cluster, m.body)
	time.Sleep(time.Minute)
	d.find(m)
	d.noteTheirs(m.targets[0])
	return m
}

// find finds the subnet and the table that AKS created.
func (d *everything) find(m *member) {
	if m.kind != madeByAKS {
		return
	}
	list := d.get(d.nodeGroup(m) + "/providers/Microsoft.Network/virtualNetworks")["value"].([]any)
	subnets := list[0].(object)["properties"].(object)["subnets"].([]any)
	m.nodes = []arm.ID{arm.ID(subnets[0].(object)["id"].(string))}
	m.table = d.tableOf(m.nodes[0])
	m.publish()
}

func (d *everything) nodeGroup(m *member) arm.ID {
	name := fmt.Sprintf("MC_%s-rg_%s_westeurope", m.name, m.name)
	return arm.GroupID(m.cluster.Subscription(), name)
}

// subnets are the guarded subnets, each with its table.
func (m *member) subnets() map[arm.ID]arm.ID {
	all := map[arm.ID]arm.ID{m.gateway: m.targets[0]}
	for _, id := range m.nodes {
		all[id] = m.table
	}
	return all
}

// configs are those of the clusters that are configured.
func (d *everything) configs() (configs []v1alpha1.ClusterRoutes) {
	for _, m := range d.members {
		if !m.left.IsZero() {
			continue
		}
		c := configure(m.name, m.cluster, m.targets...)
		c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
			{SubnetID: string(m.gateway), RouteTableID: string(m.targets[0])}}
		configs = append(configs, c)
	}
	return configs
}

// start starts a keeper. If it ends by itself, it is started again.
func (d *everything) start() {
	l := &life{d: d, done: make(chan struct{}), started: time.Now(), knows: map[string]bool{}}
	l.ctx, l.kill = context.WithCancel(context.Background())
	client := emulatortest.ClientOver(d.t, cut{l, emulatortest.Transport(d.t, oracle{d, d.e})}, d.e,
		emulatortest.Keeper)
	configs := d.configs()
	o := Options{Paused: d.pause, Store: mortal{l, d.store}}
	l.k = New(client, configs, o)
	go func() {
		defer close(l.done)
		for {
			err := l.k.Run(l.ctx, d.interval, l.hear)
			if err == nil || l.ctx.Err() != nil {
				return
			}
			l.mu.Lock() // a keeper that ends says why
			l.said = []finding.Finding{finding.New(finding.AzureUnreachable, "", "", "%v", err)}
			l.ended, l.unheard = l.said, map[string]bool{}
			for _, c := range d.configs() {
				l.unheard[c.Metadata.Name] = true
			}
			l.mu.Unlock()
			time.Sleep(5 * time.Second)
			l.mu.Lock()
			l.k = New(client, d.configs(), o)
			l.mu.Unlock()
		}
	}()
	d.lives = append(d.lives, l)
}

// hear receives every check.
func (l *life) hear(r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said, l.lastTold = r.Findings, time.Now()
	for _, name := range cmpOr(r.Of, r.Managed) {
		delete(l.unheard, name)
		blind := slices.ContainsFunc(r.Findings, func(f finding.Finding) bool {
			return (f.Cluster == name || f.Cluster == "") && slices.Contains([]finding.Code{
				finding.ReadFailed, finding.AzureUnreachable, finding.TableUnknown,
				finding.ClusterMissing}, f.Code)
		})
		if r.Seen.Snapshot != nil && !blind {
			l.knows[name] = true
		}
	}
	if len(l.unheard) > 0 { // nothing is known of these yet but why the last keeper ended
		l.said = slices.Concat(l.said, l.ended)
	}
}

func cmpOr(a, b []string) []string {
	if a != nil {
		return a
	}
	return b
}

// keeper is the first running keeper; nil if there is none.
func (d *everything) keeper() *Keeper {
	if len(d.lives) == 0 {
		return nil
	}
	l := d.lives[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.k
}

// end kills a keeper: its calls are cut, and have no effect any more.
func (d *everything) end(l *life) {
	l.kill()
	<-l.done
	d.lives = slices.DeleteFunc(d.lives, func(o *life) bool { return o == l })
}

func (d *everything) pause() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused.IsZero() {
		return ""
	}
	return "for a while"
}

// play plays a day, ends all faults, and checks the result.
func (d *everything) play(long time.Duration) {
	d.start()
	for begin := time.Now(); time.Since(begin) < long && !d.t.Failed(); {
		d.happens()
		d.hostile.storm(d.keeper(), d.interesting)
		d.pass(time.Second + time.Duration(d.by.Int64N(int64(15*time.Minute))))
	}
	if !d.t.Failed() {
		d.calm()
	}
	for _, l := range slices.Clone(d.lives) {
		d.end(l)
	}
	d.hostile.acts.Wait()
	if d.t.Failed() {
		for _, line := range d.story[max(0, len(d.story)-40):] {
			d.t.Log(line)
		}
	}
	d.t.Logf("%d clusters, every %s, %d things happened, %d hostile events and %d requests, the "+
		"latest repair took %s more", len(d.members), d.interval, d.n, d.hostile.events.Load(),
		d.hostile.requests.Load(), d.latest)
}

// tell logs an event, for the analysis of a failure.
func (d *everything) tell(format string, args ...any) {
	d.story = append(d.story, time.Now().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// calm ends all faults, waits, and checks that everything is correct.
func (d *everything) calm() {
	for _, f := range d.faults {
		f.remove()
		f.until = time.Now()
	}
	d.mu.Lock()
	d.paused = time.Time{}
	d.mu.Unlock()
	for _, m := range d.members {
		m.left = time.Time{}
		m.publish()
		d.e.PauseRoutes(m.cluster, false)
		if !m.gone.IsZero() {
			d.makeAgain(m)
		}
	}
	if len(d.lives) == 0 {
		d.start()
	}
	for _, l := range d.lives {
		l.k.Reload(d.configs())
	}
	d.tell("calm")
	d.pass(30 * time.Minute)
	d.checks++ // what was read before may have changed
	for target, want := range d.wanted() {
		d.expectRoutes(target, d.proven(target, want)...)
	}
	for _, m := range d.members {
		for subnet, table := range m.subnets() {
			if got := d.tableOf(subnet); !got.Equal(table) {
				d.t.Errorf("%s has the table %q in the end, want %q", subnet.Short(), got,
					table.Short())
			}
		}
	}
}

// proven is the expected content of a target at the end: the correct routes, except for changes
// that no keeper may make because they cannot be proven. Each exception needs a finding. They exist
// if a cluster was created again with its old table: a cloud provider leaves a route that has the
// name and prefix of a new node and the address of an old one. They also exist if a pool moved to
// another subnet just before a keeper ended, because the next keeper does not know the former node
// subnet.
func (d *everything) proven(target arm.ID, want []string) []string {
	want = slices.Clone(want)
	expect := func(route string, codes ...finding.Code) {
		if !slices.ContainsFunc(codes, func(c finding.Code) bool { return d.says(c, target) }) {
			d.t.Errorf("%s keeps %s, and nothing says so", target.Short(), route)
		}
	}
	for prefix, hop := range nodeRoutes(d.raw(target)) {
		route := fmt.Sprintf("%s>%s", prefix, hop)
		if slices.Contains(want, route) {
			continue
		}
		m := d.living(prefix, hop)
		i := slices.IndexFunc(want, func(r string) bool {
			return strings.HasPrefix(r, prefix.String()+">")
		})
		var unproven []finding.Code // no node has the expected address
		if i >= 0 {
			_, text, _ := strings.Cut(want[i], ">")
			if next, err := netip.ParseAddr(text); err == nil && d.living(prefix, next) == nil {
				unproven = []finding.Code{finding.UpdatesWithheld}
			}
		}
		switch {
		case i >= 0 && slices.ContainsFunc(d.members, func(m *member) bool {
			return d.says(finding.WrongHop, m.table)
		}): // the cluster's table leads to another node than it names: no copy follows
			want[i] = route
		case d.forgotten(prefix) && m == nil:
			expect(route, append(unproven, finding.UnmanagedOverlap)...)
			if want = append(want, route); i >= 0 {
				want = slices.Delete(want, i, i+1)
			}
		case i < 0: // a node has the address, and its cluster's table has no other route to it
			if m != nil && d.needs(m, prefix, hop) {
				expect(route, finding.DeletesWithheld)
				want = append(want, route)
			}
		case unproven != nil:
			expect(route, unproven...)
			want[i] = route
		}
	}
	return want
}

// forgotten reports whether the cluster of a prefix moved its nodes before the first keeper began.
func (d *everything) forgotten(prefix netip.Prefix) bool {
	return slices.ContainsFunc(d.members, func(m *member) bool {
		return m.owns(prefix) && !m.moved.IsZero() && d.lives[0].started.After(m.moved)
	})
}

// says reports whether the first keeper has a finding of a resource.
func (d *everything) says(code finding.Code, resource arm.ID) bool {
	l := d.lives[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.said, func(f finding.Finding) bool {
		return f.Code == code && resource.Equal(arm.ID(f.Resource))
	})
}
